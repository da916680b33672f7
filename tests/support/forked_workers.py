"""Workers forked from this process, over shared memory: they start in milliseconds, so they can die often.

Their stages are the real ones, and so are their bells.  Kernels are compiled before the fork.
"""
import ctypes
import gc
import os
import random
import signal
import traceback
from typing import TYPE_CHECKING, Any, Callable, List

import numpy as np

from ascpipe.kernels.hashing import spread_of
from ascpipe.layout import structs
from ascpipe.shm import growing_part, segment, syscalls
from ascpipe.shm.bell import Bell, ring_plain
from ascpipe.shm.ring import TableInRing
from ascpipe.tables.table import Table
from ascpipe.workers.eval_stage import EvalStage, Questions
from ascpipe.workers.key_worker import KeyStage
from ascpipe.workers.listeners import Listeners
from ascpipe.workers.ring_scheduler import RingScheduler
from ascpipe.workers.stage import Bells
from ascpipe.workers.train_stage import TrainStage
from tests.support.pause_points import install
from tests.support.replayed_table import ReplayedTable

if TYPE_CHECKING:
    from tests.support.forked_sim import ForkedSim

KEY, TABLE = "key", "table"
_BELLS = {KEY: structs.BELL_KEY_WORKERS, TABLE: structs.BELL_TABLE_WORKERS}
_IDLE_S = 1e9
_PAUSES, _PAUSE_S = .2, .0005  # how often a worker lets work gather, whatever it has ahead, and for how long
_MADV_DOFORK = 11
_PR_SET_PDEATHSIG = 1
FIRST_GENERATION = 100  #: so that no generation is also a state of a frame


class WorkerFailedError(AssertionError):
    """A forked worker ended with an exception of its own."""


class Segments:
    """Memory that forked children share."""

    def __init__(self) -> None:
        self.fds: List[int] = []
        self.memory: List[np.ndarray] = []

    def allocate(self, size: int) -> np.ndarray:
        """uint8[size], zeroed; what lies behind its first page is a hole, so it can be made to grow."""
        fd = segment.create(size, "a test", use_memfd=True, present=min(size, structs.PAGE))
        self.fds.append(fd)
        self.memory.append(segment.map(fd, size))
        syscalls.advise(self.memory[-1].ctypes.data, size, _MADV_DOFORK)
        return self.memory[-1]

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds, self.memory = [], []


class ForkedWorker:
    """One worker process.

    Args:
        sim: what it works for.
        kind, number: which worker.
        generation: unique, at least FIRST_GENERATION.
        restart: an earlier one with this number was killed.
    """

    def __init__(self, sim: "ForkedSim", kind: str, number: int, generation: int, *, restart: bool) -> None:
        self.kind, self.number, self.generation, self.board = kind, number, generation, sim.board
        self.place = _BELLS[kind] - structs.BELL_KEY_WORKERS + number  #: on the board
        parent = os.getpid()
        self._reaped = False
        self.pid = os.fork()
        if self.pid == 0:
            _live(sim, self, parent, restart)

    def ring(self, session: np.ndarray) -> None:
        ring_plain(session, _BELLS[self.kind] + self.number)

    def kill(self) -> None:
        """SIGKILL and reap."""
        os.kill(self.pid, signal.SIGKILL)
        self._reap(0, expected=signal.SIGKILL)

    def has_left(self) -> bool:
        """Whether it has exited as it should."""
        return self._reap(os.WNOHANG, expected=0)

    def check(self) -> None:
        """It runs; raises if it failed."""
        self._reap(os.WNOHANG, expected=-1)

    def end(self) -> None:
        """Kill it if it still is there, whatever it did."""
        if not self._reaped:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def _reap(self, options: int, *, expected: int) -> bool:
        pid, status = os.waitpid(self.pid, options)
        self._reaped = bool(pid)
        if pid and status != expected:
            raise WorkerFailedError("status {} of {} worker {}\n{}".format(
                status, self.kind, self.number, self.board.failure()))
        return self._reaped


