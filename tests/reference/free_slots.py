"""Expected results of the kernels of ``ascpipe/kernels/free_slots.py``: the free slots are a set."""


def first_leaf(rows):
    levels = [1]
    while levels[-1] * 64 < rows:
        levels.append(levels[-1] * 64)
    return sum(levels[:-1])


def rebuild_free_slots(slot_entries):
    return {slot for slot, entry in enumerate(slot_entries) if entry < 0}


def take_lowest_slots(free, n):
    taken = sorted(free)[:n]
    free.difference_update(taken)
    return taken


def release_slots(slots, free, rows):
    for i, slot in enumerate(slots):
        if slot in free or not 0 <= slot < rows:
            return i
        free.add(slot)
    return len(slots)
