"""Harness that measures all cases. Contenders alternate, so that a disturbance affects all contenders.

A case yields ``Contenders``, with our contender first. The harness calls each contender several times to warm up, then
calls the contenders in turn, and compares their times within rounds.
"""
import time
from typing import Callable, ContextManager, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from bench import goals
from bench.goals import Goal

LEAST_REPEATS = 9  #: minimum number of rounds for a meaningful median

Clock = Callable[[], float]  #: seconds, monotonic


class Contenders(NamedTuple):
    """Contenders of a case.

    Attributes:
        units: units of work in one call of each contender.
        calls: calls by name, with our contender first. Each call does the whole work before it returns.
        before: by name, a function that is called before each call of the contender. Its time is not measured.
        clocks: clocks by name. The default is wall time.
        notes: returns other figures as text by name. The harness calls this function after the last round.
        memory: bytes per key, if the case has such a goal.
    """

    units: int
    calls: Dict[str, Callable[[], object]]
    before: Mapping[str, Callable[[], object]] = {}
    clocks: Mapping[str, Clock] = {}
    notes: Callable[[], Mapping[str, str]] = dict
    memory: float = 0


class Timing(NamedTuple):
    """Seconds per call over ``repeats`` calls."""

    least_s: float
    median_s: float
    most_s: float
    repeats: int


class Compared(NamedTuple):
    """Another contender, compared with our contender.

    Attributes:
        timing: timing of this contender.
        ratio: its time / our time, the median over rounds.
        over_s: our time minus its time in seconds per call, the median over rounds.
    """

    timing: Timing
    ratio: float
    over_s: float


class Case(NamedTuple):
    """Case of the benchmark.

    Attributes:
        name: name of the case. The name of a variant is ``name/variant``.
        unit: unit of work in the singular: id, batch, step, call.
        topology: arrangement of processes and threads, such as one_thread, one_producer_one_consumer.
        variants: names of the workloads.
        prepare: context manager that sets a variant up and yields its ``Contenders``.
        says: one sentence for ``--list``.
        goals: goals by variant. A variant may have no goal.
        quantity: measured quantity per unit of work: "s", "CPU s", or the quantity of a clock of the case.
        warm_up: number of calls of each contender before the first round.
        repeats: default number of rounds.
        repeats_of: default number of rounds of single variants, which replaces ``repeats``.
        missing: returns what the case needs and the machine lacks, or "". Such a case is skipped.
    """

    name: str
    unit: str
    topology: str
    variants: Sequence[str]
    prepare: Callable[[str], ContextManager[Contenders]]
    says: str
    goals: Mapping[str, Sequence[Goal]] = {}
    quantity: str = "s"
    warm_up: int = 2
    repeats: int = LEAST_REPEATS
    repeats_of: Mapping[str, int] = {}
    missing: Callable[[], str] = str


class Result(NamedTuple):
    """Result of one variant of a case.

    Attributes:
        ours: name of our contender, to which ``timing`` belongs.
        baselines: other contenders in their order.
        reached: each goal with the figure that it limits.
        notes: notes of the contenders.
    """

    case: Case
    variant: str
    units: int
    ours: str
    timing: Timing
    baselines: Dict[str, Compared]
    reached: Sequence[Tuple[Goal, float]]
    notes: Mapping[str, str]

    @property
    def name(self) -> str:
        """Name of case and variant."""
        return "{}/{}".format(self.case.name, self.variant)


def summary(seconds: Sequence[float]) -> Timing:
    """Return the minimum, median and maximum of times."""
    if not seconds:
        raise ValueError("no times to summarise")
    return Timing(min(seconds), median(seconds), max(seconds), len(seconds))


def median(values: Sequence[float]) -> float:
    """Return the median. For an even number of values it is the mean of the two middle values."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def measure(contenders: Contenders, *, warm_up: int = 2, repeats: int = LEAST_REPEATS,
            clock: Clock = time.perf_counter) -> Dict[str, List[float]]:
    """Return a dict from contender name to the seconds of each call, in the order of the rounds.

    Args:
        contenders: contenders to measure, in the order A B C, A B C, ...
        warm_up: number of calls of each contender before the first round. They are not measured.
        repeats: number of rounds.
        clock: clock of the contenders without a clock in ``contenders.clocks``.
    """
    for call in contenders.calls.values():
        for _ in range(warm_up):
            call()
    seconds: Dict[str, List[float]] = {name: [] for name in contenders.calls}
    for _ in range(repeats):
        for name, call in contenders.calls.items():
            contenders.before.get(name, _nothing)()
            read = contenders.clocks.get(name, clock)
            started = read()
            call()
            seconds[name].append(read() - started)
    return seconds


def _nothing() -> None:
    """Do nothing before a call. This is the default of ``Contenders.before``."""


def repeated(step: Callable[[], object], times: int) -> Callable[[], object]:
    """Return a function that calls ``step`` several times."""
    return lambda: [step() for _ in range(times)]


def compare(ours: Sequence[float], other: Sequence[float]) -> Compared:
    """Compare another contender with ours, round by round."""
    rounds = list(zip(ours, other))
    return Compared(summary(other), median([theirs / mine for mine, theirs in rounds]),
                    median([mine - theirs for mine, theirs in rounds]))


def run_variant(case: Case, variant: str, *, repeats: Optional[int] = None, warm: bool = True) -> Result:
    """Set up one variant of a case, measure it, and clean up. The contenders warm up first if ``warm`` is true.

    ``repeats`` is the number of rounds. It defaults to ``case.repeats_of`` or ``case.repeats``.
    """
    with case.prepare(variant) as contenders:
        if contenders.units < 1 or not contenders.calls:
            raise ValueError("{}/{}: {} units of work in {} calls".format(
                case.name, variant, contenders.units, len(contenders.calls)))
        seconds = measure(contenders, warm_up=case.warm_up if warm else 0,
                          repeats=case.repeats_of.get(variant, case.repeats) if repeats is None else repeats)
        notes = dict(contenders.notes())
    ours = next(iter(contenders.calls))
    baselines = {name: compare(seconds[ours], times) for name, times in seconds.items() if name != ours}
    medians = {name: median(times) / contenders.units for name, times in seconds.items()}
    figures = goals.Figures(
        medians[ours], medians, {name: compared.ratio for name, compared in baselines.items()},
        {name: compared.over_s / contenders.units for name, compared in baselines.items()},
        contenders.memory)
    reached = [(goal, goals.reached(goal, figures)) for goal in case.goals.get(variant, ())]
    return Result(case, variant, contenders.units, ours, summary(seconds[ours]), baselines, reached, notes)
