"""The key index behaves like a dictionary."""
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascpipe.kernels import index
from ascpipe.kernels.hashing import spread_of
from ascpipe.kernels.records import EXTENT, LINE
from ascpipe.layout.structs import ENTRY
from ascpipe.layout.words import FREE, TRAINED
from ascpipe.tables import key_index
from tests.reference import index as reference
from tests.support.covering import some

CAPACITY = 16
SPREAD = spread_of(1)
KEYS = st.one_of(st.integers(0, 20), st.sampled_from([-(2**63), -(2**63) + 1, -1, 2**63 - 1]))
BATCHES = st.lists(KEYS, max_size=12)
DISTINCT = st.lists(KEYS, max_size=12, unique=True)
STEPS = st.lists(st.one_of(
    st.tuples(st.just("claim"), DISTINCT), st.tuples(st.just("remove"), BATCHES), st.tuples(st.just("find"), BATCHES)),
    max_size=40)


class Pair:
    """An index and its twin, always used together.

    Args:
        capacity: entries there are, all in the stack of free ones.
        count: keys that the index is made for; it grows when there are more.
    """

    def __init__(self, capacity=CAPACITY, spread=SPREAD, count=0):
        self.spread = spread
        self.owner = key_index.KeyIndex(spread, capacity)
        self.owner.clear(count)
        self.free = np.arange(capacity, dtype=np.int32)[::-1].copy()  # the lowest on top
        self.free_count = np.array([capacity], np.int64)
        self.twin = {}

    @property
    def index(self):
        return self.owner.index

    @property
    def extent(self):
        """As the twin has it."""
        extent = self.index.extent[0]
        return int(extent["lines"]), int(extent["lines_before"]), int(extent["frontier"])

    def find(self, keys):
        out = np.zeros(len(keys), np.int32)
        missing = index.find_keys(int64(keys), len(keys), self.index, out)
        assert (missing, out.tolist()) == reference.find_keys(keys, self.twin)
        return out.tolist()

    def claim(self, keys):
        """Give each key that is not there a free entry, as a table does; -(how many are needed) if fewer are free."""
        entries = self.find(keys)
        if entries.count(-1) > self.free_count[0]:
            return -entries.count(-1)
        index.make_room(entries.count(-1), self.index)
        for key, entry in zip(keys, entries):
            if entry < 0:
                self.free_count[0] -= 1
                self.insert(key, int(self.free[self.free_count[0]]))
        return entries.count(-1)

    def remove(self, keys):
        given_back = [self.twin[key] for key in dict.fromkeys(keys) if key in self.twin]
        removed = index.remove_keys(int64(keys), len(keys), self.index)
        assert removed == reference.remove_keys(keys, self.twin) == len(given_back)
        self.free[self.free_count[0]:self.free_count[0] + removed] = given_back
        self.free_count[0] += removed

    def insert(self, key, entry):
        before = index.insert_key(key, entry, self.index)
        assert before == reference.insert_key(key, entry, self.twin)

    def check(self):
        held = [pair for line in self.content() for pair in line]
        assert dict(held) == self.twin
        assert self.index.extent[0]["keys"] == len(self.twin)
        assert len({entry for _, entry in held}) == len(held) == len(self.twin)
        self.find(list(self.twin))

    def content(self):
        """(key, entry) of each place that is used, by line; some empty lines follow."""
        counts = self.index.lines["count"]
        used = max(self.extent[0], int(np.append(0, np.flatnonzero(counts)).max()) + 1) + 5
        lines = self.index.lines[:used]
        return [list(zip(keys[:count], entries)) for keys, entries, count in
                zip(lines["keys"].tolist(), lines["entries"].tolist(), counts.tolist())]

    def by_line(self):
        """By line."""
        return [[key for key, _ in line] for line in self.content()]


def int64(keys):
    return np.array(keys, np.int64)


def home_line(key, lines):
    """In an index of that length that does not grow."""
    return reference.home_line(key, (lines, lines, 0), SPREAD)


def colliding(count, lines):
    """Keys whose search starts at the last line, so that it goes on behind it."""
    keys = (key for key in range(10**6) if home_line(key, lines) == lines - 1)
    return [next(keys) for _ in range(count)]


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**31 - 1), st.integers(1, 2**31 - 1), st.integers(0, 2**32),
       st.integers(0, 2**64 - 1))
