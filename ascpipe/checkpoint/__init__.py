"""Checkpoints of sparse tables. They are written atomically and verified before anything is read.

This package needs neither TensorFlow nor compiled kernels. The trainer, the command line and tests use it.
``docs/reference/checkpoints.md`` describes the format and its guarantees.
"""
