"""Quarantine of home rows and disk slots by epoch-based reclamation. A row is not overwritten while a reader may still
read the row.

A reader announces the epoch before it locates rows, and clears the announcement when it has read them. When an entry
loses its home row or disk slot, the row or slot is stamped with the epoch; then the epoch is raised. So a reader that
announces a later epoch cannot have found that row or slot. The row or slot becomes free when all announced epochs are
above its stamp.

The plain-Python version is ``tests/reference/quarantine.py``.
"""
import numpy as np

from ascpipe.kernels.atomics import exchange, load_acquire
from ascpipe.kernels.disk_slots import free_disk_slots
from ascpipe.kernels.door import inner
from ascpipe.kernels.planner_memory import free_homes_of
from ascpipe.kernels.tier_memory import (
    FREE,
    QUARANTINED,
    disk_table_of,
    owners_of,
    quarantined_homes_of,
    quarantined_slots_of,
    room_of,
    status_of,
)
from ascpipe.layout.structs import DISK_READERS

_NO_READER = 2**63 - 1


@inner("int64(DiskTable)")
def oldest_reader(header):
    """Return the lowest announced epoch, or a number above all epochs if there is no reader."""
    oldest = np.int64(_NO_READER)
    for reader in range(DISK_READERS):
        epoch = load_acquire(header, "readers", reader)  # SYNC epoch-announced: load
        if epoch != 0:
            oldest = min(oldest, epoch)
    return oldest


@inner("void(Tier)")
def raise_epoch(tier):
    """Increase the epoch with a full fence. Before the call, no entry may refer to a row in quarantine."""
    header = disk_table_of(tier)
    exchange(header, "epoch", 0, header["epoch"] + 1)  # SYNC epoch: store


@inner("void(Tier, int64)")
def quarantine_home(tier, home):
    """Put a home row that no entry uses any more into quarantine. The caller must then call ``raise_epoch``."""
    ring = quarantined_homes_of(tier)
    stamp = ring[np.uint64(tier["quarantined_homes_end"]) & np.uint64(ring.shape[0] - 1)]
    stamp["number"] = home
    stamp["epoch"] = disk_table_of(tier)["epoch"]
    tier["quarantined_homes_end"] += 1
    status_of(tier)[home] = QUARANTINED
    owners_of(tier)[home] = -1


@inner("void(Tier, int64)")
def quarantine_slot(tier, slot):
    """Put a disk slot that no entry uses any more into quarantine. The caller must then call ``raise_epoch``."""
    ring = quarantined_slots_of(tier)
    stamp = ring[np.uint64(tier["quarantined_slots_end"]) & np.uint64(ring.shape[0] - 1)]
    stamp["number"] = slot
    stamp["epoch"] = disk_table_of(tier)["epoch"]
    tier["quarantined_slots_end"] += 1


@inner("boolean(Tier)")
def quarantine_has_room(tier):
    """Return True if the quarantine has space for one more disk slot per home row. Fetches never need more space."""
    quarantined = tier["quarantined_slots_end"] - tier["quarantined_slots_next"]
    return quarantined <= tier["quarantined_slots_room"] - tier["home_rows"]


@inner("void(Planner, Tier, int64)")
def free_home(planner, tier, home):
    """Free a home row that no process accesses.

    Args:
        planner, tier: state of the table.
        home: number of the home row.
    """
    free_homes_of(planner)[planner["free_homes"]] = home
    planner["free_homes"] += 1
    status_of(tier)[home] = FREE
    owners_of(tier)[home] = -1


@inner("boolean(Tier)")
def may_take_free(tier):
    """Return True if free rows and slots may be used. After a restart or a cut, they may be used only when all earlier
    readers have finished.
    """
    if tier["grace_epoch"] != 0 and oldest_reader(disk_table_of(tier)) > tier["grace_epoch"]:
        tier["grace_epoch"] = 0
    return tier["grace_epoch"] == 0


@inner("void(Planner, Tier)")
def release(planner, tier):
    """Free the home rows and disk slots in quarantine that no reader can access any more."""
    homes = quarantined_homes_of(tier)
    slots = quarantined_slots_of(tier)
    next_home = tier["quarantined_homes_next"]
    if next_home == tier["quarantined_homes_end"] and tier["quarantined_slots_next"] == tier["quarantined_slots_end"]:
        return
    oldest = oldest_reader(disk_table_of(tier))
    while tier["quarantined_homes_next"] < tier["quarantined_homes_end"]:
        stamp = homes[np.uint64(tier["quarantined_homes_next"]) & np.uint64(homes.shape[0] - 1)]
        if stamp["epoch"] >= oldest:
            break
        free_home(planner, tier, stamp["number"])
        tier["quarantined_homes_next"] += 1
    one = np.empty(1, np.int64)
    while tier["quarantined_slots_next"] < tier["quarantined_slots_end"]:
        stamp = slots[np.uint64(tier["quarantined_slots_next"]) & np.uint64(slots.shape[0] - 1)]
        if stamp["epoch"] >= oldest:
            break
        one[0] = stamp["number"]
        if free_disk_slots(room_of(tier), one) == 0:
            raise AssertionError("a disk slot in quarantine is free already")
        tier["quarantined_slots_next"] += 1
