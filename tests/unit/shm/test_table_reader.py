"""A reader beside a table worker tells what the table knows, or that it is being changed; never half of a change."""
import itertools
import random

import numpy as np
import pytest

from ascpipe.errors import WrongStateError
from ascpipe.layout import structs
from ascpipe.layout.words import DONE
from ascpipe.shm.table_reader import Moment, RingReader, TableReader
from tests.support.any_schedule import KEYS, AnySchedule
from tests.support.pipeline_sim import Sim
from tests.support.sim_ring import Home
from tests.support.store_pauses import Pauses

SEEDS = 8
LOOKED_AT = 0.1  # of all places between two stores
LARGE = 1 << 40


def read_of(memory):
    return lambda offset, size: memory[offset:offset + size].tobytes()


def reader_of(sim, index, read=read_of):
    table, ring = sim.tables[index], sim.ring
    rings = [RingReader(read(ring.memory), len(ring.memory), ring.table_count, index)]
    return TableReader("user", read(table.memory), int(table.header["entries_offset"]), len(table.entries), rings)


def sim_of(device_rows, **home):
    return Sim([device_rows], capacity=40, homes=[Home(**home)])


def test_a_key_is_told_with_count_batch_time_and_place():
    sim = sim_of(2, rows=8)
    first = sim.train([5, 5, -7], timestamp=30)
    last = sim.train([5, 9], timestamp=40)
    five, seven, other = reader_of(sim, 0).look([5, -7, 11])
    slot = sim.truth(0)[5][2]
    assert five[:6] == (5, True, 3, 40, last.ticket, slot) and five.home == sim.truth(0)[5][3]
    assert seven[:6] == (-7, True, 1, 30, first.ticket, None) and seven.home is not None
    assert other == (11, False, 0, 0, 0, None, None, None, last.ticket)


def test_a_key_that_was_asked_for_twice_is_told_twice():
    sim = sim_of(4)
    sim.train([3])
    assert [one.key for one in reader_of(sim, 0).look([3, 3])] == [3, 3]


def test_a_row_on_disk_is_told_with_its_disk_slot():
    sim = sim_of(2, rows=4, disk=16)
    for first in range(0, 12, 2):
        sim.train([first, first + 1])
        sim.work()
    seen = reader_of(sim, 0).look(range(12))
    on_disk = {one.key for one in seen if one.disk_slot is not None}
    assert on_disk and all(one.home is None for one in seen if one.key in on_disk)
    assert on_disk == {key for key, (_, _, _, home) in sim.truth(0).items() if home <= -2}


def test_a_key_that_is_only_in_a_batch_under_way_is_pinned_and_not_known():
    sim = sim_of(4)
    sim.train([1, 2])
    batch = sim.submit([2, 3])
    sim.work()
    reader = reader_of(sim, 0)
    assert [(one.key, one.is_known) for one in reader.look([1, 2, 3])] == [(1, True), (2, True), (3, False)]
    assert reader.pins([1, 2, 3]) == {1: [], 2: [batch.ticket], 3: [batch.ticket]}
    sim.claim(batch, 0)
    sim.close(batch)
    sim.work()
    assert reader.pins([3]) == {3: []}


def test_a_frame_that_leaves_while_it_is_read_pins_nothing():
    sim = sim_of(4)
    batch = sim.submit([2])
    sim.work()

    def leaving(memory):
        def read(offset, size):
            found = read_of(memory)(offset, size)
            if memory is sim.ring.memory and size == 8:  # the keys
                sim.claim(batch, 0)
                sim.close(batch)
                sim.work()
                sim.pump.free_frames()
            return found

        return read

    assert reader_of(sim, 0, leaving).pins([2]) == {2: []}


@pytest.mark.parametrize("field, value", [
    ("unique_count", LARGE), ("unique_count", -1), ("unique", LARGE), ("unique", -LARGE), ("occurrences", LARGE)])
def test_what_cannot_be_in_a_frame_is_not_followed(field, value):
    sim = sim_of(4)
    batch = sim.submit([2])
    sim.work()
    sim.ring.part(batch.number, 0)[field] = value
    assert reader_of(sim, 0).pins([2]) == {2: []}


def test_a_number_of_entries_that_cannot_be_ends_at_the_capacity():
    sim = sim_of(4)
    sim.train([2])
    sim.tables[0].header["entries_used"] = LARGE
    assert reader_of(sim, 0).look([2])[0].is_known


def test_while_a_record_may_be_half_assigned_nothing_is_told():
    sim = sim_of(4)
    batch = sim.submit([2])
    sim.work()
    sim.claim(batch, 0)
    assert sim.word(batch.number, 0) == DONE
    with pytest.raises(WrongStateError, match="E219: The daemon cannot look at table 'user'.*it changed during each"):
        reader_of(sim, 0).look([2], 0.05)
    sim.close(batch)
    sim.work()
    assert reader_of(sim, 0).look([2])[0].occurrences == 1


def test_while_a_cut_is_not_applied_nothing_is_told():
    sim = sim_of(4)
    sim.train([2])
    sim.ask_reset(0)
    with pytest.raises(WrongStateError, match="it changed during each attempt"):
        reader_of(sim, 0).hottest(3, 0.05)
    sim.work()
    assert not reader_of(sim, 0).look([2])[0].is_known


