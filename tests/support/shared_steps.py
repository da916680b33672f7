"""Takes parts of the steps that tables take together: half of an assignment, half of a plan."""
import ctypes
from typing import Any, Iterator, Tuple

import numpy as np

from ascpipe.kernels import batch_steps
from ascpipe.kernels.next_action import PLAN, RETIRE
from ascpipe.kernels.planner_memory import PLANNER
from ascpipe.layout import structs
from ascpipe.shm.ring import PartView, RingView

_LATE_FIELDS = ("full", "fresh_count", "load_count", "out_count", "admitted", "rows", "time")


def is_due(turns: np.ndarray, action: int) -> bool:
    """Whether a table has still to carry out this action."""
    return bool(((turns["action"] == action) & (turns["done"] == 0)).any())


def has_done(turns: np.ndarray, action: int) -> bool:
    """Whether a table has carried out this action, and its word is not stored yet."""
    return bool(((turns["action"] == action) & (turns["done"] != 0)).any())


def due_parts(memory: np.ndarray, turns: np.ndarray) -> Iterator[Tuple[Any, PartView]]:
    """(TURN, part) of each frame that ``assign_frames`` would assign."""
    ring = RingView(memory)
    for turn in turns[(turns["action"] == RETIRE) & (turns["done"] == 0)]:
        own, number = planner_of(turn), int(turn["number"])
        header = _structured(int(own["header_at"]), structs.TABLE)
        snapshot_is_on = own["has_images"] or header["snapshot_copied"] < header["snapshot_bound"]
        if not snapshot_is_on or own["images_saved_for"] == number:
            yield turn, ring.part(number, int(turn["column"]))


def planner_of(turn: Any) -> Any:
    """PLANNER of a table."""
    return _structured(int(turn["planner_at"]), PLANNER)


def assign_halves(memory: np.ndarray, turns: np.ndarray) -> None:
    """Assign half of each record that ``assign_frames`` would assign."""
    for turn, part in due_parts(memory, turns):
        keys, outs = part["held"] // 2, (part["out_count"] + 1) // 2
        record = part.record(keys, part["fresh_count"] + part["load_count"], outs)
        record = record._replace(move_in=record.move_in[record.move_in < keys])
        ticket = int(RingView(memory).frame(int(turn["number"]))["ticket"])
        batch_steps.assign(planner_of(turn), int(turn["number"]), record, ticket, part["time"])


def spoil_late_fields(memory: np.ndarray, turns: np.ndarray) -> None:
    """Leave plans as a worker leaves them that dies while it writes their fields."""
    ring = RingView(memory)
    for turn in turns[(turns["action"] == PLAN) & (turns["done"] != 0)]:
        part = ring.part(int(turn["number"]), int(turn["column"]))
        for field in _LATE_FIELDS:
            part[field] = -77


def _structured(address: int, kind: np.dtype) -> Any:
    """The record at an address."""
    return np.frombuffer((ctypes.c_char * kind.itemsize).from_address(address), kind)[0]
