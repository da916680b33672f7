"""Kernels that process the results of requests that the disk worker has finished.

The kernels update the table's rows, home rows and disk slots. The plain-Python version is
``tests/reference/completions.py``.
"""
import numpy as np

from ascpipe.kernels.atomics import load_acquire, store_home
from ascpipe.kernels.disk_requests import counts, empty_request, is_stored
from ascpipe.kernels.disk_slots import free_disk_slots
from ascpipe.kernels.door import entry, inner
from ascpipe.kernels.home_order import offer_home
from ascpipe.kernels.planner_memory import entries_of, view_of
from ascpipe.kernels.quarantine import free_home, quarantine_home, raise_epoch
from ascpipe.kernels.tier_memory import (
    CANCELLED,
    DROPPED,
    FETCH_TO,
    FETCHED,
    FETCHING,
    PINNED,
    SPILLING,
    fetch_of,
    in_flight_of,
    requests_of,
    room_of,
    status_of,
)
from ascpipe.layout.words import HOME_DISK, REQUEST_ASKED, REQUEST_DONE, REQUEST_READ, REQUEST_TAKEN


@inner("void(Planner, Tier, int64)")
def complete_read(planner, tier, home):
    """Process the result of a READ request. Keep the row if a pinned frame waits for it; otherwise, free the home row.

    Args:
        planner: planner of the table.
        tier: tier of the table. ``lost`` receives the home row if its row cannot be read.
        home: number of the request, which is DONE or FAILED.
    """
    request = requests_of(tier)[home]
    status = status_of(tier)
    view = view_of(planner)
    if counts(request, home, entries_of(planner)[np.uint64(request["entry"])]):
        if request["word"] != REQUEST_DONE:
            tier["lost"] = home
            return
        found = view.row_of[np.uint64(request["entry"])]
        if found > 0 and fetch_of(tier)[np.uint64(found - 1)] == home + FETCH_TO:
            status[home] = FETCHED
            view.rows[np.uint64(found - 1)]["home"] = home
            return
    # No frame waits for the row, or a worker assigned this home row and was killed before it emptied the request.
    is_copy = status[home] == FETCHING
    empty_request(tier, home)
    if is_copy:
        free_home(planner, tier, home)  # no reader has the number of this home row


@inner("void(Planner, Tier, int64)")
def complete_write(planner, tier, home):
    """Process the result of a WRITE request. After the call, the row is on disk, or still in memory if the write
    failed.

    Args:
        planner: planner of the table.
        tier: tier of the table.
        home: number of the request, which is DONE or FAILED.
    """
    request = requests_of(tier)[home]
    status = status_of(tier)
    view = view_of(planner)
    known = entries_of(planner)[np.uint64(request["entry"])]
    is_done = request["word"] == REQUEST_DONE
    of_use = counts(request, home, known)
    if of_use and is_done:
        on_disk = HOME_DISK - request["slot"]
        store_home(known, known["state"], request["generation"], on_disk)
        found = view.row_of[np.uint64(request["entry"])]
        if found > 0:
            view.rows[np.uint64(found - 1)]["home"] = on_disk
        tier["spilling"] -= 1
        tier["disk_rows"] += 1
        quarantine_home(tier, home)
        empty_request(tier, home)
        return
    if of_use:  # The write failed, but the row may still be on disk. Later requests must have another generation.
        store_home(known, known["state"], known["generation"] + 1, home)
        tier["spilling"] -= 1
    if not is_done:
        tier["failed_writes"] += 1
        tier["last_error"] = request["error"]
    stored = is_stored(request, known)
    slot = np.full(1, request["slot"], np.int64)
    empty_request(tier, home)
    if not stored and is_done:
        free_disk_slots(room_of(tier), slot)  # no reader has this slot; after a failed write, it is not used again
    if status[home] == DROPPED:
        quarantine_home(tier, home)
    elif status[home] == SPILLING or status[home] == CANCELLED:
        status[home] = PINNED
        offer_home(planner, tier, home)


@entry("int64(Planner, Tier)")
def complete_requests(planner, tier):
    """Process the results of all requests that the disk worker has finished.

    Args:
        planner: planner of the table.
        tier: tier of the table. ``lost`` is set if a row cannot be read.

    Returns:
        Number of completed requests.
    """
    in_flight = in_flight_of(tier)
    requests = requests_of(tier)
    left = np.int64(0)
    n = tier["in_flight"]
    for i in range(n):
        home = in_flight[i]
        word = load_acquire(requests[home], "word", 0)  # SYNC request-done: load
        if word == REQUEST_ASKED or word == REQUEST_TAKEN:
            in_flight[left] = home
            left += 1
        elif requests[home]["kind"] == REQUEST_READ:
            complete_read(planner, tier, home)
        else:
            complete_write(planner, tier, home)
    tier["in_flight"] = left
    if left < n:
        raise_epoch(tier)
    return n - left
