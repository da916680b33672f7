"""Compares the tier of a ``TwinTable`` with its twin."""
import ctypes

import numpy as np

from ascpipe.kernels.disk_slots import mask_words
from ascpipe.kernels.tier_memory import NO_FETCH, STAMP
from ascpipe.kernels.victims import NOT_IN
from ascpipe.layout.words import HOME_DISK
from tests.reference.bits import frame_bit

ROW_FLOATS = 300  #: three rows in a block
_REQUEST = ("key", "slot", "entry", "generation", "kind", "error", "word")


def lent(tier, field, n, kind):
    """The array of n items that a tier knows by this field."""
    size = int(n) * np.dtype(kind).itemsize
    return np.ndarray((int(n),), kind, (ctypes.c_char * size).from_address(int(tier[field])))


def compare_tier(pair):
    """All of both says the same."""
    tier, twin, table = pair.table.tier._tier, pair.twin.tier, pair.segment.disk_table
    for name in ("newest_pinned", "lacking", "candidates", "spilling", "grace_epoch", "failed_writes", "last_error",
                 "lost"):
        assert tier[name] == getattr(twin, name), name
    assert tier["pinned_frames"] == sum(map(frame_bit, twin.pinned_frames))
    assert [int(table[name]) for name in ("epoch", "asked", "taken", "fetches", "spills", "waits", "waiting")] == [
        twin.epoch, len(twin.asks), twin.taken, twin.fetches, twin.spills, twin.waits, twin.waiting]
    _compare_home_rows(tier, twin)
    _compare_view(pair, tier, twin)
    _compare_lists(pair, tier, twin)
    _compare_disk_slots(pair, tier, twin)


def _compare_home_rows(tier, twin):
    assert lent(tier, "status_at", twin.home_rows, np.uint8).tolist() == twin.status
    assert lent(tier, "owners_at", twin.home_rows, np.int32).tolist() == twin.owners
    assert tier["ordered"] == twin.is_ordered
    if twin.is_ordered:
        assert tier["first_use"] == twin.first_use
        scores = lent(tier, "scores_at", twin.home_rows, np.int32).tolist()
        assert {home: score for home, score in enumerate(scores) if score != NOT_IN} == twin.scores


def _compare_view(pair, tier, twin):
    fetch = lent(tier, "fetch_at", tier["view_rows"], np.int32)
    rows = {entry: row for entry, row in pair.rows_of_entries().items() if fetch[row] != NO_FETCH}
    assert {entry: int(fetch[row]) for entry, row in rows.items()} == twin.fetch
    assert np.count_nonzero(fetch) == len(rows)


def _compare_lists(pair, tier, twin):
    for name, begin, end, kind, expected in (
            ("fetch_queue", "fetch_queue_next", "fetch_queue_end", np.int32, twin.fetch_queue),
            ("quarantined_homes", "quarantined_homes_next", "quarantined_homes_end", STAMP, twin.quarantined_homes),
            ("quarantined_slots", "quarantined_slots_next", "quarantined_slots_end", STAMP, twin.quarantined_slots)):
        ring = lent(tier, name + "_at", tier[name + "_room"], kind).tolist()
        assert [ring[place % len(ring)] for place in range(tier[begin], tier[end])] == expected, name
    assert lent(tier, "in_flight_at", tier["in_flight"], np.int32).tolist() == twin.in_flight
    asks = pair.segment.asks
    assert [asks[place % len(asks)] for place in range(twin.taken, len(twin.asks))] == twin.asks[twin.taken:]
    for request, seen in zip(twin.requests, pair.segment.requests):
        assert request.word == seen["word"]
        assert not request.word or request.values() == tuple(int(seen[name]) for name in _REQUEST)


def _compare_disk_slots(pair, tier, twin):
    words = mask_words(twin.per_block)
    masks = lent(tier, "masks_at", tier["blocks"] * words, np.uint64).tolist()
    assert {block * twin.per_block + 64 * word + bit for block in range(int(tier["blocks"])) for word in range(words)
            for bit in range(64) if masks[block * words + word] >> bit & 1} == twin.used_slots
    assert lent(tier, "counts_at", tier["blocks"], np.int32).tolist() == [
        next(count for count, stack in enumerate(twin.stacks) if block in stack) for block in range(tier["blocks"])]
    assert tier["disk_rows"] == sum(
        entry.home <= HOME_DISK for entry in map(pair.twin.entries.__getitem__, pair.twin.view))
