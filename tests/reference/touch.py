"""Plain-Python twins of ``ascpipe/kernels/touch.py``: the index is a dict, the free entries a list."""
from ascpipe.words import FREE, NAMED


def touch_keys(unique, index, free_stack):
    """(entry of each key, how many are new); None if too few entries are free."""
    new = [key for key in unique if key not in index]
    if len(new) > len(free_stack):
        return None
    for key in new:
        index[key] = free_stack.pop()
    return [index[key] for key in unique], len(new)


def mark_window(held, masks, bit):
    """The masks afterwards."""
    return [mask | bit if entry in held else mask for entry, mask in enumerate(masks)]


def leave_window(held, masks, bit, states):
    """(masks, states, entries freed in the order of ``held``)."""
    masks = [mask & ~bit if entry in held else mask for entry, mask in enumerate(masks)]
    freed = [entry for entry in held if masks[entry] == 0 and states[entry] == NAMED]
    return masks, [FREE if entry in freed else state for entry, state in enumerate(states)], freed


def collect_free(masks, states):
    """(states, free entries, the lowest last)."""
    states = [FREE if state == NAMED and mask == 0 else state for state, mask in zip(states, masks)]
    free = [entry for entry, state in enumerate(states) if state == FREE and masks[entry] == 0]
    return states, free[::-1]
