"""View of a table: the truth (the table in shared memory) plus all records that are not retired.

The view has rows for entries in the window.

A row (see ``records.ROW``) has the values of an entry that plans read, and its window mask. Bit p is set while the
frame at position p of the ring holds the entry or has a record that changes it. Only such entries need a row. For all
other entries, the view equals the truth. ``row_of`` maps entries to rows, and each frame of the window has a list of
rows.

A row that no frame needs any more stays, with the values of the truth, until it is reused for another entry. A cyclic
scan of the rows finds the next such row. There are four times as many rows as the window needs, of 32 bytes
each, regardless of the size of the table. So a key that occurs often already has a row.

A record changes its rows in place. The old values are stored in a ring of *changes*, in the order of records. Numbers
of changes only increase; change n is item ``n & (room - 1)``. So undoing the newest record needs one step per key. The
changes of the oldest record are dropped by moving the end of the ring. The planner has both ends of the ring.

The plain-Python version is ``tests/reference/view.py``.
"""
import numpy as np

from ascpipe.kernels.door import entry, inner
from ascpipe.kernels.prefetch import prefetch, prefetch_end
from ascpipe.layout.words import FREE, HOME_NONE, NAMED, TRAINED

AHEAD = 24  #: prefetch distance in keys

_FAR = 64  # prefetch distance in keys for ``row_of``
_ROWS_PER_HELD = 4  # rows of the view per row that the window needs
_NONE = np.uint64(0)


@inner("void(int32[::1], int64, Row[::1])")
def prefetch_row(listed, i, rows):
    """Prefetch the row ``listed[i + AHEAD]``, or the last row of ``listed``.

    Args:
        listed: int32[n]; row numbers.
        i: 0 to n - 1.
        rows: rows of the view.
    """
    prefetch(rows, np.uint64(listed[np.uint64(min(i + AHEAD, listed.shape[0] - 1))]))


@inner("void(int32[::1], int64, Entry[::1])")
def prefetch_entry(numbers, i, entries):
    """Prefetch the entry ``numbers[i]``, which may extend over two cache lines.

    Args:
        numbers: int32[n]; entry numbers.
        i: 0 to n - 1.
        entries: ENTRY[capacity].
    """
    ahead = np.uint64(numbers[np.uint64(i)])
    prefetch(entries, ahead)
    prefetch_end(entries, ahead)


@inner("void(Planner, Row, uint64)")
def mark_row(planner, row, bit):
    """Set a frame's bit in a row of the view.

    Args:
        planner: planner of the table. ``rows_held`` is updated.
        row: row of the view.
        bit: bit of the frame.
    """
    mask = row["mask"]
    planner["rows_held"] += np.int64(mask == _NONE)
    row["mask"] = mask | bit


@inner("void(Entry, Row)", "void(Change, Row)")
def copy_values(known, row):
    """Copy the values of an entry or of a change to a row."""
    row["count"] = known["count"]
    row["slot"] = known["slot"]
    row["home"] = known["home"]
    row["frequency"] = known["frequency"]


@inner("void(Planner, View, int32[::1])")
def choose_rows(planner, view, out_rows):
    """Choose rows of the view for entries that have no row in the view.

    A chosen row is new, or no frame needs it any more. In the second case, it is removed from its entry.

    Args:
        planner, view: state of the table.
        out_rows: int32[n]; receives the row numbers.
    """
    rows = view.rows
    row_of = view.row_of
    n = out_rows.shape[0]
    last = planner["rows_used"] - 1
    most = min(max(planner["least_rows"], _ROWS_PER_HELD * (planner["rows_held"] + n)), rows.shape[0])
    new = max(np.int64(0), min(n, most - planner["rows_used"]))
    for i in range(new):
        out_rows[i] = planner["rows_used"] + i
    planner["rows_used"] += new
    hand = planner["row_hand"]
    chosen = new
    while chosen < n:
        hand = hand + 1 if hand < last else np.int64(0)
        out_rows[np.uint64(chosen)] = hand  # overwritten if a frame needs this row, so no branch is needed
        chosen += np.int64(rows[np.uint64(hand)]["mask"] == _NONE)
    planner["row_hand"] = hand
    for i in range(new, n):
        ahead = rows[np.uint64(out_rows[np.uint64(min(i + AHEAD, n - 1))])]["entry"]
        prefetch(row_of, np.uint64(max(np.int32(0), ahead)))
        before = rows[np.uint64(out_rows[np.uint64(i)])]["entry"]
        if before >= 0:
            row_of[np.uint64(before)] = 0


