"""Measurements: `python -m bench --list`.  How to run and read them: docs/benchmarks.md."""
