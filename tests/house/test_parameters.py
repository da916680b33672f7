"""A function of the product has at most seven parameters; what may have more is listed here with the reason."""
import ast
import re
from typing import Iterator, Tuple

import pytest

from tests.support import tree

MOST = 7

INCUMBENT = "a signature of the incumbent, which programs call"
API = "a name of ascpipe.tf, whose keyword arguments are those of the incumbent's call and of TensorFlow's"
TENSORFLOW = "a signature of TensorFlow, whose function it replaces"

MAY_HAVE_MORE = {
    ("ascpipe/tf/program/create_table.py", "create_table"): INCUMBENT,
    ("ascpipe/tf/program/sparse_lookup.py", "sparse_lookup"): INCUMBENT,
    ("ascpipe/tf/graph/features.py", "__init__"): INCUMBENT,
    ("ascpipe/tf/checkpoints/saver.py", "save"): INCUMBENT,
    ("ascpipe/tf/checkpoints/rows.py", "export_rows"): "each argument is an option of `ascpipe checkpoint export`",
    ("ascpipe/tf/serving/exporting.py", "export_saved_model"): "the arguments of the Estimator's method, and options",
    ("ascpipe/tf/api/lifecycle.py", "init"): API,
    ("ascpipe/tf/data/reading.py", "read"): API,
    ("ascpipe/tf/api/tables.py", "create_table"): API,
    ("ascpipe/tf/api/tables.py", "sparse_lookup"): API,
    ("ascpipe/tf/api/tables.py", "lookup_sparse"): API,
    ("ascpipe/tf/feature_column/columns.py", "embedding_column"): API,
    ("ascpipe/tf/feature_column/columns.py", "shared_embedding_columns"): API,
    ("ascpipe/tf/feature_column/combining.py", "_safe_embedding_lookup_sparse"): TENSORFLOW,
    ("ascpipe/cli/run.py", "command"): "click passes each option of the command line by its name",
    ("ascpipe/daemon/main.py", "run"): "what a test replaces stands beside what a daemon is told",
    ("tfops/src/core/bag_gradients.cc", "AddPositions"): "a kernel: pointers and sizes, which stay in registers",
    ("tfops/src/core/bag_gradients.cc", "AddClipped"): "a kernel: pointers and sizes",
}

_NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
_NAME = re.compile(r"([A-Za-z_]\w*)\s*\(")
_BODY = re.compile(r"\s*((const|override|noexcept|final)\s*)*(\{|:[^:]|->)")


def of_python(text: str) -> Iterator[Tuple[str, int]]:
    """The functions that a file defines, with the number of their parameters."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = [each.arg for each in (*node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
                     if each is not None]
            yield node.name, len(names) - (names[:1] in (["self"], ["cls"]))


def of_cpp(text: str) -> Iterator[Tuple[str, int]]:
    """The same of C++: a name, parentheses, and a body. Calls are read as well if a body may follow them."""
    code = _NO_CODE.sub(" ", text)
    for found in _NAME.finditer(code):
        depth, commas = 1, 0
        for at in range(found.end(), len(code)):
            depth += (code[at] in "([{<") - (code[at] in ")]}>")
            commas += code[at] == "," and depth == 1
            if depth == 0 or code[at] == ";":
                break
        if depth == 0 and _BODY.match(code, at + 1):
            yield found.group(1), commas + 1


def functions() -> Iterator[Tuple[Tuple[str, str], int]]:
    for path in tree.python_files(*tree.PRODUCT):
        for function, count in of_python(path.read_text()):
            yield (tree.name(path), function), count
    for path in tree.text_files(".cc", ".h", ".c"):
        if tree.name(path).startswith(tree.PRODUCT):
            for function, count in of_cpp(path.read_text()):
                yield (tree.name(path), function), count


def test_functions_have_at_most_seven_parameters():
    # Functions in extern "C" have no types but numbers and addresses; their calls are made from one declaration.
    more = {name for name, count in functions() if count > MOST and not name[1].startswith("asc_")}
    assert more == set(MAY_HAVE_MORE)


@pytest.mark.parametrize("of, text, count", [
    (of_python, "def f(a, b=1, *c, d, **e): ...", 5), (of_python, "class A:\n def f(self, a): ...", 1),
    (of_cpp, "int f(std::map<int, int> a, int b = g(1, 2)) const {", 2), (of_cpp, "A::f(int a, int b) : a_(a) {}", 2),
    (of_cpp, "f(1, 2); // g(a) {", None), (of_cpp, "auto f(int a /* b, */) -> int {", 1)])
def test_parameters_are_counted(of, text, count):
    assert next((found for name, found in of(text) if name == "f"), None) == count
