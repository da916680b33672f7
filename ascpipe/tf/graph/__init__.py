"""The state of one graph: its tables, streams and lookups, and the ops made of them."""
