"""The steps of two tables in one ring, one by one and in the loop of a table worker, beside their twins."""
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import next_action, ring_rounds, ring_scan, ring_steps
from ascpipe.kernels.asks import (
    CARRY_OUT,
    ENDED,
    LACKS_CHANGES,
    LACKS_DISK,
    LACKS_ENTRIES,
    LACKS_HOMES,
    LACKS_IMAGES,
    LACKS_NOTHING,
    LACKS_SCRATCH,
    LACKS_VICTIMS,
    PROVIDE,
    RING,
)
from ascpipe.kernels.hashing import spread_of
from ascpipe.kernels.records import LISTENER, ROUNDS, TURN
from ascpipe.kernels.unique import scratch_cells
from ascpipe.layout import structs
from ascpipe.layout.words import CLAIMED, DONE, PLAN_OK, PLANNED, RETIRED, SUBMITTED, TOUCHED
from ascpipe.tables.records import Pending
from tests.reference import batch_steps as table_twins
from tests.reference import ring_rounds as round_twins
from tests.reference import ring_scan as scan_twins
from tests.reference import ring_steps as twins
from tests.reference import window as window_twins
from tests.reference.asks import AWAKE, Listener
from tests.support.covering import example_count
from tests.support.sim_ring import SimRing
from tests.support.twin_disk import DiskWorker
from tests.support.twin_table import TwinTable

DEVICE, HOMES, BOTH = (5, 0), (0, 9), (4, 9)  # device rows, home rows
DISK, HOMES_DISK = (4, 9, 14), (0, 6, 14)  # and disk slots
TABLES = 2
IDS = st.lists(st.integers(0, 11), max_size=7)
ACTIONS = (["submit"] * 4 + ["turn"] * 3 + ["turns_of_the_loop"] * 3 + ["claim"] * 3 + ["finish"] * 3 + [
    "want", "cut", "images", "loading", "bells", "disk", "disk", "disk"])
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), IDS, IDS), max_size=50)
RECORD_FIELDS = ("base", "horizon", "status", "need", "full", "fresh_count", "load_count", "out_count", "admitted",
                 "rows", "time")


