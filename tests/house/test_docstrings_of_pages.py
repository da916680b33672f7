"""Docstrings that `make docs` inserts into pages have the form that its parser reads: one argument per entry."""
import ast
import re

from tests.support import tree

#: last parts of the names in lines such as `::: ascpipe.tf.create_table`
NAMES = {match.split(".")[-1] for path in tree.text_files(".md")
         for match in re.findall(r"^::: ([\w.]+)$", path.read_text(), re.MULTILINE)}
SECTION = re.compile(r"^(Args|Raises):\n((?:    .*\n|\n)*)", re.MULTILINE)
ENTRY = {"Args": re.compile(r"\*{0,2}(\w+): "), "Raises": re.compile(r"[\w.]+(, [\w.]+)*: ")}


def documented():
    """(file, function or class) of each definition whose docstring may be on a page."""
    for path in tree.python_files("ascpipe/tf"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in NAMES:
                yield path, node
                if isinstance(node, ast.ClassDef):
                    yield from ((path, method) for method in node.body
                                if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"))


def wrong_entries(docstring):
    """Entries of a docstring that name several arguments, or no exception."""
    return [line.strip() for kind, text in SECTION.findall(docstring + "\n") for line in text.splitlines()
            if re.match(r"    \S", line) and not ENTRY[kind].match(line.strip())]


def test_entries_with_two_arguments_are_found():
    assert wrong_entries("Do.\n\nArgs:\n    a, b: numbers.\n    c: a number.\n\nRaises:\n    All errors.\n") == [
        "a, b: numbers.", "All errors."]


def test_docstrings_of_pages_have_one_argument_per_entry():
    found = list(documented())
    assert len(found) > 50
    assert not ["{}: {}: {}".format(tree.name(path), node.name, line) for path, node in found
                for line in wrong_entries(ast.get_docstring(node) or "")]
