"""Looks at a ring, claims of key workers, and what these make of frames, beside their twins."""
import itertools

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascpipe.kernels import ring_scan
from ascpipe.kernels.asks import ENDED, PROVIDE, RING
from ascpipe.kernels.dealing import cells_to_deal
from ascpipe.kernels.hashing import spread_of
from ascpipe.kernels.records import CLAIMS, LISTENER, TURN
from ascpipe.kernels.unique import scratch_cells
from ascpipe.layout import structs
from ascpipe.layout.bells import ASLEEP, AWAKE
from ascpipe.layout.words import CLAIMED, DEDUPED, DONE, PLANNED, RETIRED, SUBMITTED, TOUCHED
from tests.reference import ring_scan as reference
from tests.reference.asks import Listener
from tests.support.sim_ring import make_ring

TABLES = 3
INT64 = st.integers(-(2**63), 2**63 - 1)
BATCHES = st.lists(st.one_of(INT64, st.integers(-2, 5)), max_size=200)  # few values: many duplicates
EXTREMES = [-(2**63), 2**63 - 1, -1, 0, -1, -(2**63)]
GUARD = np.int64(0x5A5A5A5A5A5A5A5A)
WORDS = st.sampled_from([SUBMITTED, SUBMITTED, DEDUPED, TOUCHED, PLANNED, CLAIMED, DONE, RETIRED])
PART_IDS = st.lists(st.integers(-3, 3), max_size=5)
#: words of the tables, claim, closed, trained, ids of the parts
FRAMES = st.lists(st.tuples(st.tuples(*[WORDS] * TABLES), st.sampled_from([0, 0, 7]), st.integers(0, 1),
                            st.integers(0, 1), st.tuples(*[PART_IDS] * TABLES)), max_size=6)
HEADS = st.sampled_from([0, 61, 64, 1000])
RANKS = st.sampled_from([1, 1, 2, 3, 4095])
#: of the ids of every part, again and again; none: each counts once
WEIGHTS = st.lists(st.one_of(st.integers(0, 3), st.just(2**31 - 1)), max_size=3)
SPREAD = spread_of(1)
GUARDED = ("ids", "unique", "restore", "occurrences", "counts")


