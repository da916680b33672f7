"""Compares the records of two runs: how much slower is the later one?

For each variant in both: how many times as long ours takes after as before, per unit of work, and the same as
a share of each peer, which takes the speed of the machine out.
"""
import statistics
from typing import Any, Dict, List, NamedTuple, Sequence

from bench import records


class Change(NamedTuple):
    """One variant, before and after.

    Attributes:
        ours: time after / time before, per unit.
        against: by peer, the same with each time taken as a share of the peer's in its own run.
    """

    name: str
    ours: float
    against: Dict[str, float]

    @property
    def slowdown(self) -> float:
        """What the limit applies to: the median of ``against``; without a peer in both runs, ``ours``."""
        return statistics.median(self.against.values()) if self.against else self.ours


def changes(before: Sequence[Dict[str, Any]], after: Sequence[Dict[str, Any]]) -> List[Change]:
    """One ``Change`` per variant that both runs have with the same sizes, in the order of the second."""
    earlier = {_kind(one): one for one in before}
    return [_change(earlier[_kind(one)], one) for one in after if _kind(one) in earlier]


def _kind(one: Dict[str, Any]) -> Any:
    return records.name_of(one), bool(one["params"].get("small"))


def _change(before: Dict[str, Any], after: Dict[str, Any]) -> Change:
    against = {name: before["ratio"][name] / ratio for name, ratio in after["ratio"].items() if name in before["ratio"]}
    return Change(records.name_of(after), after["ours"] / before["ours"], against)


def text_of(change: Change, limit: float) -> str:
    """A change in one line, with SLOWER at its end if it is past the limit."""
    shares = "".join("; as a share of {} {:.2f} x".format(*pair) for pair in sorted(change.against.items()))
    return "{:<32} {:6.2f} x before{}{}".format(
        change.name, change.ours, shares, "  SLOWER" if change.slowdown > limit else "")
