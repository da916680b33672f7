"""Plain-Python twins of ``ascpipe/kernels/view.py``.

The view maps entries to rows (slot, home, count, frequency).  Changes are a list of (entry, row before), newest last.
"""
from ascpipe.layout.words import FREE, HOME_NONE, NAMED, TRAINED


def prefetch_row(listed, i, rows):
    """Do nothing."""


def prefetch_entry(numbers, i, entries):
    """Do nothing."""


def copy_values(known):
    """Return the row of a ``retire.Entry``."""
    return known.values()[:4]


def mark_row(mask, bit):
    """Return (new mask, number of additional rows needed)."""
    return mask | bit, int(mask == 0)


def choose_rows(n, used, masks, hand, most):
    """Return (rows, new hand): first new rows up to the limit, then rows without a mask, from the hand on."""
    new = list(range(used, min(used + n, max(used, most))))
    first = hand + 1 if hand < used - 1 else 0
    turn = [(first + i) % used for i in range(used)]
    again = [row for row in turn if masks[row] == 0][:n - len(new)]
    return new + again, again[-1] if again else hand


def fill_row(entry, bit, known):
    """Return (mask, entry, row)."""
    return bit, entry, copy_values(known)


def clear_rows(masks):
    """Return the new masks."""
    return [0 for _ in masks]


def is_in_window(entry, masks):
    return masks[entry] != 0


def hold_entries(entries, masks, bit):
    """Return the new masks; the row of an entry is not visible."""
    return [mask | bit if entry in entries else mask for entry, mask in enumerate(masks)]


def derive_view(used, places, masks, rows, states):
    """Return (states, rows of entries that are not free, free entries with the lowest last, number of trained keys with
    a row).
    """
    states = [FREE if entry < used and state == NAMED and mask == 0 else state
              for entry, (state, mask) in enumerate(zip(states, masks))]
    free = [entry for entry, state in enumerate(states[:used]) if state == FREE and masks[entry] == 0]
    known = {entry: rows[entry] for entry in range(used) if entry not in free}
    rows = sum(place != HOME_NONE and state == TRAINED for place, state in zip(places[:used], states[:used]))
    return states, known, free[::-1], rows


def keep_row(entry, view, changes):
    changes.append((entry, view[entry]))


def apply_outs(out_entries, view, changes):
    """Apply the moves of victims, and return their home rows."""
    homes = []
    for entry in out_entries:
        keep_row(entry, view, changes)
        view[entry] = (-1, *view[entry][1:])
        homes.append(view[entry][1])
    return homes


def apply_keys(held, slots, homes, counts, frequencies, view, changes):
    for entry, slot, home, count, frequency in zip(held, slots, homes, counts, frequencies):
        keep_row(entry, view, changes)
        place = view[entry][:2] if slot < 0 and home < 0 else (slot, home)
        view[entry] = (*place, count, frequency)


def apply_moves(move_in, held, slots, homes, view):
    for i in move_in:
        view[held[i]] = (slots[i], homes[i], *view[held[i]][2:])


def undo_changes(n, view, changes):
    for _ in range(n):
        entry, row = changes.pop()
        view[entry] = row


def move_changes(changes):
    return list(changes)
