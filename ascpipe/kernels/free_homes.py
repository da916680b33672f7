"""Kernels that allocate free home rows of a table, and undo the last allocation.

A home row below the high-water mark is in use or on a stack of free rows. All rows above the mark are free. The planner
has the mark and the height of the stack. In a table without rows on disk, the lowest free row is on top of the stack,
so the next row that is taken depends only on the set of free rows. ``quarantine.free_home`` pushes rows in the order in
which they are freed.

The plain-Python version is ``tests/reference/free_homes.py``.
"""
import numpy as np

from ascpipe.kernels.door import inner


@inner("int64(Planner, int64)")
def home_reach(planner, n):
    """Return the high-water mark of home rows after ``take_homes`` has taken ``n`` more rows."""
    return planner["home_high_water"] + max(np.int64(0), n - planner["free_homes"])


@inner("void(Planner, int32[::1], int32[::1], int32[::1])")
def take_homes(planner, stack, missing, out_homes):
    """Allocate free home rows, first from the stack, then above the high-water mark.

    Args:
        planner: planner of the table.
        stack: int32[>= free homes].
        missing: int32[m]; positions in ``out_homes`` to fill.
        out_homes: int32[n]; receives the home rows.
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
    """Undo the last call of ``take_homes``: free the home rows that it allocated.

    Args:
        planner, stack: see ``take_homes``.
        missing: int32[m], the argument of ``take_homes``.
        homes: int32[n], the result of ``take_homes``.
    """
    for i in range(missing.shape[0] - 1, -1, -1):
        home = homes[missing[i]]
        if home == planner["home_high_water"] - 1:
            planner["home_high_water"] -= 1
        else:
            stack[planner["free_homes"]] = home
            planner["free_homes"] += 1
