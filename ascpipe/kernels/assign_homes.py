"""Kernel that stores the home rows of a trained batch in the entries of a table with rows on disk.

The plain-Python version is ``tests/reference/assign_homes.py``.
"""
import numpy as np

from ascpipe.kernels.atomics import load_acquire, store_home
from ascpipe.kernels.disk_requests import empty_request
from ascpipe.kernels.door import inner
from ascpipe.kernels.planner_memory import entries_of, held_rows_of
from ascpipe.kernels.quarantine import quarantine_slot, raise_epoch
from ascpipe.kernels.tier_memory import NO_FETCH, PINNED, fetch_of, owners_of, requests_of, status_of
from ascpipe.layout.words import HOME_DISK, REQUEST_EMPTY, TRAINED


@inner("void(Planner, Tier, int64, Record)")
def assign_homes(planner, tier, number, record):
    """For each key of a record, store the home row in the key's entry, and release the key's disk slot.

    The disk slots are released because a step may have changed the rows. If the tier is not derived yet, only the
    entries are changed. ``derive_tier`` then computes the other state of the tier. The function is idempotent.

    Args:
        planner: planner of the table.
        tier: tier of the table.
        number: number of the frame, which must hold the entries.
        record: record of the frame.
    """
    entries = entries_of(planner)
    requests = requests_of(tier)
    if tier["is_derived"] == 0:
        for i in range(record.held.shape[0]):
            known = entries[np.uint64(record.held[i])]
            if record.homes[i] >= 0 and known["home"] != record.homes[i]:
                store_home(known, TRAINED, known["generation"], record.homes[i])
        return
    status = status_of(tier)
    owners = owners_of(tier)
    fetch = fetch_of(tier)
    listed = held_rows_of(planner, number)
    left = np.int64(0)
    for i in range(record.held.shape[0]):
        home = record.homes[i]
        if home < 0:
            continue
        known = entries[np.uint64(record.held[i])]
        before = known["home"]
        if before != home:
            store_home(known, TRAINED, known["generation"], home)
            if before <= HOME_DISK:
                quarantine_slot(tier, HOME_DISK - before)
                tier["disk_rows"] -= 1
                left += 1
            owners[home] = record.held[i]
            status[home] = PINNED
        if fetch[np.uint64(listed[i])] != NO_FETCH:
            fetch[np.uint64(listed[i])] = NO_FETCH
            if load_acquire(requests[home], "word", 0) != REQUEST_EMPTY:
                empty_request(tier, home)
    if left > 0:
        raise_epoch(tier)
