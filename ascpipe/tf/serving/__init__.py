"""Exports for serving: graphs whose lookups read tables from files."""
