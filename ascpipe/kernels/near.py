"""Makes frames near: their rows are to be at home before they are planned.

To know a batch and to have its rows at home are two things.  Many frames are touched, so that the device knows what is
used soon; few are near, so that rows that come early do not drive out others that are used before them.  A near frame
stays near until it leaves the window.

The readable version is ``tests/reference/near.py``.
"""
import numpy as np

from ascpipe.kernels.asks import LACKS_NOTHING, LACKS_ROWS
from ascpipe.kernels.atomics import store_home
from ascpipe.kernels.bits import frame_bit
from ascpipe.kernels.disk_requests import empty_request
from ascpipe.kernels.door import inner
from ascpipe.kernels.home_order import offer_home, order_homes, pin_home
from ascpipe.kernels.planner_memory import entries_of, held_rows_of, list_of, view_of
from ascpipe.kernels.rests import free_home
from ascpipe.kernels.tier_memory import (
    ARRIVED,
    CANDIDATE,
    COMES,
    KEPT,
    LEAVING,
    NOT_COMING,
    TO_COME,
    coming_of,
    disk_table_of,
    status_of,
    tier_at,
    wanted_of,
)
from ascpipe.layout.structs import MAX_FRAMES
from ascpipe.layout.words import HOME_DISK, HOME_NONE, PLAN_HOST_SMALL, PLAN_OK

_NONE = np.uint64(0)


@inner("int64(Planner)")
def free_home_rows(planner):
    """Return how many home rows are free, with those that never had memory."""
    return planner["free_homes"] + planner["home_rows"] - planner["home_high_water"]


@inner("boolean(Planner, Tier, int32[::1])")
def have_room(planner, tier, listed):
    """Check whether a frame's keys, those of near frames and those on the device have home rows together.

    Args:
        planner: of the table.
        tier: of the table.
        listed: int32[n]; rows of the frame's keys.
    """
    rows, status, coming = view_of(planner).rows, status_of(tier), coming_of(tier)
    lacks, may_leave, leave = tier["lacking"], np.int64(0), np.int64(0)
    for i in range(listed.shape[0]):
        number = np.uint64(listed[i])
        home = rows[number]["home"]
        if home >= 0:
            may_leave += np.int64(status[home] == CANDIDATE)
            leave += np.int64(status[home] == LEAVING)
        else:
            lacks += np.int64(home == HOME_NONE or coming[number] == NOT_COMING)
    there = free_home_rows(planner) + tier["homes_rest_end"] - tier["homes_rest"] + tier["leaving"] - leave
    if lacks <= there:
        return True
    if tier["ordered"] == 0:
        order_homes(planner, tier)
        return have_room_ordered(planner, tier, listed, lacks, there)
    return lacks <= there + tier["candidates"] - may_leave


@inner("boolean(Planner, Tier, int32[::1], int64, int64)")
def have_room_ordered(planner, tier, listed, lacks, there):
    """As ``have_room``, once there is a victim order.

    Args:
        planner: of the table.
        tier: of the table.
        listed: int32[n]; rows of the frame's keys.
        lacks: keys that need a home row.
        there: home rows that are free, or on their way to be.
    """
    rows, status, may_leave = view_of(planner).rows, status_of(tier), np.int64(0)
    for i in range(listed.shape[0]):
        home = rows[np.uint64(listed[i])]["home"]
        may_leave += np.int64(home >= 0 and status[max(home, 0)] == CANDIDATE)
    return lacks <= there + tier["candidates"] - may_leave


@inner("boolean(Tier, int64)")
def may_want(tier, n):
    """Check whether n more entries may wait for a home row."""
    return tier["wanted_end"] - tier["wanted_next"] + n <= tier["wanted_room"]


@inner("void(Planner, Tier, int64)")
def make_near(planner, tier, number):
    """Make a frame near: its rows stay at home, or are to come there; those that are on their way to disk stay.

    Args:
        planner: of the table.
        tier: of the table, with room for the frame's rows, and for all of its keys to wait.
        number: of the frame.
    """
    rows, entries = view_of(planner).rows, entries_of(planner)
    listed, status, coming = held_rows_of(planner, number), status_of(tier), coming_of(tier)
    wanted = wanted_of(tier)
    last, new = np.uint64(wanted.shape[0] - 1), np.int64(0)
    for i in range(listed.shape[0]):
        at = np.uint64(listed[i])
        row = rows[at]
        home = row["home"]
        if home >= 0:
            if status[home] == CANDIDATE:
                pin_home(tier, home)
            elif status[home] == LEAVING:  # its request does not count any more: the generation is raised
                known = entries[np.uint64(row["entry"])]
                store_home(known, known["state"], known["generation"] + 1, home)
                status[home] = KEPT
                tier["leaving"] -= 1
        elif home == HOME_NONE:
            new += 1
        elif coming[at] == NOT_COMING:
            coming[at] = TO_COME
            tier["coming_end"] = max(tier["coming_end"], np.int64(at) + 1)
            wanted[np.uint64(tier["wanted_end"]) & last] = row["entry"]
            tier["wanted_end"] += 1
            tier["lacking"] += 1
    tier["new_keys"][number % MAX_FRAMES] = new
    tier["lacking"] += new
    tier["near_frames"] |= frame_bit(number)
    tier["near"] = number


