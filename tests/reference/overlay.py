"""Plain-Python twins of ``ascpipe/kernels/overlay.py``: changes are a list of (entry, row), the newest last; a row
is (slot, home, count, frequency)."""


def prefetch_view(held, j, cells, overlay, changed):
    """Changes nothing."""


def view_of(entry, truth, changes):
    return next((row for changed, row in reversed(changes) if changed == entry), truth[entry])


def push_outs(out_entries, truth, changes):
    """Home rows of the victims."""
    homes = []
    for entry in out_entries:
        _, home, count, frequency = view_of(entry, truth, changes)
        changes.append((entry, (-1, home, count, frequency)))
        homes.append(home)
    return homes


def push_keys(held, slots, homes, counts, frequencies, truth, changes):
    for entry, slot, home, count, frequency in zip(held, slots, homes, counts, frequencies):
        place = view_of(entry, truth, changes)[:2] if slot < 0 and home < 0 else (slot, home)
        changes.append((entry, (*place, count, frequency)))


def undo_changes(n, changes):
    del changes[len(changes) - n:]


def forget_changes(n, changes):
    del changes[:n]


def move_changes(changes):
    return list(changes)
