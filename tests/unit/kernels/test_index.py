"""The key index behaves like a dictionary."""
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascpipe.kernels import index
from ascpipe.kernels.hashing import hash_key
from tests.reference import index as reference

CAPACITY = 16
KEYS = st.one_of(st.integers(0, 20), st.sampled_from([-(2**63), -(2**63) + 1, -1, 2**63 - 1]))
BATCHES = st.lists(KEYS, max_size=12)
DISTINCT = st.lists(KEYS, max_size=12, unique=True)
STEPS = st.lists(st.one_of(
    st.tuples(st.just("claim"), DISTINCT), st.tuples(st.just("remove"), BATCHES), st.tuples(st.just("find"), BATCHES)),
    max_size=40)


class Pair:
    """An index and its twin, always used together."""

    def __init__(self, capacity=CAPACITY):
        cells = index.cells_for(capacity)
        self.keys, self.entries = np.zeros(cells, np.int64), np.full(cells, -1, np.int32)
        self.free = np.arange(capacity, dtype=np.int32)[::-1].copy()  # the lowest on top
        self.free_count = np.array([capacity], np.int64)
        self.twin = {}

    def find(self, keys):
        out = np.zeros(len(keys), np.int32)
        missing = index.find_keys(int64(keys), len(keys), self.keys, self.entries, out)
        assert (missing, out.tolist()) == reference.find_keys(keys, self.twin)
        return out.tolist()

    def claim(self, keys):
        """Give each key that is not there a free entry, as a table does; -(how many are needed) if fewer are free."""
        entries = self.find(keys)
        if entries.count(-1) > self.free_count[0]:
            return -entries.count(-1)
        for key, entry in zip(keys, entries):
            if entry < 0:
                self.free_count[0] -= 1
                self.insert(key, int(self.free[self.free_count[0]]))
        return entries.count(-1)

    def remove(self, keys):
        given_back = [self.twin[key] for key in dict.fromkeys(keys) if key in self.twin]
        removed = index.remove_keys(int64(keys), len(keys), self.keys, self.entries)
        assert removed == reference.remove_keys(keys, self.twin) == len(given_back)
        self.free[self.free_count[0]:self.free_count[0] + removed] = given_back
        self.free_count[0] += removed

    def insert(self, key, entry):
        assert index.insert_key(key, entry, self.keys, self.entries) == reference.insert_key(key, entry, self.twin)

    def check(self):
        live = self.entries >= 0
        assert dict(zip(self.keys[live].tolist(), self.entries[live].tolist())) == self.twin
        assert len(set(self.entries[live].tolist())) == live.sum() == len(self.twin)
        self.find(list(self.twin))


def int64(keys):
    return np.array(keys, np.int64)


def colliding(count, cells):
    """Keys whose search starts at the last cell, so that it goes round the end of the array."""
    keys = (key for key in range(10**6) if int(hash_key(np.int64(key))) >> 33 & cells - 1 == cells - 1)
    return [next(keys) for _ in range(count)]


@settings(deadline=None)
@given(STEPS)
@example([("claim", [-1, -(2**63)]), ("find", [-1, 0, -(2**63)]), ("remove", [-1]), ("find", [-1, -(2**63)])])
def test_any_sequence_of_claims_and_removals_equals_a_dictionary(steps):
    pair = Pair()
    for verb, keys in steps:
        getattr(pair, verb)(keys)
        pair.check()


def test_a_long_random_life_at_capacity_equals_a_dictionary():
    rng = np.random.RandomState(1)
    pair = Pair(100)
    for _ in range(150):
        pair.claim(rng.choice(400, 30, replace=False).tolist())
        pair.remove(rng.randint(0, 400, 40).tolist())
    pair.check()


def test_claims_fill_the_table_to_its_last_entry_and_no_further():
    pair = Pair(8)
    assert pair.claim(list(range(8))) == 8
    assert pair.claim([100, 3, 101]) == -2
    pair.check()
    assert pair.claim([7, 6, 5]) == 0


def test_no_entry_is_given_twice():
    pair = Pair(64)
    pair.claim(list(range(40)))
    pair.remove(list(range(0, 40, 3)))
    pair.claim(list(range(100, 130)))
    pair.check()


def test_a_batch_of_no_keys_changes_nothing():
    pair = Pair()
    assert pair.find([]) == []
    assert pair.claim([]) == 0
    pair.remove([])
    pair.check()


@pytest.mark.parametrize("victim", range(5))
def test_removal_from_a_chain_over_the_end_of_the_array_keeps_the_others(victim):
    pair = Pair(8)
    keys = colliding(5, len(pair.keys))
    pair.claim(keys)
    pair.remove([keys[victim]])
    pair.check()
    assert pair.find(keys).count(-1) == 1


def test_removal_leaves_a_neighbour_at_its_own_cell():
    pair = Pair(8)
    first, second = colliding(2, len(pair.keys))
    pair.claim([first, second])
    pair.remove([first])
    assert pair.keys[-1] == second  # moved back from cell 0
    pair.remove([second])
    assert (pair.entries == -1).all()