@inner("boolean(Planner, Tier, int64)")
def rows_are_here(planner, tier, number):
    """Check whether all rows of a near frame are at home, or on the device, as far as they exist.

    Args:
        planner: of the table.
        tier: of the table; has how far this was seen before.
        number: of the frame.
    """
    if tier["here_frame"] != number:
        tier["here_frame"] = number
        tier["here"] = 0
    rows, listed = view_of(planner).rows, held_rows_of(planner, number)
    while tier["here"] < listed.shape[0]:
        if rows[np.uint64(listed[np.uint64(tier["here"])])]["home"] <= HOME_DISK:
            return False
        tier["here"] += 1
    return True


@inner("void(Tier, int64)")
def count_planned(tier, number):
    """Forget what a frame's new keys lack: its plan has given them home rows, or it leaves the window."""
    tier["lacking"] -= tier["new_keys"][number % MAX_FRAMES]
    tier["new_keys"][number % MAX_FRAMES] = 0


@inner("void(Planner, Tier, int64)")
def leave_near(planner, tier, number):
    """Let go of the rows that only this frame keeps at home, just before it leaves the window.  Idempotent.

    Args:
        planner: of the table.
        tier: of the table.
        number: of the frame.
    """
    bit = frame_bit(number)
    if tier["near_frames"] & bit == _NONE:
        return
    tier["near_frames"] &= ~bit
    count_planned(tier, number)
    if tier["here_frame"] == number:
        tier["here_frame"] = -1
    rows, status, coming, entries = view_of(planner).rows, status_of(tier), coming_of(tier), entries_of(planner)
    listed = list_of(planner, number)[:planner["listed_count"][number % MAX_FRAMES]]
    for i in range(listed.shape[0]):
        at = np.uint64(listed[i])
        row = rows[at]
        if row["mask"] & tier["near_frames"] != _NONE:
            continue
        copy = coming[at]
        coming[at] = NOT_COMING
        if copy == NOT_COMING:
            if row["home"] >= 0:
                offer_home(planner, tier, row["home"])
        elif copy == TO_COME:
            tier["lacking"] -= 1
        elif status[copy - COMES] == ARRIVED:  # no step has trained it: no reader knows it, the row is on disk
            row["home"] = entries[np.uint64(row["entry"])]["home"]
            empty_request(tier, copy - COMES)
            free_home(planner, tier, copy - COMES)


@inner("UniTuple(int64, 2)(Planner, int64)")
def lacks_rows(planner, number):
    """Check whether a frame's rows are at home, where rows may be on disk.

    Args:
        planner: of the table.
        number: of the frame.

    Returns:
        (LACKS_NOTHING or LACKS_ROWS; PLAN_OK, or PLAN_HOST_SMALL: there are fewer home rows than the batch needs beside
        those of the device).
    """
    if planner["tier_at"] == 0:
        return LACKS_NOTHING, PLAN_OK
    tier = tier_at(planner["tier_at"])
    if tier["near_frames"] & frame_bit(number) != _NONE:
        return LACKS_NOTHING if rows_are_here(planner, tier, number) else LACKS_ROWS, PLAN_OK
    if (tier["near_frames"] == _NONE and tier["under_way"] == 0
            and not have_room(planner, tier, held_rows_of(planner, number))):
        return LACKS_NOTHING, PLAN_HOST_SMALL
    return LACKS_ROWS, PLAN_OK


@inner("void(Planner, Turn)")
def say_that_it_waits(planner, turn):
    """Say whether a plan waits for rows from disk, for the trainer and `ascpipe status`.

    Args:
        planner: of the table, with a tier.
        turn: of the table, whose plan was made or lacks something.
    """
    table = disk_table_of(tier_at(planner["tier_at"]))
    if turn["lacks"] == LACKS_NOTHING:
        table["waiting"] = 0
    elif turn["lacks"] == LACKS_ROWS and table["waiting"] != turn["number"] + 1:
        table["waiting"] = turn["number"] + 1
        table["waits"] += 1
