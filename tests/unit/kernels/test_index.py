"""The key index behaves like a dictionary."""
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascpipe.kernels import index
from ascpipe.kernels.hashing import spread_of
from ascpipe.kernels.records import LINE
from ascpipe.layout.structs import ENTRY
from ascpipe.layout.words import FREE, TRAINED
from ascpipe.tables import key_index
from tests.reference import index as reference

CAPACITY = 16
SPREAD = spread_of(1)
KEYS = st.one_of(st.integers(0, 20), st.sampled_from([-(2**63), -(2**63) + 1, -1, 2**63 - 1]))
BATCHES = st.lists(KEYS, max_size=12)
DISTINCT = st.lists(KEYS, max_size=12, unique=True)
STEPS = st.lists(st.one_of(
    st.tuples(st.just("claim"), DISTINCT), st.tuples(st.just("remove"), BATCHES), st.tuples(st.just("find"), BATCHES)),
    max_size=40)


class Pair:
    """An index and its twin, always used together."""

    def __init__(self, capacity=CAPACITY, spread=SPREAD):
        self.spread = spread
        self.lines = key_index.KeyIndex(spread, capacity).lines
        self.free = np.arange(capacity, dtype=np.int32)[::-1].copy()  # the lowest on top
        self.free_count = np.array([capacity], np.int64)
        self.twin = {}

    def find(self, keys):
        out = np.zeros(len(keys), np.int32)
        missing = index.find_keys(int64(keys), len(keys), self.lines, self.spread, out)
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
        removed = index.remove_keys(int64(keys), len(keys), self.lines, self.spread)
        assert removed == reference.remove_keys(keys, self.twin) == len(given_back)
        self.free[self.free_count[0]:self.free_count[0] + removed] = given_back
        self.free_count[0] += removed

    def insert(self, key, entry):
        before = index.insert_key(key, entry, self.lines, self.spread)
        assert before == reference.insert_key(key, entry, self.twin)

    def check(self):
        held = [pair for line in self.content() for pair in line]
        assert dict(held) == self.twin
        assert len({entry for _, entry in held}) == len(held) == len(self.twin)
        self.find(list(self.twin))

    def content(self):
        """(key, entry) of each place that is used, by line."""
        return [list(zip(line["keys"][:line["count"]].tolist(), line["entries"].tolist())) for line in self.lines]

    def by_line(self):
        """By line."""
        return [[key for key, _ in line] for line in self.content()]


def int64(keys):
    return np.array(keys, np.int64)


def home_line(key, lines):
    """Of an index with these lines; by the twin, which takes no array."""
    return reference.home_line(key, lines, SPREAD)


def colliding(count, lines):
    """Keys whose search starts at the last line, so that it goes round the end of the array."""
    keys = (key for key in range(10**6) if home_line(key, lines) == lines - 1)
    return [next(keys) for _ in range(count)]


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 12), st.integers(0, 2**64 - 1))
def test_the_home_line_of_a_key_equals_the_reference(key, bits, seed):
    spread = spread_of(seed)
    assert int(index.home_line(key, np.zeros(1 << bits, LINE), spread)) == reference.home_line(
        key, 1 << bits, spread)


@settings(deadline=None)
@given(STEPS, st.integers(0, 2**64 - 1))
@example([("claim", [-1, -(2**63)]), ("find", [-1, 0, -(2**63)]), ("remove", [-1]), ("find", [-1, -(2**63)])], 0)
def test_any_sequence_of_claims_and_removals_equals_a_dictionary_whatever_the_seed(steps, seed):
    pair = Pair(spread=spread_of(seed))
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


@pytest.mark.parametrize("victim", range(12))
def test_removal_from_a_chain_over_the_end_of_the_array_keeps_the_others(victim):
    pair = Pair(16)  # 8 lines
    keys = colliding(12, len(pair.by_line()))
    pair.claim(keys)
    assert [len(line) for line in pair.by_line()] == [5, 2, 0, 0, 0, 0, 0, 5]
    pair.remove([keys[victim]])
    pair.check()
    assert [len(line) for line in pair.by_line()] == [5, 1, 0, 0, 0, 0, 0, 5]
    assert pair.find(keys).count(-1) == 1


def test_removal_leaves_a_neighbour_in_its_own_line():
    pair = Pair(16)
    keys = colliding(6, len(pair.by_line()))
    pair.claim(keys)
    assert pair.by_line()[0] == keys[5:]
    pair.remove(keys[:1])
    assert sorted(pair.by_line()[-1]) == keys[1:]  # the last one has moved back from line 0
    pair.remove(keys[1:])
    assert pair.content() == [[]] * 8


@pytest.mark.parametrize("seed", range(20))
def test_removal_keeps_chains_that_run_into_each_other(seed):
    random = np.random.RandomState(seed)
    pair = Pair(64)
    lines = len(pair.by_line())
    crowded = [key for key in range(2000) if home_line(key, lines) in (1, 2, lines - 1)]
    pair.claim(crowded[:30])
    for key in random.permutation(crowded[:30]).tolist():
        pair.remove([key])
        pair.check()


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
    live = [live for _, live in entries]
    held = index.rebuild_index(len(entries), table_of([key for key, _ in entries], live), pair.lines, SPREAD)
    assert held == reference.rebuild_index([key for key, _ in entries], live, pair.twin)
    pair.check()


