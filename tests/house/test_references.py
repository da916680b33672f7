"""Every kernel has a readable twin, and says what its arguments are."""
import ast
import inspect
import re

import pytest

from tests.support import tree

KERNELS = sorted((tree.ROOT / "ascpipe/kernels").glob("*.py"))


def short(value):
    return value.name if isinstance(value, ast.FunctionDef) else value.stem


def functions(path):
    return [node for node in tree.parse(path).body if isinstance(node, ast.FunctionDef)]


def declarations(function):
    """Decorators that declare a kernel: ``entry`` or ``inner`` of ``ascpipe.kernels.door``."""
    return [decorator for decorator in function.decorator_list
            if getattr(getattr(decorator, "func", decorator), "id", None) in ("entry", "inner")]


def is_compiled(function):
    return bool(declarations(function))


def kernels():
    return [(path, function) for path in KERNELS for function in functions(path)
            if is_compiled(function) and not function.name.startswith("_")]


def test_there_are_kernels_to_look_at():
    assert len(kernels()) >= 10


@pytest.mark.parametrize("path, kernel", kernels(), ids=short)
def test_kernel_has_a_plain_twin(path, kernel):
    twin = tree.ROOT / "tests/reference" / path.name
    assert twin.exists(), "{} is missing".format(tree.name(twin))
    assert kernel.name in [function.name for function in functions(twin)]


@pytest.mark.parametrize("path", KERNELS, ids=short)
def test_kernels_are_declared_with_their_signatures(path):
    wrong = [function.name for function in functions(path) for decorator in declarations(function)
             if not getattr(decorator, "args", None) or getattr(decorator, "keywords", None)]
    assert not wrong, "no signature, or options: {}".format(wrong)


def all_compiled():
    return [(path, function) for path in KERNELS for function in functions(path) if is_compiled(function)]


def test_no_kernel_takes_more_than_eight_arguments():
    assert not ["{} {}".format(path.stem, kernel.name) for path, kernel in all_compiled()
                if len(argument_names(kernel)) > 8]


def test_nothing_is_compiled_outside_the_package_of_kernels():
    wrong = []
    for path in tree.python_files(*tree.PRODUCT):
        for node in tree.nodes(path):
            name = getattr(node, "id", getattr(node, "attr", None))
            if name in ("njit", "jit", "vectorize", "guvectorize", "cfunc") or (
                    path not in KERNELS and name in ("intrinsic", "register_jitable")):
                wrong.append("{}:{} {}".format(tree.name(path), node.lineno, name))
    assert not wrong, "\n".join(wrong)


def test_python_code_calls_entries_only():
    """An inner kernel is loaded when it is called: a worker would wait for it in the middle of a batch."""
    inner = {("ascpipe.kernels." + path.stem, kernel.name) for path, kernel in all_compiled()
             if declarations(kernel)[0].func.id == "inner"}
    modules = {module for module, _ in inner}
    wrong = []
    for path in tree.python_files(*tree.PRODUCT):
        if path in KERNELS:
            continue
        aliases = {}
        for node in tree.nodes(path):
            if isinstance(node, ast.ImportFrom):
                wrong += ["{} imports {}".format(tree.name(path), name.name) for name in node.names
                          if (node.module, name.name) in inner]
                aliases.update({name.asname or name.name: "{}.{}".format(node.module, name.name)
                                for name in node.names})
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = aliases.get(node.value.id)
                if module in modules and (module, node.attr) in inner:
                    wrong.append("{}:{} {}".format(tree.name(path), node.lineno, node.attr))
    assert not wrong, "\n".join(wrong)


def test_twins_use_neither_numba_nor_numpy():
    for path in (tree.ROOT / "tests/reference").glob("*.py"):
        heavy = [name for name in tree.imports(path) if name.split(".")[0] in ("numba", "numpy", "tensorflow")]
        assert not heavy, "{} imports {}".format(tree.name(path), heavy)


# ---- docstrings ------------------------------------------------------------------------------------------

def documented_arguments(docstring):
    """Names in the ``Args:`` section; None if there is no such section."""
    section = re.search(r"^Args:\n((?:^ +.*\n|^\n)+)", inspect.cleandoc(docstring) + "\n", re.M)
    if section is None:
        return None
    indents = [len(line) - len(line.lstrip()) for line in section.group(1).splitlines() if line.strip()]
    names = []
    for line in section.group(1).splitlines():
        entry = re.match(r" {%d}([*\w][*\w, ]*):" % min(indents), line)
        if entry:
            names += [name.strip().lstrip("*") for name in entry.group(1).split(",")]
    return names


def argument_names(function):
    spec = function.args
    names = [argument.arg for argument in spec.args + spec.kwonlyargs]
    names += [extra.arg for extra in (spec.vararg, spec.kwarg) if extra]
    return [name for name in names if name not in ("self", "cls")]


def documented_functions():
    for path in tree.python_files(*tree.PRODUCT):
        for node in tree.nodes(path):
            if isinstance(node, ast.ClassDef):
                makers = [f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
                if makers and "Args:" in (ast.get_docstring(node, clean=False) or ""):
                    yield path, node.name, ast.get_docstring(node, clean=True), argument_names(makers[0])
            elif isinstance(node, ast.FunctionDef) and "Args:" in (ast.get_docstring(node, clean=False) or ""):
                yield path, node.name, ast.get_docstring(node, clean=True), argument_names(node)


def test_a_docstring_explains_no_argument_that_is_not_taken():
    wrong = []
    for path, name, docstring, arguments in documented_functions():
        strangers = set(documented_arguments(docstring) or []) - set(arguments)
        if strangers and "kwargs" not in arguments:
            wrong.append("{} {}: explains {}, takes {}".format(tree.name(path), name, sorted(strangers), arguments))
    assert not wrong, "\n".join(wrong)


def test_the_parser_of_docstrings_finds_what_is_missing():
    text = """Do it.

    Args:
        a, b: two
            and more: text

        *rest: others

    Returns:
        c: no
    """
    assert documented_arguments(text) == ["a", "b", "rest"]
    assert documented_arguments("Do it.") is None


@pytest.mark.parametrize("path, kernel", kernels(), ids=short)
def test_public_kernel_explains_its_arguments(path, kernel):
    docstring = ast.get_docstring(kernel) or ""
    assert docstring, "no docstring"
    explained = documented_arguments(docstring)
    if explained is not None or len(argument_names(kernel)) > 2:
        assert explained == argument_names(kernel)


def public_definitions(node, prefix=""):
    for child in node.body:
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)) and not child.name.startswith("_"):
            yield prefix + child.name, child
            if isinstance(child, ast.ClassDef):
                yield from public_definitions(child, prefix + child.name + ".")


def test_every_module_and_every_public_function_says_what_it_is_for():
    silent = []
    for path in tree.python_files(*tree.PRODUCT):
        module = tree.parse(path)
        if module.body and not ast.get_docstring(module):
            silent.append(tree.name(path))
        for name, node in public_definitions(module):
            short_method = "." in name and isinstance(node, ast.FunctionDef) and len(node.body) <= 3
            if not ast.get_docstring(node) and not short_method and node.name != "Config":  # pydantic's
                silent.append("{}:{} {}".format(tree.name(path), node.lineno, name))
    assert not silent, "no docstring:\n" + "\n".join(silent)
