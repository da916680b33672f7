"""Free home rows: lowest first, and what was taken last can be given back."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.tables import lazy
from ascpipe.tables.homes import FreeHomes


@settings(deadline=None)
@given(st.lists(st.integers(0, 12)), st.lists(st.integers(-1, 5)))
def test_rows_are_given_lowest_first_whatever_was_given_back(used, actions):
    homes, in_use, taken = FreeHomes(), set(used), []
    homes.rebuild(np.array(used, np.int32))
    for n in actions:
        if n >= 0:
            expected = [row for row in range(200) if row not in in_use][:n]
            reach = homes.reach(n)
            taken.append(homes.take(n))
            assert taken[-1].tolist() == expected
            assert homes.high_water == reach
            assert reach >= max(in_use | set(expected), default=-1) + 1
            in_use |= set(expected)
        elif taken:
            back = taken.pop()
            homes.give_back(back)
            in_use -= set(back.tolist())


def test_an_array_for_all_entries_there_may_be_is_zero_and_takes_memory_as_it_is_written_to():
    array = lazy.zeros(1 << 34, np.uint64)  # 128 GiB
    array[[0, 5, -1]] = 7
    assert array[[0, 1, 5, 1 << 33, -1]].tolist() == [7, 0, 7, 0, 7]
    assert len(lazy.zeros(0, np.int32)) == 0
