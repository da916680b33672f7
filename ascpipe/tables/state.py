"""What a worker knows of a table, in one row of int64: numbers, and where its arrays lie.

So one compiled call can work on all tables of a ring.  ``Table`` owns the row and the arrays; it writes a new
address whenever an array moves.
"""
import numpy as np

PLACES = 64  #: of a ring; also bits of a window mask

# what changes with each batch
ROWS = 0  # of the view: keys that have a row
TIME = 1  # of the view: greatest timestamp
FREE_ENTRIES = 2  # how many stand in the stack
FREE_SLOTS = 3
HIGH_WATER = 4  # all home rows from here on are free
FREE_HOMES = 5  # how many below stand in the stack
HEAD, TAIL = 6, 7  # of the view's changes: number of the oldest, and of the next one
TOUCHED = 8  # bits of the frames in the window
UNPLANNED = 9  # bits of touched frames that are neither planned nor counted
NEWEST = 10  # number of the newest frame of the window, while there is one
FIRST_RECORD, NEXT_RECORD = 11, 12  # numbers, which only grow, of the records that are not retired
ADMITTED, FRESH, LOADS = 13, 14, 15  # of the record that was drafted last
NEED = 16  # and what it needs, if it does not fit

LEAVING = 17  # entries of the frame that is being retired; they stand in the scratch

# 1 = a table that has it takes turns alone, in Python
HAS_VICTIMS = 18  # rows leave its device, so there is an order of victims to be kept
HAS_IMAGES = 19  # a snapshot is, or was, being taken
# what is to be known before a look
TOUCH_BLOCKED = 20  # the last touch found too few free entries, and none was freed since
IS_LOADING = 21  # the table is granted to the trainer

# sizes
CAPACITY, DEVICE_ROWS, HOME_ROWS = 24, 25, 26
LINE_LONGS = 27  # of the key index
CHANGE_PLACES = 28
SLOT_WORDS = 29
HOMES_STACKED_MOST = 30
SCRATCH_INTS = 31

# addresses
HEADER, ENTRIES, SLOT_ENTRIES, FREE_ENTRY_STACK, LINES, VIEW, CHANGES, FREE_SLOT_WORDS, SLOT_OWNERS = range(32, 41)
HOMES_STACK, SCRATCH, FREED_KEYS = 41, 42, 43

SPREAD = 44  # first of the three numbers that the places of keys in the index depend on; uint64

# by place of the frame in the ring
HELD_AT = 64  # address of the entry numbers of each frame of the window
HELD_COUNT = HELD_AT + PLACES
RECORD_NUMBER = HELD_COUNT + PLACES  # by number of the record: the frame
TIME_BEFORE = RECORD_NUMBER + PLACES  # TIME before the frame's record

COLUMNS = TIME_BEFORE + PLACES


def address(array: np.ndarray) -> int:
    """Where an array begins."""
    return int(array.ctypes.data)
