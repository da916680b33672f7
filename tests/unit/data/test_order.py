"""Permutations and batch plans are those of their twins, and every record is read exactly once."""
import collections
import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascpipe.data.order import ENDLESS, BatchPlan, Position
from ascpipe.errors import BatchPlanError
from tests.reference import batch_plan, permutation
from tests.support.covering import example_count

SEEDS = st.integers(0, 2 ** 64 - 1)
COUNTS = st.integers(1, 200) | st.integers(1, 2 ** 63 - 1) | st.sampled_from(
    [2 ** k + d for k in range(2, 63, 5) for d in (-1, 0, 1)])


def permuted(seed, epoch, count, first=0, length=None):
    return BatchPlan(count, 1, seed=seed).permuted(epoch, first, count if length is None else length)


@settings(max_examples=example_count(100, 1000))
@given(seed=SEEDS, epoch=st.integers(0, 2 ** 63 - 1), count=COUNTS, data=st.data())
@example(seed=0, epoch=0, count=2 ** 63 - 1, data=None)
def test_a_permutation_is_that_of_its_twin(seed, epoch, count, data):
    first = 0 if data is None else data.draw(st.integers(0, count - 1))
    length = min(20, count - first)
    assert permuted(seed, epoch, count, first, length) == [
        permutation.permuted(seed, epoch, count, first + place) for place in range(length)]


@settings(max_examples=example_count(40, 400))
@given(seed=SEEDS, epoch=st.integers(0, 2 ** 63 - 1), count=st.integers(1, 3000))
def test_a_permutation_has_each_number_once(seed, epoch, count):
    assert sorted(permuted(seed, epoch, count)) == list(range(count))


def chi_square(counts, expected):
    """Standardized: about normal with variance 1 for a uniform distribution."""
    value = sum((count - expected) ** 2 / expected for count in counts)
    freedom = len(counts) - 1
    return (value - freedom) / (2 * freedom) ** .5


@pytest.mark.parametrize("count", [3, 4, 5])
def test_all_permutations_of_few_numbers_are_equally_frequent(count):
    repeats = 12000
    seen = collections.Counter(tuple(permuted(seed, seed // 7, count)) for seed in range(repeats))
    every = list(itertools.permutations(range(count)))
    assert abs(chi_square([seen[one] for one in every], repeats / len(every))) < 5


@pytest.mark.parametrize("count", [7, 10, 64, 100])
def test_each_number_is_equally_frequent_at_each_position_and_after_each_number(count):
    repeats = 4000
    at, after = collections.Counter(), collections.Counter()
    for epoch in range(repeats):
        numbers = permuted(9, epoch, count)
        at.update(enumerate(numbers))
        after.update(zip(numbers, numbers[1:]))
    every = list(itertools.product(range(count), repeat=2))
    assert abs(chi_square([at[one] for one in every], repeats / count)) < 5
    pairs = [one for one in every if one[0] != one[1]]
    assert abs(chi_square([after[one] for one in pairs], repeats * (count - 1) / len(pairs))) < 5


def test_epochs_and_seeds_have_different_orders():
    orders = [tuple(permuted(seed, epoch, 1000)) for seed in (0, 1, 2 ** 63, 2 ** 64 - 1) for epoch in (0, 1, 2 ** 40)]
    assert len(set(orders)) == len(orders)
    fixed = [sum(place == number for place, number in enumerate(order)) for order in orders]
    assert max(fixed) < 10  # 1 is expected


def read_epoch(records, steps, seed, epoch=0, drop_remainder=False, window=0):
    """Read an epoch. ``steps`` has (batch size, ranks, number of batches) of consecutive runs; the last one reads all.

    Returns:
        Records of each batch of each run, as lists of ranks.
    """
    batches, position = [], Position(epoch, 0)
    for size, ranks, count in steps:
        plan = BatchPlan(records, size, ranks=ranks, epochs=ENDLESS, seed=seed, drop_remainder=drop_remainder,
                         window=window)
        for _ in range(count):
            position = plan.moved(position, 0)
            if position.epoch != epoch:
                return batches
            parts = [plan.batch(position, rank) for rank in range(ranks)]
            assert len({after for _, after in parts}) == 1
            batches.append([numbers for numbers, _ in parts])
            position = parts[0][1]
    return batches


ORDERS = st.none() | SEEDS


@settings(max_examples=example_count(100, 1000))
@given(records=st.integers(1, 150), size=st.integers(1, 12), ranks=st.integers(1, 9), seed=ORDERS,
       drop=st.booleans(), epoch=st.integers(0, 5), window=st.just(0) | st.integers(1, 160))
def test_batches_of_an_epoch_are_those_of_the_twin(records, size, ranks, seed, drop, epoch, window):
    sequence = batch_plan.sequence_of(records, seed, epoch, window)
    expected = batch_plan.epoch_batches(sequence, size, ranks, drop)
    if not expected:
        with pytest.raises(BatchPlanError, match="E334: The data has {} records".format(records)):
            BatchPlan(records, size, ranks=ranks, drop_remainder=drop).moved(Position(0, 0), 0)
        return
    assert read_epoch(records, [(size, ranks, 999)], seed, epoch, drop, window) == expected


@settings(max_examples=example_count(100, 1000))
@given(records=st.integers(9, 150), steps=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 9), st.integers(0, 6)),
                                                   max_size=5), last=st.integers(2, 12), ranks=st.integers(1, 9),
       seed=ORDERS)
