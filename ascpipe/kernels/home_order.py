"""Chooses the rows that leave home when more home rows are needed than are free.

A home row may leave (it is a CANDIDATE) if its key has no row on the device, no near frame has the key, and the disk
worker is not at it.  Once there was a need, the victim order (see ``victims``) has all of these: first those that no
other frame of the window uses, the least frequent first, then the others, the farthest next use first; equal ones by
home row.  As on the device (see ``swaps``), a touch costs nothing: the score is then too low, and is looked at again
when the row is taken out.

The readable version is ``tests/reference/home_order.py``.
"""
import numpy as np

from ascpipe.kernels.door import inner
from ascpipe.kernels.planner_memory import entries_of, view_of
from ascpipe.kernels.swaps import MOST_USES, score_of
from ascpipe.kernels.tier_memory import CANDIDATE, PINNED, home_order_of, owners_of, status_of
from ascpipe.kernels.victims import SLOT_MASK, clear_order, drop_slot, expect_slots, put_slot, take_least
from ascpipe.layout.structs import MAX_FRAMES

_NONE = np.uint64(0)


@inner("int32(Planner, Tier, int64)")
def home_score(planner, tier, owner):
    """Score of the home row of an entry as it is now: what counts are the frames that are touched and not near.

    Args:
        planner: of the table.
        tier: of the table.
        owner: entry number.
    """
    view, newest, first_use = view_of(planner), planner["newest"], tier["first_use"]
    found = view.row_of[np.uint64(owner)]
    if found == 0:
        return score_of(entries_of(planner)[np.uint64(owner)]["frequency"], _NONE, newest, first_use)
    row = view.rows[np.uint64(found - 1)]
    return score_of(row["frequency"], row["mask"] & ~tier["near_frames"], newest, first_use)


@inner("boolean(Planner, Tier, int64)")
def may_leave(planner, tier, home):
    """Check whether a home row that has the row of its entry may leave home.

    Args:
        planner: of the table.
        tier: of the table.
        home: a home row that is PINNED or a CANDIDATE.
    """
    owner, view = np.uint64(owners_of(tier)[home]), view_of(planner)
    known = entries_of(planner)[owner]
    if known["slot"] >= 0 or known["home"] != home:  # not yet: a record gives it to the entry
        return False
    found = view.row_of[owner]
    if found == 0:
        return True
    row = view.rows[np.uint64(found - 1)]
    return row["mask"] & tier["near_frames"] == _NONE and row["slot"] < 0 and row["home"] == home


@inner("void(Planner, Tier, int64)")
def offer_home(planner, tier, home):
    """Make a PINNED home row a candidate, if it may leave and there is an order.

    Args:
        planner: of the table.
        tier: of the table.
        home: home row.
    """
    if tier["ordered"] != 0 and status_of(tier)[home] == PINNED and may_leave(planner, tier, home):
        order = home_order_of(tier)
        expect_slots(1, order)
        put_slot(home, home_score(planner, tier, owners_of(tier)[home]), True, order)
        status_of(tier)[home] = CANDIDATE
        tier["candidates"] += 1


@inner("void(Tier, int64)")
def pin_home(tier, home):
    """Keep a candidate at home."""
    drop_slot(home, home_order_of(tier))
    status_of(tier)[home] = PINNED
    tier["candidates"] -= 1


@inner("void(Planner, Tier)")
def order_homes(planner, tier):
    """Make the victim order: of all home rows that may leave.

    Args:
        planner: of the table.
        tier: of the table.
    """
    status = status_of(tier)
    clear_order(home_order_of(tier))
    tier["ordered"] = 1
    tier["candidates"] = 0
    tier["first_use"] = planner["newest"] - MAX_FRAMES + 1
    for home in range(status.shape[0]):
        if status[home] == CANDIDATE:
            status[home] = PINNED
        if status[home] == PINNED:
            offer_home(planner, tier, home)


@inner("int64(Planner, Tier, int64[::1])")
def take_candidates(planner, tier, out_homes):
    """Take the home rows out of the order that leave first.

    Args:
        planner: of the table.
        tier: of the table, with an order.
        out_homes: int64[n]; receives their numbers; they are PINNED then.

    Returns:
        How many there are: n, or all if those are fewer.
    """
    if planner["newest"] - tier["first_use"] > MOST_USES:
        order_homes(planner, tier)
    order, owners, n, chosen = home_order_of(tier), owners_of(tier), out_homes.shape[0], np.int64(0)
    while chosen < n:
        taken = take_least(out_homes[chosen:], order)
        if taken == 0:
            break
        expect_slots(taken, order)
        least, end = np.int64(2**63 - 1), chosen + taken  # least: of those that are put back
        kept = chosen
        for i in range(chosen, end):
            home = out_homes[i] & SLOT_MASK
            score = np.int64(home_score(planner, tier, owners[home]))
            if score == out_homes[i] >> 32:
                out_homes[kept] = out_homes[i]
                kept += 1
            else:
                put_slot(home, score, True, order)
                least = min(least, score << 32 | home)
        while kept > chosen and out_homes[kept - 1] > least:
            kept -= 1
            put_slot(out_homes[kept] & SLOT_MASK, out_homes[kept] >> 32, True, order)
        chosen = kept
    status = status_of(tier)
    for i in range(chosen):
        out_homes[i] &= SLOT_MASK
        status[out_homes[i]] = PINNED
    tier["candidates"] -= chosen
    return chosen
