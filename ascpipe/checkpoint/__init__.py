"""Checkpoints of sparse tables: files that are there whole or not at all, and are verified before anything is read.

No TensorFlow and no compiled kernels: the trainer, the command line and tests use it alike.
The format and what it guarantees: ``docs/reference/checkpoints.md``.
"""
