"""Momentum optimizer of older versions. It is not provided."""
