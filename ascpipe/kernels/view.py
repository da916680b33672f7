"""The view of a table: the truth as it will be after the newest record, as far as the window is concerned.

A row (see ``records.ROW``) has what plans read of an entry, and its window mask: bit p is set while the frame at
position p of the ring holds the entry, or has a record that changes it.  Only such entries need a row: of all others
the truth is the view.  A number for each entry leads to its row, and the frames of the window have lists of theirs.  A
row that no frame needs any more stays, and says what the truth says, until it is used for another entry; the next one
is found by a hand that goes round.  So there are four times as many rows, of 32 bytes each, as the window needs,
however large the table is, and a key that occurs often has one already.

A record assigns its rows in place.  What they were is kept in a ring of *changes*, in the order of their records; the
change of number n, which only grows, is item ``n & (room - 1)``.  So the newest record is taken off again in as many
steps as it has keys, and the oldest, once it is assigned to the truth, is dropped by moving the ring's end.  Both ends
of the ring are fields of the planner.

The readable version is ``tests/reference/view.py``.
"""
import numpy as np

from ascpipe.kernels.door import entry, inner
from ascpipe.kernels.prefetch import prefetch, prefetch_end
from ascpipe.layout.words import FREE, HOME_NONE, NAMED, TRAINED

AHEAD = 24  #: keys between the one at hand and the one whose row is prefetched

_FAR = 64  # the same, for what is met alone
_ROWS_PER_HELD = 4  # rows for each that the window needs
_NONE = np.uint64(0)


@inner("void(int32[::1], int64, Row[::1])")
def prefetch_row(listed, i, rows):
    """Prefetch the row that comes ``AHEAD`` rows after row i of a list.

    Args:
        listed: int32[n]; numbers of rows.
        i: 0 to n - 1.
        rows: of the view.
    """
    prefetch(rows, np.uint64(listed[np.uint64(min(i + AHEAD, listed.shape[0] - 1))]))


@inner("void(int32[::1], int64, Entry[::1])")
def prefetch_entry(numbers, i, entries):
    """Prefetch entry i of a list, both lines if it lies in two.

    Args:
        numbers: int32[n]; of entries.
        i: 0 to n - 1.
        entries: ENTRY[capacity].
    """
    ahead = np.uint64(numbers[np.uint64(i)])
    prefetch(entries, ahead)
    prefetch_end(entries, ahead)


@inner("void(Planner, Row, uint64)")
def mark_row(planner, row, bit):
    """Set a frame's bit.

    Args:
        planner: of the table; counts the rows that some frame needs.
        row: of the view.
        bit: the frame's bit.
    """
    mask = row["mask"]
    planner["rows_held"] += np.int64(mask == _NONE)
    row["mask"] = mask | bit


@inner("void(Entry, Row)", "void(Change, Row)")
def say_as(known, row):
    """Make a row say what an entry says, or what it said before a change."""
    row["count"] = known["count"]
    row["slot"] = known["slot"]
    row["home"] = known["home"]
    row["frequency"] = known["frequency"]


@inner("void(Planner, View, int32[::1])")
def choose_rows(planner, view, out_rows):
    """Choose rows for entries that have none: new ones, or such as no frame needs, whose entries have none then.

    Args:
        planner, view: of the table.
        out_rows: int32[n]; receives the numbers of free rows.
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
        out_rows[np.uint64(chosen)] = hand  # the next one overwrites it if it is needed: no branch
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
    """Make a free row that of an entry, which one frame needs.

    Args:
        view: of the table.
        number: of the row.
        of_entry: number of the entry.
        bit: the frame's bit.
        known: the entry.
    """
    row = view.rows[np.uint64(number)]
    row["mask"] = bit
    row["entry"] = of_entry
    say_as(known, row)
    view.row_of[np.uint64(of_entry)] = number + 1


@inner("void(Planner, View, Entry[::1], uint64, int32[::1], int32[::1], int32[::1])")
def hold_entries(planner, view, entries, bit, numbers, out_listed, scratch):
    """Set a frame's bit in the rows of some entries; those that have none get one.

    Args:
        planner, view: of the table.
        entries: ENTRY[capacity].
        bit: the frame's bit.
        numbers: int32[n]; of the entries.
        out_listed: int32[>= n]; receives the numbers of their rows.
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
        # the next one overwrites it if it is not counted: no branch, which would often be mispredicted
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
    """Take every frame out of the window; no entry has a row then.

    Args:
        planner, view: of the table.
    """
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
    """Check whether a frame of the window needs an entry."""
    found = view.row_of[np.uint64(number)]
    return found > 0 and view.rows[np.uint64(found - 1)]["mask"] != _NONE