def test_every_record_is_read_once_even_if_the_number_of_ranks_changes(records, steps, last, ranks, seed):
    batches = read_epoch(records, [*steps, (last, ranks, 999)], seed)
    read = [number for batch in batches for part in batch for number in part]
    assert len(set(read)) == len(read)
    # The only records that are not read are too few for a batch of all ranks.
    assert records - len(read) < max([ranks, *(given for _, given, _ in steps)])
    if not steps:
        assert len(read) == records
    for batch in batches:
        sizes = [len(part) for part in batch]
        assert min(sizes) >= 1 and max(sizes) - min(sizes) <= 1 and sizes == sorted(sizes, reverse=True)


@settings(max_examples=example_count(100, 1000))
@given(records=st.integers(1, 100), size=st.integers(1, 7), ranks=st.integers(1, 5), epochs=st.integers(0, 4),
       drop=st.booleans(), jumps=st.lists(st.integers(0, 40), max_size=4), start=st.integers(0, 100))
def test_a_move_of_many_batches_is_many_moves_of_one(records, size, ranks, epochs, drop, jumps, start):
    plan = BatchPlan(records, size, ranks=ranks, epochs=epochs, drop_remainder=drop)
    position = Position(0, min(start, records))
    try:
        for jump in jumps:
            far = plan.moved(position, jump)
            for _ in range(jump):
                near = plan.moved(position, 0)
                if near is None:
                    break
                _, position = plan.batch(near, 0)
            assert plan.moved(position, 0) == far
            if far is None:
                return
            position = far
    except BatchPlanError:
        assert records < (size * ranks if drop else ranks)


def test_all_epochs_end_and_an_endless_run_does_not():
    plan = BatchPlan(10, 4, epochs=3)
    assert plan.moved(Position(0, 0), 8) == Position(2, 8)
    assert plan.moved(Position(0, 0), 9) is None
    with pytest.raises(BatchPlanError, match="Rank 0 of 1 has no batch in epoch 3: the data has 3 epochs"):
        plan.batch(Position(2, 10), 0)
    assert BatchPlan(10, 4, epochs=ENDLESS).moved(Position(0, 0), 3 * 10 ** 15) == Position(10 ** 15, 0)


@pytest.mark.parametrize("rank", [-1, 3])
def test_a_rank_that_does_not_exist_is_refused(rank):
    with pytest.raises(BatchPlanError, match="Rank {} of 3 has no batch".format(rank)):
        BatchPlan(10, 2, ranks=3).batch(Position(0, 0), rank)


def test_positions_outside_a_permutation_are_refused():
    for first, count in ((0, 11), (10, 1), (-1, 1), (11, 0)):
        with pytest.raises(BatchPlanError, match="A permutation of 10 numbers"):
            BatchPlan(10, 1, seed=1).permuted(0, first, count)
