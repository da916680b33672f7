"""Command line: ``python -m tests.planted_faults``; docs/internals/testing.md, "Planted faults"."""
import os
import signal
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Set, Tuple

import click

from tests.planted_faults import faults, recorded, results, runs
from tests.planted_faults.scratch import CannotBuildError, Scratch

LIMIT_S = 420.0
TRIED = 3  #: tests of a file that failed, and are run again without the fault

_areas = click.option("--area", "areas", multiple=True, type=click.Choice(faults.AREAS), help="Faults of this area.")
_words = click.option("--fault", "words", metavar="WORDS", help="Faults that have these words in their names.")
_results = click.option("--results", "path", default=str(results.RESULTS), show_default="results.jsonl beside it",
                        help="File of results.")


@click.group()
def main() -> None:
    """Plant faults into a copy of the tree, and see which tests notice them."""


@main.command("list")
@_areas
@_words
def list_faults(areas: Tuple[str, ...], words: Optional[str]) -> None:
    """Print the faults with their areas and files."""
    for fault in faults.chosen(areas or faults.AREAS, words):
        click.echo("{:<10}  {}  ({})".format(fault.area, fault.name, fault.file))


@main.command()
@_results
@click.option("--collect", is_flag=True, help="Also check that the default suites run tests that caught the faults.")
def check(path: str, collect: bool) -> None:
    """Check that each fault can be planted; exit code 1 if one cannot."""
    loaded = faults.load()
    found = list(faults.problems(loaded))
    if collect:
        known = results.read(Path(path))
        mine = {fault.name: known[fault.name] for fault in loaded if fault.name in known}
        found += [*recorded.problems(loaded, known), *recorded.not_run(mine)]
    for problem in found:
        click.echo(problem)
    click.echo("{} faults, {} problems".format(len(loaded), len(found)))
    sys.exit(1 if found else 0)


@main.command()
@_areas
@_words
@_results
@click.option("--all", "everything", is_flag=True, help="Also the faults that have a result already.")
@click.option("--tests", "tests", multiple=True, metavar="PATH",
              help="Test files, folders of them, or ids of tests, instead of the files that each fault names.")
@click.option("--seed", default=1, show_default=True, help="TEST_SEED of the tests.")
@click.option("--limit", "limit_s", default=LIMIT_S, show_default=True, help="Seconds for the tests of one fault.")
@click.option("--enough", default=sys.maxsize, show_default="all",
              help="Run no further file of a fault when so many tests have failed.")
@click.option("--folder", default=str(faults.ROOT / "build/planted_faults"), help="Folder of the scratch tree.",
              show_default="build/planted_faults")
def run(areas: Tuple[str, ...], words: Optional[str], path: str, everything: bool, tests: Tuple[str, ...], seed: int,
        limit_s: float, enough: int, folder: str) -> None:
    """Plant one fault after the other and run its tests.

    Tests that fail are run again without the fault; those that fail there, too, do not count. Each result is written
    at once.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the running test, too
    known = {} if everything else results.read(Path(path))
    wanted = [fault for fault in faults.chosen(areas or faults.AREAS, words) if fault.name not in known]
    state = results.state()
    scratch = Scratch(Path(folder).resolve())
    try:
        control = _Control(scratch, seed, limit_s)
        for fault in wanted:
            files = _files(tests) or list(fault.tests)
            began = time.monotonic()
            try:
                scratch.plant(fault)
                outcome = runs.run(scratch, files, in_kernels=fault.area == "kernels", seed=seed, limit_s=limit_s,
                                   enough=enough)
            except CannotBuildError as error:
                click.echo("DOES NOT COMPILE  {}\n{}".format(fault.name, error))
                continue
            finally:
                scratch.restore(fault)
            failing = control.failing(outcome.failed)
            result = {**results.result_of(fault, outcome, failing, seed), "tests": files, "state": state,
                      "wall": round(time.monotonic() - began, 1)}
            results.append(Path(path), result)
            click.echo(_line(result))
    finally:
        scratch.remove()


@main.command()
@_results
def table(path: str) -> None:
    """Print docs/internals/planted_faults.md."""
    for line in results.page(faults.load(), results.read(Path(path))):
        click.echo(line)


class _Control:
    """Which tests fail without a fault: of each file some of those that failed with one are run again."""

    def __init__(self, scratch: Scratch, seed: int, limit_s: float) -> None:
        self._scratch, self._seed, self._limit_s = scratch, seed, limit_s
        self._passing: Set[str] = set()

    def failing(self, failed: Sequence[str]) -> List[str]:
        """Ids among ``failed`` that fail anyway, or might: of a file, all if none of the tried ones passes."""
        by_file: Dict[str, List[str]] = {}
        for test in failed:
            by_file.setdefault(test.split("::")[0], []).append(test)
        found: List[str] = []
        for file, tests in by_file.items():
            tried = [test for test in tests if test not in self._passing][:TRIED]
            outcome = runs.run(self._scratch, tried, in_kernels=False, seed=self._seed, limit_s=self._limit_s)
            if tried and (outcome.failed or not outcome.passed):
                click.echo("CONTROL  {}: {} passed; {} failed without a fault".format(
                    file, outcome.passed, outcome.failed or "none"))
            self._passing.update(test for test in tried if outcome.passed and test not in outcome.failed)
            found += outcome.failed if outcome.passed or not tried else tests
        return found


def _files(paths: Sequence[str]) -> List[str]:
    """Test files of these paths, and ids of tests, in order."""
    found: List[str] = []
    for path in paths:
        if "::" in path:
            found.append(path)
            continue
        here = faults.ROOT / path
        found += [str(file.relative_to(faults.ROOT)) for file in (
            sorted(here.rglob("test_*.py")) if here.is_dir() else [here])]
    return found


def _line(result: Dict[str, object]) -> str:
    how = "caught by {} tests".format(result["failures"]) if result["caught"] else "NOT CAUGHT"
    also = "".join(", {} {}".format(what, " ".join(map(os.path.basename, result[what])))  # type: ignore
                   for what in ("crashed", "cut") if result[what])
    return "{:<22} {:>6.1f} s  {}{}".format(how, result["seconds"], result["fault"], also)


if __name__ == "__main__":
    main()
