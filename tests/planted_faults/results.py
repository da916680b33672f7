"""Results: a line of JSON for each run of a fault; the last one of a fault counts."""
import hashlib
import json
from pathlib import Path
from typing import Any, Dict, List, Sequence

from tests.planted_faults.faults import ROOT, Fault

RESULTS = Path(__file__).resolve().parent / "results.jsonl"

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


def table(faults: Sequence[Fault], found: Dict[str, Dict[str, Any]]) -> List[str]:
    """Lines of a markdown table: fault, area, the suites that caught it, how many tests, and the first two of them."""
    lines = ["| fault | area | caught by | tests | first tests |", "|---|---|---|---|---|"]
    for fault in faults:
        result = found.get(fault.name)
        if result is None:
            cells = ["not run", "", ""]
        elif not result["caught"]:
            cells = ["nothing", "0", fault.note]
        else:
            cells = [", ".join(result["suites"]), str(result["failures"]),
                     "<br>".join("`{}`".format(_short(test)) for test in result["failed"][:2])]
        lines.append("| {} |".format(" | ".join([fault.name, fault.area, *cells])))
    return lines


def _short(test: str) -> str:
    """The file and the name of a test, without its parameters."""
    return test.split("[")[0].replace("tests/", "", 1).replace("|", "\\|")
