"""Truth: assigning a finished record to it, and reading it for an evaluation.

Every store is an assignment of an absolute value, so a worker that dies half-way is followed by one that
assigns the same record again.  The readable version is ``tests/reference/retire.py``.
"""
from numba import njit

from ascpipe.kernels.entry import COUNT, FREQUENCY, LAST, SLOT, STATE
from ascpipe.kernels.index import find_keys
from ascpipe.words import NAMED, TRAINED


@njit("void(int32[::1], int32[::1], int64[::1], int32[::1], int64, int64[:, ::1], int32[:, ::1], int32[::1])",
      cache=True, nogil=True)
def assign_to_truth(held, slots, counts, frequencies, ticket, entries, entries32, slot_entries):
    """Assign a record to the truth.

    Args:
        held: int32[n]; entry numbers of the batch's distinct keys.
        slots, counts, frequencies: int32[n], int64[n], int32[n]; the record's absolute values.
        ticket: the batch.
        entries, entries32: the table's entries.
        slot_entries: int32[device rows]; entry of each slot, -1 = empty.
    """
    for i in range(held.shape[0]):
        entry = held[i]
        slot = slots[i]
        known = slot >= 0 or counts[i] > 0
        entries[entry, COUNT] = counts[i]
        entries32[entry, FREQUENCY] = frequencies[i]
        entries32[entry, SLOT] = slot
        if known:
            entries[entry, LAST] = ticket
        entries32[entry, STATE] = TRAINED if known else NAMED
        if slot >= 0:
            slot_entries[slot] = entry


@njit("int64(int64[::1], int32[::1], int64[::1], int32[::1], int32[:, ::1], int32[::1])", cache=True, nogil=True)
def resolve_keys(unique, out_slots, index_keys, index_entries, entries32, scratch):
    """Write the slot of each key as the truth has it; keys without a row get -1.

    Args:
        unique: int64[n]; distinct keys.
        out_slots: int32[n]; receives the slots.
        index_keys, index_entries: the key index.
        entries32: the table's entries.
        scratch: int32[>= n].

    Returns:
        How many keys have a row.
    """
    n = unique.shape[0]
    find_keys(unique, n, index_keys, index_entries, scratch)
    found = 0
    for i in range(n):
        out_slots[i] = -1
        entry = scratch[i]
        if entry >= 0 and entries32[entry, STATE] == TRAINED:
            out_slots[i] = entries32[entry, SLOT]
            found += out_slots[i] >= 0
    return found
