"""Key index, which maps each key of a table to the number of the key's entry.

The index is a hash table with open addressing. Its lines are cache lines (see ``records.LINE``) with five keys, their
entry numbers and the number of keys. The hash of a key selects its home line. The key is in its home line, or in the
first later line that had space. A search compares five keys in one operation, and stops at the first line that is not
full. Any int64 is a valid key. Removal moves a later key back instead of leaving tombstones.

The index grows in place, by an eighth at a time, and moves a few lines with each batch of new keys. A hash is a number
below 2^32, and its home line is ``hash * lines >> 32``. So if the number of lines grows, a key moves to a later line or
stays. Lines are moved run by run, from the last line down. A run consists of full lines and the next line that is not
full, so no search leaves a run. Keys with hashes below the *frontier* have not moved. There is memory after the last
line for searches that continue past it. ``ascpipe.tables.key_index`` owns the memory.

The plain-Python version is ``tests/reference/index.py``.
"""
import numpy as np

from ascpipe.kernels.bits import lowest_bit
from ascpipe.kernels.door import entry, inner
from ascpipe.kernels.hashing import HASH_BITS, hash_key
from ascpipe.kernels.lanes import match_keys
from ascpipe.kernels.prefetch import prefetch
from ascpipe.kernels.records import LINE_KEYS
from ascpipe.layout.words import FREE

LINE_LOAD = 4  #: an index grows if it has more keys per line

_FULL = LINE_KEYS
_NONE = np.uint64(0)
_ONE = np.uint64(1)
_AHEAD = 64  # prefetch distance in keys; see bench
_GROWTH = np.uint64(8)  # the index grows by 1/8 of its lines
_PACE = 4  # lines moved per new key; the move ends after half of the new keys that fit before the next growth
_RUN = 256  # initial buffer size in keys; most runs have fewer


@inner("uint64(int64, Extent)")
def home_line(key, extent):
    """Return the line where the search for a key starts.

    Args:
        key: any int64.
        extent: EXTENT of the index.
    """
    spread = extent["spread"]
    hashed = hash_key(key, (spread[0], spread[1], spread[2]))
    return hashed * (extent["lines"] if hashed >= extent["frontier"] else extent["lines_before"]) >> HASH_BITS


@inner("void(int64[::1], Extent, int32[::1])")
def _home_lines(keys, extent, out_lines):
    spread = extent["spread"]
    numbers = (spread[0], spread[1], spread[2])
    frontier = extent["frontier"]
    lines = extent["lines"]
    before = extent["lines_before"]
    for j in range(keys.shape[0]):
        i = np.uint64(j)
        hashed = hash_key(keys[i], numbers)
        out_lines[i] = np.int32(hashed * (lines if hashed >= frontier else before) >> HASH_BITS)


@inner("UniTuple(int64, 2)(int64, uint64, Line[::1])")
def find_place(key, line, lines):
    """Return the line and the lane that contain a key.

    Args:
        key: any int64.
        line: the key's home line.
        lines: LINE[room]; of the index.

    Returns:
        (line, lane), or (line where the key would be inserted, -1) if the index does not contain the key.
    """
    while True:
        looked_at = lines[line]
        count = looked_at["count"]
        hits = match_keys(looked_at, key) & ((_ONE << np.uint64(count)) - _ONE)
        if hits != _NONE:
            return np.int64(line), np.int64(lowest_bit(hits))
        if count < _FULL:
            return np.int64(line), np.int64(-1)
        line += _ONE


@entry("int64(int64[::1], int64, Index, int32[::1])")
def find_keys(keys, n, index, out_entries):
    """Look up the entry number of each key. The entry number is -1 if the index does not contain the key.

    Args:
        keys: int64[>= n]; any values, duplicates allowed.
        n: number of keys to look up.
        index: key index.
        out_entries: int32[>= n]; receives the entry numbers.

    Returns:
        Number of keys that are missing.
    """
    lines = index.lines
    _home_lines(keys[:n], index.extent[0], out_entries)  # the items are home lines until the keys are looked up
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


@inner("int64(int64, int64, Index)")
def insert_key(key, number, index):
    """Map ``key`` to an entry. An existing mapping is replaced.

    Args:
        key: any int64.
        number: number of the entry, 0 or more.
        index: key index with space for the key; see ``make_room``.

    Returns:
        Previous entry number of the key, or -1 if the key is new.
    """
    extent = index.extent[0]
    line, lane = find_place(key, home_line(key, extent), index.lines)
    found = index.lines[np.uint64(line)]
    if lane >= 0:
        before = np.int64(found["entries"][np.uint64(lane)])
        found["entries"][np.uint64(lane)] = number
        return before
    _append(key, number, found)
    extent["keys"] += 1
    return np.int64(-1)


@inner("boolean(Line, int64)")
def _take_out(line, lane):
    """Remove a key from a line. Return True if the line was full before the call."""
    count = line["count"]
    hole = np.uint64(lane)
    last = np.uint64(count - 1)
    line["keys"][hole] = line["keys"][last]
    line["entries"][hole] = line["entries"][last]
    line["count"] = count - np.int32(1)
    return count == _FULL


