"""State of one graph (tables, streams and lookups), and the ops that implement lookups."""
