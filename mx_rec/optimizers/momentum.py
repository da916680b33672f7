"""Momentum optimizer of older versions; not provided."""
