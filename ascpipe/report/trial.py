"""Comparison of two runs, which shows the effect of a changed setting. The functions are pure."""
from typing import Any, List, Mapping, NamedTuple, Optional

Figures = Mapping[str, Any]

_NOTICED = 0.02  # smaller differences of shares are not shown


class Change(NamedTuple):
    """Name of a figure, and its values in two runs, as text."""

    figure: str
    before: str
    after: str


def gain(before: Figures, after: Figures) -> Optional[float]:
    """Return the relative increase of steps per second from one run to another, or None if the first run had no
    steps."""
    old = before["run"]["steps per second"]
    return after["run"]["steps per second"] / old - 1 if old > 0 else None


def changes(before: Figures, after: Figures) -> List[Change]:
    """Return the speeds of two runs, and the changes of settings, bottlenecks and device hit rates.

    Args:
        before, after: results of ``figures_of``.
    """
    speed = [Change(name, _number(before["run"][name]), _number(after["run"][name]))
             for name in ("steps per second", "ids per second")]
    settings = [Change("setting " + name, str(before["settings"].get(name)), str(value))
                for name, value in sorted(after["settings"].items()) if before["settings"].get(name) != value]
    limits = [_shares("limited by " + name, before["bottlenecks"].get(name, 0.0), after["bottlenecks"].get(name, 0.0))
              for name in sorted({*before["bottlenecks"], *after["bottlenecks"]})]
    old = {table["name"]: table["device_hit_rate"] for table in before["tables"]}
    hits = [_shares("device hits of " + table["name"], old.get(table["name"]), table["device_hit_rate"])
            for table in after["tables"]]
    return [*speed, *settings, *(change for change in (*limits, *hits) if change is not None)]


def _shares(figure: str, before: Optional[float], after: Optional[float]) -> Optional[Change]:
    """Compare a share in two runs. Return None if the share has hardly changed or is unknown."""
    if before is None or after is None or abs(after - before) < _NOTICED:
        return None
    return Change(figure, "{:.0f} %".format(100 * before), "{:.0f} %".format(100 * after))


def _number(value: float) -> str:
    return "{:,.2f}".format(value) if value < 1000 else "{:,.0f}".format(value)
