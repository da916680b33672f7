"""FTRL variants of older versions. They are not provided."""
