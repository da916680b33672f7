"""Free home rows: lowest first, and what was taken last can be given back."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import free_homes as kernels
from ascpipe.kernels.planner_memory import PLANNER
from ascpipe.tables import lazy_arrays
from ascpipe.tables.homes import free_homes
from tests.reference import free_homes as reference


@settings(deadline=None)
@given(st.lists(st.integers(0, 12)), st.lists(st.integers(-1, 5)))
def test_rows_are_given_lowest_first_whatever_was_given_back(used, actions):
    planner = np.zeros(1, PLANNER)[0]
    planner["home_high_water"], stack = free_homes(np.array(used, np.int32))
    planner["free_homes"] = len(stack)
    in_use, taken = set(used), []
    for n in actions:
        if n >= 0:
            expected = reference.take_homes(in_use, n)
            reach = kernels.home_reach(planner, n)
            assert reach == reference.home_reach(in_use | set(expected), int(planner["home_high_water"]))
            homes, missing = np.full(7, -1, np.int32), np.random.RandomState(n).permutation(7)[:n].astype(np.int32)
            kernels.take_homes(planner, stack, missing, homes)
            assert homes[missing].tolist() == expected
            assert planner["home_high_water"] == reach
            taken.append((missing, homes))
            in_use |= set(expected)
        elif taken:
            missing, homes = taken.pop()
            kernels.give_back_homes(planner, stack, missing, homes)
            reference.give_back_homes(in_use, homes[missing].tolist())
    assert reference.take_homes(in_use, 30) == np.concatenate([
        stack[:planner["free_homes"]][::-1], planner["home_high_water"] + np.arange(30)])[:30].tolist()


def test_an_array_for_all_entries_there_may_be_is_zero_and_takes_memory_as_it_is_written_to():
    array = lazy_arrays.zeros(1 << 34, np.uint64)  # 128 GiB
    array[[0, 5, -1]] = 7
    assert array[[0, 1, 5, 1 << 33, -1]].tolist() == [7, 0, 7, 0, 7]
    assert len(lazy_arrays.zeros(0, np.int32)) == 0
