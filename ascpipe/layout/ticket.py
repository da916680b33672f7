"""The number of a batch: upper bits are the run, lower bits the number of the batch in its run (the sequence, from 1).

A ticket is a positive int64. Kernels use the constants, Python code uses the function.
"""
SEQUENCE_BITS = 48
SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1
MOST_RUNS = (1 << (63 - SEQUENCE_BITS)) - 1  #: runs are numbered from 1 to this


def sequence_of(ticket: int) -> int:
    """Return the number of a ticket's batch in its run."""
    return ticket & SEQUENCE_MASK
