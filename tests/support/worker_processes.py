"""Plays the supervisor and the trainer of real worker processes over real segments."""
import functools
import os
import signal
import socket
import subprocess
import sys
from types import TracebackType
from typing import Any, Dict, List, Optional, Sequence, Type

import numpy as np

from ascpipe.control import fdsocket
from ascpipe.layout import structs
from ascpipe.layout.words import ANSWERED, ASKED, DEDUPED, DONE, EVAL, TRAIN
from ascpipe.shm import segment
from ascpipe.shm.bell import ring_plain
from tests.support.pipeline_sim import Sim
from tests.support.sim_ring import Open, SimRing
from tests.support.waiting import wait_until

KEY, TABLE = "key_worker", "table_worker"
_BELLS = {KEY: structs.BELL_KEY_WORKERS, TABLE: structs.BELL_TABLE_WORKERS}


class WorkerProcess:
    """One worker, attached."""

    def __init__(self, kind: str, number: int, generation: int, body: Dict[str, Any], fds: List[int]) -> None:
        self.kind, self.number, self.generation = kind, number, generation
        self.channel, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ascpipe.workers." + kind, "--channel", str(theirs.fileno()), "--index",
                 str(number), "--generation", str(generation), "--title", kind], pass_fds=[theirs.fileno()])
        fdsocket.send(self.channel, body, fds)
        said = [fdsocket.receive(self.channel, 60)[0] for _ in range(2)]
        if said != [{"verb": "loaded"}, {"verb": "attached"}]:
            raise AssertionError(said)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.channel.close()

    def leave(self) -> int:
        """End of the lifeline; the exit code."""
        self.channel.close()
        return self.process.wait(timeout=20)


class ProcessSim(Sim):
    """``Sim`` with workers as processes."""

    def __init__(self, device_rows: Sequence[int], key_workers: int = 1, table_workers: int = 1,
                 **settings: Any) -> None:
        self._fds: List[int] = []
        self._sizes: List[int] = []
        self.session = self._segment(structs.SESSION_BYTES)
        self._key_workers, self._table_workers = key_workers, table_workers
        self.workers: List[WorkerProcess] = []
        self._generation = 0
        self._added: List[SimRing] = []
        super().__init__(device_rows, allocate=self._segment, **settings)

    def __enter__(self) -> "ProcessSim":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        codes = [worker.leave() for worker in self.workers]
        for fd in self._fds:
            os.close(fd)
        if kind is None and any(codes):
            raise AssertionError("exit codes {}".format(codes))

    def _segment(self, size: int) -> np.ndarray:
        fd = segment.create(size, "a test", use_memfd=True)
        self._fds.append(fd)
        self._sizes.append(size)
        return segment.map(fd, size)

    def start_workers(self) -> None:
        for kind, count in ((KEY, self._key_workers), (TABLE, self._table_workers)):
            for number in range(count):
                self.workers.append(self._spawn(kind, number, restart=False))

    def _spawn(self, kind: str, number: int, *, restart: bool) -> WorkerProcess:
        self._generation += 1
        tables = list(range(len(self.tables)))
        body = {
            "verb": "attach", "restart": restart, "session_bytes": self._sizes[0], "spin_us": 20,
            "hash_seed": self._generation,
            "streams": [{"stream": channel, "channel": channel, "tables": tables, "bytes": size}
                        for channel, size in zip((TRAIN, EVAL), self._sizes[1:3])]
                       + [self._added_stream(place) for place in range(len(self._added))],
            "tables": [{"table": table, "name": "t{}".format(table), "directories": [],
                        "worker": table % self._table_workers, "bytes": size}
                       for table, size in zip(tables, self._sizes[3:])],
        }
        added = 3 + len(tables)
        return WorkerProcess(kind, number, self._generation, body,
                             [*self._fds[:3], *self._fds[added:], *self._fds[3:added]])

    def add_stream(self, channel: int = EVAL, rank_size: int = 1) -> SimRing:
        """One more stream over all tables, which every worker is told of."""
        self._added.append(SimRing(len(self.tables), 4, 1 << 16, channel=channel, allocate=self._segment,
                                   rank_size=rank_size))
        for worker in self.workers:
            fdsocket.send(worker.channel, {"verb": "add_stream", **self._added_stream(len(self._added) - 1)},
                          self._fds[-1:])
        self.ring_all()
        return self._added[-1]

    def _added_stream(self, place: int) -> Dict[str, Any]:
        return {"stream": 2 + place, "channel": self._added[place].ring.channel,
                "tables": list(range(len(self.tables))), "bytes": self._sizes[3 + len(self.tables) + place]}

    def evaluate_through(self, pump: SimRing, *keys: Sequence[int]) -> List[Dict[int, int]]:
        """``evaluate`` through the ring of any evaluation stream."""
        pump.free_frames()
        batch = wait_until(lambda: pump.submit(*keys), what="room for an evaluation")
        answers = []
        for index in range(len(self.tables)):
            for before, after in ((DEDUPED, ASKED), (ANSWERED, DONE)):
                self.ring_all()
                wait_until(functools.partial(_has_word, pump, batch, index, before), what="word {}".format(before))
                if before == ANSWERED:
                    part = pump.ring.part(batch.number, index)
                    n = part["unique_count"]
                    answers.append(dict(zip(part.array("unique", n).tolist(), part.array("slots", n).tolist())))
                pump.ring.store_word(batch.number, index, after)
        pump.frame(batch.number)["closed"] = 1
        self.ring_all()
        return answers

    def kill_worker(self, kind: str, number: int) -> None:
        """SIGKILL, reap, clear claims, start another one: what the supervisor does."""
        place, old = next((i, w) for i, w in enumerate(self.workers) if (w.kind, w.number) == (kind, number))
        old.kill()
        if kind == KEY:
            for pump in (self.pump, self.eval_pump, *self._added):
                pump.clear_claims(old.generation)
        self.workers[place] = self._spawn(kind, number, restart=True)
        self.ring_all()

    def ring_all(self) -> None:
        for bell in range(structs.BELLS):
            ring_plain(self.session, bell)

    def work(self) -> None:
        self.ring_all()

    def submit(self, *keys: Sequence[int]) -> Optional[Open]:
        batch = super().submit(*keys)
        self.ring_all()
        return batch

    def claim_soon(self, batch: Open, index: int) -> None:
        """Claim as the trainer does: ask until it goes through."""

        def attempt() -> bool:
            done = self.claim(batch, index)
            self.ring_all()
            return done

        wait_until(attempt, what="claim of {} for table {}".format(batch.ticket, index))

    def train(self, *keys: Sequence[int]) -> Open:
        batch = wait_until(lambda: self.submit(*keys), what="room in the ring")
        self.finish(batch)
        return batch

    def finish(self, batch: Open) -> None:
        """Claim for every table and close."""
        for index in range(len(self.tables)):
            self.claim_soon(batch, index)
        self.close(batch)
        self.ring_all()

    def drain(self) -> None:
        """Until every frame is given back."""

        def is_empty() -> bool:
            self.pump.free_frames()
            return bool(self.ring.header["head"] == self.ring.header["tail"])

        wait_until(is_empty, what="every frame to be given back")

    def late_wakeups(self) -> int:
        """Sleeps that ended by time although something was published; must stay 0."""
        start = structs.SESSION_BELLS_OFFSET
        bells = self.session[start:start + structs.BELLS * structs.BELL.itemsize].view(structs.BELL)
        return int(bells["late"].sum())


def _has_word(pump: SimRing, batch: Open, index: int, word: int) -> bool:
    return pump.word(batch.number, index) == word
