"""Orders of keys by the native library are numpy's, and rows in another order are the same rows."""
import numpy as np
import pytest

from ascpipe.checkpoint import key_order
from tests.unit.checkpoint.test_keys import SPREADS

COUNTS = (0, 1, 2, 31, 33, 1000)
WIDTHS = (None, 1, 2, 3, 4, 8, 16, 17, 32, 50)


def repeating(dice, count):
    return dice.choice(np.r_[-5:5, np.iinfo(np.int64).min, np.iinfo(np.int64).max], count)


@pytest.mark.parametrize("spread", sorted(SPREADS))
def test_keys_are_in_numpy_s_order(seed, spread):
    keys = SPREADS[spread](np.random.RandomState(seed))
    assert key_order.order_of(keys).tolist() == np.argsort(keys, kind="stable").tolist()
    wanted = np.sort(keys)
    key_order.sort_keys(keys)
    assert keys.tolist() == wanted.tolist()


@pytest.mark.parametrize("count", COUNTS)
def test_equal_keys_keep_their_order(seed, count):
    keys = repeating(np.random.RandomState(seed), count)
    scratch = key_order.scratch_for(1000)
    assert key_order.order_of(keys, scratch).tolist() == np.argsort(keys, kind="stable").tolist()
    wanted = sorted(keys.tolist())
    key_order.sort_keys(keys)
    assert keys.tolist() == wanted


@pytest.mark.parametrize("bound_count", [0, 1, 2, 5, 100, (1 << 16) - 1, 1 << 16])
def test_each_key_is_in_the_range_between_its_bounds(seed, bound_count):
    dice = np.random.RandomState(seed)
    bounds = np.unique(dice.randint(-1 << 40, 1 << 40, 2 * bound_count, np.int64))[:bound_count]
    keys = dice.permutation(np.r_[dice.randint(-1 << 40, 1 << 40, 3000, np.int64), bounds[:50], SPREADS["at both ends"](
        dice)[:50]])
    ranges, counts = key_order.ranges_of(keys, bounds)
    assert ranges.dtype == (np.uint16 if bound_count < 1 << 16 else np.uint32)
    assert ranges.tolist() == np.searchsorted(bounds, keys, "right").tolist()
    assert counts.tolist() == np.bincount(ranges, minlength=bound_count + 1).tolist()
    order, of_block = key_order.grouped(ranges[:500], bound_count + 1)
    assert order.tolist() == np.argsort(ranges[:500], kind="stable").tolist()
    assert of_block.tolist() == np.bincount(ranges[:500], minlength=bound_count + 1).tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64])
@pytest.mark.parametrize("width", WIDTHS)
def test_gathered_rows_are_numpy_s(seed, width, dtype):
    dice = np.random.RandomState(seed)
    for count in COUNTS:
        values = dice.randint(-100, 100, (count, width) if width else count).astype(dtype)
        order = dice.permutation(count)[:count - count // 3].astype(np.uint32)
        found = key_order.gathered(values, order)
        assert (found.dtype, found.shape) == (values.dtype, (len(order), *values.shape[1:]))
        assert found.tobytes() == values[order].tobytes()


def test_arrays_of_another_type_or_with_gaps_are_refused():
    for wrong in (np.arange(6, dtype=np.int32), np.arange(6)[::2]):
        with pytest.raises(ValueError, match="int64 is needed"):
            key_order.order_of(wrong)
        with pytest.raises(ValueError, match="int64 is needed"):
            key_order.sort_keys(wrong)
    with pytest.raises(ValueError, match="contiguous"):
        key_order.gathered(np.zeros((4, 4))[:, :2], np.zeros(1, np.uint32))
