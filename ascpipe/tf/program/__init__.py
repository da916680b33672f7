"""Functions that a program builds its graph with: tables, insert functions, lookups, changes of tables."""