class Rings:
    """A ring and its twin; after each array of a part stands a guard of 8 bytes."""

    def __init__(self, head, frames, rank_size=1, weights=()):
        needed = sum(TABLES * structs.PART.itemsize + sum(8 * len(ids) * len(GUARDED) + 64 for ids in parts)
                     for *_, parts in frames)
        self.ring, self.twin = make_ring(len(frames[0][0]) if frames else TABLES, 64, needed + 64), None
        self.ring.header["rank_size"], self.weights = rank_size, weights
        self.twin = reference.Ring(len(self.ring.tables), rank_size)
        self.twin.head = self.ring.header["head"] = head
        self.ring.header["tail"] = head + len(frames)
        self.guards = []
        offset = int(self.ring.header["arena_offset"])
        for number, (words, claim, closed, trained, parts) in enumerate(frames, head):
            frame, twin = self.ring.frame(number), reference.Frame(number, 10 * number, 0, [
                reference.Part(ids, self.weights_of(ids)) for ids in parts])
            twin.claim, twin.closed, twin.trained = claim, closed, trained
            frame["number"], frame["ticket"], frame["offset"] = number, twin.ticket, offset
            frame["claim"], frame["closed"], frame["trained"] = claim, closed, trained
            self.twin.frames.append(twin)
            offset += self._fill(number, offset, words, parts)

    def weights_of(self, ids):
        return [weight for weight, _ in zip(itertools.cycle(self.weights), ids)] if self.weights else None

    def _fill(self, number, offset, words, parts):
        """Write the parts of a frame; returns its bytes."""
        place = len(parts) * structs.PART.itemsize
        for column, (word, ids) in enumerate(zip(words, parts)):
            self.ring.store_word(number, column, word)
            self.twin.tables[column].words[number] = word
            part = self.ring.part(number, column)
            part["id_count"] = len(ids)
            for name in GUARDED:
                part[name] = place
                place += (len(ids) * (8 if name in ("ids", "unique", "counts") else 4) + 7) // 8 * 8
                self.guards.append((offset + place) // 8)
                place += 8
            part.array("ids", len(ids))[:] = ids
            if self.weights:
                part["weights"] = part["counts"]
                part.array("weights", len(ids))[:] = self.weights_of(ids)
        self.longs[self.guards] = GUARD
        return place

    @property
    def longs(self):
        return self.ring.memory.view(np.int64)

    def compare(self, number):
        """Words, claim and parts of a frame; every guard."""
        twin = self.twin.frame(number)
        assert self.ring.frame(number)["claim"] == twin.claim
        for column, part in enumerate(twin.parts):
            theirs, n, count = self.ring.part(number, column), len(part.ids), len(part.unique)
            assert self.ring.word(number, column) == self.twin.tables[column].words[number]
            assert theirs["unique_count"] == part.fields.get("unique_count", 0)
            assert theirs.array("ids", n).tolist() == part.ids
            assert part.weights is None or theirs.array("weights", n).tolist() == part.weights
            if part.restore:
                assert theirs.array("unique", count).tolist() == part.unique
                assert theirs.array("restore", n).tolist() == part.restore
                assert theirs.array("occurrences", count).tolist() == part.occurrences
        assert (self.longs[self.guards] == GUARD).all()


def seen(turn):
    count = int(turn["count"])
    return (int(turn["head"]), *[turn[field][:count].tolist() for field in ("words", "closed", "trained")],
            int(turn["wanted"]))


@settings(deadline=None)
@given(HEADS, FRAMES, st.integers(0, 5), st.integers(0, 5))
def test_a_look_sees_what_its_twin_sees(head, frames, wanted, finished):
    rings = Rings(head, frames)
    turn = np.zeros(1, TURN)[0]
    for column in range(TABLES):
        theirs, twin = rings.ring.tables[column], rings.twin.tables[column]
        theirs["wanted"] = twin.wanted = 10 * (head + wanted + column)
        theirs["finished"] = twin.finished = 10 * (head + finished)
        before = rings.ring.memory.tobytes()
        ring_scan.look(rings.ring.memory, column, turn)
        assert seen(turn) == reference.look(rings.twin, column)
        assert rings.ring.memory.tobytes() == before


@settings(deadline=None)
@given(HEADS, FRAMES)
def test_frames_that_training_may_still_take_are_counted_as_by_the_twin(head, frames):
    rings = Rings(head, frames)
    assert ring_scan.count_untrained(rings.ring.memory) == reference.count_untrained(rings.twin)


@settings(deadline=None)
@given(HEADS, FRAMES)
def test_frames_whose_keys_may_travel_are_counted_as_by_the_twin(head, frames):
    rings = Rings(head, frames)
    assert ring_scan.count_deduped(rings.ring.memory) == reference.count_deduped(rings.twin)


@settings(deadline=None)
@given(HEADS, FRAMES, RANKS, WEIGHTS)
def test_key_workers_claim_deduplicate_and_publish_as_their_twins(head, frames, ranks, weights):
    rings, columns = Rings(head, frames, ranks, weights), np.zeros(TABLES, np.int64)
    memory = rings.ring.memory
    for generation in range(8, 8 + len(frames) + 1):
        number = ring_scan.claim_frame(memory, np.uint32(generation))
        assert number == reference.claim_frame(rings.twin, generation)
        if number < 0:
            break
        rings.compare(number)
        count, largest = ring_scan.submitted_parts(memory, number, columns)
        assert (columns[:count].tolist(), largest) == reference.submitted_parts(rings.twin, number)
        chosen, counts = columns[:count].copy(), np.full(count, -1)
        cells = np.zeros(cells_to_deal(int(largest), ranks), np.int32)
        ring_scan.dedup_parts(memory, number, chosen, cells, SPREAD, counts)
        assert counts.tolist() == reference.dedup_parts(rings.twin, number, chosen.tolist())
        rings.compare(number)
        if count and generation % 2:  # another worker, which took this one for dead, was faster
            rings.ring.store_word(number, chosen[0], DEDUPED)
            rings.twin.tables[chosen[0]].words[number] = DEDUPED
        ring_scan.publish_deduped(memory, number, chosen, counts)
        reference.publish_deduped(rings.twin, number, chosen.tolist(), counts.tolist())
    for frame in rings.twin.frames:
        rings.compare(frame.number)


@settings(deadline=None)
@given(HEADS, FRAMES, st.integers(0, 7), st.booleans(), st.booleans(), RANKS, WEIGHTS)
def test_the_loop_of_a_key_worker_goes_through_the_frames_as_its_twin(
        head, frames, most, in_steps, waits, ranks, weights):
    rings, listeners = Rings(head, frames, ranks, weights), np.zeros(1, LISTENER)
    bell = np.zeros(1, structs.BELL)
    listeners["bell_at"], bell["waiting"] = bell.ctypes.data, ASLEEP if waits else AWAKE
    twin_listeners = [Listener(int(bell["waiting"][0]), 0)]
    claims, twin, cells = np.zeros(1, CLAIMS), reference.Claims(9), np.zeros(1, np.int32)
    claims["generation"], claims["left"], twin.left = 9, most, most
    columns, counts = np.zeros((2, len(rings.ring.tables)), np.int64)
    asked = []
    while not asked or asked[-1] != ENDED:
        if in_steps:
            asked.append(ring_scan.take_frame_step(
                rings.ring.memory, claims[0], columns, counts, cells, SPREAD, listeners))
            twin_asks = reference.take_frame_step(rings.twin, twin, len(cells), twin_listeners)
        else:
            asked.append(ring_scan.dedup_frames(rings.ring.memory, claims, columns, counts, cells, SPREAD, listeners))
            twin_asks = reference.dedup_frames(rings.twin, twin, len(cells), twin_listeners)
        assert asked[-1] == twin_asks
        assert [claims[name][0] for name in ("at", "left", "done", "number", "largest")] == [
            twin.at, twin.left, twin.done, twin.number, twin.largest]
        assert [listener["waits"] for listener in listeners] == [listener.waits for listener in twin_listeners]
        for frame in rings.twin.frames:
            rings.compare(frame.number)
        if asked[-1] == PROVIDE:
            cells = np.zeros(cells_to_deal(int(claims["largest"][0]), ranks), np.int32)
    assert asked.count(RING) == (claims["done"][0] if waits else 0)
    assert claims["done"][0] == min(most, sum(claim == 0 for _, claim, *_ in frames))


def test_more_scratch_is_asked_for_with_the_frame_claimed_and_the_loop_goes_on_with_that_frame():
    rings = Rings(5, [((SUBMITTED,), 0, 0, 0, [[1, 2, 1]]), ((SUBMITTED,), 0, 0, 0, [[4]])])
    memory, claims, none = rings.ring.memory, np.zeros(1, CLAIMS), np.zeros(0, LISTENER)
    claims["generation"], claims["left"] = 9, 64
    columns, counts = np.zeros((2, 1), np.int64)
    for _ in range(2):  # again with as little: the same frame is still meant
        assert ring_scan.dedup_frames(memory, claims, columns, counts, np.zeros(4, np.int32), SPREAD, none) == PROVIDE
        assert rings.ring.frames["claim"][5:7].tolist() == [9, 0]
        assert [rings.ring.word(number, 0) for number in (5, 6)] == [SUBMITTED, SUBMITTED]
    assert (claims["number"][0], claims["largest"][0]) == (5, 3)
    assert ring_scan.dedup_frames(
        memory, claims, columns, counts, np.zeros(scratch_cells(3), np.int32), SPREAD, none) == ENDED
    assert [rings.ring.word(number, 0) for number in (5, 6)] == [DEDUPED, DEDUPED]
    assert rings.ring.part(5, 0).array("unique", 2).tolist() == [1, 2]
    assert claims["done"][0] == 2


@settings(deadline=None)
@given(st.lists(BATCHES, max_size=4))
@example([])
@example([[], [1], []])
@example([[3] * 9, EXTREMES, list(range(100))])
def test_parts_of_a_frame_are_deduplicated_each_for_itself(batches):
    rings = Rings(5, [((SUBMITTED,) * len(batches), 0, 0, 0, batches)])
    columns, counts = np.arange(len(batches)), np.full(len(batches), -1)
    largest = max(map(len, batches), default=0)
    ring_scan.dedup_parts(rings.ring.memory, 5, columns, np.full(scratch_cells(largest), 1, np.int32), SPREAD, counts)
    assert counts.tolist() == reference.dedup_parts(rings.twin, 5, columns.tolist())
    rings.compare(5)


@settings(deadline=None)
@given(BATCHES, RANKS, WEIGHTS, st.integers(0, 2**64 - 1), st.sampled_from([-1, 0, 2**31 - 1]))
@example(EXTREMES, 3, [1, 2], 7, 2**31 - 1)
def test_a_frame_that_is_deduplicated_anew_has_the_same_bytes(ids, ranks, weights, seed, garbage):
    rings = Rings(5, [((SUBMITTED,), 0, 0, 0, [ids])], ranks, weights)
    columns, counts, part = np.zeros(1, np.int64), np.zeros(1, np.int64), rings.ring.part(5, 0)
    cells = np.full(cells_to_deal(len(ids), ranks), garbage, np.int32)
    ring_scan.dedup_parts(rings.ring.memory, 5, columns, cells, SPREAD, counts)
    made = {name: part.array(name, len(ids) if name == "restore" else counts[0]).tobytes()
            for name in ("unique", "restore", "occurrences")}
    for name in made:  # as far as the first worker came before it was killed
        part.array(name, len(ids) // 2)[:] = garbage
    again = np.full(1, -1)
    ring_scan.dedup_parts(rings.ring.memory, 5, columns, cells, spread_of(seed), again)
    assert again == counts
    assert made == {name: part.array(name, len(ids) if name == "restore" else counts[0]).tobytes() for name in made}
    assert counts.tolist() == reference.dedup_parts(rings.twin, 5, [0])
    rings.ring.part(5, 0)["unique_count"] = rings.twin.frames[0].parts[0].fields["unique_count"] = counts[0]
    rings.compare(5)
