"""The planted faults: data in ``data/AREA.toml``, and the check that each of them can still be planted."""
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import tomli

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = Path(__file__).resolve().parent / "data"
AREAS = ("kernels", "native", "daemon", "checkpoint", "trainer", "ranks")

_NEEDED = {"name", "file", "old", "new", "tests"}


class Fault(NamedTuple):
    """A change of one file.

    Attributes:
        area: one of ``AREAS``.
        name: a sentence that says what goes wrong; unique.
        file: path in the tree.
        old, new: text that occurs exactly once in the file, and the text that replaces it.
        tests: test files that are likely to notice it, the cheapest first.
        note: what else is to be said of it; may be empty.
    """

    area: str
    name: str
    file: str
    old: str
    new: str
    tests: Tuple[str, ...]
    note: str = ""


def load(areas: Sequence[str] = AREAS) -> List[Fault]:
    """Read the faults of some areas.

    Raises:
        ValueError: a fault lacks a field, or has one that is unknown.
    """
    found = []
    for area in areas:
        content = tomli.loads((DATA / (area + ".toml")).read_text(encoding="utf-8"))
        found += [_fault(area, given) for given in content["fault"]]
    return found


def _fault(area: str, given: Dict[str, Any]) -> Fault:
    if not _NEEDED <= set(given) <= _NEEDED | {"note"}:
        raise ValueError("{}.toml: the fault {!r} has the fields {}, expected {} and perhaps note".format(
            area, given.get("name"), sorted(given), sorted(_NEEDED)))
    return Fault(area, **{**given, "tests": tuple(given["tests"])})


def chosen(areas: Sequence[str], words: Optional[str]) -> List[Fault]:
    """The faults of some areas whose names contain some words, in any case.

    Raises:
        ValueError: there is none.
    """
    found = [fault for fault in load(areas) if words is None or words.lower() in fault.name.lower()]
    if not found:
        raise ValueError("No planted fault of {} has {!r} in its name.".format(", ".join(areas), words))
    return found


def problems(faults: Sequence[Fault], root: Path = ROOT) -> Iterator[str]:
    """Say in a sentence each why a fault cannot be planted, or would change nothing."""
    names = [fault.name for fault in faults]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield "Two faults have the name {!r}.".format(name)
    for fault in faults:
        path = root / fault.file
        count = path.read_text(encoding="utf-8").count(fault.old) if path.is_file() else 0
        if count != 1:
            yield "{!r}: its old text occurs {} times in {}, expected once.".format(fault.name, count, fault.file)
        if fault.old == fault.new:
            yield "{!r}: its old text and its new text are equal.".format(fault.name)
        missing = [test for test in fault.tests if not (root / test).is_file()]
        if missing or not fault.tests:
            yield "{!r}: its tests {} do not exist.".format(fault.name, missing)


def planted(fault: Fault, text: str) -> str:
    """The text of the file with the fault in it."""
    return text.replace(fault.old, fault.new, 1)
