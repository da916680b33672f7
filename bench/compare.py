"""Comparison of the records of two runs.

For each variant that is in both runs, the comparison has two kinds of ratios, after / before: our time per unit of
work, and our time as a share of each peer's time. The shares do not depend on the speed of the machine.
"""
import statistics
from typing import Any, Dict, List, NamedTuple, Sequence

from bench import records


class Change(NamedTuple):
    """Change of one variant between two runs.

    Attributes:
        ours: time after / time before, per unit.
        against: ratio of the shares by peer. A share is our time / the peer's time in the same run.
    """

    name: str
    ours: float
    against: Dict[str, float]

    @property
    def slowdown(self) -> float:
        """Return the ratio to which the limit applies: the median of ``against``, or ``ours`` if the runs have no
        common peer.
        """
        return statistics.median(self.against.values()) if self.against else self.ours


def changes(before: Sequence[Dict[str, Any]], after: Sequence[Dict[str, Any]]) -> List[Change]:
    """Return one ``Change`` for each variant that both runs have with the same sizes, in the order of the
    second run.
    """
    earlier = {_kind(one): one for one in before}
    return [_change(earlier[_kind(one)], one) for one in after if _kind(one) in earlier]


def _kind(one: Dict[str, Any]) -> Any:
    return records.name_of(one), bool(one["params"].get("small"))


def _change(before: Dict[str, Any], after: Dict[str, Any]) -> Change:
    against = {name: before["ratio"][name] / ratio for name, ratio in after["ratio"].items() if name in before["ratio"]}
    return Change(records.name_of(after), after["ours"] / before["ours"], against)


def text_of(change: Change, limit: float) -> str:
    """Return a change as one line. The line ends with SLOWER if the slowdown exceeds the limit."""
    shares = "".join("; as a share of {} {:.2f} x".format(*pair) for pair in sorted(change.against.items()))
    return "{:<32} {:6.2f} x before{}{}".format(
        change.name, change.ours, shares, "  SLOWER" if change.slowdown > limit else "")
