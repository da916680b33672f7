"""Truth: assigning a finished record to it, reading it for an evaluation, dropping old keys from it.

Every store is an assignment of an absolute value, so a worker that dies half-way is followed by one that
assigns the same record again.  The readable version is ``tests/reference/retire.py``.
"""
import numpy as np
from numba import njit

from ascpipe.kernels.entry import COUNT, FREQUENCY, HOME, INT64_COLUMNS, LAST, SLOT, STATE, TIMESTAMP
from ascpipe.kernels.prefetch import prefetch
from ascpipe.kernels.view import AHEAD, MASK
from ascpipe.layout.words import FREE, NAMED, SLOT_HOME, SLOT_NONE, TRAINED


@njit("void(int32[::1], int32[::1], int32[:, ::1], int32[::1])", cache=True, nogil=True)
def assign_outs(out_slots, out_entries, entries32, slot_entries):
    """Assign the victims of a record to the truth, before its keys.

    Args:
        out_slots, out_entries: int32[n]; slots that were given up, and the entries that had them.
        entries32: the table's entries.
        slot_entries: int32[device rows]; entry of each slot, -1 = empty.
    """
    for i in range(out_slots.shape[0]):
        entries32[out_entries[i], SLOT] = -1
        slot_entries[out_slots[i]] = -1


@njit("void(int32[::1], int32[::1], int32[::1], int64[::1], int32[::1], int32[::1], int64, int64, int64[:, ::1], "
      "int32[:, ::1], int32[::1])", cache=True, nogil=True)
def assign_keys(held, slots, homes, counts, frequencies, move_in, ticket, time, entries, entries32, slot_entries):
    """Assign the keys of a record to the truth.

    Args:
        held: int32[n]; entry numbers of the batch's distinct keys.
        slots, homes: int32[n]; -1 leaves what was there.
        counts, frequencies: int64[n], int32[n]; absolute values.
        move_in: int32[m]; indexes of the keys that got a slot or a home row; the others' slots know their entries.
        ticket: the batch.
        time: of the table after the batch; timestamp of the keys with trained state, also while nothing is counted.
        entries, entries32: the table's entries.
        slot_entries: int32[device rows]; entry of each slot, -1 = empty.
    """
    n = held.shape[0]
    cells = entries.reshape(-1)
    for i in range(n):
        ahead = np.uint64(held[np.uint64(min(i + AHEAD, n - 1))]) * np.uint64(INT64_COLUMNS)
        prefetch(cells, ahead)
        prefetch(cells, ahead + np.uint64(INT64_COLUMNS - 1))
        entry = np.uint64(held[i])
        slot = slots[i]
        entries[entry, COUNT] = counts[i]
        entries32[entry, FREQUENCY] = frequencies[i]
        if slot >= 0:
            entries32[entry, SLOT] = slot
        if homes[i] >= 0:
            entries32[entry, HOME] = homes[i]
        if counts[i] > 0 or entries32[entry, SLOT] >= 0 or entries32[entry, HOME] >= 0:
            entries[entry, LAST] = ticket
            entries[entry, TIMESTAMP] = time
            entries32[entry, STATE] = TRAINED
        else:
            entries32[entry, STATE] = NAMED
    for i in range(move_in.shape[0]):
        moved = np.uint64(move_in[i])
        if slots[moved] >= 0:
            slot_entries[slots[moved]] = held[moved]


@njit("void(int64, int32[:, ::1], int32[::1])", cache=True, nogil=True)
def occupy_slots(used, entries32, slot_entries):
    """Derive which entry each slot has from the slots that the entries say they have.

    Args:
        used: entries that were ever used.
        entries32: the table's entries.
        slot_entries: int32[device rows]; receives the entry of each slot, -1 = empty.
    """
    slot_entries[:] = -1
    for entry in range(used):
        slot = entries32[entry, SLOT]
        if slot >= 0:
            slot_entries[slot] = entry


@njit("void(int32[::1], int64, int64[:, ::1], int32[:, ::1], int32[::1])", cache=True, nogil=True)
def resolve_entries(found, threshold, entries, entries32, out_slots):
    """Write where the row of each key is as the truth has it.

    Args:
        found: int32[n]; entry numbers, -1 = unknown key.
        threshold: occurrences before a key has a row; -1 = no admission.
        entries, entries32: the table's entries.
        out_slots: int32[n]; receives a slot, or SLOT_HOME less the home row, or SLOT_NONE.
    """
    for i in range(found.shape[0]):
        entry = found[i]
        out_slots[i] = SLOT_NONE
        if entry < 0 or entries32[entry, STATE] != TRAINED or (threshold >= 0 and entries[entry, COUNT] < threshold):
            continue
        if entries32[entry, SLOT] >= 0:
            out_slots[i] = entries32[entry, SLOT]
        elif entries32[entry, HOME] >= 0:
            out_slots[i] = SLOT_HOME - entries32[entry, HOME]


@njit("int64(int64, int64, int64, uint64[:, ::1], int64[:, ::1], int32[:, ::1], int32[::1])", cache=True, nogil=True)
def evict_entries(used, time, age, masks, entries, entries32, slot_entries):
    """Drop the trained state of every key that was not used for a while; idempotent, also when cut short.

    Args:
        used: entries that were ever used.
        time: of the table.
        age: a key is dropped if its timestamp lies as far back, or farther.
        masks: uint64[capacity, 4]; the view: an entry that a frame holds stays a name.
        entries, entries32: the table's entries.
        slot_entries: int32[device rows]; entry of each slot, -1 = empty.

    Returns:
        How many keys were dropped.
    """
    dropped = 0
    for entry in range(used):
        if entries32[entry, STATE] != TRAINED or time - entries[entry, TIMESTAMP] < age:
            continue
        entries[entry, TIMESTAMP] = 0  # the lowest there is: the key stays old until it is dropped
        entries[entry, COUNT] = 0
        if entries32[entry, SLOT] >= 0:
            slot_entries[entries32[entry, SLOT]] = -1
        entries32[entry, SLOT] = -1
        entries32[entry, HOME] = -1
        entries32[entry, FREQUENCY] = 0
        entries32[entry, STATE] = FREE if masks[entry, MASK] == np.uint64(0) else NAMED  # last
        dropped += 1
    return dropped
