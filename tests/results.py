"""Prints the results that suites left in build/test-results.

    python -m tests.results summary SUITE...   one line per suite, the files that cost too much, and
                                               "N passed, N failed, N skipped"
    python -m tests.results costs              where the time goes, as the tables of docs/internals/testing.md

Exit code: 0, or 1 if a test failed, or a suite that is named has no result.
"""
import sys
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

from tests.support.costs import Cost, Result, read

RESULTS = Path(__file__).resolve().parent.parent / "build" / "test-results"
MOST_FILES = 15  #: rows of the table of files
COSTLY_S = 20  #: seconds of processor time of a file above which a summary names it


def summary(results: Dict[str, Result], suites: Sequence[str]) -> List[str]:
    """Return one line per suite, the costly files, and the closing line.

    Args:
        results: result per suite.
        suites: names of the suites that ran; one without a result crashed, which counts as one failure.
    """
    lines = ["{:<16}{:>7}{:>8}{:>9}{:>9}{:>11}".format(
        "suite", "passed", "failed", "skipped", "seconds", "processor")]
    for suite in suites:
        one = results.get(suite)
        lines.append("{:<16}{:>7}{:>8}{:>9}{:>9.0f}{:>11.0f}".format(
            suite, one.outcomes["passed"], failed(one), one.outcomes["skipped"], one.total.wall_s,
            one.total.processor_s) if one else "{:<16}crashed: it has no result".format(suite))
    ended = [results[suite] for suite in suites if suite in results]
    lines += costly_files(ended)
    lines.append("{} passed, {} failed, {} skipped".format(
        sum(one.outcomes["passed"] for one in ended), sum(map(failed, ended)) + len(suites) - len(ended),
        sum(one.outcomes["skipped"] for one in ended)))
    return lines


def costly_files(ended: Sequence[Result]) -> List[str]:
    """Return a heading and one line per file that took more than `COSTLY_S`, the longest first; or nothing."""
    found = sorted(((cost.processor_s, file, one.suite) for one in ended for file, cost in one.costs.items()
                    if cost.processor_s > COSTLY_S), reverse=True)
    heading = ["files that took more than {} s of processor time:".format(COSTLY_S)] if found else []
    return heading + ["{:>8.0f}  {} ({})".format(*row) for row in found]


def failed(result: Result) -> int:
    """Return the number of failures of a suite; a test that passed and left something behind is one."""
    return result.outcomes["failed"] + result.outcomes["error"]


def cost_tables(results: Dict[str, Result]) -> List[str]:
    """Return two Markdown tables: one row per suite, and one for each of the files that cost most."""
    suites = [(suite, one.of_suite()) for suite, one in results.items()]
    files = [("`{}` ({})".format(file, suite), cost) for suite, one in results.items()
             for file, cost in one.costs.items()]
    return [*_table("suite", suites), "", *_table("file", files)]


def _table(what: str, rows: Sequence[Tuple[str, Cost]]) -> Iterator[str]:
    yield "| {} | tests | seconds | processor seconds | of children | processes | daemons |".format(what)
    yield "|---|---|---|---|---|---|---|"
    for name, cost in sorted(rows, key=lambda row: -row[1].processor_s)[:MOST_FILES]:
        yield "| {} | {} | {:.0f} | {:.0f} | {:.0f} | {} | {} |".format(
            name, cost.tests, cost.wall_s, cost.processor_s, cost.children_s, cost.processes, cost.daemons)


def main(arguments: Sequence[str]) -> int:
    results = {one.suite: one for one in read(RESULTS)}
    kind, suites = arguments[0], arguments[1:]
    print("\n".join(summary(results, suites) if kind == "summary" else cost_tables(results)))
    return int(any(suite not in results or failed(results[suite]) for suite in suites))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
