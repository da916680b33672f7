"""The view of a table: the truth as it will be after the newest record, a row of 32 bytes per entry.

A row (see ``records.ROW``) has what plans read of an entry, and its window mask: bit p is set while the frame at
position p of the ring holds the entry.  Two rows share a cache line and none straddles two; an entry of the truth is
48 bytes, a third of which no plan reads.

A record assigns its rows in place.  What they were is kept in a ring of *changes*, in the order of their records; the
change of number n, which only grows, is item ``n & (room - 1)``.  So the newest record is taken off again in as many
steps as it has keys, and the oldest, once it is assigned to the truth, is dropped by moving the ring's end.  Both ends
of the ring are fields of the planner.

The readable version is ``tests/reference/view.py``.
"""
import numpy as np

from ascpipe.kernels.door import entry, inner
from ascpipe.kernels.prefetch import prefetch
from ascpipe.layout.words import FREE, NAMED, TRAINED

AHEAD = 24  #: keys between the one at hand and the one whose row is prefetched

_NONE = np.uint64(0)


@inner("void(int32[::1], int64, Row[::1])")
def prefetch_row(held, i, rows):
    """Prefetch the row of the key that comes ``AHEAD`` keys after key i.

    Args:
        held: int32[n]; entry numbers.
        i: 0 to n - 1.
        rows: of the view.
    """
    prefetch(rows, np.uint64(held[np.uint64(min(i + AHEAD, held.shape[0] - 1))]))


@entry("UniTuple(int64, 2)(int64, boolean, Entry[::1], Row[::1], int32[::1])")
def derive_view(used, has_homes, entries, rows, free_stack):
    """Rebuild the rows of a table whose records are all assigned, and collect its free entries.

    Names that no frame holds are freed.

    Args:
        used: entries that were ever used.
        has_homes: whether the table has home rows.
        entries: ENTRY[capacity]; the truth.
        rows: ROW[capacity]; of the view.  Masks are complete and stay, the rest is received.
        free_stack: int32[capacity]; receives the free entries, the lowest on top.

    Returns:
        (how many entries are free, how many trained keys have a row).
    """
    free = in_rows = 0
    for i in range(used):
        number = np.uint64(used - 1 - i)
        known, row = entries[number], rows[number]
        state = known["state"]
        if state == NAMED and row["mask"] == _NONE:
            known["state"] = state = np.int32(FREE)
        if state == FREE and row["mask"] == _NONE:
            free_stack[free] = number
            free += 1
            continue
        row["count"] = known["count"]
        row["slot"] = known["slot"]
        row["home"] = known["home"]
        row["frequency"] = known["frequency"]
        in_rows += np.int64(state == TRAINED) & np.int64((known["home"] if has_homes else known["slot"]) >= 0)
    return free, in_rows


@inner("void(int64, Row, int64, Change[::1])")
def keep_row(number, row, change, changes):
    """Keep the row of an entry, which a record is about to change.

    Args:
        number: of the entry.
        row: of the entry.
        change: number of the change.
        changes: of the view.
    """
    kept = changes[np.uint64(change) & np.uint64(changes.shape[0] - 1)]
    # read first: to the compiler, a store could change what is read after it
    count, slot, home, frequency = row["count"], row["slot"], row["home"], row["frequency"]
    kept["count"] = count
    kept["slot"] = slot
    kept["home"] = home
    kept["frequency"] = frequency
    kept["entry"] = number


@inner("void(Planner, View, int32[::1], int32[::1])")
def put_outs(planner, view, out_entries, out_homes):
    """Put the victims of a record upon the view: their rows leave the device.

    Args:
        planner: of the table.
        view: of the table, with room for n more changes.
        out_entries: int32[n]; entry numbers.
        out_homes: int32[n]; receives their home rows.
    """
    n, change = out_entries.shape[0], planner["next_change"]
    for i in range(n):
        prefetch_row(out_entries, i, view.rows)
        row = view.rows[np.uint64(out_entries[i])]
        keep_row(out_entries[i], row, change + i, view.changes)
        out_homes[i] = row["home"]
        row["slot"] = -1
    planner["next_change"] = change + n


@inner("void(Planner, View, Record)")
def put_keys(planner, view, record):
    """Put the keys of a record upon the view.

    Args:
        planner: of the table.
        view: of the table, with room for as many more changes as the record has keys.
        record: a slot and a home row that are both -1 leave the row where it was.
    """
    held, slots, homes = record.held, record.slots, record.homes
    n, change = held.shape[0], planner["next_change"]
    for i in range(n):
        prefetch_row(held, i, view.rows)
        row = view.rows[np.uint64(held[i])]
        keep_row(held[i], row, change + i, view.changes)
        row["count"] = record.counts[i]
        row["frequency"] = record.frequencies[i]
        if slots[i] >= 0 or homes[i] >= 0:  # a table without slots, or without home rows, has one of the two
            row["slot"] = slots[i]
            row["home"] = homes[i]
    planner["next_change"] = change + n


@inner("void(Record, Row[::1])")
def put_moves(record, rows):
    """Put the new slots and home rows of a drafted record upon the view.

    Args:
        record: its keys that move in.
        rows: of the view.
    """
    for i in range(record.move_in.shape[0]):
        moved = np.uint64(record.move_in[i])
        row = rows[np.uint64(record.held[moved])]
        row["slot"] = record.slots[moved]
        row["home"] = record.homes[moved]


@inner("void(Planner, View, int64)")
def undo_changes(planner, view, n):
    """Take the newest changes off the view.

    Args:
        planner, view: of the table.
        n: how many changes.
    """
    last = np.uint64(view.changes.shape[0] - 1)
    for _ in range(n):
        planner["next_change"] -= 1
        change = view.changes[np.uint64(planner["next_change"]) & last]
        row = view.rows[np.uint64(change["entry"])]
        row["count"] = change["count"]
        row["slot"] = change["slot"]
        row["home"] = change["home"]
        row["frequency"] = change["frequency"]


@entry("void(Planner, Change[::1], Change[::1])")
def move_changes(planner, changes, new_changes):
    """Move all changes to a larger ring.

    Args:
        planner: of the table.
        changes, new_changes: CHANGE[a power of two], CHANGE[a greater one]; the ring, and the larger one.
    """
    for number in range(planner["oldest_change"], planner["next_change"]):
        new_changes[number & (new_changes.shape[0] - 1)] = changes[number & (changes.shape[0] - 1)]
