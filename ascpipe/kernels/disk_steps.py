"""Step that moves rows between memory and disk, for all tables of a ring.

The plain-Python version is ``tests/reference/disk_steps.py``.
"""
import numpy as np

from ascpipe.kernels.asks import LACKS_DISK, LACKS_HOMES
from ascpipe.kernels.bits import frame_bit
from ascpipe.kernels.completions import complete_requests
from ascpipe.kernels.door import inner
from ascpipe.kernels.pinning import have_room, pin_frame, queue_has_room
from ascpipe.kernels.planner_memory import header_of, held_rows_of, planner_at
from ascpipe.kernels.tier_memory import disk_table_of, tier_at
from ascpipe.kernels.transfers import is_out_of_disk_slots, move_rows
from ascpipe.layout.words import TOUCHED

_NONE = np.uint64(0)


@inner("void(Turn, Planner, Tier)")
def pin_frames(turn, planner, tier):
    """Pin frames in order. The number of pinned frames is limited by ``fetch_ahead`` and by the number of free home
    rows.

    Args:
        turn: TURN of the table.
        planner: planner of the table.
        tier: tier of the table.
    """
    waiting = 0  # pinned frames that are to be planned
    for i in range(turn["count"]):
        number = turn["head"] + i
        if turn["words"][i] != TOUCHED or planner["touched"] & frame_bit(number) == _NONE:
            continue
        if number > tier["newest_pinned"]:
            listed = held_rows_of(planner, number)
            if turn["closed"][i] != 0 or waiting > tier["fetch_ahead"]:
                return
            if not queue_has_room(tier, np.int64(listed.shape[0])) or not have_room(planner, tier, listed):
                return
            pin_frame(planner, tier, number)
        waiting += 1


@inner("UniTuple(int64, 2)(Turn[::1])")
def move_table_rows(turns):
    """Process finished requests, pin frames, and request the rows of pinned frames from the disk worker.

    Args:
        turns: TURN[tables]. ``lacks`` receives the resource that the table lacks.

    Returns:
        (number of requests completed or sent, number of tables that lack a resource).
    """
    moved = lacking = 0
    for i in range(turns.shape[0]):
        turn = turns[i]
        planner = planner_at(turn["planner_at"])
        if planner["tier_at"] == 0 or turn["is_loading"] != 0:
            continue
        tier = tier_at(planner["tier_at"])
        moved += complete_requests(planner, tier)
        pin_frames(turn, planner, tier)
        moved += move_rows(planner, tier)
        ready = header_of(planner)["homes_ready"]
        high = planner["home_high_water"]
        if tier["fetch_queue_next"] < tier["fetch_queue_end"] and planner["free_homes"] == 0 and high == ready and (
                ready < planner["home_rows"]):
            planner["home_reach"] = min(planner["home_rows"], high + tier["lacking"])
            turn["lacks"] = LACKS_HOMES
            lacking += 1
        elif tier["lost"] >= 0 or is_out_of_disk_slots(planner, tier):
            turn["lacks"] = LACKS_DISK
            lacking += 1
        disk_table_of(tier)["disk_rows"] = tier["disk_rows"]
    return moved, lacking
