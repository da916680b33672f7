"""Expected results of the kernels of ``ascpipe/kernels/free_homes.py``: the used rows are a set."""
import itertools


def home_reach(in_use, high_water):
    """Return the new high-water mark.  ``in_use`` includes the rows that will be taken."""
    return max(high_water, max(in_use, default=-1) + 1)


def take_homes(in_use, n):
    """Return the n lowest free rows; ``in_use`` does not change."""
    return list(itertools.islice((row for row in itertools.count() if row not in in_use), n))


def give_back_homes(in_use, rows):
    in_use.difference_update(rows)
