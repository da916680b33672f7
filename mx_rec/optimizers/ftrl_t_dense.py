"""FTRL variants of older versions for dense variables; not provided."""
