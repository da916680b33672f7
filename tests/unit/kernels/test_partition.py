"""Keys in order of the rank that owns them."""
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ascpipe.kernels import partition
from tests.reference import partition as reference
from tests.reference.unique import unique_keys

INT64 = st.integers(-(2**63), 2**63 - 1)
KEYS = st.lists(st.one_of(INT64, st.integers(-9, 9)), max_size=80, unique=True)
RANKS = st.integers(1, 9)
EXTREMES = [-(2**63), 2**63 - 1, -1, 0, 1, -(2**63) + 1]

# four ranks; the sixteen ids of one batch, and what the incumbent's documents say of them
BATCH = [11, 11, 6, 16, 14, 8, 6, 5, 8, 6, 14, 11, 4, 12, 1, 13]
RESTORE_DYNAMIC = [9, 9, 7, 0, 8, 1, 7, 4, 1, 7, 8, 9, 2, 3, 5, 6]
RESTORE_STATIC_10 = [30, 30, 20, 0, 21, 1, 20, 10, 1, 20, 21, 30, 2, 3, 11, 12]


def run_dynamic(keys, ranks):
    n = len(keys)
    counts, offsets = np.full(ranks, 7, np.int64), np.zeros(ranks, np.int64)
    order, places, out = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(n, np.int64)
    assert partition.partition_keys(np.array(keys, np.int64), counts, offsets, order, places, out) == n
    return counts.tolist(), offsets.tolist(), order.tolist(), places.tolist(), out.tolist()


def run_static(keys, send_count, ranks):
    n, size = len(keys), ranks * send_count
    counts, order, places = np.full(ranks, 7, np.int64), np.zeros(size, np.int32), np.zeros(n, np.int32)
    out = np.zeros(size, np.int64)
    bad = partition.partition_keys_static(np.array(keys, np.int64), send_count, counts, order, places, out)
    if bad >= 0:
        return bad, counts.tolist(), None, None, None
    return bad, counts.tolist(), order.tolist(), places.tolist(), out.tolist()


def restored(batch, partitioned_places):
    _, restore, _ = unique_keys(batch)
    out = np.zeros(len(batch), np.int32)
    partition.partition_restore(np.array(restore, np.int32), np.array(partitioned_places, np.int32), out)
    assert out.tolist() == reference.partition_restore(restore, partitioned_places)
    return out.tolist()


def test_ten_ids_fall_into_the_four_buckets_of_the_documents():
    distinct, restore, _ = unique_keys([1, 4, 23, 14, 16, 7, 2, 21, 21, 29])
    counts, offsets, _, places, keys = run_dynamic(distinct, 4)
    assert [keys[begin:begin + count] for begin, count in zip(offsets, counts)] == [
        [4, 16], [1, 21, 29], [14, 2], [23, 7]]
    in_bucket = [places[place] - offsets[distinct[place] % 4] for place in restore]
    assert in_bucket == [0, 0, 0, 0, 1, 1, 1, 1, 1, 2]


def test_dynamic_restore_vector_is_that_of_the_documents():
    *_, places, _ = run_dynamic(unique_keys(BATCH)[0], 4)
    assert restored(BATCH, places) == RESTORE_DYNAMIC


def test_static_restore_vector_is_that_of_the_documents():
    bad, _, _, places, keys = run_static(unique_keys(BATCH)[0], 10, 4)
    assert bad == -1
    assert restored(BATCH, places) == RESTORE_STATIC_10
    assert [keys[place] for place in RESTORE_STATIC_10] == BATCH


@settings(deadline=None)
@given(KEYS, RANKS)
@example([], 3)
@example(EXTREMES, 1)
@example(EXTREMES, 8)
def test_dynamic_partition_equals_the_reference(keys, ranks):
    assert run_dynamic(keys, ranks) == reference.partition_keys(keys, ranks)


@settings(deadline=None)
@given(KEYS, st.integers(0, 40), RANKS)
@example([], 0, 3)
@example([5, 5 + 4, 5 + 8], 2, 4)
@example([5, 5 + 4, 5 + 8], 3, 4)
@example(EXTREMES, 6, 2)
def test_static_partition_equals_the_reference(keys, send_count, ranks):
    assert run_static(keys, send_count, ranks) == reference.partition_keys_static(keys, send_count, ranks)


def test_a_bucket_over_its_places_names_the_first_such_rank_and_all_needs():
    assert run_static([0, 1, 5, 9, 2, 6, 10, 3], 2, 4)[:2] == (1, [1, 3, 3, 1])


@settings(deadline=None)
@given(KEYS, RANKS)
def test_each_key_goes_to_its_owner_exactly_once(keys, ranks):
    counts, offsets, order, places, out = run_dynamic(keys, ranks)
    assert sum(counts) == len(keys)
    assert sorted(order) == list(range(len(keys)))
    assert [order[place] for place in places] == list(range(len(keys)))
    for rank in range(ranks):
        assert all(abs(key) % ranks == rank for key in out[offsets[rank]:offsets[rank] + counts[rank]])


@settings(deadline=None)
@given(st.lists(st.integers(-6, 6), max_size=60), RANKS)
def test_partitioned_restore_index_rebuilds_the_batch(batch, ranks):
    *_, places, keys = run_dynamic(unique_keys(batch)[0], ranks)
    assert [keys[place] for place in restored(batch, places)] == batch


@pytest.mark.parametrize("keys", [[], EXTREMES])
def test_owners_are_counted(keys):
    counts, owners = np.full(5, 9, np.int64), np.zeros(len(keys), np.int32)
    partition.count_owners(np.array(keys, np.int64), counts, owners)
    assert (counts.tolist(), owners.tolist()) == reference.count_owners(keys, 5)
