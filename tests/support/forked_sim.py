"""Plays trainer and pump over forked workers, with rows and optimizer slots of real numbers, and kills workers."""
import random
import time
from functools import partial
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Type

import numpy as np

from ascpipe.layout import structs
from ascpipe.layout.words import ANSWERED, ASKED, DEDUPED, DONE, SLOT_HOME
from ascpipe.shm.bell import Bell
from ascpipe.shm.ring import PartView, TableView
from tests.support import kill_script
from tests.support.forked_load import ForkedLoad, checkpoint
from tests.support.forked_saves import LOG_CAPACITY, ForkedSaves
from tests.support.forked_workers import FIRST_GENERATION, KEY, TABLE, ForkedWorker, Segments
from tests.support.kill_script import DIM, FLOATS, TABLES, Step
from tests.support.pause_points import ACTIONS, OF_RESTART, POINTS, Board
from tests.support.pipeline_sim import Sim
from tests.support.sim_ring import Open

_RATE = np.float32(0.125)
_FIRST_SLOT = np.float32(0.25)
#: what a worker is seen at before it is killed at a random instant
_AIMS = ("nothing", "dedup", "dedup", "touch", "plan", "plan", "revoke", "retire", "retire", "retire", "images",
         "count-only", "eviction", "load", "take over", "answer", "restart")
_WAIT_S = 30.0  #: generous: only bounds how long a failing test takes


def _no_flaw(sim: "ForkedSim") -> None:
    """Of a worker that is as it is."""


class Settings(NamedTuple):
    """What may differ between runs that end alike.

    Attributes:
        frames, look_ahead, plan_ahead: of the training ring.
        key_workers, table_workers: how many.
    """

    frames: int = 8
    look_ahead: int = 3
    plan_ahead: int = 2
    key_workers: int = 1
    table_workers: int = 1


class Plan(NamedTuple):
    """How often workers are killed: so often at each point, and so often at any instant; none by default."""

    at_points: int = 0
    at_random: int = 0


USUAL, NO_KILLS = Settings(), Plan()


class Report(NamedTuple):
    """What the run came to, to be compared with another one.

    Attributes:
        moments: of each step, its loss or what its evaluations found, as bytes.
        tables: per table, key -> (count, timestamp, row and optimizer slot as bytes).
        totals: (rows, time, threshold, counting) of each table.
    """

    moments: List[bytes]
    tables: List[Dict[int, Tuple[int, int, bytes]]]
    totals: List[Tuple[int, ...]]


