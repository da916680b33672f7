"""State of one graph, with its tables, streams and lookups, and the ops that implement lookups."""