def table_of(keys, live):
    """The entries of a table; one that is never to be read follows."""
    entries = np.full(6 * (len(keys) + 1), -99, np.int64).view(ENTRY)
    entries["key"][:-1], entries["state"][:-1] = keys, np.where(live, TRAINED, FREE)
    return entries


def test_place_of_a_key_is_where_its_chain_ends():
    pair = Pair(16)
    keys = colliding(8, len(pair.by_line()))
    pair.claim(keys[:7])
    last = len(pair.by_line()) - 1
    for key in keys:
        assert index.find_place(key, np.uint64(last), pair.lines) == reference.find_place(
            key, last, pair.by_line())


def lines_looked_at(keys, seed):
    """Lines that a search of each key looks at, in all, in an index that is as full as it may be."""
    pair = Pair(len(keys), spread_of(seed))
    pair.claim(keys)
    lines = pair.by_line()
    return sum(1 + (number - reference.home_line(key, len(lines), pair.spread)) % len(lines)
               for number, line in enumerate(lines) for key in line)


def test_keys_that_were_made_to_meet_in_one_line_are_as_random_ones_for_another_seed():
    n = 240  # three quarters of 64 lines
    keys = [key for key in range(64 * (n + 100)) if home_line(key, 64) == 9][:n]
    assert lines_looked_at(keys, 1) == 5 * sum(range(1, n // 5 + 1))
    assert all(lines_looked_at(keys, seed) < 2 * n for seed in range(2, 40))  # random ones: 1.2 n


# ---- growth

@pytest.mark.parametrize("count", [0, 1, 3, 4, 7, 11, 12, 1000, 983040, 15 * 2**20 // 4, 2**26])
def test_an_index_for_so_many_keys_is_at_most_three_quarters_full_and_not_twice_too_large(count):
    lines = key_index.lines_for(count)
    assert lines & lines - 1 == 0
    assert 4 * count <= 15 * lines
    assert lines == 1 or 8 * count > 15 * lines


def test_each_line_of_an_index_is_a_cache_line():
    for count in (0, 5, 100, 10**5):
        made = key_index.KeyIndex(SPREAD, count)
        assert made.lines.ctypes.data % 64 == 0
        assert LINE.itemsize == 64
        assert len(made.lines) == key_index.lines_for(count)


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=60, unique=True))
def test_a_grown_index_holds_the_same_keys_and_leaves_the_old_one_alone(keys):
    pair = Pair(64)
    pair.claim(keys)
    old = pair.lines.copy()
    pair.lines = np.full(4 * 8 * len(pair.lines), 5, np.int64).view(LINE)
    before = old.copy()
    held = index.grow_index(old, pair.lines, SPREAD)
    assert old.tobytes() == before.tobytes()
    assert (held, pair.twin) == reference.grow_index(pair.twin)
    pair.check()


class Growing(Pair):
    """As a table uses it: room is made before keys are inserted."""

    def __init__(self):
        super().__init__(2000)
        self.index = key_index.KeyIndex(SPREAD)
        self.lines = self.index.lines

    def claim(self, keys):
        self.index.reserve(len(self.twin) + len(keys))
        self.lines = self.index.lines
        return super().claim(keys)


def test_an_index_that_grows_as_keys_come_equals_a_dictionary():
    rng = np.random.RandomState(4)
    pair = Growing()
    sizes = set()
    for _ in range(60):
        pair.claim(rng.choice(2500, 30, replace=False).tolist())
        pair.remove(rng.randint(0, 2500, 10).tolist())
        sizes.add(len(pair.lines))
        assert len(pair.twin) <= pair.index.limit
    pair.check()
    assert len(sizes) > 4
    assert all(size & size - 1 == 0 for size in sizes)


def test_growth_takes_less_than_54_bytes_per_key_while_old_and_new_are_alive():
    held = key_index.KeyIndex(SPREAD, 10**6)
    count = held.limit + 1
    before = held.nbytes
    held.reserve(held.limit)
    assert held.nbytes == before
    held.reserve(count)
    assert (before + held.nbytes) / count < 51.5


def test_an_index_holds_as_many_keys_as_it_reserved_without_growing():
    held = key_index.KeyIndex(SPREAD, 900)
    lines = held.lines
    held.reserve(960)
    assert held.lines is lines
    for key in range(960):
        index.insert_key(key, key, held.lines, SPREAD)
    held.reserve(961)
    assert held.lines is not lines
    out = np.zeros(960, np.int32)
    assert index.find_keys(np.arange(960), 960, held.lines, SPREAD, out) == 0
    assert out.tolist() == list(range(960))


def test_a_rebuilt_index_grows_as_needed_and_forgets_the_rest():
    held = key_index.KeyIndex(SPREAD)
    index.insert_key(-5, 1, held.lines, SPREAD)
    keys, live = np.arange(300) * 7, np.arange(300) % 3 > 0
    assert held.rebuild(200, 300, table_of(keys, live)) == 200
    assert held.limit >= 200
    out = np.zeros(301, np.int32)
    index.find_keys(np.append(keys, -5), 301, held.lines, SPREAD, out)
    assert out.tolist() == [entry if entry % 3 else -1 for entry in range(300)] + [-1]
    keys[1] = keys[2]
    assert held.rebuild(200, 300, table_of(keys, live)) == 199
