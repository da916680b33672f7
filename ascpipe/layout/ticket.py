"""Layout of a ticket, the number of a batch.

The upper bits of a ticket are the run. The lower bits are the sequence, which is the number of the batch in its run,
starting at 1. A ticket is a positive int64. Kernels use the constants, Python code uses the function.
"""
SEQUENCE_BITS = 48
SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1
MOST_RUNS = (1 << (63 - SEQUENCE_BITS)) - 1  #: maximum run number; the first run has number 1


def sequence_of(ticket: int) -> int:
    """Return the sequence of a ticket: the number of the batch within the run."""
    return ticket & SEQUENCE_MASK
