"""``Table.read``, ``items``, ``assign`` and ``delete`` between the steps of a running program."""
import copy
import itertools
import types

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.errors import ArgumentError, CallOrderError
from ascpipe.tf import Saver, trigger_evict
from ascpipe.tf.checkpoints.live_rows import LiveRows
from mx_rec.core.asc import start_asc_pipeline
from tests.support.on_disk import on_disk
from tests.tf import programs
from tests.tf.one_table import DIM, EXPANSION, batch, one_table

TIERS = {"device": {}, "host": {"device_vocabulary_size": 12, "host_vocabulary_size": 200},
         "disk": on_disk(12, 60), "expansion": EXPANSION}
KEYS = 30
AGE = 60  #: of keys that an eviction deletes; a step takes 10
EVENTS = ["nothing", "assign", "delete", "items", "evict", "save", "restore", "freeze", "unfreeze"]


def adagrad():
    return programs.optimizer("adagrad", 0.5)


def some_batches(dice, count=40):
    return [batch(*dice.randint(0, KEYS, 6), time=100 + 10 * step) for step in range(count)]


class Oracle:
    """Rows, accumulators, counts and timestamps by key, as Adagrad trains them."""

    def __init__(self, threshold):
        self.rows, self.slots, self.counts, self.times = {}, {}, {}, {}
        self.threshold = threshold
        self.is_frozen = False

    def train(self, ids, time):
        keys, counts = np.unique(ids, return_counts=True)
        for key, count in zip(keys.tolist(), counts.tolist()):
            self.counts[key] = self.counts.get(key, 0) + count
            self.times[key] = time
            if key in self.rows or self.counts[key] >= self.threshold:
                self.create(key)
                if self.is_frozen:
                    continue
                gradient = np.full(DIM, count, np.float32)
                self.slots[key] = self.slots[key] + gradient * gradient
                self.rows[key] = self.rows[key] - np.float32(0.5) * gradient / np.sqrt(self.slots[key])

    def create(self, key):
        self.rows.setdefault(key, np.ones(DIM, np.float32))
        self.slots.setdefault(key, np.full(DIM, 0.9, np.float32))

    def assign(self, key, row, slot, now):
        self.create(key)
        self.rows[key] = row
        if slot is not None:
            self.slots[key] = slot
        self.counts[key] = max(self.counts.get(key, 0), self.threshold)
        self.times.setdefault(key, now)

    def delete(self, key):
        for kept in (self.rows, self.slots, self.counts, self.times):
            kept.pop(key, None)


def by_key(blocks):
    """First value of each row."""
    return {key: row for block in blocks for key, row in zip(block.keys.tolist(), block.rows[:, 0].tolist())}


def rows_of(table):
    return by_key(table.items())


def require_equal(found, oracle, keys):
    np.testing.assert_array_equal(found.keys, keys)
    np.testing.assert_array_equal(found.found, [key in oracle.rows for key in keys])
    np.testing.assert_array_equal(found.counts, [oracle.counts.get(key, 0) for key in keys])
    np.testing.assert_array_equal(found.timestamps, [oracle.times.get(key, 0) for key in keys])
    nothing = np.full(DIM, np.nan)
    np.testing.assert_allclose(found.rows, [oracle.rows.get(key, nothing) for key in keys], rtol=1e-5)
    (slot,) = found.slots.values()
    np.testing.assert_allclose(slot, [oracle.slots.get(key, nothing) for key in keys], rtol=1e-5)


class Run:
    """A program whose rows are changed at random between its steps, beside an oracle that does the same.

    Args:
        program: ``one_table`` of ``some_batches``, with Adagrad.
        folder: of checkpoints.
    """

    def __init__(self, program, session, oracle, dice, folder):
        self._program, self._session, self._dice, self._folder = program, session, dice, folder
        self._table, self._saver = program.table, Saver()
        self.oracle, self.now = oracle, 0
        self._saved = None

    def event(self, name):
        getattr(self, name)(self._dice.choice(KEYS + 10, 5, replace=False))

    def nothing(self, keys):
        pass

    def assign(self, keys):
        rows = self._dice.randn(5, DIM).astype(np.float32)
        slots = self._dice.rand(5, DIM).astype(np.float32) + 1
        with_slots = bool(self._dice.randint(2))
        name = next(iter(self._table.read([]).slots))
        self._table.assign(keys, rows, {name: slots} if with_slots else None)
        for key, row, slot in zip(keys.tolist(), rows, slots):
            self.oracle.assign(key, row, slot if with_slots else None, self.now)

    def delete(self, keys):
        gone = sum(key in self.oracle.counts for key in keys.tolist())
        assert self._table.delete(keys) == gone
        for key in keys.tolist():
            self.oracle.delete(key)

    def items(self, keys):
        blocks = list(self._table.items(block=7))
        assert all(len(block.keys) <= 7 and block.found.all() for block in blocks)
        assert sorted(key for block in blocks for key in block.keys.tolist()) == sorted(self.oracle.rows)

    def freeze(self, keys):
        self.oracle.is_frozen = True
        self._table.freeze()

    def unfreeze(self, keys):
        self.oracle.is_frozen = False
        self._table.unfreeze()

    def evict(self, keys):
        trigger_evict(self._session)
        for key in [key for key, time in self.oracle.times.items() if self.now - time >= AGE]:
            self.oracle.delete(key)

    def save(self, keys):
        prefix = self._saver.save(self._session, str(self._folder / "model"), global_step=self.now,
                                  save_delta=bool(self._dice.randint(2)))
        self._saved = prefix, copy.deepcopy(self.oracle), self.now

    def restore(self, keys):
        if self._saved is not None:
            prefix, oracle, self.now = self._saved
            oracle = copy.deepcopy(oracle)
            oracle.is_frozen = self.oracle.is_frozen  # not part of a checkpoint
            self.oracle = oracle
            self._saver.restore(self._session, prefix)

    def check(self):
        asked = self._dice.randint(0, KEYS + 10, 8)
        require_equal(self._table.read(asked), self.oracle, asked.tolist())
        assert self._table.size() == len(self.oracle.rows)


