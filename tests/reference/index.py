"""Expected results of the kernels of ``ascpipe/kernels/index.py``: the index is a dictionary."""
from tests.reference.hashing import hash_key


def find_keys(keys, index):
    entries = [index.get(key, -1) for key in keys]
    return entries.count(-1), entries


def insert_key(key, entry, index):
    before = index.get(key, -1)
    index[key] = entry
    return before


def remove_keys(keys, index):
    before = len(index)
    for key in keys:
        index.pop(key, None)
    return before - len(index)


def rebuild_index(entry_keys, live, index):
    index.clear()
    for entry, key in enumerate(entry_keys):
        if live[entry]:
            index[key] = entry
    return len(index)


def home_line(key, extent, spread):
    """Return the line of a key.

    Args:
        key: a key.
        extent: (lines, lines before it grew, hash below which keys have not moved).
        spread: random numbers of the hash.
    """
    lines, before, frontier = extent
    hashed = hash_key(key, spread)
    return hashed * (before if hashed < frontier else lines) >> 32


def find_place(key, line, lines):
    """Return (line, lane) of a key, with lane -1 for a free lane.  ``lines`` has the keys of each line."""
    while key not in lines[line]:
        if len(lines[line]) < 5:
            return line, -1
        line += 1
    return line, lines[line].index(key)


def make_room(n, index):
    """Do nothing: a dictionary always has room."""


def move_lines(n, index):
    """Do nothing: the line of a key is not visible."""
