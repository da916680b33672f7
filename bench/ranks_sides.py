"""Sides of a program of several ranks. A launcher starts each side, and the sides train in turns."""
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

LEAD = PREFETCH + 2  #: steps of a turn that are not timed; they consume the batches that were prepared before the turn
EXCHANGE = "exchange"  #: side that only exchanges bytes
_NAMES = {OURS: "ascpipe", COMPUTES: "{:.0f} ms of compute".format(1e3 * COMPUTE_S),
          LATE: "{:.0f} ms of compute, ids {:.0f} ms late".format(1e3 * COMPUTE_S, 1e3 * LATE_S),
          PLAIN: "tf.Variable, Horovod gathers", DENSE: "tf.Variable, sparse_as_dense", EXCHANGE: "hvd.alltoall"}
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LOOK_S = 1.0  # interval of the checks whether a launcher still runs
_STOPPED_S = 300  # maximum pause of ranks between two turns


class Launched(NamedTuple):
    """Side and number of its ranks. For EXCHANGE it also has the bytes that a rank sends in a step."""

    side: str
    ranks: int
    sent_bytes: int = 0

    @property
    def name(self) -> str:
        """Name of the contender."""
        return "{}, {}".format(_NAMES[self.side], "1 rank" if self.ranks == 1 else "{} ranks".format(self.ranks))

    def command(self) -> List[str]:
        """Command that starts the ranks. The port must be appended."""
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
    """Ranks of one side, and their launcher.

    The ranks are stopped between turns. Otherwise Horovod's threads would poll a thousand times a second, and use
    processor time during the turns of other sides.

    Attributes:
        processor_s: processor seconds of all ranks' processes since their start.
        connections: mean number of TCP connections of a rank.
        turns: for each turn, processor seconds of all ranks and the mean traffic of a rank.
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
        """Train the steps that are not timed."""
        self.train(workloads.sized(LEAD, 2))

    def turn(self, steps: int) -> Callable[[], object]:
        """Return a function that trains some steps."""
        def call() -> None:
            processor_s = self.processor_s
            sent_bytes = self._sent_bytes
            packets = self._packets
            self.train(steps)
            self.turns.append({"processor_s": self.processor_s - processor_s,
                               "sent_bytes": self._sent_bytes - sent_bytes, "packets": self._packets - packets})

        return call

    def end(self) -> None:
        """Tell the ranks to exit, and wait until the launcher has exited."""
        self._signal(signal.SIGCONT)
        self._hang_up()
        super().end()

    def kill(self) -> None:
        """Kill the launcher and thereby the ranks."""
        self._signal(signal.SIGCONT)  # a stopped process would not exit
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
        """Wait until data can be read. Raise an error if the launcher exits."""
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
    """Yield a dict from name to side. All sides start concurrently, and each side has trained its first step."""
    with contextlib.ExitStack() as stack:
        programs = {side.name: stack.enter_context(Ranks(side)) for side in sides}
        for program in programs.values():
            program.join()
        yield programs
