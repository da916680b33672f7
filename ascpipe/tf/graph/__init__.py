"""What is known of one graph: its tables, streams and lookups, and the ops that are made of them."""
