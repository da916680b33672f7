"""The order of victims equals a sorted list, wherever the scores lie."""
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascpipe.kernels import victims
from ascpipe.kernels.records import NODE, ORDER, Victims
from ascpipe.kernels.victims import BLOCK, BUCKETS, COARSE, FINE
from tests.reference import victims as reference

ROWS = 40
SLOTS = st.lists(st.integers(0, ROWS - 1), max_size=12)
# ties, neighbours, blocks, the ends of both rings and of int32
NEAR = st.one_of(st.integers(-3, 3), st.sampled_from([400, -400, BLOCK, -BLOCK, FINE, 1 - FINE, -FINE, -2 * FINE]))
FAR = st.sampled_from([BLOCK * COARSE, -BLOCK * COARSE, -BLOCK * COARSE - FINE, 2**31, -(2**31)])
STEPS = st.lists(st.one_of(
    st.tuples(st.just("put"), SLOTS, st.lists(st.one_of(NEAR, NEAR, NEAR, FAR), min_size=1, max_size=4)),
    st.tuples(st.just("drop"), SLOTS, st.none()),
    st.tuples(st.just("take"), st.integers(0, 20), st.none()),
    st.tuples(st.just("pass"), st.sampled_from([1, 2, 100, BLOCK, FINE - 1, FINE, 3 * FINE]), st.none())), max_size=25)


