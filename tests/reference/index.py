"""What the kernels of ``ascpipe/kernels/index.py`` must compute: the index is a dictionary."""
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


def home_line(key, lines, spread):
    """``lines``: how many there are."""
    return hash_key(key, spread) * lines >> 32


def find_place(key, line, lines):
    """(line, lane) of a key; ``lines``: of each line, its keys."""
    while key not in lines[line]:
        if len(lines[line]) < 5:
            return line, -1
        line = (line + 1) % len(lines)
    return line, lines[line].index(key)


def grow_index(index):
    return len(index), dict(index)