class Rings:
    """A ring of two tables, and its twin."""

    def __init__(self, kinds, threshold, home_memory=math.inf, capacity=14):
        self.pump = SimRing(TABLES, 6, 1 << 14, look_ahead=1)
        self.memory, self.ring, self.twin = self.pump.ring.memory, self.pump.ring, scan_twins.Ring(TABLES)
        self.twin.look_ahead, self.twin.plan_ahead = 1, 2
        self.pairs = [TwinTable(*kind[:2], capacity, threshold, 2, home_memory, disk_slots=sum(kind[2:]))
                      for kind in kinds]
        self.disk_workers = [DiskWorker(pair) for pair in self.pairs if pair.twin.tier]
        self.turns = np.zeros(TABLES, TURN)
        self.turns["column"] = range(TABLES)
        self.turns["planner_at"] = [pair.table.planner_at for pair in self.pairs]
        self.twin_turns = [twins.Turn(pair.twin, column) for column, pair in enumerate(self.pairs)]
        self.rounds, self.twin_rounds = np.zeros(1, ROUNDS), round_twins.Rounds()
        bells = 3 if self.disk_workers else 2
        self.bell_fields = np.zeros(bells, structs.BELL)
        self.listeners = np.zeros(bells, LISTENER)
        self.listeners["bell_at"] = self.bell_fields.ctypes.data + structs.BELL.itemsize * np.arange(bells)
        self.listeners["may_pause"] = (0, 1, 1)[:bells]
        self.twin_listeners = [Listener(AWAKE, may_pause) for may_pause in (0, 1, 1)[:bells]]
        self.lacked, self.revoked, self.rung = set(), 0, 0

    # ---- pump, key worker and trainer

    def submit(self, *keys):
        opened = self.pump.submit(*keys, timestamp=3 * len(keys[0]))
        while self.twin.head < self.ring.header["head"]:
            del self.twin.frames[0]
            self.twin.head += 1
        if opened is None:
            return
        number, columns = opened.number, np.zeros(TABLES, np.int64)
        self.twin.frames.append(scan_twins.Frame(number, opened.ticket, opened.timestamp, list(
            map(scan_twins.Part, keys))))
        for table in self.twin.tables:
            table.words[number] = SUBMITTED
        count, most = ring_scan.submitted_parts(self.memory, number, columns)
        counts = np.zeros(count, np.int64)
        ring_scan.dedup_parts(self.memory, number, columns[:count], np.zeros(scratch_cells(int(most)), np.int32),
                              spread_of(3), counts)
        ring_scan.publish_deduped(self.memory, number, columns[:count], counts)
        scan_twins.publish_deduped(self.twin, number, columns.tolist(),
                                   scan_twins.dedup_parts(self.twin, number, columns.tolist()))

    def store(self, number, column, word):
        self.ring.store_word(number, column, word)
        self.twin.tables[column].words[number] = word

    def first(self, column, word):
        """The oldest frame of the table in this state; None if there is none."""
        return next((frame for frame in self.twin.frames if self.twin.tables[column].words[frame.number] == word), None)

    def claim(self, *_):
        for column in range(TABLES):
            frame = self.first(column, PLANNED)
            if frame is not None and frame.parts[column].fields["status"] == PLAN_OK and not frame.closed:
                self.store(frame.number, column, CLAIMED)
                self.ring.frame(frame.number)["trained"] = frame.trained = 1
            elif frame is not None and not frame.trained:
                self.ring.frame(frame.number)["closed"] = frame.closed = 1

    def finish(self, *_):
        for column, table in enumerate(self.twin.tables):
            frame = self.first(column, CLAIMED)
            if frame is not None:
                table.finished = frame.ticket
                self.ring.store_finished(column, frame.ticket)
                self.store(frame.number, column, DONE)
        for frame in self.twin.frames:
            if all(table.words[frame.number] >= CLAIMED for table in self.twin.tables):
                self.ring.frame(frame.number)["closed"] = frame.closed = 1

    def want(self, *_):
        for column, table in enumerate(self.twin.tables):
            frame = self.first(column, TOUCHED)
            table.wanted = frame.ticket if frame is not None else 0
            self.ring.tables[column]["wanted"] = table.wanted

    def cut(self, *_):
        pair = self.pairs[0]
        pair.twin.cut_asked = True
        pair.header["cut_asked"] = pair.header["cut_applied"] + 1

    def images(self, *_):
        """A snapshot begins or ends: it is seen in the planner, or in the header."""
        pair, other = self.pairs
        pair.twin.has_images = not pair.twin.has_images
        pair.planner["has_images"] = pair.twin.has_images
        other.twin.has_images = not other.twin.has_images
        other.header["snapshot_bound"] = other.header["snapshot_copied"] + other.twin.has_images

    def loading(self, *_):
        """A table is granted to the trainer, or is so no more."""
        self.pairs[1].twin.is_loading = not self.pairs[1].twin.is_loading
        self.pairs[1].planner["is_loading"] = self.pairs[1].twin.is_loading

    # ---- the table worker

    def turn(self, *_):
        """A round, step by step."""
        self._go_on(lambda: (
            ring_rounds.take_step(self.memory, self.turns, self.rounds[0], self.listeners),
            round_twins.take_step(self.twin, self.twin_turns, self.twin_rounds, self.twin_listeners)), 1)

    def turns_of_the_loop(self, *_):
        """Rounds, until there is nothing to do, or enough."""
        self._go_on(lambda: (
            ring_rounds.run_tables(self.memory, self.turns, self.rounds, self.listeners),
            round_twins.run_tables(self.twin, self.twin_turns, self.twin_rounds, self.twin_listeners)), 3)

    def bells(self, *_):
        """Owners of bells fall asleep, pause or wake up."""
        for owner, twin, shift in zip(self.bell_fields, self.twin_listeners, (1, 2, 1)):
            owner["waiting"] = twin.waiting = (twin.waiting + shift) % 3

    def disk(self, *keys):
        """Disk workers end a request."""
        for worker, choice in zip(self.disk_workers, map(len, keys)):
            worker.step(choice)

    def _go_on(self, both, most):
        self.rounds["left"], self.twin_rounds.left = most, most
        self.rounds["done"], self.twin_rounds.done = 0, 0
        while True:
            before = [pair.image() for pair in self.pairs]
            asks, twin_asks = both()
            assert asks == twin_asks
            assert {name: self.rounds[name][0] for name in ROUNDS.names} == vars(self.twin_rounds)
            assert self.listeners["waits"].tolist() == [twin.waits for twin in self.twin_listeners]
            self._compare_turns()
            if asks != PROVIDE:
                self.compare()
            if asks == ENDED:
                return
            if asks == PROVIDE:
                lacking = np.flatnonzero(self.turns["lacks"] != LACKS_NOTHING).tolist()
                assert lacking
                for column in lacking:
                    moves = self.rounds["at"][0] == ring_rounds.MOVE_ROWS
                    assert most > 1 or moves or self.pairs[column].image() == before[column]
                    self._provide(column, int(self.turns[column]["lacks"]), int(self.turns[column]["number"]))
            elif asks == CARRY_OUT:
                for column in np.flatnonzero(self.turns["action"]).tolist():
                    done = self._rare(int(self.turns[column]["action"]), self.pairs[column], column,
                                      int(self.turns[column]["number"]))
                    self.rounds["acted"] += done
                    self.twin_rounds.acted += done
            elif asks == RING:
                self.rung += 1

    def _provide(self, column, lacks, number):
        pair, turn, twin_turn = self.pairs[column], self.turns[column], self.twin_turns[column]
        self.lacked.add(lacks)
        turn["lacks"] = twin_turn.lacks = LACKS_NOTHING
        assert lacks != LACKS_DISK
        if lacks == LACKS_IMAGES:
            pair.planner["images_saved_for"] = pair.twin.images_saved_for = number
        elif self.rounds["at"][0] == ring_rounds.MOVE_ROWS:
            assert lacks == LACKS_HOMES and pair.table.provide(lacks, 0)
        elif not pair.table.provide(lacks, self.ring.part(number, column)["unique_count"]):
            assert lacks == LACKS_ENTRIES
            turn["action"] = twin_turn.action = 0
            words = self.twin.tables[column].words
            if any(words[earlier] != RETIRED for earlier in range(self.twin.head, number)):
                pair.planner["touch_blocked"] = pair.twin.touch_blocked = True
            else:
                pair.table.touch_nothing(number)
                window_twins.take_into_window(pair.twin, number, [])
                self.ring.part(number, column)["held"] = 0
                self.store(number, column, TOUCHED)
        pair.provided()

    def _rare(self, action, pair, column, number):
        """What is done table by table; returns whether anything was."""
        if action == next_action.REVOKE:
            part, twin = self.ring.part(number, column), self.twin.frame(number).parts[column]
            made = self.ring_record(part, twin)
            pair.table.take_back(Pending(number, made, part["fresh_count"], 0, 0))
            table_twins.take_back(pair.twin, number, twin.record, twin.fields["fresh_count"])
            self.store(number, column, TOUCHED)
            self.revoked += 1
        elif action == next_action.SKIP:
            twin = self.twin.frame(number).parts[column]
            if self.twin.tables[column].words[number] == TOUCHED:
                pair.table.leave(number)
                window_twins.leave(pair.twin, number)
            pair.planner["touch_blocked"] = pair.twin.touch_blocked = False
            self.store(number, column, RETIRED)
            pair.provided()
        elif action == next_action.APPLY_CUT:
            pair.twin.cut_asked = False
            pair.header["cut_applied"] = pair.header["cut_asked"]
        else:
            return 0  # COUNT_ONLY
        return 1

    @staticmethod
    def ring_record(part, twin):
        """The record as it lies in a part; of no keys if the plan says why there is none."""
        return part.record(len(twin.record.held), part["fresh_count"] + part["load_count"], part["out_count"])

    # ---- both say the same

    def _compare_turns(self):
        for turn, twin in zip(self.turns, self.twin_turns):
            assert (turn["action"], turn["lacks"], turn["done"]) == (twin.action, twin.lacks, twin.done)
            assert turn["action"] == 0 or turn["number"] == twin.number

    def compare(self):
        for column, pair in enumerate(self.pairs):
            pair.compare()
            assert {name: int(pair.header[name]) for name in pair.twin.header} == pair.twin.header
            words = self.twin.tables[column].words
            for frame in self.twin.frames:
                assert self.ring.word(frame.number, column) == words[frame.number]
                if TOUCHED <= words[frame.number] < RETIRED:
                    self._compare_part(self.ring.part(frame.number, column), frame.parts[column], words[frame.number])

    def _compare_part(self, part, twin, word):
        assert part.array("entries", part["held"]).tolist() == twin.entries
        if word >= PLANNED:
            assert {name: part[name] for name in RECORD_FIELDS} == {name: twin.fields[name] for name in RECORD_FIELDS}
            made = twin.record
            assert [array.tolist() for array in self.ring_record(part, twin)] == [
                *made.keys(), made.move_in, made.out_slots, made.out_entries, made.out_homes]


