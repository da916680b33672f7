"""The view of a table: the truth as it will be after the newest record, one row of 32 bytes per entry.

A row has what plans ask of an entry, and its window mask: bit p is set while the frame in place p of the ring holds
the entry.  Two rows share a cache line and none straddles two, where an entry of the truth is 48 bytes, a third of
which no plan reads.  Kernels get the rows up to three times: as int64[capacity, 4], as int32[capacity, 8], and as
uint64[capacity, 4] where masks matter.

A record assigns its rows in place.  What they were is kept in a ring of *changes*, in the order of their records; the
change of number p, which only grows, stands in place ``p & (places - 1)``.  So the newest record is taken off again in
as many steps as it has keys, and the oldest, once the truth says it too, is forgotten by moving the ring's end.
The readable version is ``tests/reference/view.py``.
"""
import numpy as np
from numba import njit

from ascpipe.kernels import entry as truth
from ascpipe.kernels.prefetch import prefetch
from ascpipe.layout.words import FREE, NAMED, TRAINED

# columns of ``view`` and ``masks``
MASK = 0
COUNT = 1
PLACES = 2  # SLOT and HOME in one
INT64_COLUMNS = 4
# columns of ``view32``
SLOT = 4
HOME = 5
FREQUENCY = 6
INT32_COLUMNS = 8

# columns of ``changes``: what the row of an entry was
BEFORE_COUNT = 0
BEFORE_PLACES = 1
BEFORE_FREQUENCY = 2  # its upper half; the lower one is the number of the entry
CHANGE_INT64_COLUMNS = 3

HEAD, TAIL = range(2)  # of ``ends``: number of the oldest change, and of the next one

AHEAD = 24  #: keys between the one at hand and the one whose row is being brought near

_COLUMNS = np.uint64(INT64_COLUMNS)
_CHANGE_COLUMNS = np.uint64(CHANGE_INT64_COLUMNS)
_HALF = 32  # bits
_LOW_HALF = (1 << _HALF) - 1
_NONE = np.uint64(0)


@njit("void(int32[::1], int64, uint64[::1])", cache=True, nogil=True, inline="always")
def prefetch_row(held, i, cells):
    """Bring near the row of the key that comes ``AHEAD`` keys after key i.

    Args:
        held: int32[n]; entry numbers.
        i: 0 to n - 1.
        cells: uint64[4 capacity]; the view, flat.
    """
    ahead = held[np.uint64(min(i + AHEAD, held.shape[0] - 1))]
    prefetch(cells, np.uint64(ahead) * _COLUMNS)


@njit("UniTuple(int64, 2)(int64, int64, uint64[:, ::1], int64[:, ::1], int32[:, ::1], int64[:, ::1], int32[:, ::1], "
      "int32[::1])", cache=True, nogil=True)
def derive_view(used, place, masks, entries, entries32, view, view32, free_stack):
    """Make the rows of a table anew, whose records are all assigned, and collect its free entries.

    Names that no frame holds are freed.

    Args:
        used: entries that were ever used.
        place: column of ``entries32`` that says where a row is: HOME, or SLOT in a table without home rows.
        masks: uint64[capacity, 4]; the same memory as ``view``; its masks are complete and stay.
        entries, entries32: the truth.
        view, view32: int64[capacity, 4], int32[capacity, 8]; receive the rows.
        free_stack: int32[capacity]; receives the free entries, the lowest on top.

    Returns:
        (how many entries are free, how many trained keys have a row).
    """
    free = rows = 0
    for i in range(used):
        entry = np.uint64(used - 1 - i)
        state = entries32[entry, truth.STATE]
        if state == NAMED and masks[entry, MASK] == _NONE:
            entries32[entry, truth.STATE] = state = FREE
        if state == FREE and masks[entry, MASK] == _NONE:
            free_stack[free] = entry
            free += 1
            continue
        view[entry, COUNT] = entries[entry, truth.COUNT]
        view32[entry, SLOT] = entries32[entry, truth.SLOT]
        view32[entry, HOME] = entries32[entry, truth.HOME]
        view32[entry, FREQUENCY] = entries32[entry, truth.FREQUENCY]
        rows += np.int64(state == TRAINED) & np.int64(entries32[entry, place] >= 0)
    return free, rows


@njit("void(int64, int64, int64, int32, int64, int64[::1])", cache=True, nogil=True, inline="always")
def keep_row(entry, count, places, frequency, number, kept):
    """Keep the row of an entry, which a record is about to change.

    Args:
        entry: its number.
        count, places, frequency: what the row says.
        number: of the change.
        kept: int64[3 places]; the ring of changes, flat.
    """
    mask = np.uint64(kept.shape[0]) // _CHANGE_COLUMNS - np.uint64(1)
    first = (np.uint64(number) & mask) * _CHANGE_COLUMNS
    kept[first + np.uint64(BEFORE_COUNT)] = count
    kept[first + np.uint64(BEFORE_PLACES)] = places
    kept[first + np.uint64(BEFORE_FREQUENCY)] = np.int64(frequency) << _HALF | entry


