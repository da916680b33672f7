"""Programs for Ascend servers find every name that they import, and the test programs import it as they do.

``tests/house/imports_of_programs.toml`` lists the names.
"""
import ast
import json
import os
import subprocess
import sys

import pytest
import tomli

from tests.support import tree
from tests.support.importing import program_of

LISTED = tomli.loads((tree.ROOT / "tests/house/imports_of_programs.toml").read_text())
PROGRAMS = sorted((tree.ROOT / "tests/support/programs").glob("ascend_*.py"))


def names(part):
    """The full names of a part of the list."""
    return {"{}.{}".format(module, symbol) for module, symbols in LISTED[part].items() for symbol in symbols.split()}


@pytest.mark.timeout_s(120)
def test_every_name_is_there_under_ascpipe_run(tmp_path):
    asked = ["from {0} import {2}".format(*name.rpartition("."))
             for name in sorted(names("programs") | names("documented"))]
    done = subprocess.run(
        [sys.executable, "-m", "ascpipe", "run", str(program_of(asked, tmp_path))], stdout=subprocess.PIPE, timeout=100,
        check=True, env=dict(os.environ, PYTHONPATH=str(tree.ROOT), PYTHONWARNINGS="ignore", TF_CPP_MIN_LOG_LEVEL="3"))
    assert len(asked) > 100
    said = json.loads(done.stdout)
    assert {statement: text for statement, (_, text) in said.items() if text} == {}
    assert sorted(said) == sorted(asked)


def test_every_name_that_programs_were_seen_to_import_is_imported_by_a_test_program():
    imported = set().union(*map(used, PROGRAMS))
    assert sorted(names("programs") - imported) == [], "no program in tests/support/programs imports these"


def used(path):
    """The full names that a program imports, or reaches as attributes of what it imports."""
    bound, stars = {}, []
    body = tree.parse.__wrapped__(path)
    for node in ast.walk(body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0])
        elif isinstance(node, ast.ImportFrom) and not node.level:
            stars += [node.module for alias in node.names if alias.name == "*"]
            bound.update({alias.asname or alias.name: "{}.{}".format(node.module, alias.name) for alias in node.names})
    found = set(bound.values())
    for node in ast.walk(body):
        chain = _chain(node)
        if chain and chain[0] in bound:
            found.add(".".join([bound[chain[0]], *chain[1:]]))
        elif chain:
            found |= {".".join([module, *chain]) for module in stars}
    return found


def _chain(node):
    """``["a", "b"]`` of the expression ``a.b``; None of other ones."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        below = _chain(node.value)
        return None if below is None else [*below, node.attr]
    return None


@pytest.mark.parametrize("text, name", [
    ("from a.b import c", "a.b.c"), ("from a.b import c as d", "a.b.c"), ("import a.b\na.b.c.d()", "a.b.c.d"),
    ("import a.b as x\nx.c()", "a.b.c"), ("from a import *\nc.d(1)", "a.c"), ("from a import *\nprint(c)", "a.c"),
    ("from a import b\nb.c", "a.b.c")])
def test_the_way_in_which_a_program_reaches_a_name_does_not_matter(text, name, tmp_path):
    (tmp_path / "ascend_x.py").write_text(text)
    assert name in used(tmp_path / "ascend_x.py")
    (tmp_path / "ascend_x.py").write_text("from a.other import other\nother.c")
    assert name not in used(tmp_path / "ascend_x.py")
