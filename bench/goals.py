"""Goals of measurements. Whether a goal is met is computed from the figures of the same run."""
from typing import Dict, NamedTuple, Optional

RATIO = "ratio"  #: minimum of a peer's time as a multiple of our time
SHARE = "share"  #: maximum of our time as a share of a peer's time
OVER = "over"  #: maximum of our time minus a peer's time, in seconds per unit of work
RATE = "rate"  #: minimum of our units of work per second
COST = "cost"  #: maximum of our seconds per unit of work
COUNT = "count"  #: maximum of our count per unit of work, for a case that does not measure seconds
MEMORY = "memory"  #: maximum of our bytes per key
RANGE = "range"  #: maximum of the slowest contender's time as a multiple of the fastest contender's time

_AT_LEAST = (RATIO, RATE)
_COMPARE = (RATIO, SHARE, OVER)


class Goal(NamedTuple):
    """Limit of one figure.

    Attributes:
        measure: kind of figure: RATIO, SHARE, OVER, RATE, COST, COUNT, MEMORY or RANGE.
        limit: minimum or maximum of the figure.
        peer: name of the compared contender for RATIO, SHARE and OVER, otherwise "".
    """

    measure: str
    limit: float
    peer: str = ""


class Figures(NamedTuple):
    """Figures from which goals are computed.

    Attributes:
        ours: our median seconds per unit of work.
        values: median seconds per unit of work of each contender by name, including ours.
        ratios: peer -> the peer's time as a multiple of our time, the median over rounds.
        over: peer -> our time minus the peer's time in seconds per unit of work, the median over rounds.
        memory: bytes per key.
    """

    ours: float
    values: Dict[str, float]
    ratios: Dict[str, float]
    over: Dict[str, float]
    memory: float = 0


def reached(goal: Goal, figures: Figures) -> float:
    """Return the figure that the goal limits.

    Raises:
        ValueError: the peer of the goal was not measured, or the measure is unknown.
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
    """Return whether a goal is met. ``value`` is the result of ``reached``."""
    return value >= goal.limit if goal.measure in _AT_LEAST else value <= goal.limit


def text(goal: Goal, unit: str, value: Optional[float] = None) -> str:
    """Return the goal in words, or the reached figure if ``value`` is given. ``unit`` is the unit of work in
    the singular.
    """
    sign = ">= " if goal.measure in _AT_LEAST else "<= "
    number = goal.limit if value is None else value
    shown = {RATIO: "{:.3g} x".format(number), SHARE: "{:.0f} % of it".format(100 * number),
             OVER: "{} more per {}".format(duration(number), unit),
             RATE: "{} {}s/s".format(_rate(number), unit), COST: "{} per {}".format(duration(number), unit),
             COUNT: "{:.3g} per {}".format(number, unit), MEMORY: "{:.1f} bytes per key".format(number),
             RANGE: "{:.3g} x over the range".format(number)}[goal.measure]
    return shown if value is not None else sign + shown


def duration(seconds: float) -> str:
    """Return a duration, or a difference of durations, with three digits and its unit."""
    if seconds < 0:
        return "-" + duration(-seconds)
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return "{:.3g} {}".format(seconds / size, unit)
    return "{:.3g} ns".format(seconds / 1e-9)


def _rate(per_second: float) -> str:
    return "{:.3g} M".format(per_second / 1e6) if per_second >= 1e6 else "{:.3g}".format(per_second)
