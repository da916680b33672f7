"""Results: a line of JSON for each run of a fault; the last one of a fault counts."""
import hashlib
import json
import textwrap
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

from tests.planted_faults.faults import ROOT, Fault

RESULTS = Path(__file__).resolve().parent / "results.jsonl"

_WIDTH = 118  # of the page
_SHOWN = 2  # tests of each fault that the page names
_NO_RESULT: Dict[str, Any] = {"suites": [], "caught": False}
_HEAD = """\
# Planted faults

Made by `.venv/bin/python -m tests.planted_faults table`; [testing.md](testing.md#planted-faults) says what it means.
Each fault was tried with the few test files that it names, so other tests may catch it, too.
""".splitlines()
_STATE = ("ascpipe", "workers", "tfops/src", "mx_rec", "tests")


def append(path: Path, result: Dict[str, Any]) -> None:
    """Add a result to a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(result, sort_keys=True) + "\n")


def read(path: Path) -> Dict[str, Dict[str, Any]]:
    """The last result of each fault, by its name. A file that does not exist has none."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["fault"]: line for line in lines}


def result_of(fault: Fault, outcome: Any, known: Sequence[str], seed: int) -> Dict[str, Any]:
    """The result of a fault.

    Args:
        outcome: of its tests, as ``runs.run`` returns it.
        known: tests that fail without the fault, too; they say nothing.
        seed: TEST_SEED.
    """
    failed = [test for test in outcome.failed if test not in known]
    return {"fault": fault.name, "area": fault.area, "caught": bool(failed), "failed": failed,
            "failures": len(failed), "suites": suites_of(failed), "tests": list(fault.tests), "passed": outcome.passed,
            "crashed": outcome.crashed, "cut": outcome.cut, "seconds": outcome.seconds, "seed": seed}


def suites_of(tests: Sequence[str]) -> List[str]:
    """The suites that some tests are of: the folder of ``tests`` that each lies in."""
    return sorted({test.split("/")[1] for test in tests})


def state() -> str:
    """16 hexadecimal digits that stand for the sources and tests as they are."""
    digest = hashlib.sha256()
    for folder in _STATE:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in (".py", ".cc", ".h", ".c", ".toml"):
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def page(faults: Sequence[Fault], found: Dict[str, Dict[str, Any]]) -> Iterator[str]:
    """Lines of docs/internals/planted_faults.md: how many faults each suite caught, then every fault by area."""
    yield from _HEAD
    suites = sorted({suite for result in found.values() for suite in result["suites"]})
    yield "| area | faults | caught | {} |".format(" | ".join("by " + suite for suite in suites))
    yield "|---" * (3 + len(suites)) + "|"
    areas = list(dict.fromkeys(fault.area for fault in faults))
    for area in areas:
        mine = [found.get(fault.name, _NO_RESULT) for fault in faults if fault.area == area]
        caught = sum(result["caught"] for result in mine)
        counts = [sum(suite in result["suites"] for result in mine) for suite in suites]
        yield "| {} |".format(" | ".join(map(str, [area, len(mine), caught, *counts])))
    for area in areas:
        yield "\n## {}\n".format(area.capitalize())
        for fault in faults:
            if fault.area == area:
                yield textwrap.fill("- " + _sentence(fault, found.get(fault.name)), _WIDTH, subsequent_indent="  ",
                                    break_long_words=False, break_on_hyphens=False)


def _sentence(fault: Fault, result: Optional[Dict[str, Any]]) -> str:
    if result is None:
        return fault.name + ": not run"
    if not result["caught"]:
        return "**{}: not caught.** {}".format(fault.name, fault.note)
    first = [test.split("[")[0].rsplit("::", 1) for test in result["failed"]]
    shown = list(dict.fromkeys("`{}`, `{}`".format(file.replace("tests/", "", 1), name) for file, name in (
        [*test, "collect"][:2] for test in first)))[:_SHOWN]
    return "{}: {} ({} test{}); {}".format(fault.name, ", ".join(result["suites"]), result["failures"],
                                           "s" * (result["failures"] > 1), "; ".join(shown))