@inner("int64(uint64, Line, Extent)")
def _lane_that_passed(hole, line, extent):
    """Return the first lane of ``line`` with a key that may move to line ``hole``, or LINE_KEYS if there is no such
    key.
    """
    for lane in range(line["count"]):
        if home_line(line["keys"][np.uint64(lane)], extent) <= hole:
            return lane
    return LINE_KEYS


@inner("int64(int64[::1], int64, Index)")
def remove_keys(keys, n, index):
    """Remove keys from the index. Missing keys are ignored.

    Args:
        keys: int64[>= n]; any values, duplicates allowed.
        n: number of keys to remove.
        index: key index.

    Returns:
        Number of keys removed.
    """
    extent = index.extent[0]
    lines = index.lines
    removed = 0
    for i in range(n):
        prefetch(lines, home_line(keys[min(i + _AHEAD, n - 1)], extent))
        found, lane = find_place(keys[i], home_line(keys[i], extent), lines)
        if lane < 0:
            continue
        removed += 1
        hole = np.uint64(found)
        went_on = _take_out(lines[hole], lane)
        line = hole
        while went_on:  # a search that continued after the full line would now end at the hole
            line += _ONE
            looked_at = lines[line]
            went_on = looked_at["count"] == _FULL
            lane = _lane_that_passed(hole, looked_at, extent)
            if lane < LINE_KEYS:
                moved = np.uint64(lane)
                _append(looked_at["keys"][moved], looked_at["entries"][moved], lines[hole])
                _take_out(looked_at, lane)
                hole = line
    extent["keys"] -= removed
    return removed


@entry("int64(int64, Entry[::1], Index)")
def rebuild_index(used, entries, index):
    """Rebuild the key index: insert the key of each entry that is not FREE.

    Args:
        used: number of entries that were ever used.
        entries: ENTRY[>= used]. An entry that is not FREE has a key. The keys must be distinct.
        index: empty key index with space for the keys.

    Returns:
        Number of keys in the index. If it is smaller than the number of entries with a key, a key occurs twice.
        The index then has the higher entry number of that key.
    """
    for number in range(used):
        prefetch(index.lines, home_line(entries[min(number + _AHEAD, used - 1)]["key"], index.extent[0]))
        if entries[number]["state"] != FREE:
            insert_key(entries[number]["key"], number, index)
    return index.extent[0]["keys"]


@inner("void(int64, Index)")
def move_lines(n, index):
    """Move the keys of at least ``n`` lines to their new lines in the larger index. Lines are moved in descending
    order.

    Args:
        n: minimum number of lines to move. If fewer lines are left, all are moved.
        index: key index.
    """
    extent = index.extent[0]
    lines = index.lines
    end = max(np.int64(0), extent["unmoved"] - n)
    if extent["unmoved"] <= end:
        return
    keys = np.empty(_RUN, np.int64)
    numbers = np.empty(_RUN, np.int32)
    while extent["unmoved"] > end:
        last = first = extent["unmoved"] - 1
        while first > 0 and lines[np.uint64(first - 1)]["count"] == _FULL:
            first -= 1
        while lines[np.uint64(last)]["count"] == _FULL:
            last += 1
        if (last + 1 - first) * LINE_KEYS > keys.shape[0]:
            keys = np.empty((last + 1 - first) * LINE_KEYS, np.int64)
            numbers = np.empty((last + 1 - first) * LINE_KEYS, np.int32)
        taken = 0
        for number in range(first, last + 1):
            line = lines[np.uint64(number)]
            for lane in range(line["count"]):
                keys[np.uint64(taken)] = line["keys"][np.uint64(lane)]
                numbers[np.uint64(taken)] = line["entries"][np.uint64(lane)]
                taken += 1
            line["count"] = 0
        before = extent["lines_before"]
        extent["unmoved"] = first
        extent["frontier"] = ((np.uint64(first) << HASH_BITS) + before - _ONE) // before
        for i in range(taken):
            home = home_line(keys[np.uint64(i)], extent)
            while lines[home]["count"] == _FULL:
                home += _ONE
            _append(keys[np.uint64(i)], numbers[np.uint64(i)], lines[home])


@entry("void(int64, Index)")
def make_room(n, index):
    """Enlarge the index if ``n`` more keys do not fit. If the index is growing, move the keys of some lines.

    Args:
        n: number of keys. The index has reserved memory for the maximum number of keys.
        index: key index into which the keys will be inserted.
    """
    extent = index.extent[0]
    wanted = extent["keys"] + n
    move_lines(_PACE * n, index)
    if wanted > LINE_LOAD * np.int64(extent["lines"]):
        move_lines(extent["unmoved"], index)
        lines = extent["lines"]
        extent["lines_before"] = lines
        extent["frontier"] = _ONE << HASH_BITS
        extent["unmoved"] = np.int64(lines)
        extent["lines"] = max(lines + lines // _GROWTH + _ONE, np.uint64(wanted // LINE_LOAD + 1))
        move_lines(_PACE * n, index)
