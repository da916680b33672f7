"""Two files of ``python -m bench --json`` against each other.

    python -m bench.compare before.json after.json --limit 1.1

For each variant in both: how many times as long ours takes after as before, per unit of work, and the same as
a share of each baseline, which takes the speed of the machine out.  Exit code 1 when a variant is past the limit
by the latter (by the former where there is no baseline), 2 when a file cannot be used.
"""
import argparse
import json
import sys
from typing import Any, Dict, List, NamedTuple, Optional


class Change(NamedTuple):
    """One variant, before and after.

    Attributes:
        ours: time after / time before, per unit.
        against: by baseline, the same with each time taken as a share of the baseline's in its own run.
    """

    name: str
    ours: float
    against: Dict[str, float]

    @property
    def worst(self) -> float:
        """What the limit applies to: the smallest slow-down that any baseline of both runs vouches for."""
        return min(self.against.values()) if self.against else self.ours


def changes(before: Dict[str, Any], after: Dict[str, Any]) -> List[Change]:
    """One ``Change`` per variant that both runs have, in the order of the second."""
    earlier = {result["name"]: result for result in before["results"]}
    return [_change(earlier[result["name"]], result) for result in after["results"] if result["name"] in earlier]


def _change(before: Dict[str, Any], after: Dict[str, Any]) -> Change:
    against = {name: before["baselines"][name]["ratio"] / compared["ratio"]
               for name, compared in after["baselines"].items() if name in before["baselines"]}
    return Change(after["name"], _per_unit(after) / _per_unit(before), against)


def _per_unit(result: Dict[str, Any]) -> float:
    return float(result["timing"]["median_s"]) / int(result["units"])


def load(path: str) -> Dict[str, Any]:
    """A file of results. Raises ``ValueError`` if it is none."""
    try:
        with open(path) as file:
            run = json.load(file)
    except OSError as error:
        raise ValueError("{}: {}".format(path, error.strerror)) from error
    except ValueError as error:
        raise ValueError("{}: not JSON: {}".format(path, error)) from error
    if not isinstance(run, dict) or not isinstance(run.get("results"), list):
        raise ValueError("{}: not a file of `python -m bench --json`".format(path))
    return run


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--limit", type=float, default=1.1, help="ratio past which a variant counts as slower")
    options = parser.parse_args(arguments)
    try:
        before, after = load(options.before), load(options.after)
        found = changes(before, after)
    except (ValueError, KeyError, TypeError) as error:
        print("bench.compare: {}".format(error if isinstance(error, ValueError) else
                                         "a result lacks {}".format(error)), file=sys.stderr)
        return 2
    if not found:
        print("bench.compare: no variant is in both files", file=sys.stderr)
        return 2
    for change in found:
        print("{:<32} {:6.2f} x before{}{}".format(
            change.name, change.ours, "".join("; as a share of {} {:.2f} x".format(*pair)
                                              for pair in sorted(change.against.items())),
            "  SLOWER" if change.worst > options.limit else ""))
    return 1 if any(change.worst > options.limit for change in found) else 0


if __name__ == "__main__":
    sys.exit(main())
