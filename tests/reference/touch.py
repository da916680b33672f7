"""Plain-Python twins of ``ascpipe/kernels/touch.py``: the index is a dictionary, the free entries are a list."""
from ascpipe.layout.words import FREE, NAMED


def name_keys(unique, used, free_stack, index):
    """Return (entry of each key, new ``used``)."""
    for key in unique:
        if key not in index:
            index[key] = free_stack.pop() if free_stack else used
            used = max(used, index[key] + 1)
    return [index[key] for key in unique], used


def leave_window(held, masks, bit, states):
    """Return (masks, states, entries freed in the order of ``held``).  A name has neither count nor row."""
    masks = [mask & ~bit if entry in held else mask for entry, mask in enumerate(masks)]
    freed = [entry for entry in held if masks[entry] == 0 and states[entry] == NAMED]
    return masks, [FREE if entry in freed else state for entry, state in enumerate(states)], freed