@settings(deadline=None)
@pytest.mark.parametrize("kinds", [(DEVICE, BOTH), (BOTH, HOMES)], ids=["device", "homes"])
@given(st.sampled_from([-1, -1, 1, 3]), st.sampled_from([math.inf, math.inf, 5]), st.sampled_from([14, 8]), STEPS)
def test_tables_of_a_ring_take_the_steps_of_their_twins(kinds, threshold, home_memory, capacity, steps):
    rings = Rings(kinds, threshold, home_memory, capacity)
    for name, *keys in steps:
        getattr(rings, name)(*keys)


@settings(deadline=None, max_examples=example_count(15, 150))
@given(st.sampled_from([-1, 3]), st.sampled_from([math.inf, 5]), STEPS)
def test_tables_of_a_ring_whose_rows_go_to_disk_take_the_steps_of_their_twins(threshold, home_memory, steps):
    rings = Rings((DISK, HOMES_DISK), threshold, home_memory, 14)
    for name, *keys in steps:
        getattr(rings, name)(*keys)


@pytest.mark.parametrize("kinds", [(DEVICE, BOTH), (BOTH, HOMES)], ids=["device", "homes"])
@pytest.mark.parametrize("threshold", [-1, 3])
@pytest.mark.each_value
def test_a_long_run_of_a_ring(kinds, threshold):
    random, rings = np.random.RandomState(1), Rings(kinds, threshold, math.inf, 40)
    for _ in range(500):
        keys = [random.randint(0, size, random.randint(0, 5)).tolist() for size in (5, 9)]  # a batch fits the device
        getattr(rings, ACTIONS[random.randint(len(ACTIONS))])(*keys)
    assert all(pair.header["batches"] > 20 for pair in rings.pairs)
    assert rings.revoked and rings.rung
    assert rings.lacked >= {LACKS_SCRATCH, LACKS_ENTRIES, LACKS_CHANGES, LACKS_HOMES, LACKS_VICTIMS, LACKS_IMAGES}


