"""Results as JSON records and as a table."""
import json
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ascpipe.cli.printing import Table
from bench import goals
from bench.harness import Result, Timing

#: fields of a record; the unit of ``ours``, ``peers`` and ``spread`` is ``unit``
FIELDS = frozenset({
    "case", "params", "unit", "ours", "peers", "ratio", "goal", "repeats", "spread", "notes", "machine", "versions",
    "commit", "date", "command"})

PASS = "pass"  # noqa: S105  (a result)
FALLS_SHORT = "falls short"

TIMES = ("s", "CPU s")  #: quantities in seconds

_COLUMNS = ["case", "per", "ours", "peer", "peer's", "x ours", "goal", "reached", "mark"]


def record(result: Result, circumstances: Dict[str, Any], *, small: bool = False) -> Dict[str, Any]:
    """Return a result and its circumstances as plain dicts. The record is self-contained.

    Args:
        result: result to record.
        circumstances: dict from ``circumstances.now``.
        small: whether the sizes were small. The figures are then meaningless, and goals are not judged.
    """
    timings = {result.ours: result.timing, **{name: other.timing for name, other in result.baselines.items()}}
    return dict(
        circumstances, case=result.case.name,
        params={"variant": result.variant, "topology": result.case.topology, "units_per_call": result.units,
                "contender": result.ours, "small": small},
        unit="{} per {}".format(result.case.quantity, result.case.unit),
        ours=result.timing.median_s / result.units,
        peers={name: other.timing.median_s / result.units for name, other in result.baselines.items()},
        ratio={name: other.ratio for name, other in result.baselines.items()},
        goal=[{"measure": goal.measure, "peer": goal.peer, "limit": goal.limit, "reached": value,
               "met": goals.is_met(goal, value)} for goal, value in ([] if small else result.reached)],
        repeats=result.timing.repeats,
        spread={name: _spread(timing, result.units) for name, timing in timings.items()}, notes=dict(result.notes))


def _spread(timing: Timing, units: int) -> List[float]:
    return [timing.least_s / units, timing.most_s / units]


def name_of(written: Dict[str, Any]) -> str:
    """Return case/variant of a record."""
    return "{}/{}".format(written["case"], written["params"]["variant"])


def save(path: str, written: Sequence[Dict[str, Any]]) -> None:
    """Write records to a file."""
    with open(path, "w") as out:
        json.dump({"records": list(written)}, out, indent=1)
        out.write("\n")


def load(path: str) -> List[Dict[str, Any]]:
    """Return the records of a file. Raise ``ValueError`` if the file has no records."""
    found = read_map(path).get("records")
    if not isinstance(found, list) or not all(isinstance(one, dict) and set(one) >= FIELDS for one in found):
        raise ValueError("{}: not a file of `python -m bench --json`".format(path))
    return found


def read_map(path: str) -> Dict[str, Any]:
    """Return the JSON object in a file. Raise ``ValueError`` with the path if there is no object."""
    try:
        with open(path) as file:
            found = json.load(file)
    except OSError as error:
        raise ValueError("{}: {}".format(path, error.strerror)) from error
    except ValueError as error:
        raise ValueError("{}: not JSON: {}".format(path, error)) from error
    if not isinstance(found, dict):
        raise ValueError("{}: it holds no map".format(path))
    return found


def headline(circumstances: Dict[str, Any]) -> str:
    """Return the line above a table."""
    return "{date}  commit {commit}  {machine[processor]}, {machine[cores]} cores, load {machine[load]:.1f}".format(
        **circumstances)


def table(written: Sequence[Dict[str, Any]]) -> Table:
    """Return the table of all records. A row has a peer, a goal, or a peer and a goal."""
    rows = [row for one in written for row in _rows(one)]
    return "", _COLUMNS, rows


def markdown(written: Sequence[Dict[str, Any]]) -> List[str]:
    """Return the table for a document, below a line with place and time of the measurement."""
    _, columns, rows = table(written)
    lines = [where(written[0]), "", "| {} |".format(" | ".join(columns)), "|{}".format("---|" * len(columns))]
    return lines + ["| {} |".format(" | ".join(row)) for row in rows]


def where(one: Dict[str, Any]) -> str:
    """Return the line above a table in a document."""
    return "`{command}`, {date}, commit {commit}, {machine[processor]}, {machine[cores]} cores.".format(**one)


def notes(written: Sequence[Dict[str, Any]]) -> List[str]:
    """Return the lines below the table."""
    return ["{}  {}: {}".format(name_of(one), name, text) for one in written for name, text in one["notes"].items()]


def text_of(one: Dict[str, Any]) -> str:
    """Return a record as one line, which is printed before the table is complete."""
    ratios = "".join("; {} {:.2f} x".format(name, ratio) for name, ratio in one["ratio"].items())
    marks = "".join("; {} ({}): {}".format(_reached(one, goal), _goal(one, goal), _mark(goal)) for goal in one["goal"])
    return "{}  {} per {}{}{}".format(name_of(one), _amount(one, one["ours"]), _unit(one), ratios, marks)


def _rows(one: Dict[str, Any]) -> Iterator[List[str]]:
    for number, (peer, goal) in enumerate(_peers_and_goals(one)):
        least, most = one["spread"][one["params"]["contender"]]
        head = [name_of(one), _unit(one),
                "{} [{}..{}]".format(*(_amount(one, value) for value in (one["ours"], least, most)))]
        yield (["", "", ""] if number else head) + (
            [peer, _amount(one, one["peers"][peer]), "{:.2f}".format(one["ratio"][peer])] if peer else ["", "", ""]
        ) + ([_goal(one, goal), _reached(one, goal), _mark(goal)] if goal else ["", "", ""])


def _peers_and_goals(one: Dict[str, Any]) -> List[Tuple[str, Optional[Dict[str, Any]]]]:
    """Return the rows of a record, at least one. A peer is next to its first goal. Its other goals follow, and goals
    without a peer use free cells.
    """
    rows: List[Tuple[str, Optional[Dict[str, Any]]]] = []
    for peer in one["peers"]:
        own = [goal for goal in one["goal"] if goal["peer"] == peer]
        rows += [(peer, own[0] if own else None), *(("", goal) for goal in own[1:])]
    for goal in one["goal"]:
        if not goal["peer"]:
            room = next((number for number, row in enumerate(rows) if row[1] is None), len(rows))
            rows[room:room + 1] = [(rows[room][0] if room < len(rows) else "", goal)]
    return rows or [("", None)]


def _amount(one: Dict[str, Any], value: float) -> str:
    """Return a time, or a count of the quantity of the case, as text."""
    quantity = str(one["unit"]).rsplit(" per ", 1)[0]
    return goals.duration(value) if quantity in TIMES else "{:.3g} {}".format(value, quantity)


def _unit(one: Dict[str, Any]) -> str:
    return str(one["unit"]).rsplit(" per ", 1)[-1]


def _as_goal(goal: Dict[str, Any]) -> goals.Goal:
    return goals.Goal(goal["measure"], goal["limit"], goal["peer"])


def _goal(one: Dict[str, Any], goal: Dict[str, Any]) -> str:
    return goals.text(_as_goal(goal), _unit(one))


def _reached(one: Dict[str, Any], goal: Dict[str, Any]) -> str:
    return goals.text(_as_goal(goal), _unit(one), goal["reached"])


def _mark(goal: Dict[str, Any]) -> str:
    return PASS if goal["met"] else FALLS_SHORT
