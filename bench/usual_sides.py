"""Sides of a typical program. Each side is a separate process, and the sides train in turns."""
import contextlib
import json
import sys
import threading
import time
from typing import Callable, Dict, Iterator, List, Optional, Sequence

from bench import peers, processes, usual_program, workloads
from bench.harness import median
from bench.programs import Program
from bench.usual_model import CEILING, FBGEMM, ON_DISK, OURS, PLAIN, PREFETCH, Setting

IN_PROGRESS = 2  #: batches that a dataset prepares after its prefetched batches
LEAD = PREFETCH + IN_PROGRESS  #: steps of a turn that are not timed; they consume batches from before the turn
NAMES = {OURS: "ascpipe", PLAIN: "tf.Variable, embedding_lookup", CEILING: "rows at hand, the dense part alone",
         ON_DISK: "ascpipe, three quarters of the rows on disk", FBGEMM: "PyTorch, FBGEMM"}
_FEW = 16  # batches in a run with small sizes
_LOOK_S = .1
_IDLE = .05  # share of a processor that an idle process may need
_APART = ("unshare", "-m")  #: command that mounts a disk in a separate namespace


class Side(Program):
    """One side. Its process answers like ``bench/usual_program.py``.

    Args:
        command: command of the process.
        environment: environment of the process.
        lead_steps: steps of a turn that are not timed.

    Attributes:
        counts: answers of each turn. ``used_s`` is the processor time of the side's processes. With rows on disk, there
            are also ``fetches`` (rows), ``disk_waits`` (plans that waited for rows), ``rows_written`` and
            ``written_bytes``.
    """

    def __init__(self, command: Sequence[str], *, environment: Optional[Dict[str, str]] = None,
                 lead_steps: int = LEAD) -> None:
        super().__init__(command, environment=environment)
        self._lead_steps = lead_steps
        self._now: Dict[str, float] = {}
        self.counts: List[Dict[str, float]] = []

    @property
    def used_s(self) -> float:
        """Processor seconds of the side's processes since the first step."""
        return self._now["used_s"]

    @property
    def first_step_s(self) -> float:
        """Seconds from the start of the build or of the training to the end of the first step."""
        return self._now["first_step_s"]

    def trained(self) -> None:
        """Wait until the side has trained the requested steps, or its first step."""
        self._now = json.loads(self.answer())

    def train(self, steps: int) -> None:
        """Train some steps."""
        self.tell(str(steps))
        self.trained()

    def lead(self) -> None:
        """Train the steps that are not timed."""
        self.train(workloads.sized(self._lead_steps, 2))

    def wait_until_idle(self) -> None:
        """Wait until the side's process has filled the buffers of its dataset, and needs no processor time."""
        read = processes.cpu_clock([self._running().pid])
        deadline = time.monotonic() + self.limit_s
        is_idle = False
        while not is_idle:
            if time.monotonic() > deadline:
                raise self._failure("did not become idle within {:g} s and was killed".format(self.limit_s))
            before_s = read()
            threading.Event().wait(_LOOK_S)
            is_idle = read() - before_s < _IDLE * _LOOK_S

    def turn(self, steps: int) -> Callable[[], object]:
        """Return a function that trains some steps."""
        def call() -> None:
            before = self._now
            self.train(steps)
            self.counts.append({name: count - before[name] for name, count in self._now.items()})

        return call

    def a_step(self, name: str, steps: int) -> float:
        """Return the median over turns of a count per step."""
        return median([counts[name] for counts in self.counts]) / steps


def side_of(setting: Setting) -> Side:
    """Return the side of a setting."""
    python = peers.PYTHON if setting.side == FBGEMM else sys.executable
    return Side([*(_APART if setting.side == ON_DISK and setting.delay_ms else ()), python, "-m",
                 usual_program.__name__, json.dumps(setting._asdict())])


def sized(setting: Setting) -> Setting:
    """Return the setting, with small tables and few batches in a run with small sizes."""
    return setting._replace(keys=workloads.sized(setting.keys, min(setting.keys, 2 * setting.rows * setting.part)),
                            batches=workloads.sized(setting.batches, min(setting.batches, _FEW)))


@contextlib.contextmanager
def running(setting: Setting, sides: Sequence[str]) -> Iterator[Dict[str, Side]]:
    """Yield a dict from name to side. All sides start concurrently, and each side has trained its first step."""
    with contextlib.ExitStack() as stack:
        programs = {NAMES[side]: stack.enter_context(side_of(setting._replace(side=side))) for side in sides}
        for program in programs.values():
            program.trained()
        yield programs
