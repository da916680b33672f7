"""Plain-Python twins of ``ascpipe/kernels/window.py``, for a ``batch_steps.Table``."""
from ascpipe.layout.words import FREE
from tests.reference.pinning import unpin_frame
from tests.reference.touch import leave_window


def take_into_window(table, number, held):
    table.window[number], table.others[number] = list(held), []
    table.unplanned.add(number)
    table.newest = number


def hold_extra_entries(table, number, entries):
    table.others[number] += entries


def mark_not_to_plan(table, number):
    table.unplanned.discard(number)


def free_names(table, entries):
    """Free entries that are only names and that no frame needs any more."""
    masks, states = table.masks(), [entry.state for entry in table.entries]
    freed = leave_window(list(dict.fromkeys(entries)), masks, 0, states)[2]
    keys = {entry: key for key, entry in table.index.items()}
    for entry in freed:
        table.entries[entry].state = FREE
        table.free_entries.append(entry)
        del table.index[keys[entry]], table.view[entry]


def drop_extra_entries(table, number):
    table.others[number] = []


def leave(table, number):
    if number not in table.window:
        return
    mark_not_to_plan(table, number)
    if table.tier:
        unpin_frame(table, number)
    listed = table.window.pop(number) + table.others.pop(number)
    free_names(table, listed)
