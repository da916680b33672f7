"""A tuple assignment swaps, unpacks or updates at once. Unrelated names have an assignment each.

Allowed are:

* unpacking what one expression returns: ``name, port = address``, ``found, rest = split(text)``;
* a swap or an update at once, in which a value reads what another target receives: ``a, b = b, a``,
  ``begun, self._begun = self._begun, None``, ``begin, self._at = self._at, self._at + size``.
"""
import ast
from typing import Iterator

import pytest

from tests.support import tree


def unrelated(module: ast.Module) -> Iterator[int]:
    """Lines of the assignments of several values to as many targets whose order does not matter."""
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            for target in node.targets:
                if isinstance(target, ast.Tuple) and not _needs_all_at_once(target.elts, node.value.elts):
                    yield node.lineno


def _needs_all_at_once(targets, values) -> bool:
    written = [_text(target) for target in targets]
    return any(name in written[:i] + written[i + 1:] for i, value in enumerate(values) for name in map(
        _text, ast.walk(value)))


def _text(node: ast.AST) -> str:
    return ast.dump(node).replace("Store()", "Load()")


def test_names_that_have_nothing_to_do_with_each_other_are_assigned_one_by_one():
    found = ["{}:{}".format(tree.name(path), line) for path in tree.python_files(*tree.PRODUCT, "bench")
             for line in unrelated(tree.parse(path))]
    assert found == [], "write one assignment for each name"


@pytest.mark.parametrize("text, found", [
    ("a, b = 1, 2", 1), ("self.a, self.b = a, b", 1), ("a['x'], a['y'] = x, y", 1), ("rest, at = rest[n:], at + n", 1),
    ("(a, b), c = (1, 2), 3", 1), ("a, b = b, a", 0), ("old, self.a = self.a, None", 0), ("a[i], a[j] = a[j], a[i]", 0),
    ("own, at = keys[at:at + n], at + n", 0), ("a, b = f()", 0), ("a, *b = c", 0),
    ("a, b = (c, d) if e else (d, c)", 0), ("a = 1, 2", 0), ("a = b = 1", 0)])
def test_assignments_of_unrelated_names_are_found(text, found):
    assert len(list(unrelated(ast.parse(text)))) == found
