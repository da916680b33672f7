"""Compiled loops over arrays: no processes, no shared memory, no decisions.

A kernel is a pure function: arrays and counts in, arrays and counts out; the caller owns every array,
sizes are not checked.  The readable version of each has the same name in ``tests/reference/``.  An
explicit signature compiles at import, so import the one module you need.
"""
