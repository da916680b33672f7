"""Entries of a frame's keys: found in the index or newly named, and kept while the frame is in the window.

The readable version is ``tests/reference/touch.py``.
"""
import numpy as np
from numba import njit

from ascpipe.kernels import view as view_columns
from ascpipe.kernels.entry import COUNT, FREQUENCY, HOME, KEY, LAST, SLOT, STATE, TIMESTAMP
from ascpipe.kernels.index import insert_key
from ascpipe.kernels.view import prefetch_row
from ascpipe.layout.words import FREE, NAMED

_NONE = np.uint64(0)
_ROW = np.uint64(view_columns.INT64_COLUMNS)
_MASK, _COUNT, _PLACES = (np.uint64(column) for column in (
    view_columns.MASK, view_columns.COUNT, view_columns.PLACES))
_NO_PLACES = np.uint64(2**64 - 1)  # neither a slot nor a home row: -1 and -1


@njit("int64(int64[::1], int64, int32[::1], int64[::1], int64[::1], int32[::1], UniTuple(uint64, 3), int64[:, ::1], "
      "int32[:, ::1], int64[:, ::1], int32[:, ::1], int32[::1])", cache=True, nogil=True)
def name_keys(unique, used, free_stack, free_count, lines, lines32, spread, entries, entries32, view, view32,
              out_entries):
    """Give each key without an entry one, as a name only.

    Args:
        unique: int64[n]; distinct keys.
        used: entries that were ever used; from here on they are taken when the stack is empty.
        free_stack: int32[capacity]; entry numbers that were given back, the top ones are taken first.
        free_count: int64[1]; how many of them there are.
        lines, lines32, spread: the key index, with room for them.
        entries, entries32: the table's entries (see ``entry``), with room.
        view, view32: the view (see ``view``).
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
            view[entry, view_columns.COUNT] = 0
            view32[entry, view_columns.SLOT] = -1
            view32[entry, view_columns.HOME] = -1
            view32[entry, view_columns.FREQUENCY] = 0
            insert_key(unique[i], entry, lines, lines32, spread)
            out_entries[i] = entry
    free_count[0] = top
    return used


@njit("void(int32[::1], uint64[:, ::1], uint64)", cache=True, nogil=True)
def mark_window(held, masks, bit):
    """Set a frame's bit in the window mask of each of its entries.

    Args:
        held: int32[n]; entry numbers of the frame.
        masks: uint64[capacity, 4]; the view.
        bit: the frame's bit.
    """
    cells = masks.reshape(-1)
    for i in range(held.shape[0]):
        prefetch_row(held, i, cells)
        cells[np.uint64(held[np.uint64(i)]) * _ROW + _MASK] |= bit


@njit("int64(int32[::1], uint64[:, ::1], uint64, int64[:, ::1], int32[:, ::1], int64[::1], int32[::1], int64[::1])",
      cache=True, nogil=True)
def leave_window(held, masks, bit, entries, entries32, out_keys, free_stack, free_count):
    """Clear a frame's bit; entries that are only a name and that no frame holds any more are freed.

    Args:
        held: int32[n]; entry numbers of the frame.
        masks: uint64[capacity, 4]; the view.
        bit: the frame's bit.
        entries, entries32: the table's entries.
        out_keys: int64[>= n]; receives the keys whose entries were freed, to be removed from the index.
        free_stack, free_count: the free entry numbers, to which they are added.

    Returns:
        How many entries were freed.
    """
    freed = 0
    keep, cells = ~bit, masks.reshape(-1)
    for i in range(held.shape[0]):
        prefetch_row(held, i, cells)
        entry = np.uint64(held[np.uint64(i)])
        row = entry * _ROW
        left = cells[row + _MASK] & keep
        cells[row + _MASK] = left
        # no short-circuit: the first half would often be guessed wrong.  What no frame holds is in the view as it is
        # in the truth, and there a name has neither count nor row; few entries are looked up to be sure.
        if (left | cells[row + _COUNT] | (cells[row + _PLACES] ^ _NO_PLACES) == _NONE
                and entries32[entry, STATE] == NAMED):
            out_keys[freed] = entries[entry, KEY]
            entries32[entry, STATE] = FREE
            free_stack[free_count[0]] = entry
            free_count[0] += 1
            freed += 1
    return freed
