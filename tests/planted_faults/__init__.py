"""Planted faults: small realistic bugs, each put into a copy of the tree, to see which tests notice it.

    .venv/bin/python -m tests.planted_faults --help

docs/internals/testing.md, "Planted faults", says what the results mean.
"""
