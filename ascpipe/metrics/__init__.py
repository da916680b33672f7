"""Figures of a daemon for Prometheus: their table, and the process that gives them to scrapes and to a file."""
