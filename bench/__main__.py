"""`python -m bench [--list] [--pattern P] [--json FILE]`, and `python -m bench cache ...`."""
import argparse
import fnmatch
import importlib
import json
import os
import sys
from typing import List, Optional, Tuple

from ascpipe.daemon import kernel_cache
from bench import cache, harness
from bench.cases import MODULES


def selected(pattern: str, modules: Tuple[str, ...] = MODULES) -> List[Tuple[harness.Case, str]]:
    """(case, variant) of every variant whose name matches a shell pattern, of all modules in turn."""
    chosen = []
    for module in modules:
        case = importlib.import_module("bench.cases." + module).CASE
        chosen += [(case, variant) for variant in case.variants
                   if fnmatch.fnmatchcase("{}/{}".format(case.name, variant), pattern) or case.name == pattern]
    return chosen


def main(arguments: Optional[List[str]] = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["cache"]:
        os.environ.setdefault("NUMBA_CACHE_DIR", kernel_cache.prepare(""))
        return cache.main(arguments[1:])
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure; see docs/benchmarks.md.",
        epilog="`python -m bench cache --help` tells how to replay a trace of keys through the planner.")
    parser.add_argument("--list", action="store_true", help="say what there is and end")
    parser.add_argument("--pattern", default="*", help="of the names to run, such as 'dedup*' or 'train/zipf-1.05'")
    parser.add_argument("--json", metavar="FILE", help="write the results there too")
    parser.add_argument("--repeats", type=int, default=harness.LEAST_REPEATS, help="rounds, at least {}".format(
        harness.LEAST_REPEATS))
    options = parser.parse_args(arguments)
    if options.repeats < harness.LEAST_REPEATS:
        parser.error("--repeats must be at least {}, not {}".format(harness.LEAST_REPEATS, options.repeats))
    chosen = selected(options.pattern)
    if not chosen:
        parser.error("--pattern {!r} matches no case; see --list".format(options.pattern))
    if options.list:
        for case, variant in chosen:
            print("{:<24} per {:<6} {}".format("{}/{}".format(case.name, variant), case.unit, case.says))
        return 0
    return run(chosen, options.repeats, options.json)


def run(chosen: List[Tuple[harness.Case, str]], repeats: int, json_path: Optional[str]) -> int:
    """Measure, print as it goes, and write the file at the end."""
    around = harness.circumstances()
    print("{date}  commit {commit}  {machine[processor]}, {machine[cores]} cores, load {machine[load]:.1f}".format(
        **around))
    harness.steady_malloc()
    os.environ.setdefault("NUMBA_CACHE_DIR", kernel_cache.prepare(""))
    results = []
    for case, variant in chosen:
        result = harness.run_variant(case, variant, repeats=repeats)
        results.append(harness.as_json(result))
        for line in harness.text_of(result):
            print(line, flush=True)
    if json_path is not None:
        with open(json_path, "w") as out:
            json.dump(dict(around, results=results), out, indent=1)
            out.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
