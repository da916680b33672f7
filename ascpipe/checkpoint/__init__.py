"""Checkpoints of sparse tables.

A checkpoint is written atomically, and is verified before its content is used. This package needs neither TensorFlow
nor compiled kernels. The trainer, the command line and tests use it. ``docs/reference/checkpoints.md`` describes the
format and its guarantees.
"""
