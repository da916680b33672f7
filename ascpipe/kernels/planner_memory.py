"""Makes the arrays of a planner from its addresses, for kernels.  Each function is inlined."""
import numpy as np

from ascpipe.kernels.compiler import register_jitable
from ascpipe.kernels.memory import array_at
from ascpipe.kernels.records import CHANGE, EXTENT, LINE, ORDER, PLANNER, ROW, Index, Victims, View
from ascpipe.kernels.victims import late_room
from ascpipe.layout.structs import ENTRY, TABLE


@register_jitable
def planner_at(address):
    """The PLANNER at an address."""
    return array_at(address, 1, PLANNER)[0]


@register_jitable
def header_of(planner):
    """TABLE."""
    return array_at(planner["header_at"], 1, TABLE)[0]


@register_jitable
def entries_of(planner):
    """ENTRY[capacity]."""
    return array_at(planner["entries_at"], planner["capacity"], ENTRY)


@register_jitable
def slot_entries_of(planner):
    """int32[device rows]; of the truth."""
    return array_at(planner["slot_entries_at"], planner["device_rows"], np.int32)


@register_jitable
def view_of(planner):
    """The view."""
    return View(array_at(planner["view_at"], planner["capacity"], ROW),
                array_at(planner["changes_at"], planner["change_room"], CHANGE))


@register_jitable
def index_of(planner):
    """The key index."""
    extent = array_at(planner["index_at"], 1, EXTENT)
    return Index(extent, array_at(extent[0]["lines_at"], extent[0]["room"], LINE))


@register_jitable
def free_entries_of(planner):
    """int32[capacity]; a stack."""
    return array_at(planner["free_entries_at"], planner["capacity"], np.int32)


@register_jitable
def slot_words_of(planner):
    """uint64[slot words]; the tree of free slots."""
    return array_at(planner["slot_words_at"], planner["slot_words"], np.uint64)


@register_jitable
def free_homes_of(planner):
    """int32[room]; a stack."""
    return array_at(planner["free_homes_at"], planner["home_stack_room"], np.int32)


@register_jitable
def slot_owners_of(planner):
    """int32[device rows]; of the view."""
    return array_at(planner["slot_owners_at"], planner["device_rows"], np.int32)


@register_jitable
def held_in(planner, position):
    """int32[keys]; entry numbers of the frame of the window at a position of the ring."""
    return array_at(planner["held_at"][position], planner["held_count"][position], np.int32)


@register_jitable
def victims_of(planner):
    """The victim order."""
    rows = planner["device_rows"]
    return Victims(array_at(planner["order_at"], 1, ORDER), array_at(planner["scores_at"], rows + 1, np.int32),
                   array_at(planner["numbers_at"], 2 * rows, np.int64),
                   array_at(planner["late_at"], 2 * late_room(rows), np.int64))
