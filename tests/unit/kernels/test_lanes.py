"""The keys of a line are compared as one by one."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from ascpipe.kernels.lanes import match_keys
from ascpipe.kernels.records import LINE, LINE_KEYS
from tests.reference import lanes as reference
from tests.support.compiling import compiles

NUMBERS = st.one_of(st.integers(0, 2), st.sampled_from([-(2**63), -1, 2**32, 2**63 - 1]))

pytestmark = compiles


@njit
def match_line(lines, number, key):
    return match_keys(lines[number], key)


@settings(deadline=None)
@given(st.lists(NUMBERS, min_size=2 * LINE_KEYS, max_size=2 * LINE_KEYS), st.integers(0, 1), NUMBERS)
def test_lanes_that_hold_the_key_have_their_bit_set(numbers, line, key):
    lines = np.zeros(2, LINE)
    lines["keys"] = np.array(numbers, np.int64).reshape(2, LINE_KEYS)
    found = int(match_line(lines, line, np.int64(key))) & (1 << LINE_KEYS) - 1
    assert found == reference.match_keys(numbers[line * LINE_KEYS:][:LINE_KEYS], key)
