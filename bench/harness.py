"""Times every case in the same way: contenders take turns, so that a noisy moment hits all of them.

A case yields ``Contenders``: what one call of each does, in units of work, ours first. The harness warms
each up, then calls them round robin, and compares within rounds.
"""
import time
from typing import Callable, ContextManager, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from bench import goals
from bench.goals import Goal

LEAST_REPEATS = 9  #: rounds below which a median says little

Clock = Callable[[], float]  #: seconds, never less than before


class Contenders(NamedTuple):
    """What a case compares.

    Attributes:
        units: units of work in one call, the same for all.
        calls: by name, ours first; each call does the whole work and returns when it is done.
        before: by name, what is done before each call of that name, not timed; for those that need it.
        clocks: by name, whose seconds count; wall time for those that have none.
        notes: figures that stand beside the times, as text by name; asked for when the calls are over.
        memory: bytes per key, if that is a goal.
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
    """A contender that is not ours.

    Attributes:
        timing: its own.
        ratio: how many times as long it takes as ours: the median of the ratios within rounds.
        over_s: seconds per call that ours takes more: the median of the differences within rounds.
    """

    timing: Timing
    ratio: float
    over_s: float


class Case(NamedTuple):
    """Something to measure.

    Attributes:
        name: of the case; a variant is ``name/variant``.
        unit: of work, in the singular: id, batch, step, call.
        topology: of the processes and threads, such as one_thread, one_producer_one_consumer.
        variants: names of the workloads.
        prepare: context manager that sets a variant up and yields its ``Contenders``.
        says: one sentence for ``--list``.
        goals: by variant, what it should reach; those that have goals.
        quantity: what is counted per unit of work: "s", "CPU s", or what a clock of the case counts.
        warm_up: calls of each contender before the first round.
        repeats: rounds, where the command does not say how many.
        repeats_of: the same, by variant, of those that need others.
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


class Result(NamedTuple):
    """One variant of a case, measured.

    Attributes:
        ours: name of our contender; ``timing`` is its.
        baselines: the others, in their order.
        reached: each goal, with the figure that it limits.
        notes: as of the contenders.
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
        """Of case and variant."""
        return "{}/{}".format(self.case.name, self.variant)


def summary(seconds: Sequence[float]) -> Timing:
    """Least, median and most of some times."""
    if not seconds:
        raise ValueError("no times to summarise")
    return Timing(min(seconds), median(seconds), max(seconds), len(seconds))


def median(values: Sequence[float]) -> float:
    """The middle one; of an even number the mean of the two in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def measure(contenders: Contenders, *, warm_up: int = 2, repeats: int = LEAST_REPEATS,
            clock: Clock = time.perf_counter) -> Dict[str, List[float]]:
    """Seconds of each call, by name, in the order of the rounds.

    Args:
        contenders: whose calls to time; A B C, A B C, ...
        warm_up: calls of each before the first round, not timed.
        repeats: rounds.
        clock: of those contenders that have none of their own.
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
    """What most contenders do before a call."""


def repeated(step: Callable[[], object], times: int) -> Callable[[], object]:
    """Several steps in one call."""
    return lambda: [step() for _ in range(times)]


def compare(ours: Sequence[float], other: Sequence[float]) -> Compared:
    """Another contender against ours, round by round."""
    rounds = list(zip(ours, other))
    return Compared(summary(other), median([theirs / mine for mine, theirs in rounds]),
                    median([mine - theirs for mine, theirs in rounds]))


def run_variant(case: Case, variant: str, *, repeats: Optional[int] = None, warm: bool = True) -> Result:
    """Set one variant of a case up, measure it, after its warm-up if ``warm``, and take it down.

    ``repeats``: rounds, instead of those of the case.
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
