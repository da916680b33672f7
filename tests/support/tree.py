"""The project's own files, as the house tests read them."""
import ast
import functools
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Tuple

ROOT = Path(__file__).resolve().parent.parent.parent
PRODUCT = ("ascpipe", "workers", "tfops", "mx_rec")
EVERYTHING = PRODUCT + ("bench", "examples", "tests", "scripts", "docs")
_MAPPED = {"workers": "ascpipe.workers", "tfops": "ascpipe.tfops"}


def python_files(*folders: str) -> List[Path]:
    """Every Python file below the folders, in order."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py") if "build" not in path.parts)


def text_files(*suffixes: str) -> Iterator[Path]:
    """Every file of ours with one of the suffixes, the files at the top included."""
    return (path for path in _files() if path.suffix in suffixes)


# The tests of the house read the same files again and again, and change none.
@functools.lru_cache(maxsize=None)
def _files() -> Tuple[Path, ...]:
    paths = [path for folder in EVERYTHING for path in (ROOT / folder).rglob("*")] + list(ROOT.glob("*"))
    return tuple(path for path in sorted(paths)
                 if path.is_file() and not {"build", "__pycache__"} & set(path.relative_to(ROOT).parts))


@functools.lru_cache(maxsize=None)
def lines(path: Path) -> Tuple[str, ...]:
    """Return the lines of a file; none if it is not a text."""
    try:
        return tuple(path.read_text().splitlines())
    except UnicodeDecodeError:  # a compiled product
        return ()


def name(path: Path) -> str:
    """The path from the top of the tree, for messages."""
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """How a file is imported: ``workers/runner.py`` is ``ascpipe.workers.runner``."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join([_MAPPED.get(parts[0], parts[0])] + parts[1:])


@functools.lru_cache(maxsize=None)
def parse(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(), str(path))


@functools.lru_cache(maxsize=None)
def nodes(path: Path) -> Tuple[ast.AST, ...]:
    """Every node of the syntax tree of a file, as ``ast.walk`` yields them."""
    return tuple(ast.walk(parse(path)))


@functools.lru_cache(maxsize=None)
def imports(path: Path) -> Mapping[str, int]:
    """Modules that a file imports anywhere in it, also inside functions, with a line of each.

    ``from a import b`` counts as ``a.b``, since b may be a module; a relative import is resolved.
    """
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    found: Dict[str, int] = {}
    for node in nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.name] = node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = package[:len(package) - node.level + 1] if node.level else []
            source = ".".join(base + ([node.module] if node.module else []))
            for alias in node.names:
                found["{}.{}".format(source, alias.name)] = node.lineno
    return found


def assigned_list(path: Path, variable: str) -> Optional[List[str]]:
    """The list or tuple of texts that a module assigns to a variable; None if it does not."""
    for node in parse(path).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == variable for t in node.targets):
            return list(ast.literal_eval(node.value))
    return None
