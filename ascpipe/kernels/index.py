"""Key index: which entry of the table holds a key.

A hash table of *lines* of 64 bytes, each one cache line: five int64 keys, five int32 entry numbers, an int32 that
says how many of the five there are.  A key stands in its home line, which its hash chooses, or in the first one after
it that had room: a search looks at five keys at once, and ends at the first line that is not full.  Any int64 is a
valid key.  Removal moves a later key back instead of leaving tombstones.  Kernels get the lines twice, as int64 and
as int32 of the same memory, and the spread that hashes depend on (see ``hashing``).

``KeyIndex`` owns the lines and doubles them when more than three of four places would be used; old and new ones are
alive together while the keys move, which takes 51.2 bytes per key at the worst.

The readable version is ``tests/reference/index.py``.
"""
from typing import Tuple

import numpy as np
from numba import njit

from ascpipe.kernels.bits import lowest_bit
from ascpipe.kernels.entry import KEY, STATE
from ascpipe.kernels.hashing import HASH_BITS, Spread, hash_key, home_cells
from ascpipe.kernels.lanes import match_lanes
from ascpipe.kernels.prefetch import prefetch
from ascpipe.layout.words import FREE

LINE_KEYS = 5
LINE_INT64 = 8
LINE_INT32 = 16
_ENTRIES = np.uint64(10)  # places of a line's int32: entries of its keys,
_COUNT = np.uint64(15)  # and how many keys it holds
_FULL = np.uint64(LINE_KEYS)
_NONE = np.uint64(0)
_ONE = np.uint64(1)
_TO_INT64 = np.uint64(3)  # from the number of a line to its first int64,
_TO_INT32 = np.uint64(4)  # and to its first int32
_IN_LINE = np.uint64(LINE_INT32 - 1)
_AHEAD = 64  # keys between the one at hand and the one whose line is being brought near; see bench
_ALIGNMENT = 64