def require_dict(tier, threshold, seed, folder, steps=24):
    """Train, change, save and restore a table at random, and fail if it is not what a dict says."""
    dice = np.random.RandomState(seed)
    batches = some_batches(dice, steps)
    settings = dict(TIERS[tier], spec={"access_threshold": threshold, "eviction_threshold": AGE}, optimizer=adagrad,
                    stages=lambda data: data.prefetch(20))
    with one_table(batches, [0], **settings) as program:
        start_asc_pipeline()
        with programs.session() as session:
            run = Run(program, session, Oracle(threshold), dice, folder)
            program.start(session)
            for step in range(len(batches)):
                program.take()
                run.now = int(batches[step]["time"])
                run.oracle.train(batches[step]["ids"], run.now)
                run.event(dice.choice(EVENTS))
                run.check()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("threshold", [1, 3])
@pytest.mark.each_value
def test_rows_are_those_of_a_dict_whatever_is_trained_and_changed(tier, threshold, seed, tmp_path):
    require_dict(tier, threshold, seed % 2**32, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.timeout_s(900)
def test_rows_of_75_programs_are_those_of_a_dict(tier, seed, tmp_path):
    for number in range(75):
        require_dict(tier, 1 + number % 3, (seed + number) % 2**32, tmp_path / str(number), steps=40)


def test_items_show_the_state_of_the_call_while_training_continues():
    with one_table([batch(1, 2, 3)] * 4, [1]) as program:
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            program.take()
            blocks = program.table.items(block=2)
            first = next(blocks)
            program.take()
            program.table.assign([1], [[9.0] * DIM])
            assert by_key(itertools.chain([first], blocks)) == {1: 0.0, 2: 0.0, 3: 0.0}
            assert program.table.read([1, 2]).rows[:, 0].tolist() == [9.0, -1.0]


def test_checkpoints_before_and_after_an_edit_have_their_own_rows(tmp_path):
    with one_table([batch(1, 2)] * 4, [1, 2, 7]) as program:
        saver = Saver()
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            program.take()
            before = saver.save(run, str(tmp_path / "model"), global_step=1)
            program.table.assign([7, 1], [[5.0] * DIM, [4.0] * DIM])
            program.table.delete([2])
            after = saver.save(run, str(tmp_path / "model"), global_step=2, save_delta=True)
            assert rows_of(program.table) == {1: 4.0, 7: 5.0}
            assert program.read() == {1: 4.0, 2: 0.0, 7: 5.0}
            saver.restore(run, before)
            assert rows_of(program.table) == {1: 0.0, 2: 0.0}
            saver.restore(run, after)
            assert rows_of(program.table) == {1: 4.0, 7: 5.0}
    with open_checkpoint(after) as checkpoint:
        assert checkpoint.tables["ids"].rows == 2


def test_wrong_arguments_are_errors_and_change_nothing():
    with one_table([batch(1, 2)] * 4, [1]) as program:
        start_asc_pipeline()
        for call in (lambda: program.table.read([1]), lambda: program.table.delete([1])):
            with pytest.raises(CallOrderError, match="no session has run"):
                call()
        with programs.session() as run:
            program.start(run)
            program.take()
            table = program.table
            good = np.zeros((2, DIM))
            for message, call in {
                    "keys has the key 4 twice": lambda: table.assign([4, 4], good),
                    "shape \\[2, 3\\]": lambda: table.assign([4, 5], np.zeros((2, 3))),
                    "1 of 2 rows, the first is row 1": lambda: table.assign([4, 5], [[0, 0], [0, np.inf]]),
                    "slots has 'momentum', and table 'ids' has no optimizer slot":
                        lambda: table.assign([4, 5], good, {"momentum": good}),
                    "Pass a vector of integers": lambda: table.read([1.5]),
                    "the shape \\[1, 1\\]": lambda: table.delete([[1]]),
                    "at least 1": lambda: table.items(block=0)}.items():
                with pytest.raises(ArgumentError, match=message):
                    call()
            with pytest.raises(tf.errors.ResourceExhaustedError):
                table.assign(np.arange(1000, 1200), np.zeros((200, DIM)))
            assert table.read([1, 4]).found.tolist() == [True, False] and table.size() == 2


def test_only_rank_0_reads_and_changes_rows():
    live = LiveRows(types.SimpleNamespace(rank=1, ranks=2))
    for call in (lambda: live.read("ids", [1]), lambda: live.delete("ids", [1]),
                 lambda: live.assign("ids", [1], [[0.0] * DIM], None)):
        with pytest.raises(CallOrderError, match="was called on rank 1. Nothing was changed. Call it on rank 0"):
            call()
