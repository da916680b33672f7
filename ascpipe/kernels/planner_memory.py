"""What a table worker knows of one table beyond shared memory: the planner, and its arrays for kernels.

The functions make arrays from the addresses in a PLANNER; each is inlined.
"""
import numpy as np

from ascpipe.kernels.compiler import register_jitable
from ascpipe.kernels.memory import Lent, accessor, addresses, array_at
from ascpipe.kernels.records import CHANGE, EXTENT, LINE, ORDER, ROW, Index, Victims, View, late_room
from ascpipe.layout.structs import ENTRY, MAX_FRAMES, TABLE

#: the arrays of a victim order, of as many slots as device rows or home rows
VICTIM_ARRAYS = (
    Lent("order", ORDER, ""),
    Lent("scores", np.int32),  # rows + 1
    Lent("numbers", np.int64),  # 2 * rows
    Lent("late", np.int64),  # 2 * late_room(rows)
)

#: the arrays of a planner
ARRAYS = (
    Lent("header", TABLE, ""),
    Lent("entries", ENTRY, "capacity"),
    Lent("slot_entries", np.int32, "device_rows"),  # of the truth
    Lent("view", ROW, "capacity"),
    Lent("row_of", np.int32, "capacity"),
    Lent("lists", np.int32),  # [MAX_FRAMES, list_room]: rows that each frame of the window took, first those it holds
    Lent("changes", CHANGE, "change_room"),
    Lent("index", EXTENT, ""),  # of the key index
    Lent("free_entries", np.int32, "capacity"),  # a stack
    Lent("slot_words", np.uint64, "slot_words"),  # the tree of free slots
    Lent("free_homes", np.int32, "home_stack_room"),  # a stack
    Lent("scratch", np.int32, "scratch_room"),
    Lent("lists_scratch", np.int32),  # 2 * list_room
    Lent("freed_keys", np.int64, "list_room"),
    Lent("slot_owners", np.int32, "device_rows"),  # of the view
    *VICTIM_ARRAYS,
)

#: what a table worker knows of one table beyond shared memory: numbers, and the addresses of its arrays;
#: "slot" is always one of the device
PLANNER = np.dtype([
    # what changes with each batch
    ("rows", "<i8"),  # of the view: keys that have a row
    ("time", "<i8"),  # of the view: greatest timestamp
    ("free_entries", "<i8"),  # height of the stack of free entries
    ("free_slots", "<i8"),
    ("home_high_water", "<i8"),  # all home rows from here on are free
    ("free_homes", "<i8"),  # height of the stack of free home rows below
    ("rows_used", "<i8"),  # rows of the view from here on were never used
    ("rows_held", "<i8"),  # rows whose entry is in the window
    ("row_hand", "<i8"),  # the row that is looked at next when one is to be used again
    ("oldest_change", "<i8"),  # numbers, which only grow, of the view's changes: the oldest one,
    ("next_change", "<i8"),  # and the next one
    ("touched", "<u8"),  # bits of the frames in the window
    ("unplanned", "<u8"),  # bits of touched frames that are neither planned nor counted
    ("newest", "<i8"),  # number of the newest frame of the window, while there is one
    ("first_record", "<i8"),  # numbers, which only grow, of the records that are not retired: the oldest one,
    ("next_record", "<i8"),  # and the next one
    ("missing", "<i8"),  # keys of the frame that was touched last that had no entry
    # what has changed between two steps
    ("touch_blocked", "<i8"),  # 1 = the last touch found too few free entries, and none was freed since
    ("is_loading", "<i8"),  # 1 = the table is granted to the trainer
    ("has_images", "<i8"),  # 1 = a snapshot is being copied, or just ended: images are kept before a record is assigned
    ("images_kept_for", "<i8"),  # number of the frame whose images are kept, -1 = none
    ("home_reach", "<i8"),  # what ``home_high_water`` will be after the plan that lacks home rows
    ("home_memory_ended", "<i8"),  # 1 = there is no memory for them
    # sizes
    ("capacity", "<i8"),  # entries at most
    ("device_rows", "<i8"),
    ("home_rows", "<i8"),  # at most, 0 = a table without home rows
    ("least_rows", "<i8"),  # rows of the view that are made before one is used again
    ("change_room", "<i8"),  # changes that there is memory for, a power of two
    ("slot_words", "<i8"),  # uint64 of the tree of free slots
    ("home_stack_room", "<i8"),
    ("scratch_room", "<i8"),  # keys of a frame
    ("list_room", "<i8"),  # rows that a frame may take: of its keys and its victims
    ("victims_filled", "<i8"),  # 1 = the victim order has the slots in use, and no others
    ("first_use", "<i8"),  # number of the frame that scores in the victim order count from
    # addresses
    *addresses(ARRAYS),
    ("tier_at", "<i8"),  # TIER, of a table with rows on disk
    # by position of the frame in the ring, ``number % MAX_FRAMES``
    ("held_count", "<i8", (MAX_FRAMES,)),  # entries that the frame holds
    ("listed_count", "<i8", (MAX_FRAMES,)),  # rows in its list
    ("time_before", "<i8", (MAX_FRAMES,)),  # ``time`` before the frame's record
    ("record_frame", "<i8", (MAX_FRAMES,)),  # by number of the record: the frame
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
    """The PLANNER at an address."""
    return array_at(address, 1, PLANNER)[0]


@register_jitable
def index_of(planner):
    """The key index."""
    extent = array_at(planner["index_at"], 1, EXTENT)
    return Index(extent, array_at(extent[0]["lines_at"], extent[0]["room"], LINE))


@register_jitable
def view_of(planner):
    """The view."""
    return View(_rows_of(planner), _changes_of(planner), _row_of_of(planner))


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
def order_of(owner, rows):
    """The victim order of ``rows`` slots in a PLANNER or a TIER."""
    return Victims(array_at(owner["order_at"], 1, ORDER), array_at(owner["scores_at"], rows + 1, np.int32),
                   array_at(owner["numbers_at"], 2 * rows, np.int64),
                   array_at(owner["late_at"], 2 * late_room(rows), np.int64))


@register_jitable
def victims_of(planner):
    """The victim order of the device."""
    return order_of(planner, planner["device_rows"])
