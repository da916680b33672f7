"""Kernels that pin frames. Before a pinned frame is planned, all rows of the frame are fetched from disk. The rows
stay in memory until the frame is unpinned.

Many frames are touched, because victims are chosen by their next use. Only a few frames are pinned; otherwise, rows
that are fetched early would displace rows that are used before them. A frame stays pinned until it leaves the window.

The plain-Python version is ``tests/reference/pinning.py``.
"""
import numpy as np

from ascpipe.kernels.asks import LACKS_NOTHING, LACKS_ROWS
from ascpipe.kernels.atomics import store_home
from ascpipe.kernels.bits import frame_bit
from ascpipe.kernels.disk_requests import empty_request
from ascpipe.kernels.door import inner
from ascpipe.kernels.home_order import offer_home, order_homes, pin_home
from ascpipe.kernels.planner_memory import entries_of, held_rows_of, list_of, view_of
from ascpipe.kernels.quarantine import free_home
from ascpipe.kernels.tier_memory import (
    CANCELLED,
    CANDIDATE,
    FETCH_QUEUED,
    FETCH_TO,
    FETCHED,
    NO_FETCH,
    SPILLING,
    disk_table_of,
    fetch_of,
    fetch_queue_of,
    status_of,
    tier_at,
)
from ascpipe.layout.structs import MAX_FRAMES
from ascpipe.layout.words import HOME_DISK, HOME_NONE, PLAN_HOST_SMALL, PLAN_OK

_NONE = np.uint64(0)


@inner("int64(Planner)")
def free_home_rows(planner):
    """Return the number of free home rows, including rows for which no memory is allocated yet."""
    return planner["free_homes"] + planner["home_rows"] - planner["home_high_water"]


@inner("int64(Planner, Tier)")
def soon_free(planner, tier):
    """Return the number of home rows that are free, or will become free without further spills."""
    quarantined = tier["quarantined_homes_end"] - tier["quarantined_homes_next"]
    return free_home_rows(planner) + quarantined + tier["spilling"]


@inner("boolean(Planner, Tier, int32[::1])")
def have_room(planner, tier, listed):
    """Return True if there are enough home rows for one more frame, besides the pinned frames and the rows on the
    device.

    Args:
        planner, tier: state of the table. A victim order is created if candidates must be spilled.
        listed: int32[n]; rows of the frame's keys.
    """
    rows = view_of(planner).rows
    status = status_of(tier)
    fetch = fetch_of(tier)
    while True:
        lacks = tier["lacking"]
        own_candidates = np.int64(0)
        own_spilling = np.int64(0)
        for i in range(listed.shape[0]):
            number = np.uint64(listed[i])
            home = rows[number]["home"]
            if home >= 0:
                own_candidates += np.int64(status[home] == CANDIDATE)
                own_spilling += np.int64(status[home] == SPILLING)
            else:
                lacks += np.int64(home == HOME_NONE or fetch[number] == NO_FETCH)
        room = soon_free(planner, tier) - own_spilling
        if lacks <= room or tier["ordered"] != 0:
            return lacks <= room or lacks <= room + tier["candidates"] - own_candidates
        order_homes(planner, tier)  # some of the frame's rows become candidates


@inner("boolean(Tier, int64)")
def queue_has_room(tier, n):
    """Return True if ``n`` more entries fit into the fetch queue."""
    return tier["fetch_queue_end"] - tier["fetch_queue_next"] + n <= tier["fetch_queue_room"]


@inner("void(Planner, Tier, int64)")
def pin_frame(planner, tier, number):
    """Pin a frame: keep the frame's rows in memory, cancel spills of these rows, and queue fetches of rows that are on
    disk.

    Args:
        planner, tier: state of the table. There must be enough home rows, and all keys of the frame must fit into the
            fetch queue.
        number: number of the frame.
    """
    rows = view_of(planner).rows
    entries = entries_of(planner)
    listed = held_rows_of(planner, number)
    status = status_of(tier)
    fetch = fetch_of(tier)
    queue = fetch_queue_of(tier)
    last = np.uint64(queue.shape[0] - 1)
    new = np.int64(0)
    for i in range(listed.shape[0]):
        at = np.uint64(listed[i])
        row = rows[at]
        home = row["home"]
        if home >= 0:
            if status[home] == CANDIDATE:
                pin_home(tier, home)
            elif status[home] == SPILLING:  # the new generation makes the request invalid
                known = entries[np.uint64(row["entry"])]
                store_home(known, known["state"], known["generation"] + 1, home)
                status[home] = CANCELLED
                tier["spilling"] -= 1
        elif home == HOME_NONE:
            new += 1
        elif fetch[at] == NO_FETCH:
            fetch[at] = FETCH_QUEUED
            tier["fetch_end"] = max(tier["fetch_end"], np.int64(at) + 1)
            queue[np.uint64(tier["fetch_queue_end"]) & last] = row["entry"]
            tier["fetch_queue_end"] += 1
            tier["lacking"] += 1
    tier["new_keys"][number % MAX_FRAMES] = new
    tier["lacking"] += new
    tier["pinned_frames"] |= frame_bit(number)
    tier["newest_pinned"] = number


