"""Entries of a frame's keys: found in the index or newly named, and kept while the frame is in the window.

The readable version is ``tests/reference/touch.py``.
"""
import numpy as np
from numba import njit

from ascpipe.kernels.entry import COUNT, FREQUENCY, HOME, INT64_COLUMNS, KEY, LAST, SLOT, STATE, TIMESTAMP
from ascpipe.kernels.index import insert_key
from ascpipe.kernels.overlay import AHEAD
from ascpipe.kernels.prefetch import prefetch
from ascpipe.words import FREE, NAMED, TRAINED


@njit("int64(int64[::1], int64, int32[::1], int64[::1], int64[::1], int32[::1], int64[:, ::1], int32[:, ::1], "
      "int32[::1])", cache=True, nogil=True)
def name_keys(unique, used, free_stack, free_count, lines, lines32, entries, entries32, out_entries):
    """Give each key without an entry one, as a name only.

    Args:
        unique: int64[n]; distinct keys.
        used: entries that were ever used; from here on they are taken when the stack is empty.
        free_stack: int32[capacity]; entry numbers that were given back, the top ones are taken first.
        free_count: int64[1]; how many of them there are.
        lines, lines32: the key index, with room for them.
        entries, entries32: the table's entries (see ``entry``), with room.
        out_entries: int32[n]; entry of each key, -1 = it has none; receives the new ones.

    Returns:
        ``used`` afterwards.
    """
    top = free_count[0]
    for i in range(unique.shape[0]):
        if out_entries[i] < 0:
            if top > 0:
                top -= 1
                entry = np.int64(free_stack[top])
            else:
                entry = used
                used += 1
            entries[entry, KEY] = unique[i]
            entries[entry, COUNT] = 0
            entries[entry, TIMESTAMP] = 0
            entries[entry, LAST] = 0
            entries32[entry, SLOT] = -1
            entries32[entry, FREQUENCY] = 0
            entries32[entry, HOME] = -1
            entries32[entry, STATE] = NAMED  # last: a restart believes what is not FREE
            insert_key(unique[i], entry, lines, lines32)
            out_entries[i] = entry
    free_count[0] = top
    return used


@njit("void(int32[::1], uint64[::1], uint64)", cache=True, nogil=True)
def mark_window(held, masks, bit):
    """Set a frame's bit in the window mask of each of its entries.

    Args:
        held: int32[n]; entry numbers of the frame.
        masks: uint64[capacity]; one bit per place of the ring.
        bit: the frame's bit.
    """
    n = held.shape[0]
    for i in range(n):
        prefetch(masks, np.uint64(held[np.uint64(min(i + AHEAD, n - 1))]))
        masks[np.uint64(held[i])] |= bit


@njit("int64(int32[::1], uint64[::1], uint64, int64[:, ::1], int32[:, ::1], int64[::1], int32[::1], int64[::1])",
      cache=True, nogil=True)
def leave_window(held, masks, bit, entries, entries32, out_keys, free_stack, free_count):
    """Clear a frame's bit; entries that are only a name and that no frame holds any more are freed.

    Args:
        held: int32[n]; entry numbers of the frame.
        masks: uint64[capacity].
        bit: the frame's bit.
        entries, entries32: the table's entries.
        out_keys: int64[>= n]; receives the keys whose entries were freed, to be removed from the index.
        free_stack, free_count: the free entry numbers, to which they are added.

    Returns:
        How many entries were freed.
    """
    n, freed = held.shape[0], 0
    keep, cells = ~bit, entries.reshape(-1)
    for i in range(n):
        ahead = np.uint64(held[np.uint64(min(i + AHEAD, n - 1))])
        prefetch(masks, ahead)
        prefetch(cells, ahead * np.uint64(INT64_COLUMNS) + np.uint64(STATE // 2))
        entry = np.uint64(held[i])
        left = masks[entry] & keep
        masks[entry] = left
        # no short-circuit: the first half would often be guessed wrong
        if np.int64(left == np.uint64(0)) & np.int64(entries32[entry, STATE] == NAMED):
            out_keys[freed] = entries[entry, KEY]
            entries32[entry, STATE] = FREE
            free_stack[free_count[0]] = entry
            free_count[0] += 1
            freed += 1
    return freed


@njit("int64(int64, uint64[::1], int32[:, ::1], int32[::1])", cache=True, nogil=True)
def collect_free(used, masks, entries32, free_stack):
    """Rebuild the stack of free entries after a restart; names that no frame holds are freed.

    Args:
        used: entries that were ever used.
        masks: uint64[capacity]; window masks, complete.
        entries32: the table's entries.
        free_stack: int32[capacity]; receives the free ones of them, the lowest on top.

    Returns:
        How many there are.
    """
    free = 0
    for i in range(used):
        entry = used - 1 - i
        if masks[entry] == np.uint64(0):
            if entries32[entry, STATE] == NAMED:
                entries32[entry, STATE] = FREE
            if entries32[entry, STATE] == FREE:
                free_stack[free] = entry
                free += 1
    return free


@njit("int64(int64, int64, int32[:, ::1])", cache=True, nogil=True)
def count_rows(used, column, entries32):
    """Count the trained keys that have a row.

    Args:
        used: entries that were ever used.
        column: of ``entries32`` that says where a row is: HOME, or SLOT in a table without home rows.
        entries32: the table's entries.

    Returns:
        How many there are.
    """
    rows = 0
    for entry in range(used):
        rows += np.int64(entries32[entry, STATE] == TRAINED) & np.int64(entries32[entry, column] >= 0)
    return rows
