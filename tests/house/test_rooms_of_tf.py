"""``ascpipe/tf`` has rooms: imports between them go one way, no files stand in a circle, and one file each meets the
private names of TensorFlow and replaces its attributes.

Every import counts, also one inside a function or below ``if TYPE_CHECKING``.
"""
import ast
from pathlib import Path
from typing import Dict, List, Set

import pytest

from tests.support import tree

ROOT = "ascpipe.tf"
FILES = {tree.module_name(path): path for path in tree.python_files("ascpipe/tf")}

# room -> rooms it may import; files that lie in no room are the ground, which imports no room
MAY_IMPORT = {
    "ground": set(),
    "running": {"ground"},
    "graph": {"running", "ground"},
    "program": {"graph", "running", "ground"},
    "optimizers": {"graph", "running", "ground"},
    "starting": {"checkpoints", "program", "graph", "running", "ground"},
    "modify": {"starting", "program", "graph", "running", "ground"},
    "checkpoints": {"graph", "running", "ground"},
    "data": {"running", "ground"},
    "serving": {"graph", "running", "ground"},
    "training": {"modify", "optimizers", "starting", "program", "graph", "running", "ground"},
    "feature_column": {"modify", "optimizers", "starting", "program", "graph", "running", "ground"},
    "api": {"feature_column", "training", "modify", "starting",
            "serving", "checkpoints", "optimizers", "program", "graph", "running", "ground"},
    "incumbent": {"modify", "starting", "program", "graph", "running", "ground"},
}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[2] if len(parts) > 2 and parts[2] in MAY_IMPORT else "ground"


def imported_files(path: Path) -> Set[str]:
    """Files of ``ascpipe/tf`` that a file imports; a package stands for its ``__init__.py``."""
    found = set()
    for name in tree.imports(path):
        for module in (name, name.rpartition(".")[0]):
            if module in FILES:
                found.add(module)
                break
    return found


def graph() -> Dict[str, Set[str]]:
    return {module: imported_files(path) for module, path in FILES.items()}


def circles(arrows: Dict[str, Set[str]]) -> List[List[str]]:
    """Modules of which each leads to each, by Tarjan."""
    numbers: Dict[str, int] = {}
    lowest: Dict[str, int] = {}
    stack: List[str] = []
    found: List[List[str]] = []

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        stack.append(module)
        for other in sorted(arrows[module]):
            if other not in numbers:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], numbers[other])
        if lowest[module] == numbers[module]:
            begin = stack.index(module)
            if len(stack) - begin > 1 or module in arrows[module]:
                found.append(sorted(stack[begin:]))
            del stack[begin:]

    for module in sorted(arrows):
        if module not in numbers:
            visit(module)
    return found


def test_no_files_stand_in_a_circle():
    assert circles(graph()) == []


@pytest.mark.parametrize("text", [
    "from ascpipe.tf.graph.graph_state import GraphState", "import ascpipe.tf.graph.graph_state",
    "from ascpipe.tf.graph import graph_state",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ascpipe.tf.graph.graph_state import GraphState",
    "def later():\n    from ascpipe.tf.graph import graph_state\n    return graph_state"])
def test_a_circle_is_seen_wherever_the_import_stands(text, tmp_path, monkeypatch):
    changed = tmp_path / "sparse_table.py"
    changed.write_text(FILES["ascpipe.tf.graph.sparse_table"].read_text() + "\n" + text + "\n")
    arrows = graph()
    monkeypatch.setattr(tree, "module_name", lambda path: "ascpipe.tf.graph.sparse_table")
    arrows["ascpipe.tf.graph.sparse_table"] = imported_files(changed)
    (circle,) = circles(arrows)
    assert {"ascpipe.tf.graph.sparse_table", "ascpipe.tf.graph.graph_state"} <= set(circle)


def test_imports_between_rooms_go_one_way():
    wrong = ["{} imports {}".format(tree.name(FILES[module]), other)
             for module, others in graph().items() for other in sorted(others) if module != ROOT
             if room(other) != room(module) and room(other) not in MAY_IMPORT[room(module)]]
    assert not wrong, "\n".join(wrong)


