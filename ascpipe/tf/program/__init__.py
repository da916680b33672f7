"""Functions that build the graph of a program: tables, insert functions, lookups and table changes."""