@njit("uint64(int64[::1])", cache=True, nogil=True)
def _line_bits(lines):
    """Bits of a hash that the number of a line has."""
    return lowest_bit(np.uint64(lines.shape[0] // LINE_INT64))


@njit("uint64(int64, int64[::1], UniTuple(uint64, 3))", cache=True, nogil=True)
def home_line(key, lines, spread):
    """The line where the search for a key begins.

    Args:
        key: any int64.
        lines, spread: int64[8 lines], three numbers; the index.
    """
    return hash_key(key, spread) >> (HASH_BITS - _line_bits(lines))


@njit("int64(int64, uint64, int64[::1], int32[::1])", cache=True, nogil=True)
def find_place(key, line, lines, lines32):
    """Where the entry number of a key stands.

    Args:
        key: any int64.
        line: the key's home line.
        lines, lines32: int64[8 lines], int32[16 lines]; the index, with at least one line that is not full.

    Returns:
        Its place in ``lines32``; or, if the index does not hold the key, -1 less the line where it belongs.
    """
    mask = np.uint64(lines.shape[0] // LINE_INT64 - 1)
    while True:
        first32 = line << _TO_INT32
        count = np.uint64(lines32[first32 + _COUNT])
        hits = match_lanes(lines, line << _TO_INT64, key) & ((_ONE << count) - _ONE)
        if hits != _NONE:
            return np.int64(first32 + _ENTRIES + lowest_bit(hits))
        if count < _FULL:
            return -1 - np.int64(line)
        line = (line + _ONE) & mask


@njit("int64(int64[::1], int64, int64[::1], int32[::1], UniTuple(uint64, 3), int32[::1])", cache=True, nogil=True)
def find_keys(keys, n, lines, lines32, spread, out_entries):
    """Write the entry number of each key, -1 for keys that the index does not hold.

    Args:
        keys: int64[>= n]; any values, duplicates allowed.
        n: how many of them to look up.
        lines, lines32, spread: int64[8 lines], int32[16 lines], three numbers; the index.
        out_entries: int32[>= n]; receives the entry numbers.

    Returns:
        How many of the n keys are not there.
    """
    home_cells(keys[:n], np.int64(_line_bits(lines)), spread, out_entries)  # home lines, until a key's own turn
    missing = 0
    last = n - 1
    for j in range(n):
        i = np.uint64(j)
        prefetch(lines, np.uint64(out_entries[np.uint64(min(j + _AHEAD, last))]) << _TO_INT64)
        place = find_place(keys[i], np.uint64(out_entries[i]), lines, lines32)
        if place < 0:
            out_entries[i] = -1
            missing += 1
        else:
            out_entries[i] = lines32[np.uint64(place)]
    return missing


@njit("void(int64, int32, uint64, uint64, int64[::1], int32[::1])", cache=True, nogil=True)
def _append(key, entry, line, count, lines, lines32):
    first32 = line << _TO_INT32
    lines[(line << _TO_INT64) + count] = key
    lines32[first32 + _ENTRIES + count] = entry
    lines32[first32 + _COUNT] = np.int32(count + _ONE)


@njit("int64(int64, int64, int64[::1], int32[::1], UniTuple(uint64, 3))", cache=True, nogil=True)
def insert_key(key, entry, lines, lines32, spread):
    """Make ``key`` lead to ``entry``, whether the index held it or not.

    Args:
        key: any int64.
        entry: its entry number, 0 or more.
        lines, lines32, spread: int64[8 lines], int32[16 lines], three numbers; the index, with at least one line that
            is not full.

    Returns:
        The entry number that the key had before, -1 if it is new.
    """
    place = find_place(key, home_line(key, lines, spread), lines, lines32)
    if place >= 0:
        before = np.int64(lines32[np.uint64(place)])
        lines32[np.uint64(place)] = entry
        return before
    line = np.uint64(-1 - place)
    count = np.uint64(lines32[(line << _TO_INT32) + _COUNT])
    _append(key, np.int32(entry), line, count, lines, lines32)
    return np.int64(-1)


@njit("boolean(uint64, uint64, int64[::1], int32[::1])", cache=True, nogil=True)
def _take_out(line, lane, lines, lines32):
    """Take one key out of a line; was it full?"""
    first, first32 = line << _TO_INT64, line << _TO_INT32
    count = np.uint64(lines32[first32 + _COUNT])
    last = count - _ONE
    lines[first + lane] = lines[first + last]
    lines32[first32 + _ENTRIES + lane] = lines32[first32 + _ENTRIES + last]
    lines32[first32 + _COUNT] = np.int32(last)
    return count == _FULL


@njit("int64(uint64, uint64, int64[::1], int32[::1], UniTuple(uint64, 3))", cache=True, nogil=True)
def _lane_that_passed(hole, line, lines, lines32, spread):
    """The first lane of ``line`` whose key's search goes by way of ``hole``, a line before it; 5 if there is none."""
    lines_in_all = np.uint64(lines.shape[0] // LINE_INT64)
    mask = lines_in_all - _ONE
    from_hole = (line + lines_in_all - hole) & mask  # distances around the ring, of unsigned numbers
    for lane in range(lines32[(line << _TO_INT32) + _COUNT]):
        home = home_line(lines[(line << _TO_INT64) + np.uint64(lane)], lines, spread)
        if (line + lines_in_all - home) & mask >= from_hole:
            return lane
    return LINE_KEYS


@njit("int64(int64[::1], int64, int64[::1], int32[::1], UniTuple(uint64, 3))", cache=True, nogil=True)
def remove_keys(keys, n, lines, lines32, spread):
    """Take keys out of the index; those that it does not hold are passed over.

    Args:
        keys: int64[>= n]; any values, duplicates allowed.
        n: how many of them to remove.
        lines, lines32, spread: int64[8 lines], int32[16 lines], three numbers; the index, with at least one line that
            is not full.

    Returns:
        How many keys were removed.
    """
    mask = np.uint64(lines.shape[0] // LINE_INT64 - 1)
    removed = 0
    for i in range(n):
        place = find_place(keys[i], home_line(keys[i], lines, spread), lines, lines32)
        if place < 0:
            continue
        removed += 1
        hole = np.uint64(place) >> _TO_INT32
        went_on = _take_out(hole, (np.uint64(place) & _IN_LINE) - _ENTRIES, lines, lines32)
        line = hole
        while went_on:  # a search that passed the hole, which was full, would end there now
            line = (line + _ONE) & mask
            went_on = lines32[(line << _TO_INT32) + _COUNT] == LINE_KEYS
            lane = _lane_that_passed(hole, line, lines, lines32, spread)
            if lane < LINE_KEYS:
                place = np.int64((line << _TO_INT32) + _ENTRIES) + lane
                _append(lines[(line << _TO_INT64) + np.uint64(lane)], lines32[np.uint64(place)], hole,
                        _FULL - _ONE, lines, lines32)
                _take_out(line, np.uint64(lane), lines, lines32)
                hole = line
    return removed


@njit("void(int32[::1])", cache=True, nogil=True)
def _empty(lines32):
    for line in range(lines32.shape[0] // LINE_INT32):
        lines32[line * LINE_INT32 + LINE_INT32 - 1] = 0


@njit("int64(int64, int64[:, ::1], int32[:, ::1], int64[::1], int32[::1], UniTuple(uint64, 3))", cache=True, nogil=True)
def rebuild_index(used, entries, entries32, lines, lines32, spread):
    """Forget everything, then index the entries that hold a key.

    Args:
        used: entries that were ever used.
        entries, entries32: the table's entries (see ``entry``); one that is not FREE holds a key, distinct among them.
        lines, lines32: int64[8 lines], int32[16 lines]; receive the index.
        spread: three numbers; of the index from now on.

    Returns:
        How many keys it holds: fewer than such entries if a key came twice (the higher entry is kept).
    """
    _empty(lines32)
    held = 0
    for entry in range(used):
        prefetch(lines, home_line(entries[min(entry + _AHEAD, used - 1), KEY], lines, spread) << _TO_INT64)
        if entries32[entry, STATE] != FREE:
            held += insert_key(entries[entry, KEY], entry, lines, lines32, spread) < 0
    return held


@njit("int64(int64[::1], int32[::1], int64[::1], int32[::1], UniTuple(uint64, 3))", cache=True, nogil=True)
def grow_index(old_lines, old_lines32, new_lines, new_lines32, spread):
    """Fill a larger index with the keys of a smaller one, which is left as it is.

    Args:
        old_lines, old_lines32: int64[8 lines], int32[16 lines]; the smaller index.
        new_lines, new_lines32: int64[8 more lines], int32[16 more lines]; receive the larger one.
        spread: three numbers; of both.

    Returns:
        How many keys it holds.
    """
    _empty(new_lines32)
    held = 0
    for line in range(old_lines.shape[0] // LINE_INT64):  # so new lines are met in nearly ascending order, too
        for lane in range(old_lines32[line * LINE_INT32 + LINE_INT32 - 1]):
            insert_key(old_lines[line * LINE_INT64 + lane],
                       np.int64(old_lines32[line * LINE_INT32 + 2 * LINE_KEYS + lane]), new_lines, new_lines32, spread)
            held += 1
    return held


def lines_for(count: int) -> int:
    """Lines of an index that holds ``count`` keys: a power of two of whose places at most three of four are used."""
    return 1 << max(0, -(-4 * count // (3 * LINE_KEYS)) - 1).bit_length()


class KeyIndex:
    """An index that grows; it holds no key at first.

    Args:
        spread: that its keys' places depend on.
        count: keys that it must be able to hold before it grows.

    Attributes:
        lines, lines32: int64[8 lines], int32[16 lines]; what the kernels take.  ``reserve`` and ``rebuild`` replace
            them.
    """

    def __init__(self, spread: Spread, count: int = 0) -> None:
        self.spread = spread
        self.lines, self.lines32 = _memory(lines_for(count))
        _empty(self.lines32)

    @property
    def limit(self) -> int:
        """How many keys it may hold as it is."""
        return 3 * LINE_KEYS * (len(self.lines) // LINE_INT64) // 4

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self.lines.nbytes

    def find(self, keys: np.ndarray, out_entries: np.ndarray) -> int:
        """Write the entry number of each key, -1 for keys that it does not hold; returns how many these are."""
        return int(find_keys(keys, len(keys), self.lines, self.lines32, self.spread, out_entries))

    def reserve(self, count: int) -> None:
        """Be able to hold ``count`` keys; those it holds stay.  To be called before keys are inserted."""
        if count > self.limit:
            lines, lines32 = _memory(lines_for(count))
            grow_index(self.lines, self.lines32, lines, lines32, self.spread)
            self.lines, self.lines32 = lines, lines32

    def rebuild(self, count: int, used: int, entries: np.ndarray, entries32: np.ndarray) -> int:
        """Forget everything, then index the entries that hold a key.

        Args:
            count: how many these are, at most.
            used, entries, entries32: as those of ``rebuild_index``.

        Returns:
            How many keys it holds.
        """
        if count > self.limit:
            self.lines, self.lines32 = _memory(lines_for(count))
        return int(rebuild_index(used, entries, entries32, self.lines, self.lines32, self.spread))


def _memory(lines: int) -> Tuple[np.ndarray, np.ndarray]:
    # not zeros(): numpy asks for huge pages for large arrays it does not clear
    room = np.empty((lines + 1) * LINE_INT64, np.int64)
    first = -room.ctypes.data % _ALIGNMENT // room.itemsize
    found = room[first:first + lines * LINE_INT64]
    return found, found.view(np.int32)