@inner("void(View, int64, int64, uint64, Entry)")
def fill_row(view, number, of_entry, bit, known):
    """Assign a free row of the view to an entry that one frame needs.

    Args:
        view: view of the table.
        number: number of the row.
        of_entry: number of the entry.
        bit: bit of the frame.
        known: the entry.
    """
    row = view.rows[np.uint64(number)]
    row["mask"] = bit
    row["entry"] = of_entry
    copy_values(known, row)
    view.row_of[np.uint64(of_entry)] = number + 1


@inner("void(Planner, View, Entry[::1], uint64, int32[::1], int32[::1], int32[::1])")
def hold_entries(planner, view, entries, bit, numbers, out_listed, scratch):
    """Set a frame's bit in the rows of entries. A row is assigned to each entry that has none.

    Args:
        planner, view: state of the table.
        entries: ENTRY[capacity].
        bit: bit of the frame.
        numbers: int32[n]; entry numbers.
        out_listed: int32[>= n]; receives the row numbers.
        scratch: int32[>= 2 n].
    """
    row_of = view.row_of
    rows = view.rows
    n = numbers.shape[0]
    without = 0
    marked = 0
    more = np.int64(0)
    for j in range(n):
        i = np.uint64(j)
        prefetch(row_of, np.uint64(numbers[np.uint64(min(j + _FAR, n - 1))]))
        found = row_of[np.uint64(numbers[i])] - np.int32(1)
        out_listed[i] = found
        # the next item overwrites an item that is not counted; a branch would often be mispredicted
        scratch[np.uint64(without)] = j
        scratch[np.uint64(n + marked)] = found
        without += np.int64(found < 0)
        marked += np.int64(found >= 0)
    with_rows = scratch[n:n + marked]
    for i in range(marked):
        prefetch_row(with_rows, i, rows)
        row = rows[np.uint64(with_rows[np.uint64(i)])]
        more += np.int64(row["mask"] == _NONE)
        row["mask"] |= bit
    planner["rows_held"] += more
    indexes = scratch[:without]
    chosen = scratch[n:n + without]
    choose_rows(planner, view, chosen)
    for i in range(without):
        prefetch_entry(numbers, indexes[np.uint64(min(i + AHEAD, without - 1))], entries)
        index = np.uint64(indexes[np.uint64(i)])
        fill_row(view, chosen[np.uint64(i)], numbers[index], bit, entries[np.uint64(numbers[index])])
        out_listed[index] = chosen[np.uint64(i)]
    planner["rows_held"] += without


@entry("void(Planner, View)")
def clear_rows(planner, view):
    """Remove all frames from the window. After the call, no entry has a row in the view."""
    for number in range(planner["rows_used"]):
        row = view.rows[number]
        row["mask"] = _NONE
        if row["entry"] >= 0:
            view.row_of[row["entry"]] = 0
    planner["rows_used"] = 0
    planner["rows_held"] = 0
    planner["row_hand"] = 0
    planner["touched"] = _NONE
    planner["unplanned"] = _NONE


@inner("boolean(int64, View)")
def is_in_window(number, view):
    """Return True if a frame of the window needs an entry."""
    found = view.row_of[np.uint64(number)]
    return found > 0 and view.rows[np.uint64(found - 1)]["mask"] != _NONE


@entry("UniTuple(int64, 2)(Planner, View, int64, Entry[::1], int32[::1])")
def derive_view(planner, view, used, entries, free_stack):
    """Reset the rows of the view, and collect the free entries. All records of the table must already be in the truth.

    NAMED entries that no frame holds are freed.

    Args:
        planner, view: state of the table. Rows that the window needs receive the values of the truth. Other
            rows are freed.
        used: number of entries that were ever used.
        entries: ENTRY[capacity]: truth of the table.
        free_stack: int32[capacity]; receives the free entries. The lowest entry is on top.

    Returns:
        (number of free entries, number of trained keys that have a row).
    """
    has_homes = planner["home_rows"] > 0
    for number in range(planner["rows_used"]):
        row = view.rows[np.uint64(number)]
        if row["mask"] != _NONE:
            copy_values(entries[row["entry"]], row)
        elif row["entry"] >= 0:
            view.row_of[row["entry"]] = 0
            row["entry"] = -1
    free = in_rows = 0
    for i in range(used):
        number = np.uint64(used - 1 - i)
        known = entries[number]
        if known["state"] != TRAINED:
            is_held = view.row_of[number] > 0
            if known["state"] == NAMED and not is_held:
                known["state"] = FREE
            if known["state"] == FREE and not is_held:
                free_stack[free] = number
                free += 1
        else:
            in_rows += np.int64((known["home"] if has_homes else known["slot"]) != HOME_NONE)
    return free, in_rows


