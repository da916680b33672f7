"""The view of a table: the truth as it will be after the newest record, kept as changes over the truth.

A *change* says what one record makes of one entry.  Changes lie in a ring in the order of their records; the
change of number p, which only grows, stands in place ``p & (places - 1)``.  ``overlay`` leads from an entry to
the place of its newest change, plus 1; 0 means that the truth holds.  So a record is put upon the view, taken
off again or forgotten in as many steps as it has keys, and an entry that no record names costs nothing.

A change is 32 bytes; kernels get the ring twice, as rows of four int64 and as rows of eight int32.
The readable version is ``tests/reference/overlay.py``.
"""
import numpy as np
from numba import njit

from ascpipe.kernels.entry import COUNT, FREQUENCY, HOME, INT64_COLUMNS, SLOT
from ascpipe.kernels.prefetch import prefetch

# columns of ``changes``
CHANGE_COUNT = 0
CHANGE_BEFORE = 1  # number of the entry's change before this one, -1 = the truth
CHANGE_INT64_COLUMNS = 4
# columns of ``changes32``
CHANGE_ENTRY = 4
CHANGE_SLOT = 5
CHANGE_HOME = 6
CHANGE_FREQUENCY = 7
CHANGE_INT32_COLUMNS = 8

HEAD, TAIL = range(2)  # of ``ends``: number of the oldest change, and of the next one


AHEAD = 24  #: keys between the one at hand and the one whose entry is being brought near


@njit("void(int32[::1], int64, int64[::1], int32[::1], int64[::1])", cache=True, nogil=True, inline="always")
def prefetch_view(held, j, cells, overlay, changed):
    """Bring near what the view says of the keys that come after key j: first where it says it, then what.

    Args:
        held: int32[n]; entry numbers.
        j: 0 to n - 1.
        cells: int64[6 capacity]; the table's entries, flat.
        overlay: int32[capacity].
        changed: int64[4 places]; the changes, flat.
    """
    last = held.shape[0] - 1
    prefetch(overlay, np.uint64(held[np.uint64(min(j + 2 * AHEAD, last))]))
    entry = np.uint64(held[np.uint64(min(j + AHEAD, last))])
    place = overlay[entry]
    if place > 0:
        prefetch(changed, np.uint64(place - 1) * np.uint64(CHANGE_INT64_COLUMNS))
    else:
        first = entry * np.uint64(INT64_COLUMNS)
        prefetch(cells, first)
        prefetch(cells, first + np.uint64(INT64_COLUMNS - 1))  # half of all entries straddle two cache lines


@njit("UniTuple(int64, 4)(uint64, int64[:, ::1], int32[:, ::1], int32[::1], int64[:, ::1], int32[:, ::1])",
      cache=True, nogil=True, inline="always")
def view_of(entry, entries, entries32, overlay, changes, changes32):
    """What the view says of one entry.

    Args:
        entry: its number.
        entries, entries32: the table's entries.
        overlay, changes, changes32: int32[capacity], int64[places, 4], int32[places, 8]; the view.

    Returns:
        (slot, home, count, frequency).
    """
    if overlay[entry] > 0:
        place = np.uint64(overlay[entry] - 1)
        return (np.int64(changes32[place, CHANGE_SLOT]), np.int64(changes32[place, CHANGE_HOME]),
                changes[place, CHANGE_COUNT], np.int64(changes32[place, CHANGE_FREQUENCY]))
    return (np.int64(entries32[entry, SLOT]), np.int64(entries32[entry, HOME]), entries[entry, COUNT],
            np.int64(entries32[entry, FREQUENCY]))


@njit("void(uint64, int64, int64, int64, int64, int32[::1], int64[:, ::1], int32[:, ::1], int64[::1])",
      cache=True, nogil=True, inline="always")
def _push(entry, slot, home, count, frequency, overlay, changes, changes32, ends):
    mask = np.int64(changes.shape[0]) - 1
    head, tail = ends[HEAD], ends[TAIL]
    known = np.int64(overlay[entry]) - 1
    place = np.uint64(tail & mask)
    changes[place, CHANGE_COUNT] = count
    changes[place, CHANGE_BEFORE] = head + ((known - head) & mask) if known >= 0 else -1
    changes32[place, CHANGE_ENTRY] = entry
    changes32[place, CHANGE_SLOT] = slot
    changes32[place, CHANGE_HOME] = home
    changes32[place, CHANGE_FREQUENCY] = frequency
    overlay[entry] = (tail & mask) + 1
    ends[TAIL] = tail + 1


@njit(
    "void(int32[::1], int32[::1], int64[:, ::1], int32[:, ::1], int32[::1], int64[:, ::1], int32[:, ::1], "
    "int64[::1])", cache=True, nogil=True)
