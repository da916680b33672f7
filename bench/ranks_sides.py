"""Sides of a program of several ranks, each begun by its launcher, which train in turns."""
import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from typing import IO, Any, Callable, Dict, Iterator, List, NamedTuple, Sequence

from bench import ranks_exchange, ranks_program, workloads
from bench.programs import LIMIT_S, Program, ProgramError
from bench.ranks_program import COMPUTE_S, COMPUTES, DENSE, LATE, LATE_S, OURS, PLAIN, PREFETCH

LEAD = PREFETCH + 2  #: steps of a turn that are not timed: what was made ready during another's turn is used up
EXCHANGE = "exchange"  #: a side that only exchanges bytes
_NAMES = {OURS: "ascpipe", COMPUTES: "{:.0f} ms of compute".format(1e3 * COMPUTE_S),
          LATE: "{:.0f} ms of compute, ids {:.0f} ms late".format(1e3 * COMPUTE_S, 1e3 * LATE_S),
          PLAIN: "tf.Variable, Horovod gathers", DENSE: "tf.Variable, sparse_as_dense", EXCHANGE: "hvd.alltoall"}
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LOOK_S = 1.0  # between two looks whether a launcher still runs
_STOPPED_S = 300  # that ranks may stand between two turns


class Launched(NamedTuple):
    """A side, and how many ranks train it; of EXCHANGE, the bytes that a rank sends in a step."""

    side: str
    ranks: int
    sent_bytes: int = 0

    @property
    def name(self) -> str:
        """Of the contender."""
        return "{}, {}".format(_NAMES[self.side], "1 rank" if self.ranks == 1 else "{} ranks".format(self.ranks))

    def command(self) -> List[str]:
        """That starts its ranks; the port is to follow."""
        script = [os.path.abspath(ranks_exchange.__file__), str(self.sent_bytes)] if self.side == EXCHANGE else \
            [os.path.abspath(ranks_program.__file__), self.side]
        if self.side in (OURS, COMPUTES, LATE):
            ascpipe = [sys.executable, "-W", "ignore", "-m", "ascpipe", "run"]
            return [*ascpipe, *(["--ranks", str(self.ranks)] if self.ranks > 1 else []), *script]
        horovodrun = os.path.join(os.path.dirname(sys.executable), "horovodrun")
        if not os.path.exists(horovodrun):
            raise ProgramError("Horovod is not installed: make ranks")
        return [horovodrun, "--gloo", "--disable-cache", "-np", str(self.ranks), "-H",
                "localhost:{}".format(self.ranks), sys.executable, "-W", "ignore", *script]


class Ranks(Program):
    """The ranks of one side, and their launcher.

    Between two turns they are stopped: Horovod's threads look for work a thousand times a second, which would be time
    of the side whose turn it is.

    Attributes:
        processor_s: processor seconds of all ranks' processes since they began.
        connections: TCP connections of a rank, the mean.
        turns: of each turn, processor seconds of all ranks, and what one rank has sent, the mean.
    """

    def __init__(self, launched: Launched) -> None:
        self._listening = socket.socket()
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen(launched.ranks)
        environment = dict(os.environ, PYTHONPATH=_ROOT, HOROVOD_GLOO_TIMEOUT_SECONDS=str(_STOPPED_S))
        super().__init__([*launched.command(), str(self._listening.getsockname()[1])], environment=environment,
                         limit_s=LIMIT_S)
        self._ranks = launched.ranks
        self._connections: List[socket.socket] = []
        self._answers: List[IO[str]] = []
        self._pids: List[int] = []
        self.processor_s = 0.0
        self.connections = 0.0
        self._sent_bytes = 0.0
        self._packets = 0.0
        self.turns: List[Dict[str, float]] = []

    def join(self) -> None:
        """Wait until all ranks have trained their first step."""
        for _ in range(self._ranks):
            self._await(self._listening)
            connection, _ = self._listening.accept()
            self._connections.append(connection)
            self._answers.append(connection.makefile("r"))
        self._listening.close()
        self._trained()

    def train(self, steps: int) -> None:
        """Train some steps."""
        self._signal(signal.SIGCONT)
        for connection in self._connections:
            connection.sendall("{}\n".format(steps).encode())
        self._trained()

    def lead(self) -> None:
        """Steps that are not timed."""
        self.train(workloads.sized(LEAD, 2))

    def turn(self, steps: int) -> Callable[[], object]:
        """A call that trains some steps."""
        def call() -> None:
            processor_s = self.processor_s
            sent_bytes = self._sent_bytes
            packets = self._packets
            self.train(steps)
            self.turns.append({"processor_s": self.processor_s - processor_s,
                               "sent_bytes": self._sent_bytes - sent_bytes, "packets": self._packets - packets})

        return call

    def end(self) -> None:
        """Tell the ranks that no more steps follow, and wait for the launcher's end."""
        self._signal(signal.SIGCONT)
        self._hang_up()
        super().end()

    def kill(self) -> None:
        """End the launcher at once, and with it the ranks."""
        self._signal(signal.SIGCONT)  # a process that is stopped would not end
        super().kill()
        self._hang_up()

    def _trained(self) -> None:
        told: List[Dict[str, Any]] = []
        for connection, lines in zip(self._connections, self._answers):
            self._await(connection)
            line = lines.readline()
            if not line:
                raise self._ended()
            told.append(json.loads(line))
        self._pids = [one["pid"] for one in told]
        self._signal(signal.SIGSTOP)
        self.processor_s = sum(one["processor_s"] for one in told)
        self.connections, self._sent_bytes, self._packets = (
            sum(one[what] for one in told) / self._ranks for what in ("connections", "sent_bytes", "packets"))

    def _signal(self, number: int) -> None:
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _await(self, ready: socket.socket) -> None:
        """Wait until something can be read, as long as the launcher runs."""
        deadline = time.monotonic() + self.limit_s
        while not select.select([ready], [], [], _LOOK_S)[0]:
            if self._running().poll() is not None:
                raise self._ended()
            if time.monotonic() > deadline:
                raise self._failure("did not answer within {:g} s and was killed".format(self.limit_s))

    def _hang_up(self) -> None:
        for lines in self._answers:
            lines.close()
        for one in [*self._connections, self._listening]:
            one.close()
        self._answers = []
        self._connections = []


@contextlib.contextmanager
def running(sides: Sequence[Launched]) -> Iterator[Dict[str, Ranks]]:
    """By name: the sides, which begin side by side; each has trained its first step."""
    with contextlib.ExitStack() as stack:
        programs = {side.name: stack.enter_context(Ranks(side)) for side in sides}
        for program in programs.values():
            program.join()
        yield programs
