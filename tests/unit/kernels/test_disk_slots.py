"""Slots of a row file are taken in the emptiest blocks, as the plain twin takes them."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import disk_slots
from bench.disk_room import empty_room
from tests.reference import disk_slots as reference
from tests.support.covering import example_count

SHAPES = [(1, 1), (3, 1), (4, 7), (5, 30), (3, 64), (3, 65), (2, 341)]  # blocks, slots of each
STEPS = st.lists(st.tuples(st.sampled_from(["place", "place", "free", "order"]), st.integers(0, 90),
                           st.integers(0, 2**30)), max_size=25)


class Pair:
    """A room and its twin, always used together."""

    def __init__(self, blocks, per_block):
        self.blocks, self.per_block = blocks, per_block
        self.room = empty_room(blocks, per_block)
        self.used, self.stacks = set(), reference.order_blocks(set(), blocks, per_block)

    def place(self, n, _seed=0):
        slots, alone = np.full(n, -7, np.int64), np.full(n, 7, np.uint8)
        taken = disk_slots.place_rows(self.room, slots, alone)
        wanted = reference.place_rows(self.used, self.stacks, n)
        assert list(zip(slots[:taken].tolist(), alone[:taken].tolist())) == wanted
        assert (slots[taken:] == -7).all() and (alone[taken:] == 7).all()
        return slots[:taken]

    def free(self, n, seed):
        slots = np.random.RandomState(seed).permutation(self.blocks * self.per_block + 1)[:n].astype(np.int64)
        known = [slot for slot in slots.tolist() if slot in self.used]
        for asked in (known, slots.tolist()):  # the second ends at a slot that is free
            assert disk_slots.free_disk_slots(self.room, np.array(asked, np.int64)) == reference.free_disk_slots(
                self.used, self.stacks, asked)

    def order(self, _n=0, _seed=0):
        assert disk_slots.order_blocks(self.room) == len(self.used)
        self.stacks = reference.order_blocks(self.used, self.blocks, self.per_block)

    def check(self):
        counts = [reference.count_of(self.used, block, self.per_block) for block in range(self.blocks)]
        assert self.room.counts.tolist() == counts
        for count, stack in enumerate(self.stacks):
            found, block = [], int(self.room.first[count])
            while block >= 0:
                assert int(self.room.before[block]) == (found[-1] if found else -1)
                found.append(block)
                block = int(self.room.following[block])
            assert found == stack[::-1]


@pytest.mark.parametrize(("blocks", "per_block"), SHAPES)
@settings(deadline=None, max_examples=example_count(12, 100))
@given(steps=STEPS)
def test_any_sequence_of_placements_and_frees_equals_the_twin(blocks, per_block, steps):
    pair = Pair(blocks, per_block)
    for verb, n, seed in steps:
        getattr(pair, verb)(n, seed)
    pair.check()


@pytest.mark.parametrize(("blocks", "per_block"), SHAPES)
def test_all_slots_are_taken_once_in_order_and_then_none(blocks, per_block):
    pair = Pair(blocks, per_block)
    assert pair.place(blocks * per_block + 3).tolist() == list(range(blocks * per_block))
    assert pair.place(1).tolist() == []
    pair.check()


def test_rows_go_to_the_emptiest_blocks_which_are_told_apart_from_empty_ones():
    pair = Pair(3, 4)
    pair.place(12)
    assert disk_slots.free_disk_slots(pair.room, np.array([1, 4, 5, 6, 7, 8, 10], np.int64)) == 7
    slots, alone = np.zeros(7, np.int64), np.zeros(7, np.uint8)
    assert disk_slots.place_rows(pair.room, slots, alone) == 7
    assert slots.tolist() == [4, 5, 6, 7, 8, 10, 1]
    assert alone.tolist() == [1, 1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("slot", [-1, 12, 2**62, -(2**62), 3])
def test_a_slot_of_no_file_or_a_free_one_is_refused_by_its_index(slot):
    pair = Pair(3, 4)
    pair.place(3)
    assert disk_slots.free_disk_slots(pair.room, np.array([2, slot, 1], np.int64)) == 1
    assert pair.room.counts.tolist() == [2, 0, 0]


def test_a_room_without_blocks_has_no_slot():
    room = empty_room(0, 30)
    assert disk_slots.place_rows(room, np.zeros(2, np.int64), np.zeros(2, np.uint8)) == 0
    assert disk_slots.free_disk_slots(room, np.zeros(1, np.int64)) == 0
