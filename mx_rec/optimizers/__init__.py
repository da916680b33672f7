"""Optimizers for tables."""
