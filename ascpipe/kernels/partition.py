"""Distinct keys put in order of the rank that owns them.

*Dynamic*: the buckets of the ranks lie one after the other, each as long as it is.  *Static*: each rank has
``send_count`` places, and those that it does not need hold the padding key -1.

The readable version is ``tests/reference/partition.py``.
"""
import numpy as np
from numba import njit

from ascpipe.kernels.hashing import owner_rank

PADDING = np.int64(-1)  #: no key; its place in ``out_order`` holds -1 too


@njit("void(int64[::1], int64[::1], int32[::1])", cache=True, nogil=True)
def count_owners(keys, out_counts, out_owners):
    """Find the owner of each key, and how many keys each rank owns.

    Args:
        keys: int64[n]; any values.
        out_counts: int64[ranks]; receives how many of the keys each rank owns.
        out_owners: int32[>= n]; receives the owner rank of each key.
    """
    ranks = out_counts.shape[0]
    out_counts[:] = 0
    for i in range(keys.shape[0]):
        owner = owner_rank(keys[i], ranks)
        out_owners[i] = owner
        out_counts[owner] += 1


@njit("int64(int64[::1], int64[::1], int64[::1], int32[::1], int32[::1], int64[::1])", cache=True, nogil=True)
def partition_keys(keys, out_counts, out_offsets, out_order, out_places, out_keys):
    """Put keys in order of owner rank, those of one rank in their old order.

    Args:
        keys: int64[n]; distinct keys of a batch.
        out_counts: int64[ranks]; receives the length of each rank's bucket.
        out_offsets: int64[ranks]; receives the place in ``out_keys`` where each bucket begins.
        out_order: int32[>= n]; ``out_keys[i] == keys[out_order[i]]``.
        out_places: int32[>= n]; the inverse: ``out_keys[out_places[i]] == keys[i]``.
        out_keys: int64[>= n]; receives the keys.

    Returns:
        n, the places that the buckets take.
    """
    count_owners(keys, out_counts, out_places)
    begin = 0
    for rank in range(out_counts.shape[0]):
        out_offsets[rank] = begin
        begin += out_counts[rank]
        out_counts[rank] = 0  # counted again below, as the keys arrive
    for i in range(keys.shape[0]):
        rank = np.int64(out_places[i])
        place = out_offsets[rank] + out_counts[rank]
        out_counts[rank] += 1
        out_order[place] = i
        out_places[i] = place
        out_keys[place] = keys[i]
    return begin


@njit("int64(int64[::1], int64, int64[::1], int32[::1], int32[::1], int64[::1])", cache=True, nogil=True)
def partition_keys_static(keys, send_count, out_counts, out_order, out_places, out_keys):
    """Put keys in order of owner rank, with ``send_count`` places for each rank.

    Args:
        keys: int64[n]; distinct keys of a batch.
        send_count: places of each rank; the bucket of rank r begins at ``r * send_count``.
        out_counts: int64[ranks]; receives how many places of each bucket hold a key.
        out_order: int32[ranks * send_count]; ``out_keys[i] == keys[out_order[i]]``, -1 at padding.
        out_places: int32[>= n]; the inverse: ``out_keys[out_places[i]] == keys[i]``.
        out_keys: int64[ranks * send_count]; receives the keys and the padding.

    Returns:
        -1; or the first rank that owns more than ``send_count`` keys. ``out_counts`` then says how many
        each rank needs, and the other outputs are undefined.
    """
    ranks = out_counts.shape[0]
    count_owners(keys, out_counts, out_places)
    for rank in range(ranks):
        if out_counts[rank] > send_count:
            return rank
    out_counts[:] = 0  # counted again below, as the keys arrive
    out_order[: ranks * send_count] = -1
    out_keys[: ranks * send_count] = PADDING
    for i in range(keys.shape[0]):
        rank = np.int64(out_places[i])
        place = rank * send_count + out_counts[rank]
        out_counts[rank] += 1
        out_order[place] = i
        out_places[i] = place
        out_keys[place] = keys[i]
    return -1


@njit("void(int32[::1], int32[::1], int32[::1])", cache=True, nogil=True)
def partition_restore(restore, places, out_restore):
    """Make the restore index of the partitioned keys from that of the distinct keys.

    Args:
        restore: int32[n]; restore index into the distinct keys.
        places: int32[distinct keys]; ``out_places`` of the partition.
        out_restore: int32[>= n]; receives ``places[restore]``; may be ``restore`` itself.
    """
    for i in range(restore.shape[0]):
        out_restore[i] = places[restore[i]]
