"""Check the recorded results: tests that caught a fault still exist, and the default suites run at least one of them.

``problems`` reads syntax trees, which takes a second. It does not notice that a single value of a parameter was marked
``long``. ``not_run`` notices it, because it collects the tests with pytest.
"""
import ast
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Sequence

from tests.planted_faults.faults import ROOT, Fault

COLLECT_S = 300.0  #: time limit of the collection, in seconds


def problems(faults: Sequence[Fault], found: Dict[str, Dict[str, Any]], root: Path = ROOT) -> Iterator[str]:
    """Yield one sentence for each recorded result that does not hold any more.

    Args:
        faults: faults that must be caught.
        found: results by the name of the fault, from ``results.read``.
        root: of the tree with the tests.
    """
    tests = Tests(root)
    for fault in faults:
        result = found.get(fault.name)
        if result is None or not result["caught"]:
            yield "{!r} {}.".format(fault.name, "has no result" if result is None else "is not caught")
            continue
        states = {test: tests.is_long(test) for test in result["failed"]}
        for test, is_long in states.items():
            if is_long is None:
                yield "{!r}: {} caught it and does not exist any more. Run the fault again.".format(fault.name, test)
        if all(is_long is True for is_long in states.values()):
            yield "{!r}: only long tests catch it.".format(fault.name)


def not_run(found: Dict[str, Dict[str, Any]], root: Path = ROOT) -> Iterator[str]:
    """Yield one sentence for each caught fault whose catching tests pytest does not run by default.

    Raises:
        subprocess.CalledProcessError: a file with such tests cannot be collected.
    """
    caught = {name: result["failed"] for name, result in found.items() if result["caught"]}
    files = sorted({test.split("::")[0] for tests in caught.values() for test in tests})
    listed = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q", *files], cwd=str(root), check=True,
                            stdout=subprocess.PIPE, text=True, timeout=COLLECT_S).stdout
    collected = set(listed.splitlines())
    for name, tests in caught.items():
        if not collected.intersection(tests):
            yield "{!r}: the default suites run no test that caught it.".format(name)


class Tests:
    """The tests of a source tree.

    Args:
        root: of the tree.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._modules: Dict[str, Optional[ast.Module]] = {}

    def is_long(self, test: str) -> Optional[bool]:
        """Return whether a test, its class or its file is marked ``long``, or None if the test does not exist."""
        file, *names = test.split("[")[0].split("::")
        module = self._module(file)
        if module is None:
            return None
        marks = [value for node in module.body if isinstance(node, ast.Assign) and _names(node) == ["pytestmark"]
                 for value in (node.value.elts if isinstance(node.value, ast.List) else [node.value])]
        body = module.body
        for name in names:
            defined = next((node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))
                            and node.name == name), None)
            if defined is None:
                return None
            marks += defined.decorator_list
            body = defined.body
        return any(_is_mark(mark) for mark in marks)

    def _module(self, file: str) -> Optional[ast.Module]:
        if file not in self._modules:
            path = self._root / file
            self._modules[file] = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else None
        return self._modules[file]


def _names(node: ast.Assign) -> Sequence[str]:
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


def _is_mark(node: ast.expr) -> bool:
    """Return whether an expression is ``pytest.mark.long``."""
    return (isinstance(node, ast.Attribute) and node.attr == "long" and isinstance(node.value, ast.Attribute)
            and node.value.attr == "mark")
