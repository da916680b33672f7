"""FTRL variants of older versions; not provided."""
