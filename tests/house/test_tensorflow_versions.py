"""Only three files know that there are two versions of TensorFlow: ``internals.py``, ``patches.py`` and one header."""
import re

from tests.support import tree

PYTHON = ("ascpipe/tf/internals.py", "ascpipe/tf/patches.py")
HEADER = "tfops/src/bridge/compatibility.h"
ASKS_PYTHON = re.compile(
    r"tf\.(__version__|VERSION|version)\b|\bversion_info\b|tensorflow_core|keras\.src|_api\.v[12]\b")
ASKS_CPP = re.compile(r"\bTF_(MAJOR|MINOR|PATCH)_VERSION\b|\bStatus::OK\(\)|\berror_message\(\)|\babsl::|\btstring\b")


def asking(pattern, paths):
    return {"{}:{}".format(tree.name(path), number) for path in paths
            for number, line in enumerate(path.read_text().splitlines(), 1) if pattern.search(line)}


def test_no_other_python_module_asks_for_the_version_of_tensorflow():
    paths = [path for path in tree.python_files("ascpipe/tf", "mx_rec", "workers")
             if tree.name(path) not in PYTHON]
    assert paths
    assert asking(ASKS_PYTHON, paths) == set()


def test_no_other_source_depends_on_the_version_of_tensorflow():
    paths = [path for folder in ("tfops/src", "tests/cpp") for path in (tree.ROOT / folder).rglob("*")
             if path.suffix in (".cc", ".h") and tree.name(path) != HEADER]
    assert paths
    assert asking(ASKS_CPP, paths) == set()


def test_the_search_finds_what_it_searches_for():
    assert asking(ASKS_CPP, [tree.ROOT / HEADER])
    assert asking(ASKS_PYTHON, [tree.ROOT / PYTHON[0]])
