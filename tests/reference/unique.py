"""What the kernels of ``ascpipe/kernels/unique.py`` must compute."""


def unique_keys(keys):
    order = {}
    restore = [order.setdefault(key, len(order)) for key in keys]
    occurrences = [0] * len(order)
    for place in restore:
        occurrences[place] += 1
    return list(order), restore, occurrences


def dedup_parts(parts):
    return [unique_keys(keys) for keys in parts]
