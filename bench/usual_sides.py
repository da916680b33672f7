"""Sides of a typical program. Each side is a separate process, and the sides train in turns."""
import contextlib
import json
import sys
from typing import Callable, Dict, Iterator, List, Optional, Sequence

from bench import usual_program, workloads
from bench.harness import median
from bench.programs import Program
from bench.usual_model import CEILING, ON_DISK, OURS, PLAIN, PREFETCH, Setting

LEAD = PREFETCH + 2  #: steps of a turn that are not timed; they consume the batches that were prepared before the turn
NAMES = {OURS: "ascpipe", PLAIN: "tf.Variable, embedding_lookup", CEILING: "rows at hand, the dense part alone",
         ON_DISK: "ascpipe, three quarters of the rows on disk"}
_APART = ("unshare", "-m")  #: command that mounts a disk in a separate namespace


class Side(Program):
    """One side. Its process answers like ``bench/usual_program.py``.

    Attributes:
        counts: answers of each turn. ``used_s`` is the processor time of the side's processes. With rows on disk, there
            are also ``fetches`` (rows), ``disk_waits`` (plans that waited for rows), ``rows_written`` and
            ``written_bytes``.
    """

    def __init__(self, command: Sequence[str], *, environment: Optional[Dict[str, str]] = None) -> None:
        super().__init__(command, environment=environment)
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
        self.train(workloads.sized(LEAD, 2))

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
    return Side([*(_APART if setting.side == ON_DISK and setting.delay_ms else ()), sys.executable, "-m",
                 usual_program.__name__, json.dumps(setting._asdict())])


def sized(setting: Setting) -> Setting:
    """Return the setting, with small tables in a run with small sizes."""
    return setting._replace(keys=workloads.sized(setting.keys, min(setting.keys, 2 * setting.rows * setting.part)))


@contextlib.contextmanager
def running(setting: Setting, sides: Sequence[str]) -> Iterator[Dict[str, Side]]:
    """Yield a dict from name to side. All sides start concurrently, and each side has trained its first step."""
    with contextlib.ExitStack() as stack:
        programs = {NAMES[side]: stack.enter_context(side_of(setting._replace(side=side))) for side in sides}
        for program in programs.values():
            program.trained()
        yield programs
