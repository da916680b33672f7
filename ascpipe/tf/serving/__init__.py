"""Exports for serving: graphs whose lookups read table files."""
