"""FTRL variants of older versions for dense variables. They are not provided."""
