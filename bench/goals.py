"""What a measurement should reach, and whether it does: computed from the figures of its own run."""
from typing import Dict, NamedTuple, Optional

RATIO = "ratio"  #: a peer's time as a multiple of ours: at least
SHARE = "share"  #: ours as a share of a peer's: at most
OVER = "over"  #: seconds per unit of work that ours takes more than a peer: at most
RATE = "rate"  #: units of work per second, ours: at least
COST = "cost"  #: seconds per unit of work, ours: at most
COUNT = "count"  #: what a case counts in the place of seconds, per unit of work, ours: at most
MEMORY = "memory"  #: bytes per key, ours: at most
RANGE = "range"  #: the slowest contender as a multiple of the fastest: at most

_AT_LEAST = (RATIO, RATE)
_COMPARE = (RATIO, SHARE, OVER)


class Goal(NamedTuple):
    """A limit of one figure.

    Attributes:
        measure: which figure: RATIO, SHARE, OVER, RATE, COST, COUNT, MEMORY or RANGE.
        limit: what it should reach at least, or be at most.
        peer: name of the contender that RATIO, SHARE and OVER compare with; others have none.
    """

    measure: str
    limit: float
    peer: str = ""


class Figures(NamedTuple):
    """What goals are computed from.

    Attributes:
        ours: seconds per unit of work; the median.
        values: the same of every contender by name, ours among them.
        ratios: by peer, its time as a multiple of ours; the median of the ratios within rounds.
        over: by peer, seconds per unit of work that ours takes more; the median of the differences within rounds.
        memory: bytes per key.
    """

    ours: float
    values: Dict[str, float]
    ratios: Dict[str, float]
    over: Dict[str, float]
    memory: float = 0


def reached(goal: Goal, figures: Figures) -> float:
    """The figure that the goal limits.

    Raises:
        ValueError: the goal names a peer that was not measured, or a measure that there is not.
    """
    if goal.measure in _COMPARE and goal.peer not in figures.ratios:
        raise ValueError("a goal compares with {!r}, measured were {}".format(goal.peer, sorted(figures.ratios)))
    if goal.measure == RATIO:
        return figures.ratios[goal.peer]
    if goal.measure == SHARE:
        return 1 / figures.ratios[goal.peer]
    if goal.measure == OVER:
        return figures.over[goal.peer]
    if goal.measure == RATE:
        return 1 / figures.ours
    if goal.measure in (COST, COUNT):
        return figures.ours
    if goal.measure == MEMORY:
        return figures.memory
    if goal.measure == RANGE:
        return max(figures.values.values()) / min(figures.values.values())
    raise ValueError("there is no measure {!r}".format(goal.measure))


def is_met(goal: Goal, value: float) -> bool:
    """Is the limit kept? ``value``: what ``reached`` said."""
    return value >= goal.limit if goal.measure in _AT_LEAST else value <= goal.limit


def text(goal: Goal, unit: str, value: Optional[float] = None) -> str:
    """The goal, or with ``value`` what was reached, in words; ``unit``: of work, in the singular."""
    sign = ">= " if goal.measure in _AT_LEAST else "<= "
    number = goal.limit if value is None else value
    shown = {RATIO: "{:.3g} x".format(number), SHARE: "{:.0f} % of it".format(100 * number),
             OVER: "{} more per {}".format(duration(number), unit),
             RATE: "{} {}s/s".format(_rate(number), unit), COST: "{} per {}".format(duration(number), unit),
             COUNT: "{:.3g} per {}".format(number, unit), MEMORY: "{:.1f} bytes per key".format(number),
             RANGE: "{:.3g} x over the range".format(number)}[goal.measure]
    return shown if value is not None else sign + shown


def duration(seconds: float) -> str:
    """A time, or a difference of two, with three digits and its unit."""
    if seconds < 0:
        return "-" + duration(-seconds)
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return "{:.3g} {}".format(seconds / size, unit)
    return "{:.3g} ns".format(seconds / 1e-9)


def _rate(per_second: float) -> str:
    return "{:.3g} M".format(per_second / 1e6) if per_second >= 1e6 else "{:.3g}".format(per_second)
