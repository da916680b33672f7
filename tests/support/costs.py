"""Measures what each test costs: wall time, processor time of its process tree, and the processes that it starts.

`tests/conftest.py` records every test and writes one file per suite; `tests.results` prints what these files say.
"""
import functools
import json
import os
import resource
import subprocess
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple

from tests.support import leaks

OUTCOMES = ("passed", "failed", "error", "skipped")
_TICKS = os.sysconf("SC_CLK_TCK")
_DAEMON = "ascpipe.daemon.start"
_STAND_IN_DAEMON = "tests.support.standin_daemon"


class Cost(NamedTuple):
    """Cost of a test, or of all tests of a file.

    Attributes:
        tests: number of tests.
        wall_s: seconds from the start of the first fixture to the end of the last one.
        own_s: seconds of processor time of the pytest process.
        children_s: seconds of processor time of processes that ended and were waited for, and of those that serve
            several tests.
        processes: number of processes that the pytest process started, without forks.
        daemons: how many of these were daemons.
    """

    tests: int = 0
    wall_s: float = 0.0
    own_s: float = 0.0
    children_s: float = 0.0
    processes: int = 0
    daemons: int = 0

    @property
    def processor_s(self) -> float:
        """Seconds of processor time of the process tree, without other processes that still run."""
        return self.own_s + self.children_s

    def plus(self, other: "Cost") -> "Cost":
        return Cost(*(one + another for one, another in zip(self, other)))


class Meter:
    """Measures one test after the other in this process."""

    def __init__(self) -> None:
        self._commands: List[str] = []
        self._start = subprocess.Popen.__init__

    def install(self) -> None:
        """Count each process that `subprocess` starts from now on."""
        start, commands = self._start, self._commands

        def counted(process: Any, args: Any, *others: Any, **options: Any) -> None:
            commands.append(args if isinstance(args, str) else " ".join(os.fsdecode(part) for part in args))
            start(process, args, *others, **options)

        subprocess.Popen.__init__ = counted  # type: ignore[assignment]

    def remove(self) -> None:
        subprocess.Popen.__init__ = self._start  # type: ignore[assignment]

    def measured(self, costs: Dict[str, Cost], file: str) -> Iterator[None]:
        """Add the cost of what runs until the generator continues to the cost of `file`."""
        del self._commands[:]
        began, (own, children) = time.monotonic(), _processor_seconds()
        yield
        own_now, children_now = _processor_seconds()
        cost = Cost(1, time.monotonic() - began, own_now - own, children_now - children, len(self._commands),
                    sum(is_daemon(command) for command in self._commands))
        costs[file] = costs.get(file, Cost()).plus(cost)


def is_daemon(command: str) -> bool:
    """Return whether a command line starts a daemon."""
    return _DAEMON in command or _STAND_IN_DAEMON in command


class Result(NamedTuple):
    """Result of one suite.

    Attributes:
        suite: name of the suite.
        outcomes: number of tests for each of `OUTCOMES`.
        total: cost of the whole pytest process, with imports and collection.
        costs: cost per test file.
    """

    suite: str
    outcomes: Dict[str, int]
    total: Cost
    costs: Dict[str, Cost]

    def of_suite(self) -> Cost:
        """Return the cost of the whole process with the numbers of its tests."""
        counted = functools.reduce(Cost.plus, self.costs.values(), Cost())
        return self.total._replace(tests=counted.tests, processes=counted.processes, daemons=counted.daemons)


def write(folder: Path, result: Result) -> None:
    """Write the result of a suite to `folder`, which is created; `read` returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / (result.suite + ".json")).write_text(json.dumps(result))


def read(folder: Path) -> List[Result]:
    """Read the results of all suites in `folder`, sorted by name."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [Result(suite, outcomes, Cost(*total), {file: Cost(*cost) for file, cost in costs.items()})
            for suite, outcomes, total, costs in found]


def of_process(wall_s: float) -> Cost:
    """Return the cost of this process since it started, which has run for `wall_s` seconds."""
    own, children = _processor_seconds()
    return Cost(0, wall_s, own, children)


def _processor_seconds() -> "tuple[float, float]":
    own, children = (resource.getrusage(kind) for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    # When a process that serves several tests ends, its seconds move from the second term to the first one.
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime + sum(map(_of_tree, leaks.lasting()))


def _of_tree(pid: int) -> float:
    """Seconds of processor time of a process, of its descendants that run, and of those that it has waited for."""
    try:
        fields = Path("/proc/{}/stat".format(pid)).read_text().rpartition(")")[2].split()
        children = "".join(path.read_text() for path in Path("/proc/{}/task".format(pid)).glob("*/children"))
    except OSError:
        return 0.0  # it has ended
    return sum(map(int, fields[11:15])) / _TICKS + sum(_of_tree(int(child)) for child in children.split())
