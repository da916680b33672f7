"""Expected results of the kernels of ``ascpipe/kernels/unique.py``."""
from tests.reference import dealing


def unique_keys(keys):
    order = {}
    restore = [order.setdefault(key, len(order)) for key in keys]
    occurrences = [0] * len(order)
    for place in restore:
        occurrences[place] += 1
    return list(order), restore, occurrences


def weigh_keys(weights, restore, count):
    """Return the weighted occurrences of ``count`` distinct keys."""
    sums = [0] * count
    for weight, place in zip(weights, restore):
        sums[place] += max(weight, 0)
    return [min(total, 2**31 - 1) for total in sums]


def dedup_parts(parts, ranks=1):
    """Return (distinct keys, restore index, occurrences) of each part; a part is (keys, weights or None)."""
    made = []
    for keys, weights in parts:
        distinct, restore, occurrences = unique_keys(keys)
        if weights is not None:
            occurrences = weigh_keys(weights, restore, len(distinct))
        made.append(dealing.deal_keys(distinct, restore, occurrences, ranks))
    return made
