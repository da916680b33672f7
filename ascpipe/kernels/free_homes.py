"""The free home rows of a table, the lowest one first.

Rows below the high water are in use or on a stack with the lowest on top; all above are free.  The planner has both.
So what is taken next depends only on the set of free rows, and what was taken last can be given back.

The readable version is ``tests/reference/free_homes.py``.
"""
import numpy as np

from ascpipe.kernels.door import inner


@inner("int64(Planner, int64)")
def home_reach(planner, n):
    """What the high water will be when n more rows are taken."""
    return planner["home_high_water"] + max(np.int64(0), n - planner["free_homes"])


@inner("void(Planner, int32[::1], int32[::1], int32[::1])")
def take_homes(planner, stack, missing, out_homes):
    """Take the lowest free home rows.

    Args:
        planner: of the table.
        stack: int32[>= free homes]; the lowest on top.
        missing: int32[m]; indexes into ``out_homes``, which they go to.
        out_homes: int32[n]; receives them, ascending.
    """
    for i in range(missing.shape[0]):
        if planner["free_homes"] > 0:
            planner["free_homes"] -= 1
            out_homes[missing[i]] = stack[planner["free_homes"]]
        else:
            out_homes[missing[i]] = planner["home_high_water"]
            planner["home_high_water"] += 1


@inner("void(Planner, int32[::1], int32[::1], int32[::1])")
def give_back_homes(planner, stack, missing, homes):
    """Give back the home rows that were taken last.

    Args:
        planner, stack: as ``take_homes`` takes them.
        missing: int32[m]; as it was then.
        homes: int32[n]; as it was filled.
    """
    for i in range(missing.shape[0] - 1, -1, -1):
        home = homes[missing[i]]
        if home == planner["home_high_water"] - 1:
            planner["home_high_water"] -= 1
        else:
            stack[planner["free_homes"]] = home
            planner["free_homes"] += 1
