"""Plain-Python twins of ``ascpipe/kernels/touch.py``: the index is a dict, the free entries a list."""
from ascpipe.words import FREE, NAMED, TRAINED


def name_keys(unique, used, free_stack, index):
    """(entry of each key, ``used`` afterwards)."""
    for key in unique:
        if key not in index:
            index[key] = free_stack.pop() if free_stack else used
            used = max(used, index[key] + 1)
    return [index[key] for key in unique], used


def mark_window(held, masks, bit):
    """The masks afterwards."""
    return [mask | bit if entry in held else mask for entry, mask in enumerate(masks)]


def leave_window(held, masks, bit, states):
    """(masks, states, entries freed in the order of ``held``)."""
    masks = [mask & ~bit if entry in held else mask for entry, mask in enumerate(masks)]
    freed = [entry for entry in held if masks[entry] == 0 and states[entry] == NAMED]
    return masks, [FREE if entry in freed else state for entry, state in enumerate(states)], freed


def collect_free(used, masks, states):
    """(states, free entries, the lowest last)."""
    states = [FREE if entry < used and state == NAMED and mask == 0 else state
              for entry, (state, mask) in enumerate(zip(states, masks))]
    free = [entry for entry, state in enumerate(states[:used]) if state == FREE and masks[entry] == 0]
    return states, free[::-1]


def count_rows(used, places, states):
    return sum(place >= 0 and state == TRAINED for place, state in zip(places[:used], states[:used]))
