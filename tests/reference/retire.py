"""Plain-Python twins of ``ascpipe/kernels/retire.py``; truth[entry] = (slot, count, frequency, last, state)."""
from ascpipe.words import NAMED, TRAINED


def assign_to_truth(held, slots, counts, frequencies, ticket, truth, slot_entries):
    """(truth, slot_entries) afterwards."""
    truth, slot_entries = list(truth), list(slot_entries)
    for entry, slot, count, frequency in zip(held, slots, counts, frequencies):
        trained = slot >= 0 or count > 0
        last = ticket if trained else truth[entry][3]
        truth[entry] = (slot, count, frequency, last, TRAINED if trained else NAMED)
        if slot >= 0:
            slot_entries[slot] = entry
    return truth, slot_entries


def resolve_keys(unique, index, truth):
    """Slot of each key, -1 without a row."""
    known = [index.get(key, -1) for key in unique]
    return [truth[entry][0] if entry >= 0 and truth[entry][4] == TRAINED else -1 for entry in known]