def test_the_home_line_of_a_key_equals_the_reference(key, lines, before, frontier, seed):
    extent = np.zeros(1, EXTENT)
    extent["lines"], extent["lines_before"], extent["frontier"] = lines, before, frontier
    extent["spread"] = spread_of(seed)
    assert int(index.home_line(key, extent[0])) == reference.home_line(key, (lines, before, frontier), spread_of(seed))


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
def test_removal_from_a_chain_behind_the_last_line_keeps_the_others(victim):
    pair = Pair(30, count=30)  # 8 lines
    keys = colliding(12, 8)
    pair.claim(keys)
    assert [len(line) for line in pair.by_line()][:12] == [0, 0, 0, 0, 0, 0, 0, 5, 5, 2, 0, 0]
    pair.remove([keys[victim]])
    pair.check()
    assert [len(line) for line in pair.by_line()][7:10] == [5, 5, 1]
    assert pair.find(keys).count(-1) == 1


def test_removal_leaves_a_neighbour_in_its_own_line():
    pair = Pair(30, count=30)
    keys = [key for key in range(10**5) if home_line(key, 8) == 3][:6]
    neighbour = next(key for key in range(10**5) if home_line(key, 8) == 4)
    pair.claim([*keys, neighbour])
    assert pair.by_line()[4] == [keys[5], neighbour]
    pair.remove(keys[:1])
    assert sorted(pair.by_line()[3]) == keys[1:]  # the last one has moved back
    assert pair.by_line()[4] == [neighbour]
    pair.remove([*keys[1:], neighbour])
    assert not any(pair.content())


@pytest.mark.parametrize("seed", some(range(20), *range(8)))
def test_removal_keeps_chains_that_run_into_each_other(seed):
    random = np.random.RandomState(seed)
    pair = Pair(64, count=64)
    lines = pair.extent[0]
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
    held = pair.owner.rebuild(len(entries), len(entries), table_of([key for key, _ in entries], live))
    assert held == reference.rebuild_index([key for key, _ in entries], live, pair.twin)
    pair.check()


def table_of(keys, live):
    """The entries of a table; one that is never to be read follows."""
    entries = np.full(6 * (len(keys) + 1), -99, np.int64).view(ENTRY)
    entries["key"][:-1], entries["state"][:-1] = keys, np.where(live, TRAINED, FREE)
    return entries


def test_place_of_a_key_is_where_its_chain_ends():
    pair = Pair(30, count=30)
    keys = colliding(8, 8)
    pair.claim(keys[:7])
    for key in keys:
        assert index.find_place(key, np.uint64(7), pair.index.lines) == reference.find_place(key, 7, pair.by_line())


def lines_looked_at(pair):
    """Lines that a search of each key looks at, in all."""
    return sum(1 + number - reference.home_line(key, pair.extent, pair.spread)
               for number, line in enumerate(pair.by_line()) for key in line)


