"""What a table worker knows of the home rows and disk slots of a table, beyond shared memory and its planner.

A home row has one *status*, which says what may become of it.  The functions make arrays from the addresses in a TIER;
each is inlined.
"""
import numpy as np

from ascpipe.kernels.compiler import register_jitable
from ascpipe.kernels.memory import Lent, accessor, addresses, array_at
from ascpipe.kernels.planner_memory import VICTIM_ARRAYS, order_of
from ascpipe.kernels.records import DiskRoom
from ascpipe.layout.structs import DISK_TABLE, MAX_FRAMES, REQUEST

# What may become of a home row.
FREE = 0  #: it has no row
PINNED = 1  #: the row of its entry, which stays for now
CANDIDATE = 2  #: the row of its entry, which may leave: it is in the victim order
LEAVING = 3  #: the row of its entry, which is on its way to disk
KEPT = 4  #: the row of its entry, which was to leave and stays; the disk worker may still read it
COMING = 5  #: a row is on its way from disk
ARRIVED = 6  #: a copy of a row that is on disk; the first step that trains it makes it the row
RESTING = 7  #: it had a row that readers may still look at
DROPPED = 8  #: it had the row of a key that was dropped; the disk worker may still be at it

# Of a row of the view: whether the row of its entry comes home from disk.
NOT_COMING = 0
TO_COME = 1  #: a near frame needs it, and no home row was free yet
COMES = 2  #: and all above: less this, the home row that it comes to, or has come to as a copy

#: a home row or disk slot that no entry has any more, and that readers may still look at
REST = np.dtype([
    ("number", "<i8"),
    ("epoch", "<i8"),  # in which it was left
])

#: the arrays of a tier
ARRAYS = (
    Lent("disk_table", DISK_TABLE, ""),
    Lent("asks", np.int32),  # its asks_room: the ring of numbers of requests that are asked
    Lent("requests", REQUEST, "home_rows"),
    Lent("status", np.uint8, "home_rows"),  # what may become of each
    Lent("owners", np.int32, "home_rows"),  # the entry whose row each has, or gets, while its status says that it does
    Lent("coming", np.int32, "view_rows"),  # of each row of the view, whether the row of its entry comes home
    Lent("wanted", np.int32, "wanted_room"),  # a ring: entries whose rows are TO_COME
    Lent("under_way", np.int32, "home_rows"),  # numbers of requests that were ASKED when they were looked at last
    Lent("resting_homes", REST, "resting_homes_room"),  # rings, in the order of their epochs
    Lent("resting_slots", REST, "resting_slots_room"),
    *VICTIM_ARRAYS,  # of home rows
    Lent("masks", np.uint64),  # of the slots of the row files; see ``DiskRoom``
    Lent("counts", np.int32),
    Lent("following", np.int32),
    Lent("before", np.int32),
    Lent("first", np.int32),
)

#: what a table worker knows of a table's home rows and disk slots; numbers, and the addresses of its arrays
TIER = np.dtype([
    # what changes with each batch
    ("near", "<i8"),  # number of the newest near frame: rows of frames up to it are to be at home
    ("near_frames", "<u8"),  # bits of near frames, also of those that have a record
    ("lacking", "<i8"),  # keys of near frames that have no home row and none that comes
    ("candidates", "<i8"),  # home rows that may leave, which the victim order has
    ("leaving", "<i8"),  # home rows that are on their way to disk
    ("wanted_next", "<i8"),  # positions, which only grow, in the ring of entries that wait for a home row: the next,
    ("wanted_end", "<i8"),  # and the end
    ("coming_end", "<i8"),  # no row of the view from here on ever had one that comes
    ("under_way", "<i8"),  # requests in their list
    ("homes_rest", "<i8"),  # positions in the ring of home rows that rest: the oldest one,
    ("homes_rest_end", "<i8"),  # and the end
    ("slots_rest", "<i8"),  # the same of disk slots
    ("slots_rest_end", "<i8"),
    ("rests_until", "<i8"),  # readers of up to this epoch may look at whatever is free; 0 = there are none
    ("here_frame", "<i8"),  # number of the frame whose rows were looked for last,
    ("here", "<i8"),  # and how many of its keys have theirs
    ("ordered", "<i8"),  # 1 = the victim order has the home rows that may leave, and no others
    ("first_use", "<i8"),  # number of the frame that scores in the victim order count from
    ("disk_rows", "<i8"),  # entries whose row is on disk
    ("fetch_ahead", "<i8"),  # frames after the next one to plan that may be near
    ("is_derived", "<i8"),  # 1 = all of this is
    # what the disk says
    ("lost", "<i8"),  # home row whose request failed to read the row of an entry, -1 = none
    ("failed_writes", "<i8"),
    ("last_error", "<i8"),  # of these
    # sizes
    ("home_rows", "<i8"),
    ("view_rows", "<i8"),
    ("blocks", "<i8"),
    ("per_block", "<i8"),
    ("wanted_room", "<i8"),  # powers of two
    ("resting_homes_room", "<i8"),
    ("resting_slots_room", "<i8"),
    *addresses(ARRAYS),
    # by position of the frame in the ring
    ("new_keys", "<i8", (MAX_FRAMES,)),  # keys of the frame that count as lacking since they have no row at all
])

disk_table_of = accessor(ARRAYS, "disk_table")
requests_of = accessor(ARRAYS, "requests")
status_of = accessor(ARRAYS, "status")
owners_of = accessor(ARRAYS, "owners")
coming_of = accessor(ARRAYS, "coming")
wanted_of = accessor(ARRAYS, "wanted")
under_way_of = accessor(ARRAYS, "under_way")
resting_homes_of = accessor(ARRAYS, "resting_homes")
resting_slots_of = accessor(ARRAYS, "resting_slots")


@register_jitable
def tier_at(address):
    """The TIER at an address."""
    return array_at(address, 1, TIER)[0]


@register_jitable
def asks_of(tier):
    """int32[a power of two]; the ring of numbers of requests that are asked."""
    return array_at(tier["asks_at"], disk_table_of(tier)["asks_room"], np.int32)


@register_jitable
def home_order_of(tier):
    """The victim order of home rows."""
    return order_of(tier, tier["home_rows"])


@register_jitable
def room_of(tier):
    """The slots of the row files."""
    blocks, per_block = tier["blocks"], tier["per_block"]
    return DiskRoom(array_at(tier["masks_at"], blocks * ((per_block + 63) // 64), np.uint64),
                    array_at(tier["counts_at"], blocks, np.int32), array_at(tier["following_at"], blocks, np.int32),
                    array_at(tier["before_at"], blocks, np.int32),
                    array_at(tier["first_at"], per_block + 1, np.int32))
