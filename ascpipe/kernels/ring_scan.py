"""Kernels of a key worker. The kernels read the states of a ring's frames, and claim, deduplicate and publish frames.

``memory`` is a ring segment, uint8[bytes]. ``dedup_frames`` is the loop of a key worker. The plain-Python version is
``tests/reference/ring_scan.py``.
"""
import numpy as np

from ascpipe.kernels.asks import CONTINUE, ENDED, PROVIDE, RING, look_at_bells
from ascpipe.kernels.atomics import compare_exchange, load_acquire
from ascpipe.kernels.dealing import deal_keys, least_cells
from ascpipe.kernels.door import entry, inner
from ascpipe.kernels.records import Dedup
from ascpipe.kernels.ring_memory import frame_of, ints_of, longs_of, part_of, ring_of, table_of
from ascpipe.kernels.unique import unique_keys, weigh_keys
from ascpipe.layout.structs import MAX_FRAMES
from ascpipe.layout.words import DEDUPED, SUBMITTED

# Steps of a frame, in ``CLAIMS["at"]``.
CLAIM = 0
DEDUP = 1
PUBLISH = 2


@entry("void(uint8[::1], int64, Turn)")
def look(memory, column, out_turn):
    """Read a consistent state of all frames of a ring, for one table.

    Args:
        memory: the ring.
        column: column of the table in the ring.
        out_turn: TURN that receives the number of the oldest frame, the number of frames, the state of each
            frame, and the frame for which a claim of the table waits.
    """
    ring = ring_of(memory)
    table = table_of(memory, column)
    words = out_turn["words"]
    closed = out_turn["closed"]
    trained = out_turn["trained"]
    while True:
        # Load the tail first. The ring may advance between the loads, and the opposite order would count too
        # many frames.
        tail = load_acquire(ring, "tail", 0)  # SYNC frame-published: load
        head = load_acquire(ring, "head", 0)
        count = min(tail - head, MAX_FRAMES)
        for i in range(count):
            frame = frame_of(memory, head + i)
            # load `closed` first: when a ticket is closed, no table claims it any more, and `trained` is final
            closed[i] = load_acquire(frame, "closed", 0)  # SYNC ticket-closed: load
            # SYNC deduplicated, plan-claimed, plan-done, keys-asked: load
            words[i] = load_acquire(table, "words", (head + i) % MAX_FRAMES)
            trained[i] = load_acquire(frame, "trained", 0)
        # The pump moves the head before it reuses a position. So the state is consistent if the head has not moved.
        if count >= 0 and load_acquire(ring, "head", 0) == head:
            break
    out_turn["head"] = head
    out_turn["count"] = count
    out_turn["wanted"] = -1
    wanted = load_acquire(table, "wanted", 0)
    if wanted > load_acquire(table, "finished", 0):
        for i in range(count):
            if frame_of(memory, head + i)["ticket"] == wanted:
                out_turn["wanted"] = i


@entry("int64(uint8[::1])")
def count_untrained(memory):
    """Return the number of frames of a ring that are neither closed nor trained."""
    ring = ring_of(memory)
    tail = load_acquire(ring, "tail", 0)  # SYNC frame-published: load
    count = 0
    for number in range(load_acquire(ring, "head", 0), tail):
        frame = frame_of(memory, number)
        count += load_acquire(frame, "closed", 0) == 0 and load_acquire(frame, "trained", 0) == 0
    return count


@entry("int64(uint8[::1])")
def count_deduped(memory):
    """Return the number of frames of a LOCAL ring that are DEDUPED for all tables and are not closed."""
    ring = ring_of(memory)
    tail = load_acquire(ring, "tail", 0)  # SYNC frame-published: load
    count = 0
    for number in range(load_acquire(ring, "head", 0), tail):
        waits = load_acquire(frame_of(memory, number), "closed", 0) != 0
        for column in range(ring["table_count"]):
            waits = waits or load_acquire(table_of(memory, column), "words", number % MAX_FRAMES) != DEDUPED
        count += 0 if waits else 1
    return count


@inner("int64(uint8[::1], uint32)")
def claim_frame(memory, generation):
    """Claim the oldest unclaimed frame for a key worker. Return the number of the frame, or -1 if there is none.

    The pump clears the claim after it has filled the frame, so a claimed frame is complete.
    """
    ring = ring_of(memory)
    tail = load_acquire(ring, "tail", 0)  # SYNC frame-published: load
    for number in range(load_acquire(ring, "head", 0), tail):
        frame = frame_of(memory, number)
        if load_acquire(frame, "claim", 0) == 0 and compare_exchange(frame, "claim", 0, np.uint32(0), generation):
            return number
    return -1


@inner("UniTuple(int64, 2)(uint8[::1], int64, int64[::1])")
def submitted_parts(memory, number, out_columns):
    """Find the parts of a frame that wait for a key worker (state SUBMITTED).

    Args:
        memory: the ring.
        number: number of the frame.
        out_columns: int64[tables of the ring]; receives the columns of the tables of these parts.

    Returns:
        (number of parts, number of ids of the largest part).
    """
    count = largest = 0
    frame = frame_of(memory, number)
    for column in range(out_columns.shape[0]):
        if load_acquire(table_of(memory, column), "words", number % MAX_FRAMES) == SUBMITTED:
            out_columns[count] = column
            largest = max(largest, part_of(memory, frame, column)["id_count"])
            count += 1
    return count, largest


