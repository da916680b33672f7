"""Struct TIER, a table worker's private state of the home rows and disk slots of one table.

A home row is a buffer in host memory for one row. Its *status* describes its content and the operation in
flight. There is at most one operation, because a request has the number of its home row.

============  ==================================  ===========  =================================================
status        content                             in flight    next status
============  ==================================  ===========  =================================================
FREE          nothing, or a new row that only a   -            FETCHING (fetch), PINNED (a step trains it)
              plan refers to
FETCHING      nothing yet                         READ         FETCHED, or FREE if no pinned frame needs it now
FETCHED       clean copy of a row on disk         -            PINNED (a step trains it), FREE (unpinned before)
PINNED        dirty row, which must stay          -            CANDIDATE (no pinned frame, no device slot)
CANDIDATE     dirty row, in the victim order      -            SPILLING, PINNED (a frame with the key is pinned)
SPILLING      dirty row, still valid              WRITE        QUARANTINED (written), CANCELLED (pinned again),
                                                               PINNED (the write failed)
CANCELLED     dirty row, which stays              WRITE, void  PINNED
DROPPED       row of a key that was dropped       WRITE, void  QUARANTINED
QUARANTINED   row that old readers may read       -            FREE (these readers have finished)
============  ==================================  ===========  =================================================

A row is *dirty* if no disk slot has this version of the row. A *pinned* row must not leave memory, because a
pinned frame needs it, its key has a device slot, or the table had enough home rows so far. While a key has a
device slot, the newest version of its row is on the device, and its home row is reserved. ``quarantine``
explains the *quarantine*. The state is lost when the worker exits; ``deriving`` derives the statuses again
after a restart.

The functions make arrays from the addresses in a TIER. All functions are inlined.
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

# States of a fetch, one for each row of the view.
NO_FETCH = 0
FETCH_QUEUED = 1  #: a pinned frame needs the row, but no home row was free yet
FETCH_TO = 2  #: FETCH_TO plus the home row that receives or has received the row

#: a home row or disk slot in quarantine
STAMP = np.dtype([
    ("number", "<i8"),
    ("epoch", "<i8"),  # epoch in which the row or slot left its entry
])

ARRAYS = (
    Lent("disk_table", DISK_TABLE, ""),
    Lent("asks", np.int32),  # [asks_room]: ring of the numbers of issued requests
    Lent("requests", REQUEST, "home_rows"),
    Lent("status", np.uint8, "home_rows"),
    Lent("owners", np.int32, "home_rows"),  # entry whose row each home row has or receives, -1 = none
    Lent("fetch", np.int32, "view_rows"),  # state of the fetch of each row of the view
    Lent("fetch_queue", np.int32, "fetch_queue_room"),  # ring of entries whose rows are FETCH_QUEUED
    Lent("in_flight", np.int32, "home_rows"),  # numbers of requests that are not known to be complete
    Lent("quarantined_homes", STAMP, "quarantined_homes_room"),  # rings, ordered by epoch
    Lent("quarantined_slots", STAMP, "quarantined_slots_room"),
    *VICTIM_ARRAYS,  # victim order of home rows
    Lent("masks", np.uint64),  # used slots of the row files; see ``DiskRoom``
    Lent("counts", np.int32),
    Lent("following", np.int32),
    Lent("before", np.int32),
    Lent("first", np.int32),
)

#: private numbers for the home rows and disk slots of a table, and the addresses of the arrays
TIER = np.dtype([
    # state that changes with each batch
    ("newest_pinned", "<i8"),  # number of the newest pinned frame; rows of frames up to it are fetched
    ("pinned_frames", "<u8"),  # bits of pinned frames, including frames with a record
    ("lacking", "<i8"),  # number of keys of pinned frames that have no home row and no fetch in flight
    ("candidates", "<i8"),  # home rows that are CANDIDATE
    ("spilling", "<i8"),  # home rows that are SPILLING
    ("fetch_queue_next", "<i8"),  # first item of the fetch queue; positions only grow
    ("fetch_queue_end", "<i8"),
    ("fetch_end", "<i8"),  # rows of the view from this number on were never fetched
    ("in_flight", "<i8"),  # number of requests in the array ``in_flight``
    ("quarantined_homes_next", "<i8"),  # oldest home row in quarantine; positions only grow
    ("quarantined_homes_end", "<i8"),
    ("quarantined_slots_next", "<i8"),  # oldest disk slot in quarantine; positions only grow
    ("quarantined_slots_end", "<i8"),
    ("grace_epoch", "<i8"),  # readers with this or an earlier epoch may read any free row or slot; 0 = no such readers
    ("resident_frame", "<i8"),  # number of the frame whose rows were checked last, -1 = none
    ("resident_keys", "<i8"),  # number of keys of this frame, from the first, whose rows are in memory
    ("ordered", "<i8"),  # 1 = the victim order has exactly the candidates; 0 = there are no candidates yet
    ("first_use", "<i8"),  # frame number to which scores of the victim order are relative
    ("disk_rows", "<i8"),  # entries whose rows are on disk
    ("fetch_ahead", "<i8"),  # number of frames after the next frame to plan that may be pinned
    ("is_derived", "<i8"),  # 1 = this state was derived from entries and requests
    # disk errors
    ("lost", "<i8"),  # number of a request that failed to read the row of an entry, -1 = none
    ("failed_writes", "<i8"),
    ("last_error", "<i8"),  # error of the last failed write
    # sizes
    ("home_rows", "<i8"),
    ("view_rows", "<i8"),
    ("blocks", "<i8"),
    ("per_block", "<i8"),
    ("fetch_queue_room", "<i8"),  # powers of two
    ("quarantined_homes_room", "<i8"),
    ("quarantined_slots_room", "<i8"),
    *addresses(ARRAYS),
    # arrays by position of the frame in the ring
    ("new_keys", "<i8", (MAX_FRAMES,)),  # number of keys of the frame that are lacking because they have no row
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
    """Return the TIER at an address."""
    return array_at(address, 1, TIER)[0]


@register_jitable
def asks_of(tier):
    """Return the ring with the numbers of issued requests, as int32[n], where n is a power of two."""
    return array_at(tier["asks_at"], disk_table_of(tier)["asks_room"], np.int32)


@register_jitable
def home_order_of(tier):
    """Return the victim order of home rows."""
    return order_of(tier, tier["home_rows"])


@register_jitable
def room_of(tier):
    """Return the masks of used disk slots, the number of used slots per block, and the lists of blocks."""
    blocks = tier["blocks"]
    per_block = tier["per_block"]
    return DiskRoom(array_at(tier["masks_at"], blocks * ((per_block + 63) // 64), np.uint64),
                    array_at(tier["counts_at"], blocks, np.int32), array_at(tier["following_at"], blocks, np.int32),
                    array_at(tier["before_at"], blocks, np.int32),
                    array_at(tier["first_at"], per_block + 1, np.int32))
