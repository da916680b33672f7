"""Command line of the benchmark: `python -m bench [--list] [--pattern P] [--json FILE] [--compare OLD.json]`, and
`python -m bench cache ...`.
"""
import argparse
import fnmatch
import importlib
import os
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ascpipe.cli import printing
from bench import cache, circumstances, compare, harness, heat_map, records, workloads
from bench.cases import APART, MODULES

FAILED = 1
USAGE = 2

Chosen = Sequence[Tuple[harness.Case, str]]


def selected(pattern: str, modules: Tuple[str, ...] = MODULES) -> List[Tuple[harness.Case, str]]:
    """Return the pairs (case, variant) whose names match a shell pattern, in the order of ``modules``."""
    chosen = []
    for module in modules:
        case = importlib.import_module("bench.cases." + module).CASE
        chosen += [(case, variant) for variant in case.variants
                   if fnmatch.fnmatchcase("{}/{}".format(case.name, variant), pattern) or case.name == pattern]
    return chosen


def main(arguments: Optional[List[str]] = None) -> int:
    """Return the exit code: 0 = done, 1 = slower than ``--limit`` allows, 2 = wrong usage."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["cache"]:
        return cache.main(arguments[1:])
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.repeats is not None and options.repeats < harness.LEAST_REPEATS and not options.small:
        parser.error("--repeats must be at least {}, not {}".format(harness.LEAST_REPEATS, options.repeats))
    try:
        before = records.load(options.compare) if options.compare else []
        written = records.load(options.results) if options.results else None
    except ValueError as error:
        parser.error(str(error))
    chosen: List[Tuple[harness.Case, str]] = []
    for pattern in options.pattern or []:
        matching = [one for one in selected(pattern) if one not in chosen]
        if not matching:
            parser.error("--pattern {!r} matches no further case; see --list".format(pattern))
        chosen += matching
    if not options.pattern:
        chosen = [(case, variant) for case, variant in selected("*")
                  if options.list or not {case.name, "{}/{}".format(case.name, variant)} & set(APART)]
    if options.list:
        for case, variant in chosen:
            print("{:<32} per {:<6} {}".format("{}/{}".format(case.name, variant), case.unit, case.says))
        return 0
    if written is None:
        written = run(chosen, options.repeats, options.json, small=options.small)
        if not written:  # all cases were skipped
            return 0
    if options.markdown:
        print("\n".join(document(written)))
    else:
        printing.show([], [records.table(written)])
    printing.show(records.notes(written), [])
    return _compared(before, written, options.limit) if options.compare else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Run measurements; see docs/how-to/benchmarks.md.",
        epilog="`python -m bench cache --help` describes the replay of a trace of keys with the planner, "
               "and `python -m bench.plots --help` describes plots of results.")
    parser.add_argument("--list", action="store_true", help="list the cases and exit")
    parser.add_argument("--pattern", action="append", metavar="P",
                        help="shell pattern of the names to run, such as 'dedup*' or 'train/device'; repeatable")
    parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
    parser.add_argument("--repeats", type=int, help="rounds, at least {}; default: {}, or fewer in some cases".format(
        harness.LEAST_REPEATS, harness.LEAST_REPEATS))
    parser.add_argument("--small", action="store_true", help="use small sizes and any number of rounds, as a test")
    parser.add_argument("--results", metavar="FILE", help="read the results from this file instead of measuring")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown, for documents")
    parser.add_argument("--compare", metavar="OLD.json", help="report the variants that are slower than in this file")
    parser.add_argument("--limit", type=float, default=1.1, help="ratio above which a variant counts as slower")
    return parser


def run(chosen: Chosen, repeats: Optional[int], json_path: Optional[str], *,
        small: bool = False) -> List[Dict[str, Any]]:
    """Measure variants, and print a line after each variant. The file is written after each variant. A case is skipped
    with a line if the machine lacks what it needs.
    """
    if small:
        os.environ[workloads.SMALL_VARIABLE] = "1"
    around = circumstances.now()
    print(records.headline(around), flush=True)
    circumstances.steady_malloc()
    written: List[Dict[str, Any]] = []
    missing = {case.name: case.missing() for case, _ in chosen}
    for name, what in missing.items():
        if what:
            print("{}  skipped: {}".format(name, what), flush=True)
    for case, variant in [one for one in chosen if not missing[one[0].name]]:
        written.append(records.record(
            harness.run_variant(case, variant, repeats=repeats, warm=not small), around, small=small))
        print(records.text_of(written[-1]), flush=True)
        if json_path is not None:
            records.save(json_path, written)
    return written


def document(written: List[Dict[str, Any]]) -> List[str]:
    """Return the lines of a document. A heat map replaces the table rows of the case ``cells``."""
    cells = heat_map.of_cells(written)
    others = [one for one in written if one not in cells]
    lines = records.markdown(others) if others else [records.where(written[0])]
    return [*lines, "", *heat_map.markdown(cells)] if cells else lines


def _compared(before: List[Dict[str, Any]], after: List[Dict[str, Any]], limit: float) -> int:
    found = compare.changes(before, after)
    for change in found:
        print(compare.text_of(change, limit))
    if not found:
        print("bench: no variant is in both", file=sys.stderr)
        return USAGE
    return FAILED if any(change.slowdown > limit for change in found) else 0


if __name__ == "__main__":
    sys.exit(main())
