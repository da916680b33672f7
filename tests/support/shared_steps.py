"""What tests do around the steps that tables take together: let tables take them alone, or half of a step."""
from typing import Any, Callable

import numpy as np

from ascpipe.kernels.memory import longs_at
from ascpipe.kernels.next_action import PLAN, RETIRE, TOUCH
from ascpipe.layout import structs
from ascpipe.shm.ring import PartView
from ascpipe.tables import header, state, steps
from ascpipe.workers.frames import ALONE

ACTIONS = {"assign_frames": RETIRE, "plan_frames": PLAN, "touch_frames": TOUCH}
_BOUND, _COPIED = (structs.TABLE.fields[name][1] // 8 for name in ("snapshot_bound", "snapshot_copied"))


def left_alone(function: Callable[..., int], action: int, is_alone: Callable[[], bool]) -> Callable[..., int]:
    """A function of ``ascpipe.workers.turns`` that leaves its step to each table alone when ``is_alone`` says so."""

    def call(*args: Any) -> int:
        actions = args[-1]
        if not is_alone():
            return function(*args)
        actions[actions == action] += ALONE
        return 0

    return call


def is_due(actions: np.ndarray, action: int) -> bool:
    return bool((actions == action).any())


def assign_halves(longs: np.ndarray, ints: np.ndarray, frames_at: int, columns: np.ndarray, states: np.ndarray,
                  numbers: np.ndarray, actions: np.ndarray) -> None:
    """Assign half of each record that ``assign_frames`` would assign."""
    for table in np.flatnonzero(actions == RETIRE).tolist():
        own = longs_at(int(states[table]), state.COLUMNS)
        fields = longs_at(int(own[state.HEADER]), header.HEADER_LONGS)
        if own[state.HAS_IMAGES] or fields[_COPIED] < fields[_BOUND]:
            continue  # it is left alone
        frame = frames_at + int(numbers[table]) % structs.MAX_FRAMES * (structs.FRAME.itemsize // 8)
        ticket, offset = (int(longs[frame + structs.FRAME.fields[name][1] // 8]) for name in ("ticket", "offset"))
        part = PartView(longs, ints, offset, int(columns[table]))
        keys, outs = part["held"] // 2, (part["out_count"] + 1) // 2
        moves = part.array("move_in", part["fresh_count"] + part["load_count"])
        steps.assign(own, *[part.array(name, keys) for name in ("entries", "slots", "homes", "counts", "frequencies")],
                     moves[moves < keys], part.array("out_slots", outs), part.array("out_entries", outs), ticket,
                     part["time"])
