"""What a table worker knows of the home rows and disk slots of a table, beyond shared memory and its planner.

A home row is a buffer in host memory for one row. Its *status* says what it holds and which operation of the disk
worker is in flight; requests have the number of their home row, so there is one at most.

============  ==================================  ===========  =================================================
status        what the home row holds             in flight    becomes
============  ==================================  ===========  =================================================
FREE          nothing, or a new row that only a   -            FETCHING (fetch), PINNED (a step trains it)
              plan knows
FETCHING      nothing yet                         READ         FETCHED, or FREE if no pinned frame needs it now
FETCHED       clean copy of a row on disk         -            PINNED (a step trains it), FREE (unpinned before)
PINNED        dirty row, which must stay          -            CANDIDATE (no pinned frame, no device slot)
CANDIDATE     dirty row, in the victim order      -            SPILLING, PINNED (a frame with the key is pinned)
SPILLING      dirty row, still the row            WRITE        QUARANTINED (written), CANCELLED (pinned again),
                                                               PINNED (the write failed)
CANCELLED     dirty row, which stays              WRITE, void  PINNED
DROPPED       row of a key that was dropped       WRITE, void  QUARANTINED
QUARANTINED   a row that old readers may look at  -            FREE, when each of these readers has finished
============  ==================================  ===========  =================================================

*Dirty*: no disk slot has this version of the row. *Pinned*: the row must not leave memory, because a pinned frame needs
it, its key has a device slot, or the table has not run short of home rows yet. While a key has a device slot, the
newest version of its row is there, and the home row waits for it. *Quarantine*: epoch-based reclamation, see
``quarantine``. Nothing here outlives the worker: ``deriving`` finds the statuses again after a restart.

The functions make arrays from the addresses in a TIER; each is inlined.
"""
import numpy as np

from ascpipe.kernels.compiler import register_jitable
from ascpipe.kernels.memory import Lent, accessor, addresses, array_at
from ascpipe.kernels.planner_memory import VICTIM_ARRAYS, order_of
from ascpipe.kernels.records import DiskRoom
from ascpipe.layout.structs import DISK_TABLE, MAX_FRAMES, REQUEST

FREE = 0
PINNED = 1
CANDIDATE = 2
SPILLING = 3
CANCELLED = 4
FETCHING = 5
FETCHED = 6
QUARANTINED = 7
DROPPED = 8

# States of a fetch from disk, one for each row of the view.
NO_FETCH = 0
FETCH_QUEUED = 1  #: a pinned frame needs it, and no home row was free yet
FETCH_TO = 2  #: and all above: less this, the home row that it is fetched to, or has been fetched to

#: a home row or disk slot in quarantine
STAMP = np.dtype([
    ("number", "<i8"),
    ("epoch", "<i8"),  # in which its entry gave it up
])

#: the arrays of a tier
ARRAYS = (
    Lent("disk_table", DISK_TABLE, ""),
    Lent("asks", np.int32),  # its asks_room: the ring of numbers of requests that are asked
    Lent("requests", REQUEST, "home_rows"),
    Lent("status", np.uint8, "home_rows"),
    Lent("owners", np.int32, "home_rows"),  # the entry whose row each has, or gets, while its status says that it does
    Lent("fetch", np.int32, "view_rows"),  # of each row of the view, whether it is fetched
    Lent("fetch_queue", np.int32, "fetch_queue_room"),  # a ring: entries whose rows are FETCH_QUEUED
    Lent("in_flight", np.int32, "home_rows"),  # numbers of requests that are not known to be complete
    Lent("quarantined_homes", STAMP, "quarantined_homes_room"),  # rings, in the order of their epochs
    Lent("quarantined_slots", STAMP, "quarantined_slots_room"),
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
    ("newest_pinned", "<i8"),  # number of the newest pinned frame: rows of frames up to it are fetched
    ("pinned_frames", "<u8"),  # bits of pinned frames, also of those that have a record
    ("lacking", "<i8"),  # keys of pinned frames that have no home row and no fetch in flight
    ("candidates", "<i8"),  # home rows that are CANDIDATE
    ("spilling", "<i8"),  # home rows that are SPILLING
    ("fetch_queue_next", "<i8"),  # positions, which only grow, in the queue of entries that wait for a home row: first,
    ("fetch_queue_end", "<i8"),  # and the end
    ("fetch_end", "<i8"),  # rows of the view from here on were never fetched
    ("in_flight", "<i8"),  # requests in their list
    ("quarantined_homes_next", "<i8"),  # positions, which only grow, in the ring of quarantined home rows: the oldest,
    ("quarantined_homes_end", "<i8"),  # and the end
    ("quarantined_slots_next", "<i8"),  # the same for disk slots
    ("quarantined_slots_end", "<i8"),
    ("grace_epoch", "<i8"),  # readers of up to this epoch may look at any free row or slot; 0 = there are none
    ("resident_frame", "<i8"),  # number of the frame whose rows were looked for last,
    ("resident_keys", "<i8"),  # and how many of its keys, the first ones, have their rows in memory
    ("ordered", "<i8"),  # 1 = the victim order has all candidates, and nothing else; 0 = there are no candidates yet
    ("first_use", "<i8"),  # number of the frame that scores in the victim order count from
    ("disk_rows", "<i8"),  # entries whose row is on disk
    ("fetch_ahead", "<i8"),  # frames after the next one to plan that may be pinned
    ("is_derived", "<i8"),  # 1 = all of this is
    # errors of the disk
    ("lost", "<i8"),  # number of a request that failed to read the row of an entry, -1 = none
    ("failed_writes", "<i8"),
    ("last_error", "<i8"),  # of the failed writes
    # sizes
    ("home_rows", "<i8"),
    ("view_rows", "<i8"),
    ("blocks", "<i8"),
    ("per_block", "<i8"),
    ("fetch_queue_room", "<i8"),  # powers of two
    ("quarantined_homes_room", "<i8"),
    ("quarantined_slots_room", "<i8"),
    *addresses(ARRAYS),
    # by position of the frame in the ring
    ("new_keys", "<i8", (MAX_FRAMES,)),  # keys of the frame that count as lacking since they have no row at all
])

disk_table_of = accessor(ARRAYS, "disk_table")
requests_of = accessor(ARRAYS, "requests")
status_of = accessor(ARRAYS, "status")
owners_of = accessor(ARRAYS, "owners")
fetch_of = accessor(ARRAYS, "fetch")
fetch_queue_of = accessor(ARRAYS, "fetch_queue")
in_flight_of = accessor(ARRAYS, "in_flight")
quarantined_homes_of = accessor(ARRAYS, "quarantined_homes")
quarantined_slots_of = accessor(ARRAYS, "quarantined_slots")


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
    blocks = tier["blocks"]
    per_block = tier["per_block"]
    return DiskRoom(array_at(tier["masks_at"], blocks * ((per_block + 63) // 64), np.uint64),
                    array_at(tier["counts_at"], blocks, np.int32), array_at(tier["following_at"], blocks, np.int32),
                    array_at(tier["before_at"], blocks, np.int32),
                    array_at(tier["first_at"], per_block + 1, np.int32))
