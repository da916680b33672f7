"""The free slots of a table behave like a sorted set."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import free_slots
from tests.reference import free_slots as reference
from tests.support.covering import example_count

# one word, its neighbours, one word more than a level of summaries covers
SIZES = [0, 1, 63, 64, 65, 128, 4096, 4097, 5000]
VERBS = st.sampled_from(["lowest", "rebuild", "release"])
STEPS = st.lists(st.tuples(VERBS, st.integers(0, 300), st.integers(0, 2**30)), max_size=30)


class Pair:
    """A tree of words and its twin, always used together."""

    def __init__(self, rows):
        self.rows, self.twin = rows, set(range(rows))
        self.words = np.zeros(free_slots.free_slot_words(rows), np.uint64)
        assert free_slots.rebuild_free_slots(np.full(rows, -1, np.int32), self.words) == rows

    def lowest(self, n, _seed=0):
        out = np.zeros(n, np.int32)
        taken = free_slots.take_lowest_slots(self.rows, self.words, out)
        assert out[:taken].tolist() == reference.take_lowest_slots(self.twin, n)

    def rebuild(self, n, seed):
        entries = np.where(np.random.RandomState(seed).randint(0, 300, self.rows) < n, -1, 0).astype(np.int32)
        self.twin = reference.rebuild_free_slots(entries.tolist())
        assert free_slots.rebuild_free_slots(entries, self.words) == len(self.twin)

    def release(self, n, seed):
        slots = self.draw(n, seed)
        assert free_slots.release_slots(slots, self.rows, self.words) == reference.release_slots(
            slots.tolist(), self.twin, self.rows)

    def draw(self, n, seed):
        """Distinct slots, about one in a hundred of them outside the table."""
        rows = self.rows + 1 + self.rows // 100
        return np.random.RandomState(seed).permutation(rows)[:n].astype(np.int32)

    def check(self):
        """The words are those of a tree that is built from the set."""
        entries = np.zeros(self.rows, np.int32)
        entries[list(self.twin)] = -1
        words = np.zeros_like(self.words)
        assert free_slots.rebuild_free_slots(entries, words) == len(self.twin)
        assert reference.rebuild_free_slots(entries.tolist()) == self.twin
        assert words.tolist() == self.words.tolist()


@pytest.mark.parametrize("rows", SIZES)
@settings(deadline=None, max_examples=example_count(12, 100))
@given(steps=STEPS)
def test_any_sequence_of_takes_releases_and_rebuilds_equals_a_set(rows, steps):
    pair = Pair(rows)
    for verb, n, seed in steps:
        getattr(pair, verb)(n, seed)
    pair.check()
    pair.lowest(rows)


@pytest.mark.parametrize("rows", SIZES)
def test_all_slots_are_taken_in_ascending_order_and_then_none(rows):
    pair = Pair(rows)
    pair.lowest(rows + 3)
    assert pair.twin == set()
    pair.lowest(1)
    assert not pair.words.any()


@pytest.mark.parametrize("rows", SIZES + [2**18 + 1])
def test_words_for_slots_begin_where_the_levels_above_end(rows):
    assert free_slots.first_leaf(rows) == reference.first_leaf(rows)
    assert free_slots.free_slot_words(rows) == reference.first_leaf(rows) + max(1, (rows + 63) // 64)


def test_highest_slot_of_a_table_with_four_levels_is_found_alone():
    rows = 2**18 + 1
    words = np.zeros(free_slots.free_slot_words(rows), np.uint64)
    assert free_slots.release_slots(np.array([rows - 1], np.int32), rows, words) == 1
    out = np.zeros(2, np.int32)
    assert free_slots.take_lowest_slots(rows, words, out) == 1
    assert out[0] == rows - 1
    assert not words.any()


@pytest.mark.parametrize("rows", [64, 4096, 4097])
def test_taking_the_last_slot_of_a_word_is_said_in_the_words_above(rows):
    pair = Pair(rows)
    pair.lowest(64)
    pair.check()
    pair.lowest(1)


def test_what_is_taken_next_depends_on_the_set_alone():
    first, second = Pair(200), Pair(200)
    first.lowest(150)
    second.lowest(200)
    first.release(100, 5)
    free = np.array(sorted(first.twin), np.int32)[::-1].copy()
    assert free_slots.release_slots(free, 200, second.words) == len(free)
    assert first.words.tolist() == second.words.tolist()


@pytest.mark.parametrize("slot", [-1, 100, 2**31 - 1, -(2**31)])
def test_a_slot_of_no_table_is_refused_by_its_index(slot):
    pair = Pair(100)
    pair.lowest(10)
    slots = np.array([3, slot, 4], np.int32)
    assert free_slots.release_slots(slots, 100, pair.words) == 1
