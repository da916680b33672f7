"""The loops of workers step by step, in Python: a test acts between any two steps, which are the compiled ones.

``install`` puts them where the compiled loops are.  What stands around an attribute of ``TABLE`` or ``KEY`` is
called whenever that step is taken.
"""
from types import SimpleNamespace
from typing import Any

import numpy as np

from ascpipe.kernels import ring_rounds, ring_scan
from ascpipe.kernels.asks import CONTINUE, ENDED
from ascpipe.layout import structs
from ascpipe.shm.bell import Bell
from ascpipe.workers import key_worker, ring_scheduler
from ascpipe.workers.listeners import Listeners

_TABLE_STEPS = ("look", "assign", "store_retired", "leave", "move", "plan", "store_planned", "touch", "store_touched",
                "others", "end")  # by their numbers in ``ring_rounds``
_KEY_STEPS = ("claim", "dedup", "publish")  # by their numbers in ``ring_scan``

TABLE = SimpleNamespace(**dict.fromkeys(_TABLE_STEPS, ring_rounds.take_step))
KEY = SimpleNamespace(**dict.fromkeys(_KEY_STEPS, ring_scan.take_frame_step))


def run_tables(memory: np.ndarray, turns: np.ndarray, rounds: np.ndarray, looks: np.ndarray) -> int:
    """As ``ring_rounds.run_tables``."""
    asks = CONTINUE
    while asks == CONTINUE:
        asks = getattr(TABLE, _TABLE_STEPS[rounds["at"][0]])(memory, turns, rounds[0], looks)
    return asks


def dedup_frames(memory: np.ndarray, claims: np.ndarray, *rest: Any) -> int:
    """As ``ring_scan.dedup_frames``, but one frame at a time."""
    asks = CONTINUE
    while asks == CONTINUE:
        if claims["done"][0]:
            return ENDED
        asks = getattr(KEY, _KEY_STEPS[claims["at"][0]])(memory, claims[0], *rest)
    return asks


def install() -> None:
    """Let the workers' stages take their steps here."""
    ring_scheduler.run_tables, key_worker.dedup_frames = run_tables, dedup_frames


def no_listeners(*, disk: bool = False) -> Listeners:
    """Bells whose owners never wait; with that of a disk worker."""
    session = np.zeros(structs.SESSION_BYTES, np.uint8)
    pump = [structs.BELL_PUMP] + [structs.BELL_DISK_WORKER] * disk
    return Listeners([Bell(session, structs.BELL_TRAINER)], [Bell(session, bell) for bell in pump])
