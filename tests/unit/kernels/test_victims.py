"""The order of victims equals a sorted list, wherever the scores lie."""
import os

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascpipe.kernels import victims
from ascpipe.kernels.records import ORDER, Victims, late_room
from ascpipe.kernels.victims import NOT_IN
from tests.reference import victims as reference

ROWS = 40
SLOTS = st.lists(st.integers(0, ROWS - 1), max_size=12)
# ties, neighbours, the ends of a digit of the sort and of int32
NEAR = st.one_of(st.integers(-3, 3), st.sampled_from([400, -400, 2047, -2047, 2048, -2048, 4096, 1 - 4096, -8192]))
FAR = st.sampled_from([2**22, -(2**22), 1 - 2**22, 2**31, -(2**31)])
STEPS = st.lists(st.one_of(
    st.tuples(st.just("put"), SLOTS, st.lists(st.one_of(NEAR, NEAR, NEAR, FAR), min_size=1, max_size=4)),
    st.tuples(st.just("drop"), SLOTS, st.none()),
    st.tuples(st.just("take"), st.integers(0, 20), st.none()),
    st.tuples(st.just("pass"), st.sampled_from([1, 2, 100, 1024, 4095, 3 * 4096]), st.none())), max_size=25)


class Order:
    """An order of any contents before ``clear``; its arrays are as kernels take them."""

    def __init__(self, rows, late):
        self.rows = rows
        self.victims = Victims(np.full(1, 7, np.int64).repeat(ORDER.itemsize // 8).view(ORDER),
                               np.full(rows + 1, 7, np.int32), np.full(2 * rows, 7, np.int64),
                               np.full(2 * late, 7, np.int64))
        self.clear()

    def clear(self):
        victims.clear_order(self.victims)

    def put(self, slots, scores):
        victims.expect_slots(len(slots), self.victims)
        for slot, score in zip(slots, scores):
            victims.put_slot(slot, score, True, self.victims)

    def take(self, n):
        """(score, slot) of each that is taken."""
        numbers = np.empty(n, np.int64)
        return pairs(numbers[:victims.take_least(numbers, self.victims)])


class Pair:
    """An order and its twin, always used together; ``now`` is what scores are relative to."""

    def __init__(self, rows=ROWS, late=None):
        self.order, self.twin, self.now = Order(rows, late_room(rows) if late is None else late), {}, 1

    def put(self, slots, offsets):
        scores = [max(NOT_IN + 1, min(2**31 - 1, self.now + offsets[i % len(offsets)])) for i in range(len(slots))]
        self.order.put(int32(slots), int32(scores))
        for slot, score in zip(slots, scores):
            reference.put_slot(slot, score, True, self.twin)

    def drop(self, slots, _=None):
        for slot in slots:
            victims.drop_slot(slot, self.order.victims)
            reference.drop_slot(slot, self.twin)

    def take(self, n, _=None):
        taken = self.order.take(n)
        assert taken == reference.take_least(n, self.twin)
        return [slot for _, slot in taken]

    def take_in(self, n):
        """As kernels do it, with places left over."""
        out = np.full(n, -7, np.int64)
        taken = victims.take_least(out, self.order.victims)
        assert pairs(out[:taken]) == reference.take_least(n, self.twin)
        assert (out[taken:] == -7).all()
        return taken

    def check(self):
        scores = self.order.victims.scores[:self.order.rows]
        assert {slot: scores[slot] for slot in np.flatnonzero(scores != NOT_IN)} == self.twin


def pairs(numbers):
    return [(number >> 32, number & 0xFFFFFFFF) for number in numbers.tolist()]


def int32(numbers):
    return np.array(numbers, np.int32)


@settings(deadline=None)
@given(STEPS, st.sampled_from([None, 13, 20]))
@example([("put", [1], [2**31]), ("put", [2], [0]), ("put", [0], [-(2**31)]), ("take", 3, None)], None)
@example([("put", [2, 1], [0]), ("pass", 4096, None), ("put", [0], [0]), ("put", [3], [-4096]), ("take", 4, None)], 20)
def test_any_sequence_of_puts_drops_and_takes_equals_a_sorted_list(steps, late):
    pair = Pair(late=late)
    for verb, first, second in steps:
        if verb == "pass":
            pair.now += first
        else:
            getattr(pair, verb)(first, second)
        pair.check()
    pair.take(ROWS)


@pytest.mark.parametrize("stride", [1, 50, 1365, 102400])
@pytest.mark.parametrize("late", [None, 21])
@pytest.mark.each_value
def test_a_long_life_equals_a_sorted_list(stride, late):
    rng = np.random.RandomState(stride)
    pair = Pair(200, late)
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


def test_a_run_takes_in_a_late_slot_at_either_end_or_between():
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


def test_old_slots_keep_their_order_however_far_the_scores_have_moved_on():
    pair = Pair()
    for slot in range(ROWS - 1, -1, -1):
        pair.put([slot], [0])
        pair.now += 2**19
    assert pair.take(ROWS) == list(range(ROWS - 1, -1, -1))


def test_taking_more_than_there_is_takes_all_and_leaves_the_other_places_alone():
    pair = Pair()
    pair.put([8, 2], [0])
    assert pair.take_in(5) == 2
    assert pair.take_in(5) == 0
    pair.check()


def test_a_cleared_order_is_empty_and_works_on():
    pair = Pair()
    pair.put([1, 2, 3], [0, 36864, -4096])
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


def test_a_slot_that_moves_away_and_back_is_taken_once():
    pair = Pair()
    pair.put(list(range(ROWS)), [0, 5])
    assert pair.take(2) == [0, 2]
    for score in (3, 0, 9, 0):  # its first number is still in the run, the others come late
        pair.put([4], [score])
    assert pair.take(3) == [4, 6, 8]
    pair.check()
    assert 4 not in pair.take(ROWS)


def test_more_late_slots_than_there_is_room_for_are_all_found():
    pair = Pair(100, late=60)
    pair.put(list(range(50)), [100])
    pair.take(1)
    pair.put(list(range(50, 100)), [4, 9, 1, 7, 2])
    pair.take(60)
    pair.take(100)


def test_a_slot_that_comes_late_with_the_score_of_the_bound_is_taken_in_order():
    pair = Pair(400)
    pair.put(list(range(1, 400)), [9])
    pair.take(1)
    assert pair.order.victims.order["bound"][0] == pair.now + 9
    pair.put([0], [9])
    assert pair.take(2) == [0, 2]


#: 2**21 rows take ten seconds in the interpreter, and show no more there than they do where they are compiled.
@pytest.mark.parametrize("rows, least, most", [
    (4000, 250, 1000), pytest.param(2**21, 2**15, 2**17, marks=pytest.mark.skipif(
        os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"))])
def test_a_part_of_the_slots_is_collected(rows, least, most):
    """More would be sorted in vain when their scores change, fewer would have the scores read too often."""
    order, taken = Order(rows, late_room(rows)), np.empty(1, np.int64)
    order.victims.scores[:rows] = np.random.RandomState(3).permutation(rows)
    victims.take_least(taken, order.victims)
    assert order.victims.scores[pairs(taken)[0][1]] == NOT_IN
    assert least < order.victims.order["run_end"][0] < most


def test_slots_are_put_and_dropped_one_by_one():
    order, twin = Order(8, 5), {}
    victims.expect_slots(5, order.victims)
    for slot, score, yes in [(3, 10, True), (1, 10, True), (5, 9, False), (7, 2, True), (-1, 4, False), (1, 11, True)]:
        victims.put_slot(slot, score, yes, order.victims)
        reference.put_slot(slot, score, yes, twin)
    for slot in (3, 0, -1):
        victims.drop_slot(slot, order.victims)
        reference.drop_slot(slot, twin)
    assert order.take(8) == reference.take_least(8, twin) == [(2, 7), (11, 1)]


@pytest.mark.parametrize("spread", [0, 1, 3000, 2**31 - 2])
@pytest.mark.parametrize("sign", [False, True])
@pytest.mark.each_value
def test_a_run_of_many_slots_is_sorted_by_score_and_slot(spread, sign):
    rng = np.random.RandomState(6)
    pair = Pair(3000)
    scores = rng.randint(0, spread + 1, 2500)
    pair.now = 0
    pair.put(rng.permutation(3000)[:2500].tolist(), (scores - (spread // 2 if sign else 0)).tolist())
    pair.take(1700)
    pair.take(3000)