@inner("boolean(Planner, Tier, int64)")
def rows_are_resident(planner, tier, number):
    """Return True if all existing rows of a pinned frame are in memory or on the device.

    Args:
        planner, tier: state of the table. ``resident_keys`` counts keys that have passed the check.
        number: number of the frame.
    """
    if tier["resident_frame"] != number:
        tier["resident_frame"] = number
        tier["resident_keys"] = 0
    rows = view_of(planner).rows
    listed = held_rows_of(planner, number)
    while tier["resident_keys"] < listed.shape[0]:
        if rows[np.uint64(listed[np.uint64(tier["resident_keys"])])]["home"] <= HOME_DISK:
            return False
        tier["resident_keys"] += 1
    return True


@inner("void(Tier, int64)")
def forget_new_keys(tier, number):
    """Subtract the new keys of a frame from ``lacking``, the number of keys without a home row.

    The caller does this after the plan has assigned home rows, or when the frame leaves the window.
    """
    tier["lacking"] -= tier["new_keys"][number % MAX_FRAMES]
    tier["new_keys"][number % MAX_FRAMES] = 0


@inner("void(Planner, Tier, int64)")
def unpin_frame(planner, tier, number):
    """Unpin a frame that leaves the window. Also unpin rows of the frame that no other frame pins. The function is
    idempotent.

    Args:
        planner, tier: state of the table.
        number: number of the frame.
    """
    bit = frame_bit(number)
    if tier["pinned_frames"] & bit == _NONE:
        return
    tier["pinned_frames"] &= ~bit
    forget_new_keys(tier, number)
    if tier["resident_frame"] == number:
        tier["resident_frame"] = -1
    rows = view_of(planner).rows
    status = status_of(tier)
    fetch = fetch_of(tier)
    entries = entries_of(planner)
    listed = list_of(planner, number)[:planner["listed_count"][number % MAX_FRAMES]]
    for i in range(listed.shape[0]):
        at = np.uint64(listed[i])
        row = rows[at]
        if row["mask"] & tier["pinned_frames"] != _NONE:
            continue
        copy = fetch[at]
        fetch[at] = NO_FETCH
        if copy == NO_FETCH:
            if row["home"] >= 0:
                offer_home(planner, tier, row["home"])
        elif copy == FETCH_QUEUED:
            tier["lacking"] -= 1
        elif status[copy - FETCH_TO] == FETCHED:  # no reader has the number of this clean copy; the row is on disk
            row["home"] = entries[np.uint64(row["entry"])]["home"]
            empty_request(tier, copy - FETCH_TO)
            free_home(planner, tier, copy - FETCH_TO)


@inner("UniTuple(int64, 2)(Planner, int64)")
def lacks_rows(planner, number):
    """Return whether a frame lacks rows in memory, and the resulting status of the plan.

    Returns:
        (LACKS_NOTHING or LACKS_ROWS, status). The status is PLAN_HOST_SMALL if there are too few home rows for
        the batch and the rows on the device, and PLAN_OK otherwise.
    """
    if planner["tier_at"] == 0:
        return LACKS_NOTHING, PLAN_OK
    tier = tier_at(planner["tier_at"])
    if tier["pinned_frames"] & frame_bit(number) != _NONE:
        return LACKS_NOTHING if rows_are_resident(planner, tier, number) else LACKS_ROWS, PLAN_OK
    if (tier["pinned_frames"] == _NONE and tier["in_flight"] == 0
            and not have_room(planner, tier, held_rows_of(planner, number))):
        return LACKS_NOTHING, PLAN_HOST_SMALL
    return LACKS_ROWS, PLAN_OK


@inner("void(Planner, Turn)")
def note_wait(planner, turn):
    """Store whether the table's next plan waits for rows on disk. The trainer and `ascpipe status` read the stored
    value.
    """
    table = disk_table_of(tier_at(planner["tier_at"]))
    if turn["lacks"] == LACKS_NOTHING:
        table["waiting"] = 0
    elif turn["lacks"] == LACKS_ROWS and table["waiting"] != turn["number"] + 1:
        table["waiting"] = turn["number"] + 1
        table["waits"] += 1
