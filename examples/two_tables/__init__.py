"""Example: two tables in a program for Ascend servers."""