def test_keys_that_were_made_to_meet_in_one_line_are_as_random_ones_for_another_seed():
    n = 240  # 64 lines
    keys = [key for key in range(64 * (n + 100)) if home_line(key, 64) == 9][:n]
    for seed in range(1, 40):
        pair = Pair(n, spread_of(seed), count=n)
        pair.claim(keys)
        assert pair.extent[0] == 64
        if seed == 1:
            assert lines_looked_at(pair) == 5 * sum(range(1, n // 5 + 1))
        else:
            assert lines_looked_at(pair) < 2 * n  # random ones: 1.2 n


# ---- growth

def test_each_line_of_an_index_is_a_cache_line():
    for most in (0, 5, 100, 10**5):
        made = key_index.KeyIndex(SPREAD, most)
        assert made.index.lines.ctypes.data % 64 == 0
        assert LINE.itemsize == 64


def grown(seed, step, most=3000):
    """An index after each step in which that many keys came, and some went; with its twin."""
    rng, pair = np.random.RandomState(seed), Pair(most, spread_of(seed))
    while len(pair.twin) + step <= most:
        pair.claim(rng.randint(-(2**62), 2**62, step).tolist())
        pair.remove(list(pair.twin)[:step // 3])
        yield pair


@pytest.mark.parametrize("seed, step", [(1, 1), (2, 2), (3, 7), (4, 40), (5, 500)])
def test_an_index_that_grows_as_keys_come_equals_a_dictionary(seed, step):
    sizes, growing = set(), 0
    for pair in grown(seed, step, 1500 if step > 7 else 300):
        pair.check()
        sizes.add(pair.extent[0])
        growing += pair.index.extent[0]["unmoved"] > 0
    assert len(sizes) > (4 if step < 100 else 1)
    assert growing > 3 or step == 500


@pytest.mark.parametrize("step", [1, 3, 50])
def test_every_key_can_be_found_after_each_run_that_moves(step):
    pair = Pair(400, count=300)
    pair.claim(np.random.RandomState(step).randint(-(2**62), 2**62, pair.extent[0] * 4).tolist())
    assert pair.index.extent[0]["unmoved"] == 0
    index.make_room(1, pair.index)  # begins to grow
    while pair.index.extent[0]["unmoved"]:
        before = int(pair.index.extent[0]["unmoved"])
        index.move_lines(step, pair.index)
        assert before - pair.index.extent[0]["unmoved"] >= min(step, before)
        pair.check()
        pair.remove(list(pair.twin)[::47])
        pair.check()
    assert pair.extent[2] == 0


#: A spread by which each hash has a key below 2^32.
TRANSPARENT = (np.uint64(0), np.uint64(1 << 32), np.uint64(0))


def key_of_hash(hashed):
    """The key that has a hash by the spread ``TRANSPARENT``."""
    word = hashed * pow(0x9E3779B1, 2**31 - 1, 2**32) % 2**32  # the inverse of the last multiplier
    return word ^ word >> 15 ^ word >> 30


def test_the_last_key_of_each_line_can_be_found_while_the_lines_behind_it_have_moved():
    pair = Pair(400, TRANSPARENT, count=300)
    lines = pair.extent[0]
    ends = [line for line in range(1, lines) if (line << 32) % lines]
    keys = [key_of_hash((line << 32) // lines) for line in ends]
    assert [reference.home_line(key, pair.extent, TRANSPARENT) + 1 for key in keys] == ends
    pair.claim(keys)
    pair.claim([key for key in range(4 * lines) if key not in keys][:4 * lines - len(keys)])
    index.make_room(1, pair.index)  # begins to grow
    while pair.index.extent[0]["unmoved"]:
        index.move_lines(1, pair.index)
        pair.find(keys)


@pytest.mark.long_once_more
def test_an_index_is_never_much_fuller_than_four_keys_a_line_and_takes_18_bytes_per_key_at_most():
    pair, rng = Pair(9000), np.random.RandomState(1)
    worst = 0
    while len(pair.twin) < 8000:
        keys = rng.randint(-(2**62), 2**62, 20)
        index.make_room(20, pair.index)
        for key in keys.tolist():
            pair.insert(key, len(pair.twin))
        assert len(pair.twin) <= 4 * pair.extent[0]
        if len(pair.twin) > 1000:
            worst = max(worst, pair.owner.nbytes / len(pair.twin))
    pair.check()
    assert worst < 18.2
    assert lines_looked_at(pair) < 1.4 * len(pair.twin)


def test_keys_that_all_meet_in_the_last_line_move_with_it():
    keys = sorted(range(4000), key=lambda key: -reference.hash_key(key, SPREAD))[:100]
    pair = Pair(100)
    for key in keys:
        pair.claim([key])
        pair.check()
    for key in keys[::-1]:
        pair.remove([key])
        pair.check()
    assert not any(pair.content())


@pytest.mark.long_once_more
def test_a_run_of_any_length_moves():
    pair = Pair(3000, count=400)
    keys = sorted(range(40000), key=lambda key: reference.hash_key(key, SPREAD))[20000:20900]
    pair.claim(keys[:400])  # a run of 80 lines
    index.make_room(500, pair.index)
    pair.check()
    pair.claim(keys[400:])
    pair.check()


def test_a_rebuilt_index_has_room_as_needed_and_forgets_the_rest():
    held = key_index.KeyIndex(SPREAD, 300)
    index.insert_key(-5, 1, held.index)
    keys, live = np.arange(300) * 7, np.arange(300) % 3 > 0
    assert held.rebuild(200, 300, table_of(keys, live)) == 200
    assert 4 * held.lines >= 200
    out = np.zeros(301, np.int32)
    index.find_keys(np.append(keys, -5), 301, held.index, out)
    assert out.tolist() == [entry if entry % 3 else -1 for entry in range(300)] + [-1]
    keys[1] = keys[2]
    assert held.rebuild(200, 300, table_of(keys, live)) == 199
