"""What the kernels of ``ascpipe/kernels/index.py`` must compute: the index is a dictionary."""


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


def find_cell(key, cell, index_keys, index_entries):
    while index_entries[cell] != -1 and index_keys[cell] != key:
        cell = (cell + 1) % len(index_keys)
    return cell


def grow_index(index):
    return len(index), dict(index)
