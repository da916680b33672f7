"""Prometheus metrics of a daemon: their definitions, and the process that exports them over HTTP and to a file."""