def test_a_cut_between_the_scan_and_the_end_of_a_look_is_noticed():
    sim = sim_of(8)
    sim.train([2, 3])
    calls = itertools.count()

    def read(memory):
        def call(offset, size):
            found = read_of(memory)(offset, size)
            if size > structs.TABLE.itemsize and memory is sim.tables[0].memory and next(calls) == 0:  # the scan
                sim.ask_reset(0)
                sim.work()
                sim.train([4])
            return found

        return call

    assert [one.is_known for one in reader_of(Padded(sim), 0, read).look([2, 3, 4])] == [False, False, True]


class Padded:
    """A sim of which enough entries are in use for a scan to be longer than a header."""

    def __init__(self, sim):
        self.tables, self.ring = sim.tables, sim.ring
        batch = sim.submit(range(100, 115))
        sim.work()
        sim.close(batch)
        sim.work()


def test_the_hottest_keys_come_by_their_counts_and_then_by_their_numbers():
    sim = sim_of(30)
    sim.train([*range(25), 7, 7, 3, 24])
    assert reader_of(sim, 0).hottest(4) == ([(7, 3), (3, 2), (24, 2), (0, 1)], None, 29)
    assert len(reader_of(sim, 0).hottest(100).keys) == 25


def test_hottest_keys_are_found_beyond_the_first_candidates():
    sim = Sim([400], capacity=600, arena_bytes=1 << 18)
    sim.train(range(300))
    sim.train([299, 150, 150])
    assert reader_of(sim, 0).hottest(2).keys == [(150, 3), (299, 2)]


def test_a_sample_counts_each_batch_under_way_once():
    sim = sim_of(8)
    sim.submit([4, 4, 5])
    sim.submit([4])
    sim.work()
    assert reader_of(sim, 0).sample(5, 0.05) == ([(4, 3), (5, 1)], 2, 4)
    assert reader_of(sim_of(8), 0).sample(5, 0.01) == ([], 0, 0)


def test_counts_are_there_without_admission_and_until_counting_stops():
    assert reader_of(sim_of(8), 0).has_counts
    sim = sim_of(8, rows=16, threshold=2)
    assert (reader_of(sim, 0).has_counts, reader_of(sim, 0).access_threshold) == (True, 2)
    sim.ask_threshold(0, 0)
    sim.work()
    assert not reader_of(sim, 0).has_counts


class LookedAt(AnySchedule):
    """A schedule during which the tables are looked at wherever a worker stands between two stores, and at rest."""

    def __init__(self, pauses, seed):
        super().__init__(pauses, seed)
        self._chance = random.Random(seed)  # of its own: the schedule is as without looks
        self.looks, self.truths = [], {}

    def _at(self, here):
        if not self._is_inside and self._chance.random() < LOOKED_AT:
            self._look()
        super()._at(here)

    def _worker(self):
        super()._worker()
        for index in range(self._tables):
            header = self.sim.tables[index].header
            words = self.sim.ring.tables[index]["words"]
            if header["cut_asked"] == header["cut_applied"] and not (words == DONE).any():
                self.truths[index, int(header["retired"]), int(header["cut_applied"])] = self.sim.truth(index)

    def _look(self):
        for index in range(self._tables):
            reader = reader_of(self.sim, index)
            try:
                seen = reader.look(range(KEYS), 0.0)
            except WrongStateError:
                continue
            cut = int(self.sim.tables[index].header["cut_applied"])
            self.looks.append((index, cut, seen))

    def compared(self):
        """How many looks there were of a moment that was seen at rest, too; each is as it was there."""
        count = 0
        for index, cut, seen in self.looks:
            (as_of,) = {one.as_of for one in seen}
            truth = self.truths.get((index, as_of, cut))
            if truth is None:
                continue
            count += 1
            told = {one.key: (one.occurrences, one.timestamp, -1 if one.slot is None else one.slot,
                              -1 if one.home is None else one.home) for one in seen if one.is_known}
            assert told == truth
        return count


@pytest.fixture
def pauses(monkeypatch):
    return Pauses(monkeypatch)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_told_beside_a_worker_is_what_stands_there_at_rest(pauses, seed):
    run = LookedAt(pauses, seed)
    run.run()
    assert run.compared() > 20


def blind_to_records(monkeypatch):
    monkeypatch.setattr(TableReader, "_may_be_assigning", lambda self: False)


def blind_to_cuts(monkeypatch):
    def stamp(self):
        header = self._header()
        return Moment(int(header["retired"]), int(header["cut_applied"]))

    monkeypatch.setattr(TableReader, "_stamp", stamp)


@pytest.mark.parametrize("flaw", [blind_to_records, blind_to_cuts], ids=lambda flaw: flaw.__name__)
def test_a_reader_that_is_blind_to_changes_is_found_out(pauses, monkeypatch, flaw):
    flaw(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(SEEDS):
            run = LookedAt(pauses, seed)
            run.run()
            run.compared()


def test_a_segment_without_memory_is_read_as_zeros():
    empty = np.zeros(0, np.uint8)
    reader = TableReader("user", read_of(empty), 512, 10, [RingReader(read_of(empty), 0, 1, 0)])
    assert [one.is_known for one in reader.look([1])] == [False]