def push_outs(out_entries, out_homes, entries, entries32, overlay, changes, changes32, ends):
    """Put the victims of a record upon the view: their rows leave the device.

    Args:
        out_entries: int32[n]; entry numbers.
        out_homes: int32[n]; receives their home rows.
        entries, entries32: the table's entries.
        overlay, changes, changes32: the view; n changes fit into the ring.
        ends: int64[2]; HEAD and TAIL of the ring.
    """
    n = out_entries.shape[0]
    cells, changed = entries.reshape(-1), changes.reshape(-1)
    for i in range(n):
        prefetch_view(out_entries, i, cells, overlay, changed)
        entry = np.uint64(out_entries[i])
        _, home, count, frequency = view_of(entry, entries, entries32, overlay, changes, changes32)
        out_homes[i] = home
        _push(entry, -1, home, count, frequency, overlay, changes, changes32, ends)


@njit(
    "void(int32[::1], int32[::1], int32[::1], int64[::1], int32[::1], int64[:, ::1], int32[:, ::1], int32[::1], "
    "int64[:, ::1], int32[:, ::1], int64[::1])", cache=True, nogil=True)
def push_keys(held, slots, homes, counts, frequencies, entries, entries32, overlay, changes, changes32, ends):
    """Put the keys of a record upon the view.

    Args:
        held: int32[n]; entry numbers.
        slots, homes: int32[n]; both -1 = the row stays where it was.
        counts, frequencies: int64[n], int32[n].
        entries, entries32: the table's entries.
        overlay, changes, changes32: the view; n changes fit into the ring.
        ends: int64[2]; HEAD and TAIL of the ring.
    """
    n = held.shape[0]
    for i in range(n):
        prefetch(overlay, np.uint64(held[np.uint64(min(i + AHEAD, n - 1))]))
        entry = np.uint64(held[i])
        slot, home = np.int64(slots[i]), np.int64(homes[i])
        if slot < 0 and home < 0:  # a table without slots, or without home rows, has one of the two for every row
            slot, home, _, _ = view_of(entry, entries, entries32, overlay, changes, changes32)
        _push(entry, slot, home, counts[i], np.int64(frequencies[i]), overlay, changes, changes32, ends)


@njit("void(int64, int32[::1], int64[:, ::1], int32[:, ::1], int64[::1])", cache=True, nogil=True)
def undo_changes(n, overlay, changes, changes32, ends):
    """Take the newest changes off the view.

    Args:
        n: how many.
        overlay, changes, changes32: the view.
        ends: int64[2]; HEAD and TAIL of the ring.
    """
    mask = np.int64(changes.shape[0]) - 1
    for _ in range(n):
        ends[TAIL] -= 1
        place = ends[TAIL] & mask
        before = changes[place, CHANGE_BEFORE]
        overlay[changes32[place, CHANGE_ENTRY]] = (before & mask) + 1 if before >= ends[HEAD] else 0


@njit("void(int64, int32[::1], int32[:, ::1], int64[::1])", cache=True, nogil=True)
def forget_changes(n, overlay, changes32, ends):
    """Forget the oldest changes, which the truth says by now.

    Args:
        n: how many.
        overlay, changes32: the view.
        ends: int64[2]; HEAD and TAIL of the ring.
    """
    mask = np.int64(changes32.shape[0]) - 1
    for number in range(ends[HEAD], ends[HEAD] + n):
        prefetch(overlay, np.uint64(changes32[np.uint64((number + AHEAD) & mask), CHANGE_ENTRY]))
        place = np.uint64(number & mask)
        entry = np.uint64(changes32[place, CHANGE_ENTRY])
        newest = overlay[entry]
        # no branch: it would often be guessed wrong
        overlay[entry] = np.int32(0) if newest == np.int64(place) + 1 else newest
    ends[HEAD] += n


@njit("void(int32[::1], int64[:, ::1], int32[:, ::1], int64[:, ::1], int32[:, ::1], int64[::1])",
      cache=True, nogil=True)
def move_changes(overlay, changes, changes32, new_changes, new_changes32, ends):
    """Move all changes to a larger ring.

    Args:
        overlay, changes, changes32: the view.
        new_changes, new_changes32: int64[places, 4], int32[places, 8]; the larger ring.
        ends: int64[2]; HEAD and TAIL of the ring.
    """
    mask, new_mask = np.int64(changes.shape[0]) - 1, np.int64(new_changes.shape[0]) - 1
    for number in range(ends[HEAD], ends[TAIL]):  # the newest of an entry comes last and stays
        place = number & new_mask
        new_changes[place, :] = changes[number & mask, :]
        overlay[new_changes32[place, CHANGE_ENTRY]] = place + 1
