"""What a table worker knows of the home rows and disk slots of a table, beyond shared memory and its planner.

A home row has one *status*, which says what may become of it.  The functions make arrays from the addresses in a TIER;
each is inlined.
"""
import numpy as np

from ascpipe.kernels.compiler import register_jitable
from ascpipe.kernels.memory import array_at
from ascpipe.kernels.records import ORDER, REST, TIER, DiskRoom, Victims
from ascpipe.kernels.victims import late_room
from ascpipe.layout.structs import DISK_TABLE, REQUEST

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


@register_jitable
def tier_at(address):
    """The TIER at an address."""
    return array_at(address, 1, TIER)[0]


@register_jitable
def disk_table_of(tier):
    """DISK_TABLE."""
    return array_at(tier["disk_table_at"], 1, DISK_TABLE)[0]


@register_jitable
def requests_of(tier):
    """REQUEST[home rows]."""
    return array_at(tier["requests_at"], tier["home_rows"], REQUEST)


@register_jitable
def asks_of(tier):
    """int32[a power of two]; the ring of numbers of requests that are asked."""
    return array_at(tier["asks_at"], disk_table_of(tier)["asks_room"], np.int32)


@register_jitable
def status_of(tier):
    """uint8[home rows]; what may become of each."""
    return array_at(tier["status_at"], tier["home_rows"], np.uint8)


@register_jitable
def owners_of(tier):
    """int32[home rows]; the entry whose row each has, or gets, while its status says that it does."""
    return array_at(tier["owners_at"], tier["home_rows"], np.int32)


@register_jitable
def coming_of(tier):
    """int32[rows of the view]; of each, whether the row of its entry comes home."""
    return array_at(tier["coming_at"], tier["view_rows"], np.int32)


@register_jitable
def wanted_of(tier):
    """int32[a power of two]; a ring: entries whose rows are TO_COME."""
    return array_at(tier["wanted_at"], tier["wanted_room"], np.int32)


@register_jitable
def under_way_of(tier):
    """int32[home rows]; the numbers of requests that were ASKED when they were looked at last."""
    return array_at(tier["under_way_at"], tier["home_rows"], np.int32)


@register_jitable
def resting_homes_of(tier):
    """REST[a power of two]; a ring, in the order of their epochs."""
    return array_at(tier["resting_homes_at"], tier["resting_homes_room"], REST)


@register_jitable
def resting_slots_of(tier):
    """REST[a power of two]; a ring, in the order of their epochs."""
    return array_at(tier["resting_slots_at"], tier["resting_slots_room"], REST)


@register_jitable
def home_order_of(tier):
    """The victim order of home rows."""
    rows = tier["home_rows"]
    return Victims(array_at(tier["order_at"], 1, ORDER), array_at(tier["scores_at"], rows + 1, np.int32),
                   array_at(tier["numbers_at"], 2 * rows, np.int64),
                   array_at(tier["late_at"], 2 * late_room(rows), np.int64))


@register_jitable
def room_of(tier):
    """The slots of the row files."""
    blocks, per_block = tier["blocks"], tier["per_block"]
    return DiskRoom(array_at(tier["masks_at"], blocks * ((per_block + 63) // 64), np.uint64),
                    array_at(tier["counts_at"], blocks, np.int32), array_at(tier["following_at"], blocks, np.int32),
                    array_at(tier["before_at"], blocks, np.int32),
                    array_at(tier["first_at"], per_block + 1, np.int32))
