"""Measurements: `python -m bench --list`.  How to run and read them: docs/how-to/benchmarks.md."""
