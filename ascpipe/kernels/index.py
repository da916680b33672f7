"""The key index maps each key of a table to its entry.

It is a hash table with open addressing, in lines of one cache line each (see ``records.LINE``): five keys, their entry
numbers, and how many there are.  A key lies in its home line, which its hash chooses, or in the first one after it that
had room: a search compares five keys at once and ends at the first line that is not full.  Any int64 is a valid key.
Removal moves a later key back instead of leaving tombstones.  ``ascpipe.tables.key_index`` owns the lines and grows
them.

The readable version is ``tests/reference/index.py``.
"""
import numpy as np

from ascpipe.kernels.bits import lowest_bit
from ascpipe.kernels.door import entry, inner
from ascpipe.kernels.hashing import HASH_BITS, hash_key, home_cells
from ascpipe.kernels.lanes import match_keys
from ascpipe.kernels.prefetch import prefetch
from ascpipe.kernels.records import LINE_KEYS
from ascpipe.layout.words import FREE

_FULL = LINE_KEYS
_NONE = np.uint64(0)
_ONE = np.uint64(1)
_AHEAD = 64  # keys between the one at hand and the one whose line is prefetched; see bench


@inner("uint64(Line[::1])")
def _line_bits(lines):
    """Bits of a hash that the number of a line has."""
    return lowest_bit(np.uint64(lines.shape[0]))


@inner("uint64(int64, Line[::1], Spread)")
def home_line(key, lines, spread):
    """The line where the search for a key begins.

    Args:
        key: any int64.
        lines: LINE[a power of two]; the index.
        spread: three numbers; of the index.
    """
    return hash_key(key, spread) >> (HASH_BITS - _line_bits(lines))


@inner("UniTuple(int64, 2)(int64, uint64, Line[::1])")
def find_place(key, line, lines):
    """Find the line and the lane of a key.

    Args:
        key: any int64.
        line: the key's home line.
        lines: LINE[a power of two]; the index, with at least one line that is not full.

    Returns:
        (its line, its lane there); or, if the index does not hold the key, (the line where it belongs, -1).
    """
    mask = np.uint64(lines.shape[0] - 1)
    while True:
        looked_at = lines[line]
        count = looked_at["count"]
        hits = match_keys(looked_at, key) & ((_ONE << np.uint64(count)) - _ONE)
        if hits != _NONE:
            return np.int64(line), np.int64(lowest_bit(hits))
        if count < _FULL:
            return np.int64(line), np.int64(-1)
        line = (line + _ONE) & mask


@entry("int64(int64[::1], int64, Line[::1], Spread, int32[::1])")
def find_keys(keys, n, lines, spread, out_entries):
    """Write the entry number of each key, -1 for keys that the index does not hold.

    Args:
        keys: int64[>= n]; any values, duplicates allowed.
        n: how many of them to look up.
        lines, spread: LINE[a power of two], three numbers; the index.
        out_entries: int32[>= n]; receives the entry numbers.

    Returns:
        How many of the n keys are not there.
    """
    home_cells(keys[:n], np.int64(_line_bits(lines)), spread, out_entries)  # home lines, until a key's own turn
    missing = 0
    last = n - 1
    for j in range(n):
        i = np.uint64(j)
        prefetch(lines, np.uint64(out_entries[np.uint64(min(j + _AHEAD, last))]))
        line, lane = find_place(keys[i], np.uint64(out_entries[i]), lines)
        if lane < 0:
            out_entries[i] = -1
            missing += 1
        else:
            out_entries[i] = lines[np.uint64(line)]["entries"][np.uint64(lane)]
    return missing


@inner("void(int64, int64, Line)")
def _append(key, number, line):
    lane = np.uint64(line["count"])
    line["keys"][lane] = key
    line["entries"][lane] = number
    line["count"] += np.int32(1)


@inner("int64(int64, int64, Line[::1], Spread)")
def insert_key(key, number, lines, spread):
    """Make ``key`` lead to an entry, whether the index held it or not.

    Args:
        key: any int64.
        number: of its entry, 0 or more.
        lines, spread: LINE[a power of two], three numbers; the index, with at least one line that is not full.

    Returns:
        The entry number that the key had before, -1 if it is new.
    """
    line, lane = find_place(key, home_line(key, lines, spread), lines)
    found = lines[np.uint64(line)]
    if lane >= 0:
        before = np.int64(found["entries"][np.uint64(lane)])
        found["entries"][np.uint64(lane)] = number
        return before
    _append(key, number, found)
    return np.int64(-1)


