"""Kernels that send requests to the disk worker, and that check whether a request is valid.

A request is valid only while its entry has the values from the time of the request. For a READ, these values are
(disk slot, generation); for a WRITE, they are (home row, generation - 1). No other state marks a request as valid, so
a restarted table worker makes the same decisions. Only the disk worker changes ASKED to another word.

The plain-Python version is ``tests/reference/disk_requests.py``.
"""
import numpy as np

from ascpipe.kernels.atomics import exchange, load_acquire
from ascpipe.kernels.door import inner
from ascpipe.kernels.tier_memory import asks_of, disk_table_of, in_flight_of, requests_of
from ascpipe.layout.words import HOME_DISK, REQUEST_ASKED, REQUEST_EMPTY, REQUEST_READ

_MASK = 0xFFFF  # mask of a generation


@inner("boolean(Request, int64, Entry)")
def counts(request, home, known):
    """Return True if a request still matches the entry ``known``.

    Args:
        request: a request that is not EMPTY.
        home: number of the request, which is also the number of its home row.
        known: entry of the request.
    """
    if request["kind"] == REQUEST_READ:
        return known["home"] == HOME_DISK - request["slot"] and known["generation"] == request["generation"]
    return known["home"] == home and ((known["generation"] + 1) & _MASK) == request["generation"]


@inner("boolean(Request, Entry)")
def is_stored(request, known):
    """Return True if a request is a WRITE and the entry ``known`` refers to the disk slot of the request."""
    return (request["kind"] != REQUEST_READ and known["home"] == HOME_DISK - request["slot"]
            and known["generation"] == request["generation"])


@inner("void(Tier, int64)")
def empty_request(tier, home):
    """Set the state of a finished request to EMPTY."""
    exchange(requests_of(tier)[home], "word", 0, np.uint32(REQUEST_EMPTY))  # SYNC request: store


@inner("int64(Tier)")
def room_for_asks(tier):
    """Return how many more requests can be sent. Half of the ring is reserved for requests that a restarted worker
    sends again.
    """
    table = disk_table_of(tier)
    return table["asks_room"] // 2 - (table["asked"] - load_acquire(table, "taken", 0))  # SYNC taken: load


@inner("void(Tier, int64)")
def tell(tier, home):
    """Append the number of a request to the ring that the disk worker reads."""
    table = disk_table_of(tier)
    ring = asks_of(tier)
    ring[np.uint64(table["asked"]) & np.uint64(ring.shape[0] - 1)] = home
    exchange(table, "asked", 0, table["asked"] + 1)  # SYNC asked: store


@inner("void(Tier, Entry, int64, int64, int64, int64)")
def ask(tier, known, number, home, kind, slot):
    """Send a request for one row to the disk worker.

    Args:
        tier: tier of the table.
        known: entry of the row.
        number: number of the entry.
        home: home row, whose request is EMPTY.
        kind: REQUEST_READ or REQUEST_WRITE.
        slot: disk slot.
    """
    request = requests_of(tier)[home]
    request["key"] = known["key"]
    request["slot"] = slot
    request["entry"] = number
    request["generation"] = (known["generation"] + np.int64(kind != REQUEST_READ)) & _MASK
    request["kind"] = kind
    request["error"] = 0
    exchange(request, "word", 0, np.uint32(REQUEST_ASKED))  # SYNC request: store
    tell(tier, home)
    in_flight_of(tier)[tier["in_flight"]] = home
    tier["in_flight"] += 1