@pytest.mark.parametrize("kinds", [
    pytest.param((DISK, HOMES_DISK), id="both"), pytest.param((BOTH, DISK), id="one", marks=pytest.mark.long)])
@pytest.mark.long_once_more
def test_a_long_run_of_a_ring_whose_rows_go_to_disk(kinds):
    random, rings = np.random.RandomState(1), Rings(kinds, -1, math.inf, 40)
    for _ in range(500):
        for name in (ACTIONS[random.randint(len(ACTIONS))], "disk"):
            getattr(rings, name)(*[random.randint(0, 12, random.randint(0, 4)).tolist() for _ in range(2)])
    moved = [(pair.twin.tier.fetches, pair.twin.tier.spills) for pair in rings.pairs if pair.twin.tier]
    assert min(pair.header["batches"] for pair in rings.pairs) > 15, moved
    assert min(min(counts) for counts in moved) > 3, moved


@pytest.mark.parametrize("full", [0, 1])
def test_a_batch_that_is_assigned_again_after_a_kill_is_not_counted_again(full):
    pair, ring = TwinTable(*BOTH, 14), SimRing(1, 2, 1 << 12)
    part, twin = ring.ring.part(ring.submit([5, 6, 5]).number, 0), scan_twins.Part([5, 6, 5])
    twin.fields = {"full": full, "fresh_count": 2, "load_count": 3, "admitted": 9}
    for name, value in twin.fields.items():
        part[name] = value
    for ticket, retired in ((7, 6), (7, 7), (9, 7)):
        pair.header["retired"] = pair.twin.header["retired"] = retired
        ring_steps.count_batch(pair.header, part.fields, ticket)
        twins.count_batch(pair.twin.header, twin, ticket)
        assert {name: int(pair.header[name]) for name in pair.twin.header} == pair.twin.header
    assert (pair.header["batches"], pair.header["hits"]) == (2, 8 * full)


def test_what_is_loading_or_done_is_not_due():
    turn, twin = np.zeros(1, TURN)[0], twins.Turn(None, 0)
    for action, done, lacks in ((1, 0, 0), (1, 1, 0), (1, 0, 2), (2, 0, 0)):
        turn["action"], turn["done"], turn["lacks"] = twin.action, twin.done, twin.lacks = action, bool(done), lacks
        assert ring_steps.is_due(turn, 1) == twins.is_due(twin, 1) == (action == 1 and not done and not lacks)
