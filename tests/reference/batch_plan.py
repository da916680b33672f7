"""Expected results of ``tfops/src/input/batch_plan.h``: the same rules by lists instead of formulas."""
from tests.reference.permutation import GOLDEN, M, mix, permuted


def epoch_batches(sequence, batch_size, ranks, drop_remainder):
    """The global batches of the rest of an epoch. Each is a list with the records of each rank."""
    full = batch_size * ranks
    batches = []
    while len(sequence) >= ranks:
        taken = min(full, len(sequence))
        if taken < full and drop_remainder:
            break
        if not drop_remainder and batch_size > 1 and 0 < len(sequence) - full < ranks:
            taken = len(sequence) - ranks  # leaves one record for each rank
        batches.append(divided(sequence[:taken], ranks))
        sequence = sequence[taken:]
    return batches


def divided(records, ranks):
    """Parts of consecutive records whose sizes differ by at most one. The first parts are the larger ones."""
    sizes = [len(records) // ranks + (rank < len(records) % ranks) for rank in range(ranks)]
    return [records[sum(sizes[:rank]):sum(sizes[:rank + 1])] for rank in range(ranks)]


def sequence_of(records, seed, epoch, window=0):
    """The sequence of an epoch; ``seed`` is None if records are not shuffled.

    With a window, each ``window`` consecutive records are permuted with a seed of their own.
    """
    if seed is None:
        return list(range(records))
    size = window or records
    sequence = []
    for number, first in enumerate(range(0, records, size)):
        own = seed if number == 0 else mix((seed + GOLDEN * number) % M)
        count = min(size, records - first)
        sequence += [first + permuted(own, epoch, count, place) for place in range(count)]
    return sequence
