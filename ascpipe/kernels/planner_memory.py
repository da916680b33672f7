"""Makes the arrays of a planner from its addresses, for kernels.  Each function is inlined."""
import numpy as np

from ascpipe.kernels.compiler import register_jitable
from ascpipe.kernels.memory import array_at
from ascpipe.kernels.records import CHANGE, EXTENT, LINE, ORDER, PLANNER, ROW, Index, Victims, View
from ascpipe.kernels.victims import late_room
from ascpipe.layout.structs import ENTRY, MAX_FRAMES, TABLE


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
def index_of(planner):
    """The key index."""
    extent = array_at(planner["index_at"], 1, EXTENT)
    return Index(extent, array_at(extent[0]["lines_at"], extent[0]["room"], LINE))


@register_jitable
def view_of(planner):
    """The view."""
    return View(array_at(planner["view_at"], planner["capacity"], ROW),
                array_at(planner["changes_at"], planner["change_room"], CHANGE),
                array_at(planner["row_of_at"], planner["capacity"], np.int32))


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
def list_of(planner, number):
    """int32[list room]; the rows of the view that a frame took, if it is in the window."""
    room = planner["list_room"]
    return array_at(planner["lists_at"] + 4 * room * (number % MAX_FRAMES), room, np.int32)


@register_jitable
def held_rows_of(planner, number):
    """int32[keys]; the rows of the entries that a frame of the window holds."""
    return list_of(planner, number)[:planner["held_count"][number % MAX_FRAMES]]


@register_jitable
def other_rows_of(planner, number):
    """int32[entries]; the rows of the other entries that the record of a frame of the window changes."""
    position = number % MAX_FRAMES
    return list_of(planner, number)[planner["held_count"][position]:planner["listed_count"][position]]


@register_jitable
def victims_of(planner):
    """The victim order."""
    rows = planner["device_rows"]
    return Victims(array_at(planner["order_at"], 1, ORDER), array_at(planner["scores_at"], rows + 1, np.int32),
                   array_at(planner["numbers_at"], 2 * rows, np.int64),
                   array_at(planner["late_at"], 2 * late_room(rows), np.int64))