@njit("void(int32[::1], int32[::1], uint64[:, ::1], int64[:, ::1], int32[:, ::1], int64[:, ::1], int64[::1])",
      cache=True, nogil=True)
def put_outs(out_entries, out_homes, masks, view, view32, changes, ends):
    """Put the victims of a record upon the view: their rows leave the device.

    Args:
        out_entries: int32[n]; entry numbers.
        out_homes: int32[n]; receives their home rows.
        masks, view, view32: the view.
        changes: int64[places, 3]; the ring of changes, with room for n more.
        ends: int64[2]; HEAD and TAIL of the ring.
    """
    n, tail, cells, kept = out_entries.shape[0], ends[TAIL], masks.reshape(-1), changes.reshape(-1)
    for i in range(n):
        prefetch_row(out_entries, i, cells)
        entry = np.uint64(out_entries[i])
        keep_row(out_entries[i], view[entry, COUNT], view[entry, PLACES], view32[entry, FREQUENCY], tail + i, kept)
        out_homes[i] = view32[entry, HOME]
        view32[entry, SLOT] = -1
    ends[TAIL] = tail + n


@njit("void(int32[::1], int32[::1], int32[::1], int64[::1], int32[::1], uint64[:, ::1], int64[:, ::1], int32[:, ::1], "
      "int64[:, ::1], int64[::1])", cache=True, nogil=True)
def put_keys(held, slots, homes, counts, frequencies, masks, view, view32, changes, ends):
    """Put the keys of a record upon the view.

    Args:
        held: int32[n]; entry numbers.
        slots, homes: int32[n]; both -1 = the row stays where it was.
        counts, frequencies: int64[n], int32[n].
        masks, view, view32: the view.
        changes, ends: the ring of changes, as ``put_outs`` takes it.
    """
    n, tail, cells, kept = held.shape[0], ends[TAIL], masks.reshape(-1), changes.reshape(-1)
    for i in range(n):
        prefetch_row(held, i, cells)
        entry = np.uint64(held[i])
        keep_row(held[i], view[entry, COUNT], view[entry, PLACES], view32[entry, FREQUENCY], tail + i, kept)
        view[entry, COUNT] = counts[i]
        view32[entry, FREQUENCY] = frequencies[i]
        if slots[i] >= 0 or homes[i] >= 0:  # a table without slots, or without home rows, has one of the two
            view32[entry, SLOT] = slots[i]
            view32[entry, HOME] = homes[i]
    ends[TAIL] = tail + n


@njit("void(int32[::1], int32[::1], int32[::1], int32[::1], int32[:, ::1])", cache=True, nogil=True)
def put_places(move_in, held, slots, homes, view32):
    """Put the new places of the keys of a drafted record upon the view.

    Args:
        move_in: int32[m]; indexes of the keys that got a slot or a home row.
        held, slots, homes: int32[n]; of the record.
        view32: int32[capacity, 8]; the view.
    """
    for i in range(move_in.shape[0]):
        moved = np.uint64(move_in[i])
        entry = np.uint64(held[moved])
        view32[entry, SLOT] = slots[moved]
        view32[entry, HOME] = homes[moved]


@njit("void(int64, int64[:, ::1], int32[:, ::1], int64[:, ::1], int64[::1])", cache=True, nogil=True)
def undo_changes(n, view, view32, changes, ends):
    """Take the newest changes off the view.

    Args:
        n: how many.
        view, view32, changes, ends: the view and its ring of changes.
    """
    for _ in range(n):
        ends[TAIL] -= 1
        place = ends[TAIL] & (changes.shape[0] - 1)
        entry = changes[place, BEFORE_FREQUENCY] & _LOW_HALF
        view[entry, COUNT] = changes[place, BEFORE_COUNT]
        view[entry, PLACES] = changes[place, BEFORE_PLACES]
        view32[entry, FREQUENCY] = changes[place, BEFORE_FREQUENCY] >> _HALF


@njit("void(int64[:, ::1], int64[:, ::1], int64[::1])", cache=True, nogil=True)
def move_changes(changes, new_changes, ends):
    """Move all changes to a larger ring.

    Args:
        changes, new_changes: int64[places, 3]; the ring, and the larger one.
        ends: int64[2]; HEAD and TAIL of the ring.
    """
    for number in range(ends[HEAD], ends[TAIL]):
        new_changes[number & (new_changes.shape[0] - 1), :] = changes[number & (changes.shape[0] - 1), :]