@inner("void(int64, Row, int64, Change[::1])")
def keep_row(number, row, change, changes):
    """Store the values of a row as a change, before a record changes the row.

    Args:
        number: number of the row.
        row: row of the view.
        change: number of the change.
        changes: changes of the view.
    """
    kept = changes[np.uint64(change) & np.uint64(changes.shape[0] - 1)]
    # all values are read first, because the compiler must assume that a store changes the row
    count = row["count"]
    slot = row["slot"]
    home = row["home"]
    frequency = row["frequency"]
    kept["count"] = count
    kept["slot"] = slot
    kept["home"] = home
    kept["frequency"] = frequency
    kept["row"] = number


@inner("void(Planner, View, int32[::1], int32[::1])")
def apply_outs(planner, view, listed, out_homes):
    """Remove the victims of a record from their device slots in the view.

    Args:
        planner, view: state of the table, with space for n more changes.
        listed: int32[n]; rows of the victims.
        out_homes: int32[n]; receives the home rows of the victims.
    """
    n = listed.shape[0]
    change = planner["next_change"]
    for i in range(n):
        prefetch_row(listed, i, view.rows)
        row = view.rows[np.uint64(listed[i])]
        keep_row(listed[i], row, change + i, view.changes)
        out_homes[i] = row["home"]
        row["slot"] = -1
    planner["next_change"] = change + n


@inner("void(Planner, View, int32[::1], Record)")
def apply_keys(planner, view, listed, record):
    """Store the new values of a record's keys in the view.

    Args:
        planner, view: state of the table, with space for n more changes.
        listed: int32[n]; rows of the keys.
        record: record of n keys. A row does not move if its slot and home row are -1.
    """
    n = listed.shape[0]
    change = planner["next_change"]
    for i in range(n):
        prefetch_row(listed, i, view.rows)
        row = view.rows[np.uint64(listed[i])]
        keep_row(listed[i], row, change + i, view.changes)
        row["count"] = record.counts[i]
        row["frequency"] = record.frequencies[i]
        if record.slots[i] >= 0 or record.homes[i] >= 0:  # one of these is -1 in a table without slots or home rows
            row["slot"] = record.slots[i]
            row["home"] = record.homes[i]
    planner["next_change"] = change + n


@inner("void(Record, int32[::1], Row[::1])")
def apply_moves(record, listed, rows):
    """Store the new slots and home rows of a drafted record in the view.

    Args:
        record: record with the keys that move in.
        listed: int32[n]; rows of all keys of the record.
        rows: rows of the view.
    """
    for i in range(record.move_in.shape[0]):
        moved = np.uint64(record.move_in[i])
        row = rows[np.uint64(listed[moved])]
        row["slot"] = record.slots[moved]
        row["home"] = record.homes[moved]


@inner("void(Planner, View, int64)")
def undo_changes(planner, view, n):
    """Undo the ``n`` newest changes of the view.

    Args:
        planner, view: state of the table.
        n: number of changes.
    """
    last = np.uint64(view.changes.shape[0] - 1)
    for _ in range(n):
        planner["next_change"] -= 1
        change = view.changes[np.uint64(planner["next_change"]) & last]
        copy_values(change, view.rows[np.uint64(change["row"])])


@entry("void(Planner, Change[::1], Change[::1])")
def move_changes(planner, changes, new_changes):
    """Move all changes to a larger ring.

    Args:
        planner: planner of the table.
        changes, new_changes: CHANGE[a power of two]: the old ring and the larger ring.
    """
    for number in range(planner["oldest_change"], planner["next_change"]):
        new_changes[number & (new_changes.shape[0] - 1)] = changes[number & (changes.shape[0] - 1)]
