"""Plain-Python twins of ``ascpipe/kernels/plan.py``; the view is three lists indexed by entry."""
from ascpipe.words import TRAINED


def draft_record(held, occurrences, view_slots, view_counts, view_frequencies):
    """(slots, counts, frequencies, indexes that need a slot)."""
    slots = [view_slots[entry] for entry in held]
    counts = [view_counts[entry] + times for entry, times in zip(held, occurrences)]
    frequencies = [view_frequencies[entry] + 1 for entry in held]
    return slots, counts, frequencies, [i for i, slot in enumerate(slots) if slot < 0]


def place_missing(missing, free_slots, slots):
    """The record's slots after the missing keys got theirs."""
    given = dict(zip(missing, free_slots))
    return [given.get(i, slot) for i, slot in enumerate(slots)]


def assign_to_view(held, slots, counts, frequencies, view_slots, view_counts, view_frequencies):
    """The three lists of the view afterwards."""
    view = [list(view_slots), list(view_counts), list(view_frequencies)]
    for column, values in zip(view, (slots, counts, frequencies)):
        for entry, value in zip(held, values):
            column[entry] = value
    return tuple(view)


def reset_view(held, truth, view_slots, view_counts, view_frequencies):
    """The view with the given entries as the truth has them; truth[entry] = (slot, count, frequency, state)."""
    return assign_to_view(held, *[[truth[entry][i] for entry in held] for i in range(3)],
                          view_slots, view_counts, view_frequencies)


def draft_count_only(held, occurrences, truth):
    """(slots, counts, frequencies): only keys with trained state are counted."""
    slots, counts, frequencies = [], [], []
    for entry, times in zip(held, occurrences):
        slot, count, frequency, state = truth[entry]
        slots.append(slot)
        counts.append(count + times if state == TRAINED else count)
        frequencies.append(frequency + 1 if state == TRAINED else frequency)
    return slots, counts, frequencies
