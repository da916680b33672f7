"""Momentum of older versions; not provided."""