@inner("void(uint8[::1], int64, int64[::1], int32[::1], Spread, int64[::1])")
def dedup_parts(memory, number, columns, cells, spread, out_counts):
    """Deduplicate parts of a frame. Write the distinct keys, restore indexes and occurrences to the frame.

    The result depends only on ids and weights. Distinct keys are in order of first appearance. With several
    ranks (``rank_size``), they are ordered by owner, and then by first appearance.

    Args:
        memory: the ring.
        number: number of the frame.
        columns: int64[n]; columns of the tables.
        cells: int32[>= cells_to_deal(most ids of a part, rank_size)]; scratch of any content.
        spread: seed of the hash (see ``hashing``), which does not affect results.
        out_counts: int64[n]; receives the number of distinct keys of each part.
    """
    frame = frame_of(memory, number)
    ranks = ring_of(memory)["rank_size"]
    for i in range(columns.shape[0]):
        part = part_of(memory, frame, columns[i])
        n = part["id_count"]
        dedup = Dedup(
            longs_of(memory, frame, part["ids"], n), longs_of(memory, frame, part["unique"], n),
            ints_of(memory, frame, part["restore"], n), ints_of(memory, frame, part["occurrences"], n), cells)
        n_unique = unique_keys(dedup, spread)
        if part["weights"] != 0:
            weigh_keys(ints_of(memory, frame, part["weights"], n), dedup.restore, dedup.occurrences[:n_unique])
        if ranks > 1:
            deal_keys(dedup, n_unique, ranks)
        out_counts[i] = n_unique


@inner("void(uint8[::1], int64, int64[::1], int64[::1])")
def publish_deduped(memory, number, columns, counts):
    """Publish parts of a frame: store all counts of distinct keys, then the state DEDUPED with full fences.

    Args:
        memory: the ring.
        number: number of the frame.
        columns: int64[n]; columns of the tables.
        counts: int64[n]; number of distinct keys of each part.
    """
    frame = frame_of(memory, number)
    for i in range(columns.shape[0]):
        part_of(memory, frame, columns[i])["unique_count"] = counts[i]
    for i in range(columns.shape[0]):  # SYNC deduplicated: store
        compare_exchange(table_of(memory, columns[i]), "words", number % MAX_FRAMES, np.uint32(SUBMITTED),
                         np.uint32(DEDUPED))


@inner("int64(uint8[::1], Claims, int64[::1], int64[::1], int32[::1], Spread, Listener[::1])")
def take_frame_step(memory, claims, columns, counts, cells, spread, listeners):
    """Execute one step: claim the oldest unclaimed frame, or deduplicate or publish the claimed frame.

    Args:
        memory: the ring.
        claims: CLAIMS of the worker.
        columns, counts: int64[tables of the ring]; receive the columns of the parts, and their counts of distinct keys.
        cells: int32[a power of two]; scratch of any content.
        spread: seed of the hash (see ``hashing``), which does not affect results.
        listeners: LISTENER[n]: bells. ``waits`` receives whether the bell must be rung.

    Returns:
        CONTINUE, RING, ENDED or PROVIDE. After PROVIDE, the caller provides more cells, for a part of
        ``largest`` ids. The frame stays claimed, and the step is repeated.
    """
    number = claims["number"]
    if claims["at"] == CLAIM:
        number = claim_frame(memory, claims["generation"]) if claims["left"] > 0 else -1
        if number < 0:
            return ENDED
        claims["number"] = number
        claims["left"] -= 1
        claims["at"] = DEDUP
    elif claims["at"] == DEDUP:
        claims["parts"], claims["largest"] = submitted_parts(memory, number, columns)
        if cells.shape[0] < least_cells(claims["largest"], ring_of(memory)["rank_size"]):
            return PROVIDE
        dedup_parts(memory, number, columns[:claims["parts"]], cells, spread, counts[:claims["parts"]])
        claims["at"] = PUBLISH
    else:
        publish_deduped(memory, number, columns[:claims["parts"]], counts[:claims["parts"]])
        claims["done"] += 1
        claims["at"] = CLAIM
        if look_at_bells(listeners):
            return RING
    return CONTINUE


@entry("int64(uint8[::1], Claims[::1], int64[::1], int64[::1], int32[::1], Spread, Listener[::1])")
def dedup_frames(memory, claims, columns, counts, cells, spread, listeners):
    """Execute steps until Python code must act. Return the reason; see ``take_frame_step``.

    Args:
        memory: the ring.
        claims: CLAIMS[1].
        columns, counts, cells, spread, listeners: see ``take_frame_step``.
    """
    asks = CONTINUE
    while asks == CONTINUE:
        asks = take_frame_step(memory, claims[0], columns, counts, cells, spread, listeners)
    return asks