def test_inserting_a_known_key_changes_its_entry():
    pair = Pair()
    pair.insert(5, 3)
    pair.insert(5, 9)
    pair.check()
    assert pair.find([5]) == [9]


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, st.booleans()), max_size=CAPACITY))
def test_rebuilt_index_holds_the_live_entries_and_nothing_else(entries):
    pair = Pair()
    pair.claim([7, 1, -1])
    table = np.zeros((len(entries), 6), np.int64)  # keys lie strided, as in the records of a table
    table[:, 0] = [key for key, _ in entries]
    live = np.array([live for _, live in entries], bool)
    held = index.rebuild_index(table[:, 0], live, pair.keys, pair.entries)
    assert held == reference.rebuild_index(table[:, 0].tolist(), live.tolist(), pair.twin)
    pair.check()


def test_cell_of_a_key_is_where_its_chain_ends():
    pair = Pair(8)
    keys = colliding(3, len(pair.keys))
    pair.claim(keys[:2])
    for key in keys:
        home = np.uint64(len(pair.keys) - 1)
        assert index.find_cell(key, home, pair.keys, pair.entries) == reference.find_cell(
            key, int(home), pair.keys.tolist(), pair.entries.tolist())


# ---- growth

@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 11, 12, 1000, 716800, 7 * 2**20 // 10, 2**26])
def test_an_index_for_so_many_keys_is_at_most_seven_tenths_full_and_not_twice_too_large(count):
    cells = index.cells_for(count)
    assert cells & cells - 1 == 0
    assert 10 * count <= 7 * cells
    assert cells == 2 or 10 * count > 7 * cells // 2


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=60, unique=True))
def test_a_grown_index_holds_the_same_keys_and_leaves_the_old_one_alone(keys):
    pair = Pair(64)
    pair.claim(keys)
    old = (pair.keys.copy(), pair.entries.copy())
    cells = 4 * len(pair.keys)
    pair.keys, pair.entries = np.full(cells, 5, np.int64), np.zeros(cells, np.int32)
    held = index.grow_index(old[0], old[1], pair.keys, pair.entries)
    assert (held, pair.twin) == reference.grow_index(pair.twin)
    pair.check()


class Growing(Pair):
    """As a table uses it: room is made before keys are inserted."""

    def __init__(self):
        super().__init__(2000)
        self.index = index.KeyIndex()
        self.keys, self.entries = self.index.keys, self.index.entries

    def claim(self, keys):
        self.index.reserve(len(self.twin) + len(keys))
        self.keys, self.entries = self.index.keys, self.index.entries
        return super().claim(keys)


def test_an_index_that_grows_as_keys_come_equals_a_dictionary():
    rng = np.random.RandomState(4)
    pair = Growing()
    sizes = set()
    for _ in range(60):
        pair.claim(rng.choice(2500, 30, replace=False).tolist())
        pair.remove(rng.randint(0, 2500, 10).tolist())
        sizes.add(len(pair.keys))
        assert len(pair.twin) <= pair.index.limit
    pair.check()
    assert len(sizes) > 4
    assert all(cells & cells - 1 == 0 for cells in sizes)


def test_growth_takes_less_than_54_bytes_per_key_while_old_and_new_are_alive():
    held = index.KeyIndex(10**6)
    count = held.limit + 1
    before = held.keys.nbytes + held.entries.nbytes
    held.reserve(held.limit)
    assert held.keys.nbytes + held.entries.nbytes == before
    held.reserve(count)
    assert (before + held.keys.nbytes + held.entries.nbytes) / count < 51.5


def test_an_index_holds_as_many_keys_as_it_reserved_without_growing():
    held = index.KeyIndex(700)
    keys = held.keys
    held.reserve(700)
    assert held.keys is keys
    for key in range(700):
        index.insert_key(key, key, held.keys, held.entries)
    held.reserve(717)
    assert held.keys is not keys
    out = np.zeros(700, np.int32)
    assert index.find_keys(np.arange(700), 700, held.keys, held.entries, out) == 0
    assert out.tolist() == list(range(700))


def test_a_rebuilt_index_grows_as_needed_and_forgets_the_rest():
    held = index.KeyIndex()
    index.insert_key(-5, 1, held.keys, held.entries)
    table = np.zeros((300, 6), np.int64)
    table[:, 0] = np.arange(300) * 7
    live = np.arange(300) % 3 > 0
    assert held.rebuild(table[:, 0], live) == 200
    assert held.limit >= 200
    out = np.zeros(301, np.int32)
    index.find_keys(np.append(table[:, 0], -5), 301, held.keys, held.entries, out)
    assert out.tolist() == [entry if entry % 3 else -1 for entry in range(300)] + [-1]
    table[1, 0] = table[2, 0]
    assert held.rebuild(table[:, 0], live) == 199
