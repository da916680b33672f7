"""What the tree must not contain: vague file names, unsafe loaders, paths of one machine, private talk."""
import ast
import re

import pytest

from tests.support import tree

LONGEST = 350  #: lines of a file of the product
LONGEST_TEST = 400
SELF = "tests/house/test_words.py"
TEXT = (".py", ".cc", ".h", ".md", ".toml", ".sh", ".txt", ".lock", ".cfg", "")


def tree_lines(*suffixes):
    for path in tree.text_files(*suffixes):
        if tree.name(path) in (SELF, "LICENSE") or "__pycache__" in path.parts:
            continue
        for number, line in enumerate(tree.lines(path), 1):
            yield path, number, line


def matches(pattern, *suffixes, spare=()):
    found = re.compile(pattern)
    return ["{}:{} {}".format(tree.name(path), number, line.strip()[:100])
            for path, number, line in tree_lines(*suffixes)
            if found.search(line) and not tree.name(path).startswith(tuple(spare))]


def test_files_are_named_after_what_they_do():
    vague = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
    assert not [tree.name(path) for path in tree.python_files(*tree.EVERYTHING)
                if path.stem in vague and not tree.name(path).startswith(("mx_rec/", "ascpipe/standins/"))]


@pytest.mark.parametrize("pattern", [
    r"\b(c?[Pp]ickle|cloudpickle|marshal|shelve|dill)\b(?=\s*(\.|import|$))|import\s+(pickle|marshal|shelve|dill)\b",
    r"allow_pickle\s*=\s*True", r"yaml\.load\(", r"(?<![\w.])eval\(", r"(?<![\w.])exec\(", r"shell\s*=\s*True",
    r"os\.system\(",
    r"multiprocessing\.(Queue|Manager|Pool)",
])
def test_nothing_runs_data_as_code(pattern):
    # The bench may compare us with what does; Rec SDK exports a dict, and a test reads its own; tests fork `python -c`.
    spare = ("bench/", "tests/tf/test_export.py", "tests/support/programs/as_executed.py")
    assert not matches(pattern, ".py", spare=spare)


@pytest.mark.parametrize("pattern", [r"\bTODO\b", r"\bFIXME\b", r"\bXXX\b"])
def test_no_marks_of_unfinished_work(pattern):
    assert not matches(pattern, *TEXT)


def test_no_paths_of_one_machine():
    assert not matches(r"(?<![\w.])/(root|work)/|/opt/pypi|\.pyenv/versions/3\.7\.\d+/", *TEXT)


# Processes are things, and English is read once.  A folder is added when it keeps to that.
PLAIN = ("tfops/src/", "tfops/README.md", "ascpipe/layout/", "docs/internals/protocol.md",
         "docs/internals/shm_layout.md", "tests/cpp/")


def test_processes_are_not_spoken_of_as_people():
    private = r"(?i)\b(who|whoever|whom|nobody|somebody|everybody|anybody|so many|but for|meanwhile|of late)\b"
    assert not [match for match in matches(private, ".py", ".cc", ".h", ".md") if match.startswith(PLAIN)]


def test_no_issue_numbers_and_no_hosts_of_packages():
    assert not matches(r"\bissues? #?\d|(?<![\w&])#\d+\b(?![-.;:]?\w*;)", ".md", ".py", ".toml", ".sh")
    assert not matches(r"https?://[\w.]*(pypi|pythonhosted|mirror)", *TEXT)


# A process, a thread or a caller is "it", and idioms are said in the field's words.
IDIOMS = (r"\b(whoever|nobody|somebody|everybody|anybody|so many|but for|meanwhile|of late|is said by name)\b"
          r"|\bsees? to it\b|\b(bring|brings|brought) near\b"
          r"|(?<![\"'`])\bwho\b(?![\"'`])")
IN_PLAIN_ENGLISH = ("ascpipe/daemon/", "ascpipe/control/", "ascpipe/cli/", "ascpipe/checkpoint/", "ascpipe/config.py",
                    "ascpipe/defaults.toml", "ascpipe/errors/", "ascpipe/names.py", "ascpipe/logs.py",
                    "ascpipe/program_log.py", "ascpipe/import_hints.py", "ascpipe/kernels/", "ascpipe/shm/",
                    "ascpipe/tables/", "ascpipe/standins/", "workers/", "bench/", "examples/", "tfops/build.py",
                    "tfops/load.py", "docs/", "CONTRIBUTING.md", "README.md", "CHANGELOG.md", "tests/support/",
                    "tests/model/", "tests/fault/", "tests/unit/workers/")
SPARED = ("docs/internals/adr/",)  # as they were written


def test_english_is_read_once():
    wrong = [place for place in matches("(?i)" + IDIOMS, ".py", ".md", ".toml", spare=SPARED)
             if place.startswith(IN_PLAIN_ENGLISH)]
    assert not wrong, "\n".join(wrong)


# docs/reference/glossary.md has one meaning per word: a frame has a position, a row a slot or a home row, an item an
# index.
OF_ONE_MEANING = ("ascpipe/kernels/", "ascpipe/shm/", "ascpipe/tables/", "workers/", "tests/model/")
PLACE = r"(?<!\bin )\b_?(places?|PLACES?)\b"  # "in place" is the field's word
SPARED_PLACES = ("ascpipe/shm/memory.py",)  # Places: the kernel's files


def test_a_frame_has_a_position_and_a_row_a_slot():
    wrong = [line for line in matches(PLACE, ".py", ".md", spare=SPARED_PLACES) if line.startswith(OF_ONE_MEANING)]
    assert not wrong, "\n".join(wrong)


def test_input_is_not_validated_by_assert():
    wrong = ["{}:{}".format(tree.name(path), node.lineno) for path in tree.python_files(*tree.PRODUCT)
             for node in tree.nodes(path) if isinstance(node, ast.Assert)]
    assert not wrong, "assert in\n" + "\n".join(wrong)


def test_no_handler_swallows_everything():
    wrong = []
    for path in tree.python_files(*tree.EVERYTHING):
        for node in tree.nodes(path):
            if isinstance(node, ast.ExceptHandler) and node.type is None:
                wrong.append("{}:{}".format(tree.name(path), node.lineno))
    assert not wrong, "bare except in\n" + "\n".join(wrong)


def test_files_are_short_enough_to_read():
    sources = [path for path in tree.text_files(".py", ".cc", ".h", ".js") if "__pycache__" not in path.parts]
    long = {tree.name(path): len(path.read_text().splitlines()) for path in sources}
    too_long = {name: lines for name, lines in long.items() if lines > (LONGEST if is_product(name) else LONGEST_TEST)}
    assert not too_long, "over {} lines, or {} of tests and benches: {}".format(LONGEST, LONGEST_TEST, too_long)


def is_product(name):
    return name.startswith(("ascpipe/", "mx_rec/", "tfops/", "workers/"))
