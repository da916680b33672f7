"""Definitions of the Prometheus metrics, and the process that exports the metrics of a daemon over HTTP and to a file.
"""
