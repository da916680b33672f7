"""Kernels that choose the rows to spill if there are too few free home rows.

A home row is a CANDIDATE if all of these conditions are true (see ``tier_memory``):

- Its row is only in memory.
- No pinned frame has the key.
- The disk worker does not read or write the home row.

The victim order is created when it is needed for the first time, with all candidates. Rows that no frame of the window
uses are first, the least frequent first. The other rows follow, farthest next use first. Ties are broken by home row.
Scores are corrected when rows are taken, as in the victim order of the device (see ``rescoring``).

The plain-Python version is ``tests/reference/home_order.py``.
"""
import numpy as np

from ascpipe.kernels.door import inner
from ascpipe.kernels.planner_memory import entries_of, view_of
from ascpipe.kernels.rescoring import MOST_USES, take_victims, true_score
from ascpipe.kernels.tier_memory import CANDIDATE, PINNED, home_order_of, owners_of, status_of
from ascpipe.kernels.victims import clear_order, drop_slot, expect_slots, put_slot
from ascpipe.layout.structs import MAX_FRAMES

_NONE = np.uint64(0)


@inner("boolean(Planner, Tier, int64)")
def may_spill(planner, tier, home):
    """Return True if a home row may be spilled.

    Args:
        planner: planner of the table.
        tier: tier of the table.
        home: a home row that is PINNED or a CANDIDATE.
    """
    owner = np.uint64(owners_of(tier)[home])
    view = view_of(planner)
    known = entries_of(planner)[owner]
    if known["slot"] >= 0 or known["home"] != home:  # a record has not assigned the home row to the entry yet
        return False
    found = view.row_of[owner]
    if found == 0:
        return True
    row = view.rows[np.uint64(found - 1)]
    return row["mask"] & tier["pinned_frames"] == _NONE and row["slot"] < 0 and row["home"] == home


@inner("void(Planner, Tier, int64)")
def offer_home(planner, tier, home):
    """Change the status of a home row from PINNED to CANDIDATE if a victim order exists and the row may be spilled.

    Args:
        planner: planner of the table.
        tier: tier of the table.
        home: home row.
    """
    if tier["ordered"] != 0 and status_of(tier)[home] == PINNED and may_spill(planner, tier, home):
        order = home_order_of(tier)
        expect_slots(1, order)
        score = true_score(planner, view_of(planner), owners_of(tier)[home], ~tier["pinned_frames"], tier["first_use"])
        put_slot(home, score, True, order)
        status_of(tier)[home] = CANDIDATE
        tier["candidates"] += 1


@inner("void(Tier, int64)")
def pin_home(tier, home):
    """Change the status of a home row from CANDIDATE to PINNED, and delete the home row from the victim order."""
    drop_slot(home, home_order_of(tier))
    status_of(tier)[home] = PINNED
    tier["candidates"] -= 1


@inner("void(Planner, Tier)")
def order_homes(planner, tier):
    """Create the victim order of the home rows that may be spilled.

    Args:
        planner: planner of the table.
        tier: tier of the table.
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
    """Choose the next home rows to spill, and delete these home rows from the victim order.

    Args:
        planner: planner of the table.
        tier: tier of the table. The victim order must exist.
        out_homes: int64[n]; receives the home rows. They become PINNED.

    Returns:
        Number of candidates taken: n, or all candidates if there are fewer.
    """
    if planner["newest"] - tier["first_use"] > MOST_USES:
        order_homes(planner, tier)
    chosen = take_victims(planner, owners_of(tier), ~tier["pinned_frames"], tier["first_use"], home_order_of(tier),
                          out_homes)
    status = status_of(tier)
    for i in range(chosen):
        status[out_homes[i]] = PINNED
    tier["candidates"] -= chosen
    return chosen
