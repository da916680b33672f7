"""Plain-Python twins of ``ascpipe/kernels/view.py``: the view is a list of rows (slot, home, count, frequency), changes
are a list of (entry, row before), the newest last."""
from ascpipe.layout.words import FREE, NAMED, TRAINED


def prefetch_row(held, i, rows):
    """Changes nothing."""


def derive_view(used, places, masks, rows, states):
    """(states, rows of entries that are not free, free entries, the lowest last, trained keys that have a row)."""
    states = [FREE if entry < used and state == NAMED and mask == 0 else state
              for entry, (state, mask) in enumerate(zip(states, masks))]
    free = [entry for entry, state in enumerate(states[:used]) if state == FREE and masks[entry] == 0]
    known = {entry: rows[entry] for entry in range(used) if entry not in free}
    rows = sum(place >= 0 and state == TRAINED for place, state in zip(places[:used], states[:used]))
    return states, known, free[::-1], rows


def keep_row(entry, view, changes):
    changes.append((entry, view[entry]))


def put_outs(out_entries, view, changes):
    """Home rows of the victims."""
    homes = []
    for entry in out_entries:
        keep_row(entry, view, changes)
        view[entry] = (-1, *view[entry][1:])
        homes.append(view[entry][1])
    return homes


def put_keys(held, slots, homes, counts, frequencies, view, changes):
    for entry, slot, home, count, frequency in zip(held, slots, homes, counts, frequencies):
        keep_row(entry, view, changes)
        place = view[entry][:2] if slot < 0 and home < 0 else (slot, home)
        view[entry] = (*place, count, frequency)


def put_moves(move_in, held, slots, homes, view):
    for i in move_in:
        view[held[i]] = (slots[i], homes[i], *view[held[i]][2:])


def undo_changes(n, view, changes):
    for _ in range(n):
        entry, row = changes.pop()
        view[entry] = row


def move_changes(changes):
    return list(changes)