@entry("UniTuple(int64, 2)(Planner, View, int64, Entry[::1], int32[::1])")
def derive_view(planner, view, used, entries, free_stack):
    """Rebuild the rows of a table whose records are all assigned, and collect its free entries.

    Names that no frame holds are freed.

    Args:
        planner: of the table.
        view: of the table; the rows that the window needs receive what the truth says, the others are free then.
        used: entries that were ever used.
        entries: ENTRY[capacity]; the truth.
        free_stack: int32[capacity]; receives the free entries, the lowest on top.

    Returns:
        (how many entries are free, how many trained keys have a row).
    """
    has_homes = planner["home_rows"] > 0
    for number in range(planner["rows_used"]):
        row = view.rows[np.uint64(number)]
        if row["mask"] != _NONE:
            say_as(entries[row["entry"]], row)
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
    """Keep what a row is that a record is about to change.

    Args:
        number: of the row.
        row: of the view.
        change: number of the change.
        changes: of the view.
    """
    kept = changes[np.uint64(change) & np.uint64(changes.shape[0] - 1)]
    # read first: to the compiler, a store could change what is read after it
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
def put_outs(planner, view, listed, out_homes):
    """Put the victims of a record upon the view: their rows leave the device.

    Args:
        planner: of the table.
        view: of the table, with room for n more changes.
        listed: int32[n]; their rows of the view.
        out_homes: int32[n]; receives their home rows.
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
def put_keys(planner, view, listed, record):
    """Put the keys of a record upon the view.

    Args:
        planner: of the table.
        view: of the table, with room for n more changes.
        listed: int32[n]; rows of its keys.
        record: of n keys; a slot and a home row that are both -1 leave the row where it was.
    """
    n = listed.shape[0]
    change = planner["next_change"]
    for i in range(n):
        prefetch_row(listed, i, view.rows)
        row = view.rows[np.uint64(listed[i])]
        keep_row(listed[i], row, change + i, view.changes)
        row["count"] = record.counts[i]
        row["frequency"] = record.frequencies[i]
        if record.slots[i] >= 0 or record.homes[i] >= 0:  # a table without slots, or home rows, has one of the two
            row["slot"] = record.slots[i]
            row["home"] = record.homes[i]
    planner["next_change"] = change + n


@inner("void(Record, int32[::1], Row[::1])")
def put_moves(record, listed, rows):
    """Put the new slots and home rows of a drafted record upon the view.

    Args:
        record: its keys that move in.
        listed: int32[n]; rows of all its keys.
        rows: of the view.
    """
    for i in range(record.move_in.shape[0]):
        moved = np.uint64(record.move_in[i])
        row = rows[np.uint64(listed[moved])]
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
        say_as(change, view.rows[np.uint64(change["row"])])


@entry("void(Planner, Change[::1], Change[::1])")
def move_changes(planner, changes, new_changes):
    """Move all changes to a larger ring.

    Args:
        planner: of the table.
        changes, new_changes: CHANGE[a power of two], CHANGE[a greater one]; the ring, and the larger one.
    """
    for number in range(planner["oldest_change"], planner["next_change"]):
        new_changes[number & (new_changes.shape[0] - 1)] = changes[number & (changes.shape[0] - 1)]
