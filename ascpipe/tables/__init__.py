"""Decisions about tables: arrays in, records out.  No shared memory, no processes, no clocks."""
