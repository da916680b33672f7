"""Struct PLANNER, a table worker's private state of one table, and functions that return arrays of this state.

The functions make arrays from the addresses in a PLANNER. All functions are inlined.
"""
import numpy as np

from ascpipe.kernels.compiler import register_jitable
from ascpipe.kernels.memory import Lent, accessor, addresses, array_at
from ascpipe.kernels.records import CHANGE, EXTENT, LINE, ORDER, ROW, Index, Victims, View, late_room
from ascpipe.layout.structs import ENTRY, MAX_FRAMES, TABLE

#: arrays of a victim order; ``rows`` is the number of device rows or of home rows
VICTIM_ARRAYS = (
    Lent("order", ORDER, ""),
    Lent("scores", np.int32),  # rows + 1
    Lent("numbers", np.int64),  # 2 * rows
    Lent("late", np.int64),  # 2 * late_room(rows)
)

ARRAYS = (
    Lent("header", TABLE, ""),
    Lent("entries", ENTRY, "capacity"),
    Lent("slot_entries", np.int32, "device_rows"),  # entry of each slot, in the truth
    Lent("view", ROW, "capacity"),
    Lent("row_of", np.int32, "capacity"),
    Lent("lists", np.int32),  # [MAX_FRAMES, list_room]: rows of each frame in the window; rows of its keys come first
    Lent("changes", CHANGE, "change_room"),
    Lent("index", EXTENT, ""),  # extent of the key index
    Lent("free_entries", np.int32, "capacity"),  # a stack
    Lent("slot_words", np.uint64, "slot_words"),  # the tree of free slots
    Lent("free_homes", np.int32, "home_stack_room"),  # a stack
    Lent("scratch", np.int32, "scratch_room"),
    Lent("lists_scratch", np.int32),  # 2 * list_room
    Lent("freed_keys", np.int64, "list_room"),
    Lent("slot_owners", np.int32, "device_rows"),  # entry of each slot, in the view
    *VICTIM_ARRAYS,
)

#: private numbers of a table worker for one table, and the addresses of its arrays; a "slot" is a device slot
PLANNER = np.dtype([
    # state that changes with each batch
    ("rows", "<i8"),  # keys of the view that have a row
    ("time", "<i8"),  # greatest timestamp of the view
    ("free_entries", "<i8"),  # height of the stack of free entries
    ("free_slots", "<i8"),
    ("home_high_water", "<i8"),  # home rows from this number on are free
    ("free_homes", "<i8"),  # height of the stack of free home rows below ``home_high_water``
    ("rows_used", "<i8"),  # rows of the view from this number on were never used
    ("rows_held", "<i8"),  # rows whose entries are in the window
    ("row_hand", "<i8"),  # row of the view that was examined last for reuse
    ("oldest_change", "<i8"),  # number of the oldest change of the view; change numbers only grow
    ("next_change", "<i8"),
    ("touched", "<u8"),  # bits of the frames in the window
    ("unplanned", "<u8"),  # bits of touched frames that are neither planned nor counted
    ("newest", "<i8"),  # number of the newest frame of the window, if there is one
    ("first_record", "<i8"),  # number of the oldest record that is not retired; record numbers only grow
    ("next_record", "<i8"),
    ("missing", "<i8"),  # keys without an entry in the frame that was touched last
    # changes between two steps
    ("touch_blocked", "<i8"),  # 1 = the last touch found too few free entries, and none was freed since
    ("is_loading", "<i8"),  # 1 = the table is granted to the trainer
    ("has_images", "<i8"),  # 1 = a snapshot is being copied or has just ended: save images before assigning a record
    ("images_saved_for", "<i8"),  # number of the frame whose images are saved, -1 = none
    ("home_reach", "<i8"),  # ``home_high_water`` after the plan that lacks home rows
    ("home_memory_exhausted", "<i8"),  # 1 = there is no memory for more home rows
    # sizes
    ("capacity", "<i8"),  # maximum number of entries
    ("device_rows", "<i8"),
    ("home_rows", "<i8"),  # maximum number of home rows, 0 = the table has none
    ("least_rows", "<i8"),  # number of rows of the view that are created before a row is reused
    ("change_room", "<i8"),  # number of changes that have memory, a power of two
    ("slot_words", "<i8"),  # nodes of the tree of free slots
    ("home_stack_room", "<i8"),
    ("scratch_room", "<i8"),  # maximum number of keys of a frame for the scratch arrays
    ("list_room", "<i8"),  # maximum number of rows of a frame: keys and victims
    ("victims_filled", "<i8"),  # 1 = the victim order has exactly the slots in use
    ("first_use", "<i8"),  # frame number to which scores of the victim order are relative
    # addresses
    *addresses(ARRAYS),
    ("tier_at", "<i8"),  # TIER; 0 = the table has no rows on disk
    # arrays by position of the frame in the ring, ``number % MAX_FRAMES``
    ("held_count", "<i8", (MAX_FRAMES,)),  # entries that the frame holds
    ("listed_count", "<i8", (MAX_FRAMES,)),  # rows in the list of the frame
    ("time_before", "<i8", (MAX_FRAMES,)),  # ``time`` before the frame's record
    ("record_frame", "<i8", (MAX_FRAMES,)),  # frame of each record, by record number % MAX_FRAMES
])

