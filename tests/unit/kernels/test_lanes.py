"""Eight numbers are compared as one by one."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels.lanes import match_lanes
from tests.reference import lanes as reference

NUMBERS = st.one_of(st.integers(0, 2), st.sampled_from([-(2**63), -1, 2**32, 2**63 - 1]))


@settings(deadline=None)
@given(st.lists(NUMBERS, min_size=16, max_size=16), st.integers(0, 8), NUMBERS)
def test_lanes_that_hold_the_value_have_their_bit_set(numbers, first, value):
    found = match_lanes(np.array(numbers, np.int64), np.uint64(first), np.int64(value))
    assert int(found) == reference.match_lanes(numbers, first, value)
