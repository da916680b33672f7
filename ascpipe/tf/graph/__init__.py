"""State of one graph: its tables, streams and lookups, and the ops that implement them."""