def _live(sim: "ForkedSim", worker: ForkedWorker, parent: int, restart: bool) -> None:
    """The whole life of the child."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        if os.getppid() == parent:
            _work(sim, worker, restart)
            code = 0
    except BaseException:  # noqa: BLE001  nothing of the parent's may run in the child, whatever happens
        sim.board.fail(traceback.format_exc())
    finally:
        os._exit(code)


def _work(sim: "ForkedSim", worker: ForkedWorker, restart: bool) -> None:
    gc.disable()  # would copy what is shared with the parent
    growing_part.step = _least_step  # so that tables grow often
    install(sim.board, sim.session, worker.place)
    sim.flaw(sim)
    tables: List[Table] = []
    step = _key_step(sim, worker) if worker.kind == KEY else _table_step(sim, worker, tables, restart)
    bell = Bell(sim.session, _BELLS[worker.kind] + worker.number, 20)

    def is_over() -> bool:
        return bool(sim.board.leaving[0])

    def work() -> float:
        worked = False
        while step():
            worked = True
        return _PAUSE_S if worked and random.random() < _PAUSES else 0.0

    while not is_over():
        if not bell.pause(work):
            bell.wait(lambda: step() > 0, is_over, _IDLE_S)
    for table in tables:
        _check_private(table)


def _least_step(ready: int, wanted: int, limit: int, item_bytes: int) -> int:
    return wanted


def _key_step(sim: "ForkedSim", worker: ForkedWorker) -> Callable[[], int]:
    trainer = Bell(sim.session, structs.BELL_TRAINER)
    tables = [Bell(sim.session, _BELLS[TABLE] + number) for number in range(sim.table_workers)]
    stages = [KeyStage(pump.ring, worker.generation, Listeners([trainer], tables), sim.next_spread())
              for pump in (sim.pump, sim.eval_pump)]
    return lambda: sum(stage.step() for stage in stages)


def _table_step(sim: "ForkedSim", worker: ForkedWorker, tables: List[Table], restart: bool) -> Callable[[], int]:
    trainer = Bell(sim.session, structs.BELL_TRAINER)
    bells = Bells(trainer.ring, trainer.ring)  # the pump is the same thread
    trains, readers = {}, []
    for index in range(worker.number, len(sim.tables), sim.table_workers):
        table = ReplayedTable(sim, index)
        train = trains[index] = TrainStage(
            sim.tables[index], table, TableInRing(sim.ring, index), bells, restart=restart)
        readers.append(EvalStage(table.resolve, TableInRing(sim.eval_pump.ring, index), train.is_readable, bells))
        tables.append(table)
    stages = (RingScheduler(sim.ring, list(trains), list(trains.values()), Listeners([trainer], [trainer])),
              Questions(sim.eval_pump.ring, readers))
    return lambda: sum(stage.step() for stage in stages)


def _check_private(table: Table) -> None:
    """Nothing is pending: what the worker knows of free entries, slots and home rows is what the truth says."""
    anew = Table(table._truth, spread_of(0))
    anew.rebuild((), ())
    for what, of in (("rows", lambda one: one.rows), ("time", lambda one: one.time), ("free entries", _free_entries),
                     ("free slots", lambda one: (int(one.planner["free_slots"]), one._slot_words.tolist())),
                     ("home rows", lambda one: _lowest(one, 64)), ("pending", lambda one: len(one.pending)),
                     ("window", lambda one: int(one.planner["touched"])), ("index", _indexed),
                     ("rows of the window", lambda one: int(one.planner["rows_held"]))):
        known, true = of(table), of(anew)
        if known != true:
            raise AssertionError("{} of the worker: {}; of the truth: {}".format(what, known, true))


def _free_entries(table: Table) -> List[int]:
    return sorted(table._free_entries[:int(table.planner["free_entries"])].tolist())


def _lowest(table: Table, n: int) -> List[int]:
    """The n lowest free home rows."""
    stack = table._memory["free_homes_at"][:int(table.planner["free_homes"])][::-1]
    high_water = int(table.planner["home_high_water"])
    return list(stack[:n].tolist()) + list(range(high_water, high_water + n - len(stack[:n])))


def _indexed(table: Table) -> List[Any]:
    lines = table._index.index.lines
    return sorted((key, entry) for line in lines[lines["count"] > 0]
                  for key, entry in zip(line["keys"][:line["count"]].tolist(), line["entries"].tolist()))
