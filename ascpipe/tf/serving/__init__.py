"""Exports for serving, which are graphs whose lookups read table files."""