header_of = accessor(ARRAYS, "header")
entries_of = accessor(ARRAYS, "entries")
slot_entries_of = accessor(ARRAYS, "slot_entries")
free_entries_of = accessor(ARRAYS, "free_entries")
slot_words_of = accessor(ARRAYS, "slot_words")
free_homes_of = accessor(ARRAYS, "free_homes")
slot_owners_of = accessor(ARRAYS, "slot_owners")
_rows_of = accessor(ARRAYS, "view")
_changes_of = accessor(ARRAYS, "changes")
_row_of_of = accessor(ARRAYS, "row_of")


@register_jitable
def planner_at(address):
    """Return the PLANNER at an address."""
    return array_at(address, 1, PLANNER)[0]


@register_jitable
def index_of(planner):
    """Return the key index of a planner's table."""
    extent = array_at(planner["index_at"], 1, EXTENT)
    return Index(extent, array_at(extent[0]["lines_at"], extent[0]["room"], LINE))


@register_jitable
def view_of(planner):
    """Return the view of a planner's table."""
    return View(_rows_of(planner), _changes_of(planner), _row_of_of(planner))


@register_jitable
def list_of(planner, number):
    """Return memory for the row numbers of one frame, as int32[list_room]. The numbers refer to rows of the view."""
    room = planner["list_room"]
    return array_at(planner["lists_at"] + 4 * room * (number % MAX_FRAMES), room, np.int32)


@register_jitable
def held_rows_of(planner, number):
    """Return the row number of each key of a frame, as int32[keys]. The numbers refer to rows of the view."""
    return list_of(planner, number)[:planner["held_count"][number % MAX_FRAMES]]


@register_jitable
def other_rows_of(planner, number):
    """Return the numbers of a frame's additional rows, as int32[n].

    The frame needs these rows only because its record changes their entries.
    """
    position = number % MAX_FRAMES
    return list_of(planner, number)[planner["held_count"][position]:planner["listed_count"][position]]


@register_jitable
def order_of(owner, rows):
    """Return the victim order of a PLANNER or a TIER, for a table of ``rows`` slots or home rows."""
    return Victims(array_at(owner["order_at"], 1, ORDER), array_at(owner["scores_at"], rows + 1, np.int32),
                   array_at(owner["numbers_at"], 2 * rows, np.int64),
                   array_at(owner["late_at"], 2 * late_room(rows), np.int64))


@register_jitable
def victims_of(planner):
    """Return the victim order of the device slots."""
    return order_of(planner, planner["device_rows"])
