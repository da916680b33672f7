"""Kernels that request fetches of the rows of pinned frames, and request spills if home rows are missing.

The plain-Python version is ``tests/reference/transfers.py``.
"""
import numpy as np

from ascpipe.kernels.disk_requests import ask, room_for_asks
from ascpipe.kernels.disk_slots import place_rows
from ascpipe.kernels.door import inner
from ascpipe.kernels.home_order import offer_home, order_homes, take_candidates
from ascpipe.kernels.pinning import soon_free
from ascpipe.kernels.planner_memory import entries_of, free_homes_of, header_of, view_of
from ascpipe.kernels.quarantine import may_take_free, quarantine_has_room, release
from ascpipe.kernels.tier_memory import (
    FETCH_QUEUED,
    FETCH_TO,
    FETCHING,
    SPILLING,
    disk_table_of,
    fetch_of,
    fetch_queue_of,
    owners_of,
    room_of,
    status_of,
)
from ascpipe.layout.words import HOME_DISK, REQUEST_READ, REQUEST_WRITE

_NO_HOME = -1


@inner("int64(Planner)")
def take_home(planner):
    """Allocate a home row for which memory exists. Return -1 if no home row is available. The row that was freed last
    is preferred.
    """
    if planner["free_homes"] > 0:
        planner["free_homes"] -= 1
        return np.int64(free_homes_of(planner)[planner["free_homes"]])
    if planner["home_high_water"] >= header_of(planner)["homes_ready"]:
        return np.int64(_NO_HOME)
    planner["home_high_water"] += 1
    return planner["home_high_water"] - 1


@inner("int64(Planner, Tier)")
def fetch_rows(planner, tier):
    """Request fetches of the queued rows, as long as home rows are free. Return the number of fetches."""
    if tier["fetch_queue_next"] == tier["fetch_queue_end"] or not may_take_free(tier) or not quarantine_has_room(tier):
        return np.int64(0)
    queue = fetch_queue_of(tier)
    view = view_of(planner)
    entries = entries_of(planner)
    fetch = fetch_of(tier)
    last = np.uint64(queue.shape[0] - 1)
    asked = np.int64(0)
    most = room_for_asks(tier)
    while tier["fetch_queue_next"] < tier["fetch_queue_end"] and asked < most:
        number = queue[np.uint64(tier["fetch_queue_next"]) & last]
        found = view.row_of[np.uint64(number)]
        if found > 0 and fetch[np.uint64(found - 1)] == FETCH_QUEUED:  # otherwise, no pinned frame needs the row now
            home = take_home(planner)
            if home == _NO_HOME:
                break
            known = entries[np.uint64(number)]
            status_of(tier)[home] = FETCHING
            owners_of(tier)[home] = number
            fetch[np.uint64(found - 1)] = home + FETCH_TO
            tier["lacking"] -= 1
            ask(tier, known, number, home, REQUEST_READ, HOME_DISK - known["home"])
            asked += 1
        tier["fetch_queue_next"] += 1
    disk_table_of(tier)["fetches"] += asked
    return asked


@inner("int64(Planner, Tier)")
def spill_rows(planner, tier):
    """Request spills for the home rows that pinned frames will still lack after all pending spills. Return the number
    of spills.
    """
    short = min(tier["lacking"] - soon_free(planner, tier), room_for_asks(tier))
    if short <= 0 or not may_take_free(tier):
        return np.int64(0)
    if tier["ordered"] == 0:
        order_homes(planner, tier)
    homes = np.empty(short, np.int64)
    slots = np.empty(short, np.int64)
    alone = np.empty(short, np.uint8)
    n = take_candidates(planner, tier, homes)
    placed = place_rows(room_of(tier), slots[:n], alone[:n])
    entries = entries_of(planner)
    owners = owners_of(tier)
    status = status_of(tier)
    for i in range(placed):
        home = homes[i]
        number = owners[home]
        status[home] = SPILLING
        tier["spilling"] += 1
        ask(tier, entries[np.uint64(number)], number, home, REQUEST_WRITE, slots[i])
    for i in range(placed, n):  # no disk slot is free
        offer_home(planner, tier, homes[i])
    disk_table_of(tier)["spills"] += placed
    return placed


@inner("boolean(Planner, Tier)")
def is_out_of_disk_slots(planner, tier):
    """Return True if pinned frames lack home rows, but no row can be spilled because all disk slots are in use."""
    return (tier["lacking"] > soon_free(planner, tier) and tier["candidates"] > 0 and tier["in_flight"] == 0
            and tier["grace_epoch"] == 0 and tier["quarantined_slots_next"] == tier["quarantined_slots_end"]
            and room_for_asks(tier) > 0)


@inner("int64(Planner, Tier)")
def move_rows(planner, tier):
    """Request fetches of queued rows, and the necessary spills. Return the number of requests."""
    release(planner, tier)
    asked = fetch_rows(planner, tier)
    return asked + spill_rows(planner, tier)
