"""Sides of a program as users write it, each in a process of its own, which train in turns."""
import contextlib
import json
import sys
from typing import Callable, Dict, Iterator, List, Optional, Sequence

from bench import usual_program, workloads
from bench.harness import median
from bench.programs import Program
from bench.usual_model import CEILING, ON_DISK, OURS, PLAIN, PREFETCH, Setting

LEAD = PREFETCH + 2  #: steps of a turn that are not timed: what was made ready during another's turn is used up
NAMES = {OURS: "ascpipe", PLAIN: "tf.Variable, embedding_lookup", CEILING: "rows at hand, the dense part alone",
         ON_DISK: "ascpipe, three quarters of the rows on disk"}
_APART = ("unshare", "-m")  #: what mounts a disk of its own


class Side(Program):
    """One side: a process of its own, which answers as ``bench/usual_program.py`` does.

    Attributes:
        counts: of each turn: ``used_s``, processor seconds of its processes; with rows on disk also ``fetches`` (rows),
            ``disk_waits`` (plans that waited for rows), ``rows_written``, ``written_bytes``.
    """

    def __init__(self, command: Sequence[str], *, environment: Optional[Dict[str, str]] = None) -> None:
        super().__init__(command, environment=environment)
        self._now: Dict[str, float] = {}
        self.counts: List[Dict[str, float]] = []

    @property
    def used_s(self) -> float:
        """Processor seconds of its processes since its first step."""
        return self._now["used_s"]

    @property
    def first_step_s(self) -> float:
        """Seconds from where its program begins to build or train its model to the end of the first step."""
        return self._now["first_step_s"]

    def trained(self) -> None:
        """Wait until the steps that it was told are done, or the first one."""
        self._now = json.loads(self.answer())

    def train(self, steps: int) -> None:
        """Train some steps."""
        self.tell(str(steps))
        self.trained()

    def lead(self) -> None:
        """Steps that are not timed."""
        self.train(workloads.sized(LEAD, 2))

    def turn(self, steps: int) -> Callable[[], object]:
        """A call that trains some steps."""
        def call() -> None:
            before = self._now
            self.train(steps)
            self.counts.append({name: count - before[name] for name, count in self._now.items()})

        return call

    def a_step(self, name: str, steps: int) -> float:
        """Median of a count of the turns, for one of their steps."""
        return median([counts[name] for counts in self.counts]) / steps


def side_of(setting: Setting) -> Side:
    """The side that a setting describes."""
    return Side([*(_APART if setting.side == ON_DISK and setting.delay_ms else ()), sys.executable, "-m",
                 usual_program.__name__, json.dumps(setting._asdict())])


def sized(setting: Setting) -> Setting:
    """The setting, with small tables in a run with small sizes."""
    return setting._replace(keys=workloads.sized(setting.keys, min(setting.keys, 2 * setting.rows * setting.part)))


@contextlib.contextmanager
def running(setting: Setting, sides: Sequence[str]) -> Iterator[Dict[str, Side]]:
    """By name: the sides, which begin side by side; each has trained its first step."""
    with contextlib.ExitStack() as stack:
        programs = {NAMES[side]: stack.enter_context(side_of(setting._replace(side=side))) for side in sides}
        for program in programs.values():
            program.trained()
        yield programs
