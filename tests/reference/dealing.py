"""Expected results of the kernels of ``ascpipe/kernels/dealing.py``."""


def owner_of(key, ranks):
    return abs(key) % ranks


def deal_keys(unique, restore, occurrences, ranks):
    """Return keys, restore index and occurrences of a deduplicated batch, with the keys ordered by owner."""
    order = sorted(range(len(unique)), key=lambda index: owner_of(unique[index], ranks))
    places = {index: place for place, index in enumerate(order)}
    return ([unique[index] for index in order], [places[index] for index in restore],
            [occurrences[index] for index in order])
