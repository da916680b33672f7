"""Finds the entries of a frame's keys in the index or names new ones, and keeps them while the frame is in the window.

The readable version is ``tests/reference/touch.py``.
"""
import numpy as np

from ascpipe.kernels.door import inner
from ascpipe.kernels.index import insert_key, make_room
from ascpipe.kernels.view import prefetch_row
from ascpipe.layout.words import FREE, NAMED

_NONE = np.uint64(0)


@inner("int64(Planner, int64[::1], int64, Index, Entry[::1], Row[::1], int32[::1], int32[::1])")
def name_keys(planner, unique, used, index, entries, rows, free_stack, out_entries):
    """Give each key without an entry one, as a name only.

    Args:
        planner: of the table; has how many they are; receives how many free entries are left in the stack, the top ones
            are taken first.
        unique: int64[n]; distinct keys.
        used: entries that were ever used; from here on they are taken when the stack is empty.
        index: the key index.
        entries: ENTRY[capacity]; with room.
        rows: of the view.
        free_stack: int32[capacity]; entry numbers that were given back.
        out_entries: int32[n]; entry of each key, -1 = it has none; receives the new ones.

    Returns:
        ``used`` afterwards.
    """
    top = planner["free_entries"]
    make_room(planner["missing"], index)
    for i in range(unique.shape[0]):
        if out_entries[i] < 0:
            if top > 0:
                top -= 1
                number = np.int64(free_stack[top])
            else:
                number = used
                used += 1
            named, row = entries[number], rows[number]
            named["key"] = unique[i]
            named["count"] = 0
            named["timestamp"] = 0
            named["last"] = 0
            named["slot"] = -1
            named["frequency"] = 0
            named["home"] = -1
            named["state"] = NAMED  # last: a restart believes what is not FREE
            row["count"] = 0
            row["slot"] = -1
            row["home"] = -1
            row["frequency"] = 0
            insert_key(unique[i], number, index)
            out_entries[i] = number
    planner["free_entries"] = top
    return used


@inner("void(int32[::1], Row[::1], uint64)")
def mark_window(held, rows, bit):
    """Set a frame's bit in the window mask of each of its entries.

    Args:
        held: int32[n]; entry numbers of the frame.
        rows: of the view.
        bit: the frame's bit.
    """
    for i in range(held.shape[0]):
        prefetch_row(held, i, rows)
        rows[np.uint64(held[np.uint64(i)])]["mask"] |= bit


@inner("int64(Planner, int32[::1], uint64, Row[::1], Entry[::1], int64[::1], int32[::1])")
def leave_window(planner, held, bit, rows, entries, out_keys, free_stack):
    """Clear a frame's bit; entries that are only a name and that no frame holds any more are freed.

    Args:
        planner: of the table; receives the height of the stack of free entries.
        held: int32[n]; entry numbers of the frame.
        bit: the frame's bit.
        rows: of the view.
        entries: ENTRY[capacity].
        out_keys: int64[>= n]; receives the keys whose entries were freed, to be removed from the index.
        free_stack: int32[capacity]; the free entry numbers, to which they are added.

    Returns:
        How many entries were freed.
    """
    freed, top, keep = 0, planner["free_entries"], ~bit
    for i in range(held.shape[0]):
        prefetch_row(held, i, rows)
        number = np.uint64(held[np.uint64(i)])
        row = rows[number]
        left = row["mask"] & keep
        row["mask"] = left
        # No short-circuit: its branch would often be mispredicted.  What no frame holds is in the view as it is in the
        # truth, and there a name has neither count nor row; so few entries have to be read.
        if ((left | np.uint64(row["count"]) == _NONE) & (row["slot"] & row["home"] == -1)
                and entries[number]["state"] == NAMED):
            out_keys[freed] = entries[number]["key"]
            entries[number]["state"] = FREE
            free_stack[top] = number
            top += 1
            freed += 1
    planner["free_entries"] = top
    return freed