@inner("boolean(Line, int64)")
def _take_out(line, lane):
    """Take one key out of a line; was it full?"""
    count = line["count"]
    hole, last = np.uint64(lane), np.uint64(count - 1)
    line["keys"][hole] = line["keys"][last]
    line["entries"][hole] = line["entries"][last]
    line["count"] = count - np.int32(1)
    return count == _FULL


@inner("int64(uint64, uint64, Line[::1], Spread)")
def _lane_that_passed(hole, line, lines, spread):
    """The first lane of ``line`` whose key's search passes ``hole``, a line before it; 5 if there is none."""
    lines_in_all = np.uint64(lines.shape[0])
    mask = lines_in_all - _ONE
    from_hole = (line + lines_in_all - hole) & mask  # distances around the ring, of unsigned numbers
    looked_at = lines[line]
    for lane in range(looked_at["count"]):
        home = home_line(looked_at["keys"][np.uint64(lane)], lines, spread)
        if (line + lines_in_all - home) & mask >= from_hole:
            return lane
    return LINE_KEYS


@inner("int64(int64[::1], int64, Line[::1], Spread)")
def remove_keys(keys, n, lines, spread):
    """Take keys out of the index; those that it does not hold are passed over.

    Args:
        keys: int64[>= n]; any values, duplicates allowed.
        n: how many of them to remove.
        lines, spread: LINE[a power of two], three numbers; the index, with at least one line that is not full.

    Returns:
        How many keys were removed.
    """
    mask = np.uint64(lines.shape[0] - 1)
    removed = 0
    for i in range(n):
        found, lane = find_place(keys[i], home_line(keys[i], lines, spread), lines)
        if lane < 0:
            continue
        removed += 1
        hole = np.uint64(found)
        went_on = _take_out(lines[hole], lane)
        line = hole
        while went_on:  # a search that passed the hole, which was full, would end there now
            line = (line + _ONE) & mask
            looked_at = lines[line]
            went_on = looked_at["count"] == _FULL
            lane = _lane_that_passed(hole, line, lines, spread)
            if lane < LINE_KEYS:
                moved = np.uint64(lane)
                _append(looked_at["keys"][moved], looked_at["entries"][moved], lines[hole])
                _take_out(looked_at, lane)
                hole = line
    return removed


@inner("void(Line[::1])")
def _empty(lines):
    for line in range(lines.shape[0]):
        lines[np.uint64(line)]["count"] = 0


@entry("int64(int64, Entry[::1], Line[::1], Spread)")
def rebuild_index(used, entries, lines, spread):
    """Forget everything, then index the entries that hold a key.

    Args:
        used: entries that were ever used.
        entries: ENTRY[>= used]; one that is not FREE holds a key, distinct among them.
        lines: LINE[a power of two]; receives the index.
        spread: three numbers; of the index from now on.

    Returns:
        How many keys it holds: fewer than such entries if a key came twice (the higher entry is kept).
    """
    _empty(lines)
    held = 0
    for number in range(used):
        prefetch(lines, home_line(entries[min(number + _AHEAD, used - 1)]["key"], lines, spread))
        if entries[number]["state"] != FREE:
            held += insert_key(entries[number]["key"], number, lines, spread) < 0
    return held


@entry("int64(Line[::1], Line[::1], Spread)")
def grow_index(old_lines, new_lines, spread):
    """Fill a larger index with the keys of a smaller one, which is left as it is.

    Args:
        old_lines, new_lines: LINE[a power of two], LINE[a greater one]; the smaller index; receives the larger one.
        spread: three numbers; of both.

    Returns:
        How many keys it holds.
    """
    _empty(new_lines)
    held = 0
    for number in range(old_lines.shape[0]):  # so new lines are met in nearly ascending order, too
        line = old_lines[np.uint64(number)]
        for lane in range(line["count"]):
            insert_key(line["keys"][np.uint64(lane)], line["entries"][np.uint64(lane)], new_lines, spread)
            held += 1
    return held
