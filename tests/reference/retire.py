"""Plain-Python twins of ``ascpipe/kernels/retire.py``: an entry is an ``Entry``, changed in place."""
from ascpipe.layout.words import FREE, HOME_DISK, HOME_NONE, NAMED, SLOT_DISK, SLOT_HOME, SLOT_NONE, TRAINED


class Entry:
    """The truth about one key."""

    def __init__(self, slot=-1, home=HOME_NONE, count=0, frequency=0, last=0, timestamp=0, state=FREE, generation=0):
        self.slot, self.home, self.count, self.frequency = slot, home, count, frequency
        self.last, self.timestamp, self.state, self.generation = last, timestamp, state, generation

    def values(self):
        return (self.slot, self.home, self.count, self.frequency, self.last, self.timestamp, self.state,
                self.generation)


def assign_outs(out_slots, out_entries, entries, slot_entries):
    for slot, entry in zip(out_slots, out_entries):
        entries[entry].slot = slot_entries[slot] = -1


def assign_keys(held, slots, homes, counts, frequencies, move_in, ticket, time, entries, slot_entries):
    for number, slot, home, count, frequency in zip(held, slots, homes, counts, frequencies):
        entry = entries[number]
        entry.count, entry.frequency = count, frequency
        entry.slot = slot if slot >= 0 else entry.slot
        if home >= 0:
            entry.home = home
        is_trained = count > 0 or entry.slot >= 0 or entry.home != HOME_NONE
        entry.state = TRAINED if is_trained else NAMED
        if is_trained:
            entry.last, entry.timestamp = ticket, time
    for i in move_in:
        if slots[i] >= 0:
            slot_entries[slots[i]] = held[i]


def occupy_slots(entries, slot_count):
    slot_entries = [-1] * slot_count
    for number, entry in enumerate(entries):
        if entry.slot >= 0:
            slot_entries[entry.slot] = number
    return slot_entries


def resolve_entries(found, threshold, entries):
    """Return (slot, disk slot, generation) of each key; the last two are None if its row is not on disk."""
    answers = []
    for number in found:
        entry = entries[number] if number >= 0 else Entry()
        if entry.state != TRAINED or (threshold >= 0 and entry.count < threshold):
            answers.append((SLOT_NONE, None, None))
        elif entry.slot >= 0:
            answers.append((entry.slot, None, None))
        elif entry.home <= HOME_DISK:
            answers.append((SLOT_DISK, HOME_DISK - entry.home, entry.generation))
        else:
            answers.append((SLOT_HOME - entry.home if entry.home >= 0 else SLOT_NONE, None, None))
    return answers


def evict_entries(used, time, age, masks, entries, slot_entries):
    """Evict old entries and return their number."""
    old = [number for number in range(used)
           if entries[number].state == TRAINED and time - entries[number].timestamp >= age]
    for number in old:
        if entries[number].slot >= 0:
            slot_entries[entries[number].slot] = -1
        entries[number] = Entry(last=entries[number].last, state=NAMED if masks[number] else FREE,
                                generation=(entries[number].generation + 1) % 2**16)
    return len(old)
