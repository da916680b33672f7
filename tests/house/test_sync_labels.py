"""Stores and loads that pair across processes have the same label in Python and C++, and a row in
docs/internals/protocol.md.

A label is a comment on the line of the access, or above it: ``SYNC plan: store``, ``SYNC plan, plan-done: load``.
"""
import re
from collections import defaultdict

from tests.support import tree

SELF = "tests/house/test_sync_labels.py"
PYTHON, CPP = "Python", "C++"
#: of the processes in docs/internals/protocol.md
LANGUAGE = {"P": CPP, "T": CPP, "K": PYTHON, "W": PYTHON, "S": PYTHON, "R": PYTHON, "D": PYTHON, "E": CPP}
LABELLED = re.compile(r"SYNC ([a-z]+(?:-[a-z]+)*(?:, [a-z]+(?:-[a-z]+)*)*): (store|load)\b")


def labelled_lines():
    for path in tree.text_files(".py", ".cc", ".h"):
        if tree.name(path).startswith(tree.PRODUCT) and tree.name(path) != "tfops/src/core/atomics.h":
            for number, line in enumerate(tree.lines(path), 1):
                if re.search(r"(#|//|`|\b)\s*SYNC\b", line) and "O_SYNC" not in line:
                    yield path, number, line


def accesses():
    """(label, store or load) -> languages that have it."""
    found = defaultdict(set)
    for path, _, line in labelled_lines():
        for labels, kind in LABELLED.findall(line):
            for label in labels.split(", "):
                found[label, kind].add(PYTHON if path.suffix == ".py" else CPP)
    return found


def table():
    """label -> (processes that store, processes that load), as docs/internals/protocol.md has them."""
    text = (tree.ROOT / "docs/internals/protocol.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| .+ \| ([PKTWSRDE, ]+) \| ([PKTWSRDE, ]+) \|$", text, re.M)
    return {label: (stores.split(", "), loads.split(", ")) for label, stores, loads in rows}


def test_every_label_says_whether_it_is_of_a_store_or_a_load():
    wrong = ["{}:{} {}".format(tree.name(path), number, line.strip()) for path, number, line in labelled_lines()
             if not LABELLED.search(line)]
    assert not wrong, "\n".join(wrong)


def test_the_protocol_lists_every_label():
    assert {label for label, _ in accesses()} == set(table())
    assert len(table()) > 10


def test_every_label_is_on_a_store_and_on_a_load_in_the_languages_of_its_processes():
    found, missing = accesses(), []
    for label, sides in sorted(table().items()):
        for kind, processes in zip(("store", "load"), sides):
            missing += ["SYNC {}: {} in {}".format(label, kind, language)
                        for language in sorted({LANGUAGE[process] for process in processes} ^ found[label, kind])]
    assert not missing, "missing, or not in docs/internals/protocol.md:\n" + "\n".join(missing)
