"""Prometheus metrics of a daemon: definitions, and the process that exports the metrics over HTTP and to a file."""
