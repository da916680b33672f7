"""Run the models: ``python -m tests.model [short | long | flaws | leases | ranks | snapshots | disk | NAME]``.

NAME is a flaw, or part of the name of a scenario.  For each problem a shortest trace is printed.
"""

import sys
from typing import Any, Iterator, List, Tuple

from . import disk_scenarios, rank_scenarios, snapshots
from .disk_rows import DiskRows
from .explore import HOLDS, System, explore
from .flaws import FLAWS
from .lease import AT_ONCE, NEVER, WHEN_READY, deadlocks
from .protocol import Protocol
from .ranks import Together
from .scenario import Scenario
from .scenarios import FLAWED, LONG, SHORT, planted

Run = Tuple[str, "System[Any]", bool]  # name, system to explore, whether it has a flaw


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _chosen(words: List[str]) -> Iterator[Tuple[str, Scenario, bool]]:
    """Yield (name, scenario, whether it has a flaw) for all runs that the words select."""
    for word in words or ["short", "flaws"]:
        for group, scenarios in (("short", SHORT), ("long", LONG)):
            for name, scenario in scenarios.items():
                if word == group or (word not in FLAWED and word in name):
                    yield name, scenario, False
        for flaw in FLAWED:
            if word in ("flaws", flaw):
                yield "%s (%s)" % (flaw, FLAWS[flaw]), planted(flaw), True


def _show_leases() -> None:
    for per_table in (True, False):
        for gives_up in (NEVER, WHEN_READY, AT_ONCE):
            found = deadlocks(per_table, gives_up)
            _say(
                "lease per %s, a waiting trainer gives its share up %s: %d of 225 pairs of runs can get stuck"
                % ("table" if per_table else "process", gives_up, len(found))
            )
            for programs, trace in sorted(found, key=lambda item: sum(map(len, item[0])))[:1]:
                _say("    for instance %s" % [sorted(program) for program in programs])
                _say("\n".join("%4d  %s" % step for step in enumerate(trace, 1)))


def _snapshots() -> Iterator[Run]:
    for name, sizes in snapshots.SHORT.items():
        yield name, snapshots.Snapshots(sizes), False
    for flaw, text in snapshots.FLAWS.items():
        yield text, snapshots.Snapshots(snapshots.FLAWED.get(flaw, snapshots.USUAL), flaw), True


def _ranks() -> Iterator[Run]:
    for name, scenario in list(rank_scenarios.SHORT.items()) + list(rank_scenarios.FAULTY.items()):
        yield name, Together(scenario), False
    for flaw, text in rank_scenarios.FLAWS.items():
        yield text, Together(rank_scenarios.planted(flaw)), True


def _disk() -> Iterator[Run]:
    for name, scenario in disk_scenarios.SHORT.items():
        yield name, DiskRows(scenario), False
    for flaw, text in disk_scenarios.FLAWS.items():
        yield "%s (%s)" % (flaw, text), DiskRows(disk_scenarios.planted(flaw)), True


def _show(runs: Iterator[Run]) -> int:
    """Run and print; return the number of unexpected results."""
    wrong = 0
    for name, system, flawed in runs:
        report = explore(system)
        wrong += (report.verdict == HOLDS) == flawed
        _say("%s: %s (%d states, %.1f s)" % (name, report.verdict, report.states, report.seconds))
        if report.verdict != HOLDS:
            _say(report.text())
    return wrong


def main(words: List[str]) -> int:
    """Return 0 if all results are as expected, 1 if not, 2 if a word is unknown."""
    if words == ["leases"]:
        _show_leases()
        return 0
    for word, runs in (("ranks", _ranks), ("snapshots", _snapshots), ("disk", _disk)):
        if words == [word]:
            return 1 if _show(runs()) else 0
    wrong = chosen = 0
    for name, scenario, flawed in _chosen(words):
        report = explore(Protocol(scenario))
        chosen += 1
        good = (report.verdict != HOLDS) if flawed else (report.verdict == HOLDS)
        wrong += not good
        _say(
            "%s: %s (%d states, %d moves, %.1f s)" % (name, report.verdict, report.states, report.moves, report.seconds)
        )
        if report.verdict != HOLDS:
            _say(report.text())
    if not chosen:
        sys.stderr.write("nothing is called %s; flaws: %s\n" % (" ".join(words), ", ".join(FLAWED)))
        return 2
    _say("%d runs, %d not as they must be" % (chosen, wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
