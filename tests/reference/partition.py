"""What the kernels of ``ascpipe/kernels/partition.py`` must compute."""


def count_owners(keys, ranks):
    owners = [abs(key) % ranks for key in keys]
    return [owners.count(rank) for rank in range(ranks)], owners


def buckets(keys, ranks):
    """The keys of each rank, in the order in which they come."""
    return [[key for key in keys if abs(key) % ranks == rank] for rank in range(ranks)]


def partition_keys(keys, ranks):
    parts = buckets(keys, ranks)
    counts = [len(part) for part in parts]
    offsets = [sum(counts[:rank]) for rank in range(ranks)]
    out_keys = sum(parts, [])
    order = [keys.index(key) for key in out_keys]
    return counts, offsets, order, [out_keys.index(key) for key in keys], out_keys


def partition_keys_static(keys, send_count, ranks):
    parts = buckets(keys, ranks)
    counts = [len(part) for part in parts]
    if max(counts) > send_count:
        return min(rank for rank in range(ranks) if counts[rank] > send_count), counts, None, None, None
    order, out_keys, places = [], [], {}
    for part in parts:
        places.update((key, len(out_keys) + i) for i, key in enumerate(part))
        padding = [-1] * (send_count - len(part))
        order += [keys.index(key) for key in part] + padding
        out_keys += part + padding
    return -1, counts, order, [places[key] for key in keys], out_keys


def partition_restore(restore, places):
    return [places[place] for place in restore]
