"""Asks for the rows that near frames want, and sends others to disk that make room for them.

The readable version is ``tests/reference/moving.py``.
"""
import numpy as np

from ascpipe.kernels.disk_requests import ask, room_for_asks
from ascpipe.kernels.disk_slots import place_rows
from ascpipe.kernels.door import inner
from ascpipe.kernels.home_order import offer_home, order_homes, take_candidates
from ascpipe.kernels.near import free_home_rows
from ascpipe.kernels.planner_memory import entries_of, free_homes_of, header_of, view_of
from ascpipe.kernels.rests import may_rest, may_take_free, release
from ascpipe.kernels.tier_memory import (
    COMES,
    COMING,
    LEAVING,
    TO_COME,
    coming_of,
    disk_table_of,
    owners_of,
    room_of,
    status_of,
    wanted_of,
)
from ascpipe.layout.words import HOME_DISK, REQUEST_READ, REQUEST_WRITE

_NO_HOME = -1


@inner("int64(Planner)")
def take_home(planner):
    """Take a home row that has memory: the one that was freed last, or a new one; -1 if there is none."""
    if planner["free_homes"] > 0:
        planner["free_homes"] -= 1
        return np.int64(free_homes_of(planner)[planner["free_homes"]])
    if planner["home_high_water"] >= header_of(planner)["homes_ready"]:
        return np.int64(_NO_HOME)
    planner["home_high_water"] += 1
    return planner["home_high_water"] - 1


@inner("int64(Planner, Tier)")
def fetch_rows(planner, tier):
    """Ask for rows that near frames want, as long as home rows are free.

    Args:
        planner: of the table.
        tier: of the table.

    Returns:
        How many were asked for.
    """
    if tier["wanted_next"] == tier["wanted_end"] or not may_take_free(tier) or not may_rest(tier):
        return np.int64(0)
    wanted, view, entries = wanted_of(tier), view_of(planner), entries_of(planner)
    coming, last, asked = coming_of(tier), np.uint64(wanted.shape[0] - 1), np.int64(0)
    most = room_for_asks(tier)
    while tier["wanted_next"] < tier["wanted_end"] and asked < most:
        number = wanted[np.uint64(tier["wanted_next"]) & last]
        found = view.row_of[np.uint64(number)]
        if found > 0 and coming[np.uint64(found - 1)] == TO_COME:  # else it is not wanted any more
            home = take_home(planner)
            if home == _NO_HOME:
                break
            known = entries[np.uint64(number)]
            status_of(tier)[home] = COMING
            owners_of(tier)[home] = number
            coming[np.uint64(found - 1)] = home + COMES
            tier["lacking"] -= 1
            ask(tier, known, number, home, REQUEST_READ, HOME_DISK - known["home"])
            asked += 1
        tier["wanted_next"] += 1
    disk_table_of(tier)["fetches"] += asked
    return asked


@inner("int64(Planner, Tier)")
def spill_rows(planner, tier):
    """Send rows to disk while fewer home rows are free, or soon are, than near frames lack.

    Args:
        planner: of the table.
        tier: of the table.

    Returns:
        How many were sent.
    """
    soon = free_home_rows(planner) + tier["homes_rest_end"] - tier["homes_rest"] + tier["leaving"]
    short = min(tier["lacking"] - soon, room_for_asks(tier))
    if short <= 0 or not may_take_free(tier):
        return np.int64(0)
    if tier["ordered"] == 0:
        order_homes(planner, tier)
    homes, slots, alone = np.empty(short, np.int64), np.empty(short, np.int64), np.empty(short, np.uint8)
    n = take_candidates(planner, tier, homes)
    placed = place_rows(room_of(tier), slots[:n], alone[:n])
    entries, owners, status = entries_of(planner), owners_of(tier), status_of(tier)
    for i in range(placed):
        home = homes[i]
        number = owners[home]
        status[home] = LEAVING
        tier["leaving"] += 1
        ask(tier, entries[np.uint64(number)], number, home, REQUEST_WRITE, slots[i])
    for i in range(placed, n):  # no disk slot is free
        offer_home(planner, tier, homes[i])
    disk_table_of(tier)["spills"] += placed
    return placed


@inner("boolean(Planner, Tier)")
def is_stuck(planner, tier):
    """Check whether near frames lack home rows, rows could leave home, and no disk slot takes one nor ever will."""
    there = free_home_rows(planner) + tier["homes_rest_end"] - tier["homes_rest"] + tier["leaving"]
    return (tier["lacking"] > there and tier["candidates"] > 0 and tier["under_way"] == 0 and tier["rests_until"] == 0
            and tier["slots_rest"] == tier["slots_rest_end"] and room_for_asks(tier) > 0)


@inner("int64(Planner, Tier)")
def move_rows(planner, tier):
    """Fetch, and make room for what cannot be fetched yet.

    Args:
        planner: of the table.
        tier: of the table.

    Returns:
        How many requests were asked.
    """
    release(planner, tier)
    asked = fetch_rows(planner, tier)
    return asked + spill_rows(planner, tier)