class ForkedSim(Sim):
    """``Sim`` with forked workers, which are killed as ``plan`` says.

    Args:
        seed: of the script; nothing else decides the result.
        plan, settings: see there.
        flaw: run in each worker before it begins.
        chance: seed of when and where workers are killed, and of all else that must not matter.
    """

    def __init__(self, seed: int, plan: Plan = NO_KILLS, settings: Settings = USUAL,
                 flaw: Callable[["ForkedSim"], None] = _no_flaw, chance: int = 0) -> None:
        self.seed, self.flaw, self._rng = seed, flaw, random.Random(chance)
        self.key_workers, self.table_workers = settings.key_workers, settings.table_workers
        self.segments = Segments()
        self.session = self.segments.allocate(structs.SESSION_BYTES)
        self.board = Board(self.segments.allocate(structs.align(Board.BYTES, structs.PAGE)))
        self.board.wanted[:] = plan.at_points
        self.random_kills = plan.at_random  #: still to come
        self.workers: List[ForkedWorker] = []
        self.kills: Dict[str, int] = {}  #: by point, or by action at a random instant
        self._generation, self._next_kill, self._linger = FIRST_GENERATION, 0.0, 0
        self._aim = self._rng.choice(_AIMS)
        self._bell = Bell(self.session, structs.BELL_TRAINER, 20)
        self._submitted: Dict[int, Open] = {}
        self._pumping, self._saves = True, ForkedSaves(self, self._rng)
        self._places: Dict[int, Tuple[np.ndarray, np.ndarray]] = {}
        self.rows = [np.zeros((rows, FLOATS), np.float32) for rows in kill_script.DEVICE_ROWS]
        super().__init__(kill_script.DEVICE_ROWS, capacity=kill_script.CAPACITY, frames=settings.frames,
                         arena_bytes=1 << 16, look_ahead=settings.look_ahead, plan_ahead=settings.plan_ahead,
                         allocate=self.segments.allocate, homes=kill_script.HOMES, log_capacity=LOG_CAPACITY)

    def __enter__(self) -> "ForkedSim":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        for worker in self.workers:
            worker.end()
        self.workers = []
        self.segments.close()

    # ---- workers

    def start_workers(self) -> None:
        segments = self.segments
        self.tables = [TableView(memory, fd) for memory, fd in zip(segments.memory[-TABLES:], segments.fds[-TABLES:])]
        for kind, count in ((KEY, self.key_workers), (TABLE, self.table_workers)):
            for number in range(count):
                self.workers.append(self._fork(kind, number, restart=False))

    def _fork(self, kind: str, number: int, *, restart: bool) -> ForkedWorker:
        self._generation += 1
        return ForkedWorker(self, kind, number, self._generation, restart=restart)

    def _kill(self, worker: ForkedWorker) -> None:
        """SIGKILL, reap, clear claims, start another one, ring: what the supervisor does."""
        worker.kill()
        action = ACTIONS[self.board.doing[worker.place]]
        where = self.board.was_killed(worker.place)  # it may have come to a point just before a kill at random
        if not where:
            where, self.random_kills = "random: " + action, self.random_kills - 1
        self.kills[where] = self.kills.get(where, 0) + 1
        if worker.kind == KEY:
            for pump in (self.pump, self.eval_pump):
                pump.clear_claims(worker.generation)
        at_once = self.board.wanted[OF_RESTART].any() and worker.kind == TABLE and self._rng.random() < 0.3
        if at_once:
            self.board.arm(spare=0)
        self.workers[self.workers.index(worker)] = self._fork(worker.kind, worker.number, restart=True)
        self._next_kill = time.monotonic() + self._rng.uniform(0.001, 0.01)
        self.ring_all()

    def ring_all(self) -> None:
        for worker in self.workers:
            worker.ring(self.session)

    @property
    def kills_left(self) -> int:
        return int(self.board.wanted.sum()) + self.random_kills

    def _kill_perhaps(self) -> None:
        for worker in self.workers:
            worker.check()
        place = self.board.stands()
        if place is not None:
            self._linger -= 1
            if self._linger < 0:
                self._linger = self._rng.choice([0, 0, 1, 3, 10])
                self._kill(next(worker for worker in self.workers if worker.place == place))
            return
        if time.monotonic() < self._next_kill:
            return
        if self.random_kills and self._rng.random() < 0.4:
            self._kill_at_random()
        elif not self.board.armed[0] and self.board.wanted.any():
            few = self.board.wanted.sum() < len(POINTS)
            self.board.arm(spare=0 if few else self._rng.randrange(6))

    def _kill_at_random(self) -> None:
        """Some time after a worker was seen at what we wait for: at an arbitrary instant."""
        seen_until = time.perf_counter() + 5e-4
        while time.perf_counter() < seen_until:
            for worker in self.workers:
                if ACTIONS[self.board.doing[worker.place]] == self._aim:
                    self._kill_soon(worker)
                    return
        if self._rng.random() < 0.05:  # it does that seldom, or when we do not look
            self._aim = self._rng.choice(_AIMS)

    def _kill_soon(self, worker: ForkedWorker) -> None:
        until = time.perf_counter() + self._rng.random() * 5e-4
        while time.perf_counter() < until:
            pass
        if self.board.stands() is None:
            self._aim = self._rng.choice(_AIMS)
            self._kill(worker)

    # ---- waiting

    def until(self, attempt: Callable[[], Any], what: str) -> Any:
        """Try until the answer is true; between two tries batches are submitted and workers killed."""
        found: List[Any] = []

        def ready() -> bool:
            self._turn()
            found[:] = [attempt()]
            return bool(found[0])

        deadline = time.monotonic() + _WAIT_S
        while not self._bell.wait(ready, lambda: False, 0.002):
            if time.monotonic() > deadline:
                raise AssertionError("not within {} s: {}\n{}".format(_WAIT_S, what, self._state()))
        return found[0]

    def _turn(self) -> None:
        """What happens beside the steps."""
        self._kill_perhaps()
        self._saves.turn(may_begin_more=self._pumping)
        if self._pumping:
            self._submit_more()
        for number, batch in self._submitted.items():
            if batch in self.open and self._rng.random() < 0.002 and not kill_script.step(self.seed, number).trains:
                self.close(batch)  # at any time: it will not be trained
                break
        self.ring_all()

    def _submit_more(self) -> None:
        number = self._next_step
        step = kill_script.step(self.seed, number)
        batch = self.submit(*step.keys, timestamp=step.timestamp)
        if batch is not None:
            self._submitted[number] = batch
            self._next_step += 1

    _next_step = 0

    def _state(self) -> str:
        words = [[self.word(number, index) for number in range(int(self.ring.header["head"]),
                                                              int(self.ring.header["tail"]))]
                 for index in range(TABLES)]
        return "words {}, open {}, armed {}, stopped {}".format(
            words, [batch.ticket for batch in self.open], self.board.armed, self.board.stopped)

    # ---- steps

    def run(self, steps: Iterator[int]) -> List[bytes]:
        """Do these steps; what each came to."""
        return [self._step(number, kill_script.step(self.seed, number)) for number in steps]

    def _step(self, number: int, step: Step) -> bytes:
        found = b""
        for kind, index, argument in step.cuts:
            if kind == "load":
                saved = checkpoint(argument, number // 3, self.thresholds[index] >= 0)
                attempt = partial(self._is_loaded, ForkedLoad(self, index, saved, argument))
            else:
                {"reset": lambda at, _: self.ask_reset(at), "threshold": self.ask_threshold,
                 "eviction": self.ask_eviction}[kind](index, argument)
                attempt = partial(self.cut_is_applied, index)
            self.until(attempt, "{} of table {}".format(kind, index))
        if step.asks:
            found += self._evaluate(step.asks)
        batch = self.until(lambda: self._submitted.get(number), "room for batch {}".format(number))
        for index in step.trains:
            self.until(partial(self.claim, batch, index), "claim of batch {} for table {}".format(number, index))
        if step.trains:
            found += self._train(step)
        if batch in self.open:
            self.close(batch)
        del self._submitted[number]
        return found

    def _is_loaded(self, load: ForkedLoad) -> bool:
        while load.advance() and self._rng.random() < 0.8:  # else workers are killed between two stores
            pass
        return load.is_over

    def _train(self, step: Step) -> bytes:
        """Loss of the rows that were claimed, and their updates; what TensorFlow does between DONE and the end."""
        logit = np.float32(0)
        for index in step.trains:
            rows, restore = self._gather(index)
            logit += rows[restore].sum(dtype=np.float32)
        error = logit - np.float32(step.label)
        for index in step.trains:
            rows, restore = self._gather(index)
            gradients = np.zeros_like(rows)
            np.add.at(gradients, restore, np.float32(0.01) * rows[restore] + error * np.float32(0.03))
            self._update(index, gradients)
        return np.float32(error * error).tobytes()

    def _store(self, index: int) -> np.ndarray:
        return self.rows[index] if self._has_slots(index) else self.tables[index].homes

    def _gather(self, index: int) -> Tuple[np.ndarray, np.ndarray]:
        """Embeddings of the distinct keys of a claimed table, zeros for keys without a row; restore index."""
        places, restore = self._places[index]
        rows = np.zeros((len(places), DIM), np.float32)
        rows[places >= 0] = self._store(index)[places[places >= 0], :DIM]
        return rows, restore

    def _update(self, index: int, gradients: np.ndarray) -> None:
        """Adagrad."""
        places, _ = self._places[index]
        used, store = places >= 0, self._store(index)
        rows, gradients = store[places[used]], gradients[used]
        rows[:, DIM:] += gradients * gradients
        rows[:, :DIM] -= _RATE * gradients / np.sqrt(rows[:, DIM:])
        store[places[used]] = rows

    def _move(self, batch: Open, index: int, part: PartView) -> None:
        """Move rows as the plan op does; ``Sim`` has checked whose each slot and home row is."""
        super()._move(batch, index, part)
        n, fresh, outs = part["unique_count"], part["fresh_count"], part["out_count"]
        unique, slots, homes = (part.array(name, n).copy() for name in ("unique", "slots", "homes"))
        moves, view, device = part.array("move_in", fresh + part["load_count"]), self.tables[index], self.rows[index]
        if homes.max(initial=-1) >= view.header["homes_ready"]:
            raise AssertionError("home rows {} of {} with memory".format(homes, view.header["homes_ready"]))
        if self._has_slots(index) and len(view.homes):
            view.homes[part.array("out_homes", outs)] = device[part.array("out_slots", outs)]
            device[slots[moves[fresh:]]] = view.homes[homes[moves[fresh:]]]
        places = slots if self._has_slots(index) else homes
        for at in moves[:fresh]:
            self._store(index)[places[at]] = _first_row(int(unique[at]))
        self._places[index] = places, part.array("restore", part["id_count"]).copy()

    def _evaluate(self, keys: Tuple[List[int], ...]) -> bytes:
        """Rows that an evaluation between two steps finds."""
        batch = self.until(lambda: self.eval_pump.submit(*keys), "room for an evaluation")
        found = b""
        for before, after in ((DEDUPED, ASKED), (ANSWERED, DONE)):
            for index in range(TABLES):
                self.until(partial(self._is_eval_word, batch.number, index, before), "evaluation of {}".format(index))
                if after == DONE:
                    found += self._answer(batch.number, index)
                self._set_eval_word(batch, index, before, after)
        self.close_eval(batch)
        return found

    def _is_eval_word(self, number: int, index: int, word: int) -> bool:
        return self.eval_pump.word(number, index) == word

    def _answer(self, number: int, index: int) -> bytes:
        part = self.eval_pump.ring.part(number, index)
        keys, codes = (part.array(name, part["unique_count"]).tolist() for name in ("unique", "slots"))
        self.check_answers(index, dict(zip(keys, codes)))
        return b"".join(self._row(index, code if code >= 0 else -1, SLOT_HOME - code if code <= SLOT_HOME else -1)
                        for code in codes)

    def _row(self, index: int, slot: int, home: int) -> bytes:
        if slot >= 0:
            return bytes(self.rows[index][slot].tobytes())
        return bytes(self.tables[index].homes[home].tobytes()) if home >= 0 else b""

    # ---- end

    def finish(self, moments: List[bytes]) -> Report:
        """Close what is open, let the workers check themselves and exit, and see what there is."""
        self._pumping = False
        if self.kills_left:  # nothing is killed any more
            self.board.wanted[:], self.random_kills = 0, 0
        for batch in list(self.open):
            self.close(batch)
        self.until(self._is_empty, "every frame to be given back")
        self.board.leaving[0] = 1
        while self.workers:
            self.ring_all()
            self.workers = [worker for worker in self.workers if not worker.has_left()]
        for index in range(TABLES):
            self.check(index)
            self._check_places(index)
        return Report(moments, [self._rows(index) for index in range(TABLES)], [
            tuple(int(table.header[name]) for name in ("rows", "time", "access_threshold", "counting"))
            for table in self.tables])

    def _is_empty(self) -> bool:
        for pump in (self.pump, self.eval_pump):
            pump.free_frames()
        return self.board.disarm() and self._saves.are_over() and all(
            pump.ring.header["head"] == pump.ring.header["tail"] for pump in (self.pump, self.eval_pump))

    def _rows(self, index: int) -> Dict[int, Tuple[int, int, bytes]]:
        return {key: (count, time, self._row(index, slot, home))
                for key, (count, time, slot, home) in self.truth(index).items()}

    def _check_places(self, index: int) -> None:
        """Every slot and home row has one owner or none."""
        view, state = self.tables[index], self.truth(index).values()
        for places, limit in (([row[2] for row in state if row[2] >= 0], len(view.slot_entries)),
                              ([row[3] for row in state if row[3] >= 0], int(view.header["homes_ready"]))):
            if len(set(places)) != len(places) or max(places, default=-1) >= limit:
                raise AssertionError("table {}: places {} of {}".format(index, sorted(places), limit))
        taken = view.slot_entries[view.slot_entries >= 0]
        if sorted(taken) != sorted(set(taken)) or view.header["entries_used"] > view.header["entries_ready"]:
            raise AssertionError("table {}: slots of entries {}".format(index, view.slot_entries))


def _first_row(key: int) -> np.ndarray:
    row = np.full(FLOATS, _FIRST_SLOT)
    row[:DIM] = np.sin(np.arange(1, DIM + 1) * (key + 1000)).astype(np.float32) / 8
    return row
