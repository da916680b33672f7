"""Trains for hours with all features while faults happen, and judges results and memory.

docs/internals/testing.md says how:

    python -m tests.soak --hours 1 --seed 7
"""
