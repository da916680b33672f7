"""The number of a batch: the run in the upper bits, its number in the run (the sequence, from 1) in the lower ones.

A ticket is a positive int64.  Kernels use the constants; the function is for Python.
"""
SEQUENCE_BITS = 48
SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1
MOST_RUNS = (1 << (63 - SEQUENCE_BITS)) - 1  #: runs are numbered from 1 to this


def sequence_of(ticket: int) -> int:
    """The number of a ticket's batch in its run."""
    return ticket & SEQUENCE_MASK
