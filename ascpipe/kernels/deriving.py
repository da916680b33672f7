"""Kernels that derive the state of home rows and disk slots from entries and requests.

A worker calls these kernels after a restart or a cut (a change of the table between two steps). The rows of entries,
the home rows of requests in flight, and the slots that a WRITE fills are in use. All other rows and slots become free
when the readers that started earlier have finished. The plain-Python version is ``tests/reference/deriving.py``.
"""
import numpy as np

from ascpipe.kernels.bits import frame_bit
from ascpipe.kernels.disk_requests import counts, is_stored, tell
from ascpipe.kernels.disk_slots import order_blocks
from ascpipe.kernels.door import entry, inner
from ascpipe.kernels.planner_memory import entries_of, free_homes_of, header_of, held_rows_of
from ascpipe.kernels.quarantine import raise_epoch
from ascpipe.kernels.tier_memory import (
    CANCELLED,
    DROPPED,
    FETCH_TO,
    FETCHED,
    FETCHING,
    FREE,
    NO_FETCH,
    PINNED,
    SPILLING,
    disk_table_of,
    fetch_of,
    in_flight_of,
    owners_of,
    requests_of,
    room_of,
    status_of,
)
from ascpipe.layout.words import FREE as NO_KEY
from ascpipe.layout.words import HOME_DISK, REQUEST_ASKED, REQUEST_EMPTY, REQUEST_READ

_ONE = np.uint64(1)
_LOW = np.uint64(63)


@inner("void(Tier, int64)")
def use_slot(tier, slot):
    """Mark a disk slot as in use. The caller must call ``order_blocks`` afterwards."""
    per_block = tier["per_block"]
    words = (per_block + 63) // 64
    own = slot % per_block
    room_of(tier).masks[slot // per_block * words + (own >> 6)] |= _ONE << (np.uint64(own) & _LOW)


@inner("void(Planner, Tier, int64)")
def derive_request(planner, tier, home):
    """Derive the status of a home row and a disk slot from the home row's request, which must not be EMPTY.

    Args:
        planner: planner of the table.
        tier: tier of the table. Home rows of entries must already be PINNED.
        home: number of the request.
    """
    request = requests_of(tier)[home]
    status = status_of(tier)
    known = entries_of(planner)[np.uint64(request["entry"])]
    of_use = counts(request, home, known)
    in_flight_of(tier)[tier["in_flight"]] = home
    tier["in_flight"] += 1
    if request["word"] == REQUEST_ASKED:  # the number may be missing in the ring
        tell(tier, home)
    if request["kind"] == REQUEST_READ:
        if status[home] == FREE:
            status[home] = FETCHING
            owners_of(tier)[home] = request["entry"]
        return
    if not is_stored(request, known):
        use_slot(tier, request["slot"])
    if of_use:
        status[home] = SPILLING
        tier["spilling"] += 1
    elif status[home] == PINNED:
        status[home] = CANCELLED
    else:
        status[home] = DROPPED


@entry("void(Planner, Tier, int64)")
def derive_tier(planner, tier, used):
    """Derive the state of a table's tier (home rows and disk slots) from the entries and the disk requests. No frame
    stays pinned.

    The function derives the status and owner of each home row, the used disk slots and the requests in flight.

    Args:
        planner: planner of the table.
        tier: tier of the table.
        used: number of entries that were ever used.
    """
    status = status_of(tier)
    owners = owners_of(tier)
    room = room_of(tier)
    status[:] = FREE
    owners[:] = -1
    fetch_of(tier)[:tier["fetch_end"]] = NO_FETCH
    tier["fetch_end"] = 0
    room.masks[:] = np.uint64(0)
    tier["pinned_frames"] = np.uint64(0)
    tier["newest_pinned"] = -1
    tier["lacking"] = tier["candidates"] = tier["spilling"] = tier["disk_rows"] = 0
    tier["fetch_queue_next"] = tier["fetch_queue_end"] = tier["in_flight"] = 0
    tier["quarantined_homes_next"] = tier["quarantined_homes_end"] = 0
    tier["quarantined_slots_next"] = tier["quarantined_slots_end"] = 0
    tier["resident_frame"] = tier["lost"] = -1
    tier["ordered"] = 0
    tier["is_derived"] = 1
    tier["new_keys"][:] = 0
    entries = entries_of(planner)
    for number in range(used):
        known = entries[number]
        if known["state"] == NO_KEY:
            continue
        if known["home"] >= 0:
            status[known["home"]] = PINNED
            owners[known["home"]] = number
        elif known["home"] <= HOME_DISK:
            use_slot(tier, HOME_DISK - known["home"])
            tier["disk_rows"] += 1
    requests = requests_of(tier)
    for home in range(header_of(planner)["homes_ready"]):
        if requests[home]["word"] != REQUEST_EMPTY:
            derive_request(planner, tier, home)
    order_blocks(room)
    tier["grace_epoch"] = disk_table_of(tier)["epoch"]
    raise_epoch(tier)


@entry("void(Planner, Tier, int64, Record)")
def derive_record(planner, tier, number, record):
    """Mark the home rows of a valid record as in use, and mark the record's frame as pinned.

    Args:
        planner: planner of the table. The frame must hold the entries of the record.
        tier: tier of the table.
        number: number of the frame.
        record: record of the frame.
    """
    status = status_of(tier)
    fetch = fetch_of(tier)
    listed = held_rows_of(planner, number)
    for i in range(record.homes.shape[0]):
        home = record.homes[i]
        if home < 0:
            continue
        if status[home] == FETCHING:
            status[home] = FETCHED
            fetch[np.uint64(listed[i])] = home + FETCH_TO
            tier["fetch_end"] = max(tier["fetch_end"], np.int64(listed[i]) + 1)
        elif status[home] == FREE:
            status[home] = PINNED
            owners_of(tier)[home] = record.held[i]
    tier["pinned_frames"] |= frame_bit(number)
    tier["newest_pinned"] = number


@entry("void(Planner, Tier)")
def free_unused_homes(planner, tier):
    """Set the high-water mark, and push the unused home rows below the mark onto the stack of free home rows.

    The new mark is above the last home row in use. The lowest free home row is on top of the stack.

    Args:
        planner: planner of the table, which receives the free home rows.
        tier: tier of the table. ``derive_tier`` and ``derive_record`` must have marked the rows in use.
    """
    status = status_of(tier)
    stack = free_homes_of(planner)
    high = np.int64(0)
    for home in range(header_of(planner)["homes_ready"]):
        if status[home] != FREE:
            high = home + 1
    free = np.int64(0)
    for home in range(high - 1, -1, -1):
        if status[home] == FREE:
            stack[free] = home
            free += 1
    planner["home_high_water"] = high
    planner["free_homes"] = free