class Order:
    """An order of any contents before ``clear``; its arrays are as kernels take them."""

    def __init__(self, rows):
        self.rows = rows
        self.victims = Victims(np.full(1, 7, np.int64).repeat(ORDER.itemsize // 8).view(ORDER),
                               np.full(4 * (rows + BUCKETS), 7, np.int32).view(NODE),
                               np.empty(victims.scratch_cells(rows), np.int64))
        self.nodes = self.victims.nodes
        self.lists = (self.victims.order[0], self.nodes)
        self.clear()

    @property
    def count(self):
        return int(self.victims.order["count"][0])

    def clear(self):
        victims.clear_order(*self.lists)

    def put(self, slots, scores):
        victims.put_slots(slots, scores, *self.lists)

    def take(self, n):
        slots = np.empty(min(n, self.count), np.int32)
        victims.take_least(slots, self.victims)
        return slots


class Pair:
    """An order and its twin, always used together; ``now`` is what scores are relative to."""

    def __init__(self, rows=ROWS):
        self.order, self.twin, self.now = Order(rows), {}, 1

    def put(self, slots, offsets):
        scores = [max(-(2**31), min(2**31 - 1, self.now + offsets[i % len(offsets)])) for i in range(len(slots))]
        self.order.put(int32(slots), int32(scores))
        reference.put_slots(slots, scores, self.twin)

    def drop(self, slots, _=None):
        for slot in slots:
            dropped = victims.drop_slot(slot, *self.order.lists)
            assert dropped == reference.drop_slot(slot, self.twin)

    def take(self, n, _=None):
        taken = self.order.take(n).tolist()
        assert taken == reference.take_least(n, self.twin)
        return taken

    def take_in(self, n):
        """As kernels do it, with places left over."""
        out = np.full(n, -7, np.int32)
        taken = victims.take_least(out, self.order.victims)
        assert out[:taken].tolist() == reference.take_least(n, self.twin)
        assert (out[taken:] == -7).all()
        return taken

    def check(self):
        assert self.order.count == len(self.twin)
        slots = self.order.nodes[:self.order.rows]
        assert set(np.flatnonzero(slots["previous"] >= 0)) == set(self.twin)


def int32(numbers):
    return np.array(numbers, np.int32)


@settings(deadline=None)
@given(STEPS)
@example([("put", [1], [2**31]), ("put", [2], [0]), ("put", [0], [-(2**31)]), ("take", 3, None)])
@example([("put", [2, 1], [0]), ("pass", FINE, None), ("put", [0], [0]), ("put", [3], [-FINE]), ("take", 4, None)])
def test_any_sequence_of_puts_drops_and_takes_equals_a_sorted_list(steps):
    pair = Pair()
    for verb, first, second in steps:
        if verb == "pass":
            pair.now += first
        else:
            getattr(pair, verb)(first, second)
        pair.check()
    pair.take(ROWS)


@pytest.mark.parametrize("stride", [1, 50, FINE // 3, BLOCK * 100])
def test_a_long_life_with_a_ring_that_goes_round_equals_a_sorted_list(stride):
    rng = np.random.RandomState(stride)
    pair = Pair(200)
    for _ in range(120):
        pair.now += stride
        slots = rng.choice(200, 20, replace=False).tolist()
        pair.drop(slots[:10])
        pair.put(slots, [0, 0, 1, 300, -stride, -30 * stride])
        if rng.rand() < 0.5:
            pair.take(rng.randint(30))
    pair.check()
    pair.take(200)


def test_equal_scores_go_by_slot():
    pair = Pair()
    pair.put([9, 3, 30, 7], [0])
    assert pair.take(3) == [3, 7, 9]
    pair.put([1, 35], [0])
    assert pair.take(9) == [1, 30, 35]


def test_a_bucket_in_order_takes_in_a_slot_at_either_end_or_between():
    for late in (0, 15, 39):
        pair = Pair()
        pair.put([10, 20, 30, 5], [0])
        pair.take(1)
        pair.put([late], [0])
        pair.take(9)


def test_a_slot_put_in_again_has_its_new_place_only():
    pair = Pair()
    pair.put([1, 2, 3], [5, 6, 7])
    pair.put([1], [9])
    pair.check()
    assert pair.take(5) == [2, 3, 1]


def test_a_slot_that_is_not_in_can_be_dropped():
    pair = Pair()
    pair.put([4], [0])
    pair.drop([3, 4, 4])
    pair.check()
    assert pair.take(1) == []


def test_old_slots_keep_their_order_when_the_rings_have_passed_them():
    pair = Pair()
    for slot in range(ROWS - 1, -1, -1):
        pair.put([slot], [0])
        pair.now += BLOCK * COARSE // 8
    assert pair.take(ROWS) == list(range(ROWS - 1, -1, -1))


def test_taking_more_than_there_is_takes_all_and_leaves_the_other_places_alone():
    pair = Pair()
    pair.put([8, 2], [0])
    assert pair.take_in(5) == 2
    assert pair.take_in(5) == 0
    pair.check()


def test_a_cleared_order_is_empty_and_works_on():
    pair = Pair()
    pair.put([1, 2, 3], [0, FINE * 9, -FINE])
    pair.order.clear()
    reference.clear_order(pair.twin)
    pair.check()
    pair.put([5, 4], [3])
    assert pair.take(3) == [4, 5]


@pytest.mark.parametrize("rows", [0, 1])
def test_an_order_of_no_row_or_one_works(rows):
    pair = Pair(rows)
    pair.put(list(range(rows)), [0])
    assert len(pair.take(3)) == rows


def test_slots_are_put_and_dropped_one_by_one():
    order, twin = Order(8), {}
    lists = order.lists
    for slot, score in [(3, 10), (1, 10), (7, 2)]:
        victims.put_slot(slot, score, *lists)
        reference.put_slot(slot, score, twin)
    for slot in (1, 0):
        assert victims.drop_slot(slot, *lists) == reference.drop_slot(slot, twin)
    assert order.take(8).tolist() == reference.take_least(8, twin) == [7, 3]


@pytest.mark.parametrize("spread", [0, 1, 3000, 2**31 - 2])
@pytest.mark.parametrize("sign", [False, True])
def test_a_bucket_of_many_slots_is_sorted_by_score_and_slot(spread, sign):
    rng = np.random.RandomState(6)
    pair = Pair(3000)
    pair.put([0], [2**31])  # everything after it is old: most of it in the bottom bucket
    scores = rng.randint(0, spread + 1, 2500)
    pair.now = 0
    pair.put(rng.permutation(3000)[:2500].tolist(), (scores - (spread // 2 if sign else 0)).tolist())
    pair.take(1700)
    pair.take(3000)