def test_the_rooms_themselves_stand_in_an_order():
    assert circles(MAY_IMPORT) == []
    assert {room(module) for module in FILES} == set(MAY_IMPORT)


# ---- private names, and what is replaced -----------------------------------------------------------------

DOORS = ("ascpipe/tf/internals.py", "ascpipe/tf/checkpoints/saver_parts.py", "ascpipe/tf/patches.py")


def our_names() -> Set[str]:
    """Classes that files of ours define."""
    return {node.name for path in tree.python_files("ascpipe/tf", "mx_rec") for node in tree.nodes(path)
            if isinstance(node, ast.ClassDef)}


def private_names(body: ast.Module, ours: Set[str]) -> List[str]:
    """Private attributes that are read or set, but those of ``self``, of a base class and of classes of ours."""
    found = []
    for node in ast.walk(body):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
            continue
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id in {"self", "cls"} | ours:
            continue
        if isinstance(owner, ast.Call) and getattr(owner.func, "id", "") == "super":
            continue
        if node.attr in ("_replace", "_fields", "_asdict"):  # of named tuples
            continue
        found.append("{}: {}".format(node.lineno, node.attr))
    return found


def replaced_attributes(body: ast.Module) -> List[str]:
    """Attributes that are set on anything but ``self`` and that no class of ours has; calls of ``setattr``."""
    found = []
    for node in ast.walk(body):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("setattr", "delattr"):
            found.append("{}: {}".format(node.lineno, node.func.id))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)) \
                and getattr(node.value, "id", "") not in ("self", "cls"):
            found.append("{}: {}".format(node.lineno, node.attr))
    return found


def attributes_of_ours() -> Set[str]:
    """What classes of ours set on ``self``, declare, or have a setter of."""
    found = set()
    for path in tree.python_files("ascpipe/tf"):
        for node in tree.nodes(path):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and \
                    isinstance(node.value, ast.Name) and node.value.id == "self":
                found.add(node.attr)
            if isinstance(node, ast.ClassDef):
                found |= {field.target.id for field in node.body if isinstance(field, ast.AnnAssign)}
                found |= {method.name for method in node.body if isinstance(method, ast.FunctionDef)
                          and any(getattr(decorator, "attr", "") == "setter" for decorator in method.decorator_list)}
    return found


#: Fields of messages of TensorFlow (NodeDef, ConfigProto and their parts) and of logging and ctypes, which are data.
FIELDS = {"device", "intra_op_parallelism_threads", "name", "i", "args", "argtypes", "restype"}


def bodies() -> Dict[str, ast.Module]:
    return {tree.name(path): tree.parse(path) for path in tree.python_files("ascpipe/tf", "mx_rec")
            if tree.name(path) not in DOORS}


def test_private_names_of_tensorflow_are_met_behind_few_doors():
    ours = our_names()
    wrong = {name: private_names(body, ours) for name, body in bodies().items()}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_attributes_of_tensorflow_are_replaced_in_one_place():
    ours = attributes_of_ours() | FIELDS
    wrong = {}
    for name, body in bodies().items():
        # A class of the incumbent's side hands on what programs set.
        allowed = ours | {"setattr"} if name.endswith("/config_initializer.py") else ours
        wrong[name] = [found for found in replaced_attributes(body) if found.split(": ")[1] not in allowed]
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize("text", ["op._update_input(0, t)", "tf.Graph._x", "saver._var_list = []", "a.b()._c"])
def test_a_private_name_is_seen(text):
    assert len(private_names(ast.parse(text), our_names())) == 1


@pytest.mark.parametrize("text", ["tf.Graph.finalize = f", "session.run = f", "setattr(x, 'y', 1)", "del a.finalize"])
def test_a_replaced_attribute_is_seen(text):
    assert [found.split(": ")[1] for found in replaced_attributes(ast.parse(text))][0] not in attributes_of_ours()


def test_context_managers_clean_up_after_ctrl_c():
    """``contextlib.contextmanager`` does not: the error of Ctrl-C may come while its function waits at its yield."""
    users = [path.name for path in FILES.values() if "contextlib.contextmanager" in path.read_text(encoding="utf-8")]
    assert users == ["clean_up.py"]
