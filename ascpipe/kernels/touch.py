"""Kernels that find or create the entries of a frame's keys, and free these entries when the frame leaves the window.

The plain-Python version is ``tests/reference/touch.py``.
"""
import numpy as np

from ascpipe.kernels.door import inner
from ascpipe.kernels.index import insert_key, make_room
from ascpipe.kernels.view import prefetch_row
from ascpipe.layout.words import FREE, NAMED


@inner("int64(Planner, int64[::1], int64, Index, Entry[::1], int32[::1], int32[::1])")
def name_keys(planner, unique, used, index, entries, free_stack, out_entries):
    """Create entries in state NAMED for keys without an entry.

    Args:
        planner: planner of the table. ``missing`` is the number of keys without an entry. ``free_entries`` is updated.
        unique: int64[n]; distinct keys.
        used: number of entries that were ever used. Entries from this number on are used when the stack is empty.
        index: the key index.
        entries: ENTRY[capacity], with space for the new entries.
        free_stack: int32[capacity]; stack of free entry numbers.
        out_entries: int32[n]; entry of each key. Items of -1 receive the new entries.

    Returns:
        The new value of ``used``.
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
            named = entries[number]
            named["key"] = unique[i]
            named["count"] = 0
            named["timestamp"] = 0
            named["last"] = 0
            named["slot"] = -1
            named["frequency"] = 0
            named["home"] = -1
            named["state"] = NAMED  # written last, because a restarted worker trusts entries that are not FREE
            insert_key(unique[i], number, index)
            out_entries[i] = number
    planner["free_entries"] = top
    return used


@inner("int64(Planner, View, int32[::1], uint64, Entry[::1], int64[::1], int32[::1])")
def leave_window(planner, view, listed, bit, entries, out_keys, free_stack):
    """Clear a frame's bit in the frame's rows, and free NAMED entries that no frame needs any more.

    Args:
        planner, view: state of the table. ``rows_held`` and ``free_entries`` are updated.
        listed: int32[n]; rows of the frame, possibly with duplicates.
        bit: bit of the frame.
        entries: ENTRY[capacity].
        out_keys: int64[>= n]; receives the keys of the freed entries. The caller removes these keys from the index.
        free_stack: int32[capacity]; receives the numbers of the freed entries.

    Returns:
        Number of freed entries.
    """
    rows = view.rows
    freed = 0
    gone = np.int64(0)
    top = planner["free_entries"]
    keep = ~bit
    for i in range(listed.shape[0]):
        prefetch_row(listed, i, rows)
        row = rows[np.uint64(listed[np.uint64(i)])]
        mask = row["mask"]
        row["mask"] = mask & keep
        gone += np.int64(mask == bit)
        # There is no short-circuit evaluation, because its branch would often be mispredicted. A row that no
        # frame needs equals the truth, in which NAMED entries have neither count nor row. So only a few entries
        # must be read.
        if ((mask == bit) & (row["count"] == 0) & (row["slot"] & row["home"] == -1)
                and entries[np.uint64(row["entry"])]["state"] == NAMED):
            number = np.uint64(row["entry"])
            out_keys[freed] = entries[number]["key"]
            entries[number]["state"] = FREE
            free_stack[top] = number
            row["entry"] = -1
            view.row_of[number] = 0
            top += 1
            freed += 1
    planner["rows_held"] -= gone
    planner["free_entries"] = top
    return freed
