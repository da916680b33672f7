"""Example programs that only use the public API of ascpipe."""
