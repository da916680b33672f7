"""Lets home rows and disk slots rest that readers may still look at, and frees those that have rested.

A reader announces the epoch before it looks where rows lie, and takes it back when it has read them.  What an entry
had is stamped with the epoch, which is raised then: a reader that announces a later one knows nothing of it.

The readable version is ``tests/reference/rests.py``.
"""
import numpy as np

from ascpipe.kernels.atomics import exchange, load_acquire
from ascpipe.kernels.disk_slots import free_disk_slots
from ascpipe.kernels.door import inner
from ascpipe.kernels.planner_memory import free_homes_of
from ascpipe.kernels.tier_memory import (
    FREE,
    RESTING,
    disk_table_of,
    owners_of,
    resting_homes_of,
    resting_slots_of,
    room_of,
    status_of,
)
from ascpipe.layout.structs import DISK_READERS

_NO_READER = 2**63 - 1


@inner("int64(DiskTable)")
def oldest_reader(header):
    """Return the lowest epoch that a reader has announced, or a number above all epochs."""
    oldest = np.int64(_NO_READER)
    for reader in range(DISK_READERS):
        epoch = load_acquire(header, "readers", reader)  # SYNC epoch-announced: load
        if epoch != 0:
            oldest = min(oldest, epoch)
    return oldest


@inner("void(Tier)")
def raise_epoch(tier):
    """Raise the epoch, by a full fence: once the entries say that what rests now is left."""
    header = disk_table_of(tier)
    exchange(header, "epoch", 0, header["epoch"] + 1)  # SYNC epoch: store


@inner("void(Tier, int64)")
def rest_home(tier, home):
    """Let a home row rest that its entry does not have any more; ``raise_epoch`` follows."""
    ring = resting_homes_of(tier)
    rest = ring[np.uint64(tier["homes_rest_end"]) & np.uint64(ring.shape[0] - 1)]
    rest["number"] = home
    rest["epoch"] = disk_table_of(tier)["epoch"]
    tier["homes_rest_end"] += 1
    status_of(tier)[home] = RESTING
    owners_of(tier)[home] = -1


@inner("void(Tier, int64)")
def rest_slot(tier, slot):
    """Let a disk slot rest that its entry does not have any more; ``raise_epoch`` follows."""
    ring = resting_slots_of(tier)
    rest = ring[np.uint64(tier["slots_rest_end"]) & np.uint64(ring.shape[0] - 1)]
    rest["number"] = slot
    rest["epoch"] = disk_table_of(tier)["epoch"]
    tier["slots_rest_end"] += 1


@inner("boolean(Tier)")
def may_rest(tier):
    """Check whether there is room for the disk slots of all rows that come home: these are no more than home rows."""
    return tier["slots_rest_end"] - tier["slots_rest"] <= tier["resting_slots_room"] - tier["home_rows"]


@inner("void(Planner, Tier, int64)")
def free_home(planner, tier, home):
    """Free a home row that no process looks at.

    Args:
        planner: of the table; receives it on its stack.
        tier: of the table.
        home: home row.
    """
    free_homes_of(planner)[planner["free_homes"]] = home
    planner["free_homes"] += 1
    status_of(tier)[home] = FREE
    owners_of(tier)[home] = -1


@inner("boolean(Tier)")
def may_take_free(tier):
    """Check whether what is free may be used: after a restart or a cut not before readers of before are over."""
    if tier["rests_until"] != 0 and oldest_reader(disk_table_of(tier)) > tier["rests_until"]:
        tier["rests_until"] = 0
    return tier["rests_until"] == 0


@inner("void(Planner, Tier)")
def release(planner, tier):
    """Free the home rows and disk slots that have rested: each reader that may know them is over.

    Args:
        planner: of the table.
        tier: of the table.
    """
    homes, slots = resting_homes_of(tier), resting_slots_of(tier)
    if tier["homes_rest"] == tier["homes_rest_end"] and tier["slots_rest"] == tier["slots_rest_end"]:
        return
    oldest = oldest_reader(disk_table_of(tier))
    while tier["homes_rest"] < tier["homes_rest_end"]:
        rest = homes[np.uint64(tier["homes_rest"]) & np.uint64(homes.shape[0] - 1)]
        if rest["epoch"] >= oldest:
            break
        free_home(planner, tier, rest["number"])
        tier["homes_rest"] += 1
    one = np.empty(1, np.int64)
    while tier["slots_rest"] < tier["slots_rest_end"]:
        rest = slots[np.uint64(tier["slots_rest"]) & np.uint64(slots.shape[0] - 1)]
        if rest["epoch"] >= oldest:
            break
        one[0] = rest["number"]
        if free_disk_slots(room_of(tier), one) == 0:
            raise AssertionError("a disk slot that has rested is free")
        tier["slots_rest"] += 1
