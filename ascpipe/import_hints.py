"""Import hooks that suggest a replacement if a program imports a name that ascpipe does not provide.

A stand-in package provides some names of the real package. A file or a dict (``Homes``) defines these names. For other
names, ``import`` raises an error with the nearest name or with a recommendation. ``hasattr`` still returns False, and
``find_spec`` returns None. This module does not import TensorFlow. It imports modules of ascpipe only when a program
imports a module that a dict defines.
"""
import ast
import difflib
import dis
import functools
import importlib
import os
import pkgutil
import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any, Dict, Mapping, NoReturn, Optional, Sequence, Tuple

ANY = "*"  #: all names of a module
#: Full module name -> public name -> origin of the name: ``module``, ``module:attribute``, or
#: ``module:function()`` for the result of a call. The origin of ``ANY`` is the module whose public names are
#: copied.
Homes = Mapping[str, Mapping[str, str]]

#: Top-level names of packages that only ``ascpipe run`` provides.
STAND_INS = ("mx_rec_common", "npu_bridge", "npu_device", "rec_sdk_common", "tf_adapter")

_DOCUMENT = "docs/how-to/from-mx_rec.md lists what is provided"


def install(package: str, instead: Optional[Mapping[Tuple[str, str], str]] = None,
            homes: Optional[Homes] = None) -> None:
    """Install import hooks, so that errors of failed imports from ``package`` suggest a replacement.

    Args:
        package: ascpipe's top-level package that is being imported.
        instead: dict from (module, name) or (module, ``ANY``) to the recommendation for names that are not provided.
        homes: modules of the package that have no files.
    """
    _FINDER.packages[package] = dict(instead or {})
    _FINDER.homes.update(homes or {})
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)  # before the finders that find the files but give no hints


def fill(module: ModuleType, homes: Mapping[str, str]) -> None:
    """Import the objects that ``homes`` lists, and set the objects as attributes of ``module``."""
    for name, home in homes.items():
        path, _, attribute = home.partition(":")
        found = importlib.import_module(path)
        if name == ANY:
            public = getattr(found, "__all__", None) or [known for known in vars(found) if not known.startswith("_")]
            vars(module).update((known, getattr(found, known)) for known in public)
        elif attribute.endswith("()"):
            vars(module)[name] = getattr(found, attribute[:-2])()
        else:
            vars(module)[name] = getattr(found, attribute) if attribute else found
    if _listed(homes):
        vars(module)["__all__"] = list(_listed(homes))


def point_to_run() -> None:
    """Install an import hook: if a missing package has a stand-in, the import error mentions ``ascpipe run``.

    The hint is for programs that were started without ``ascpipe run``. The function is idempotent.
    """
    if _LAST_FINDER not in sys.meta_path:
        sys.meta_path.append(_LAST_FINDER)


class NotProvidedError(AttributeError):
    """A module of ascpipe does not have the requested attribute. The error is an ``AttributeError``, so ``hasattr``
    returns False.
    """


class NotImportableError(ImportError):
    """A program ran ``from module import name``, but the module of ascpipe does not contain the name."""


class _Finder:
    """Import finder for modules in packages of ascpipe.

    Attributes:
        packages: dict from package name to the argument ``instead`` of ``install``.
        homes: dict from the name of a module without a file to the names in the module.
    """

    def __init__(self) -> None:
        self.packages: Dict[str, Dict[Tuple[str, str], str]] = {}
        self.homes: Dict[str, Mapping[str, str]] = {}

    def find_spec(self, fullname: str, path: Optional[Sequence[str]] = None,
                  target: Optional[ModuleType] = None) -> Optional[ModuleSpec]:
        """Find a module; see ``importlib.abc.MetaPathFinder``.

        Raises:
            ModuleNotFoundError: an imported module does not exist.
        """
        root = fullname.partition(".")[0]
        if root == fullname or root not in self.packages:
            return None
        if fullname in self.homes:
            return ModuleSpec(fullname, _HomesLoader(self.homes[fullname]), is_package=True)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None:
            caller = sys._getframe(1)
            if _is_import(caller) and not _is_name_of_call(caller):
                # `from module import name` suppresses the error if the error has the imported name, so the error has no
                # name.
                raise ModuleNotFoundError(self.text(fullname), name=None if _is_name(caller) else fullname)
            return None
        if spec.submodule_search_locations is None:
            # `from module import name` calls the finder only if the module can have submodules.
            spec.submodule_search_locations = []
        if isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec

    def text(self, fullname: str) -> str:
        """Return the error message for a module or attribute that ascpipe does not provide."""
        module, _, name = fullname.rpartition(".")
        package = fullname.partition(".")[0]
        instead = self.packages[package]
        advice = instead.get((module, name)) or instead.get((module, ANY)) or instead.get((fullname, ANY))
        return "{} is not provided by ascpipe: {}".format(fullname, advice or _nearest(package, module, name))


class _LastFinder:
    """Import finder that finds no module and only raises errors with hints. Python calls this finder last."""

    def find_spec(self, fullname: str, path: Optional[Sequence[str]] = None,
                  target: Optional[ModuleType] = None) -> None:
        """Raise ``ModuleNotFoundError`` if a stand-in is imported. Otherwise, return None."""
        if fullname in STAND_INS and _is_import(sys._getframe(1)):
            raise ModuleNotFoundError("No module named {!r}: it is not installed; `ascpipe run SCRIPT` has a stand-in "
                                      "for it (docs/how-to/running_programs.md)".format(fullname), name=fullname)


class _Loader(SourceFileLoader):
    """Import loader that adds ``__getattr__`` to a module of ascpipe."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__getattr__"] = functools.partial(_no_attribute, module.__name__)
        super().exec_module(module)


class _HomesLoader(Loader):
    """Import loader for a module of ascpipe that has no source file.

    Args:
        homes: names in the module, and their origins.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = homes

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, so that Python creates a plain module."""

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__getattr__"] = functools.partial(_no_attribute, module.__name__)
        fill(module, self._homes)


_FINDER = _Finder()
_LAST_FINDER = _LastFinder()


def _no_attribute(module: str, name: str) -> NoReturn:
    if name.startswith("_"):  # Python and its tools request such names
        raise AttributeError("module {!r} has no attribute {!r}".format(module, name))
    text = _FINDER.text("{}.{}".format(module, name))
    if _opcode(sys._getframe(1)) == dis.opmap["IMPORT_FROM"]:  # Python replaces the message of an AttributeError
        raise NotImportableError(text)
    raise NotProvidedError(text)


def _is_import(frame: Any) -> bool:
    """Return whether an import called the finder. ``importlib.util.find_spec`` also calls finders, but imports nothing.

    The function inspects the two frames that called the finder. If a version of Python has other frames there, programs
    get Python's own errors, without hints.
    """
    asks = frame.f_back
    return asks is not None and asks.f_code.co_name == "_find_and_load_unlocked"


def _is_name(frame: Any) -> bool:
    """Return whether the finder was called because ``from module import name`` searches for a submodule ``name``."""
    return _leave_import(frame)[1]


def _is_name_of_call(frame: Any) -> bool:
    """Return whether the finder was called because ``__import__(module, fromlist=[name])`` searches for ``name``.

    Such a call of ``__import__`` returns the module even if the name does not exist.
    """
    importer, is_name = _leave_import(frame)
    return is_name and importer is not None and _opcode(importer) != dis.opmap["IMPORT_NAME"]


def _opcode(frame: Any) -> int:
    """Return the bytecode operation that a frame executes."""
    return int(frame.f_code.co_code[frame.f_lasti])


def _leave_import(frame: Any) -> Tuple[Any, bool]:
    """Return the frame that runs the import, and whether the import requests names from a module (``fromlist``)."""
    is_name = False
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        is_name |= frame.f_code.co_name == "_handle_fromlist"
        frame = frame.f_back
    return frame, is_name


def _nearest(package: str, module: str, name: str) -> str:
    """Return a hint for a name that ``module`` does not have.

    The hint is the first of these names that is found: a very similar name in the module, the same name in another
    module, a module of this name, a similar name in the module, a similar submodule. Otherwise, the hint refers to the
    documentation.
    """
    exported = _exported_by_module(package)
    loaded = vars(sys.modules[module]) if module in sys.modules else {}  # names of star imports are not listed
    beside = [*exported.get(module, ()), *(public for public, value in loaded.items()
                                           if not public.startswith("_") and not isinstance(value, ModuleType))]
    alike = difflib.get_close_matches(name, beside, 1, 0.85)
    elsewhere = sorted(found for found, names in exported.items() if name in names)
    if elsewhere and not alike:
        return "import it from {}".format(" or ".join(elsewhere))
    alike = alike or sorted(found for found in exported if found.endswith("." + name))
    alike = alike or difflib.get_close_matches(name, beside, 1)
    if not alike:
        siblings = [found.rpartition(".")[2] for found in exported if found.rpartition(".")[0] == module]
        alike = ["{}.{}".format(module, one) for one in difflib.get_close_matches(name, siblings, 1, 0.7)]
    return "did you mean {}?".format(" or ".join(alike)) if alike else _DOCUMENT


@functools.lru_cache(maxsize=None)
def _exported_by_module(package: str) -> Dict[str, Tuple[str, ...]]:
    """Return the names that each module of a package exports. The modules are not imported."""
    found = {module: _listed(homes) for module, homes in _FINDER.homes.items()
             if module.partition(".")[0] == package}
    todo = [(package, path) for path in getattr(sys.modules.get(package), "__path__", ())]
    while todo:
        module, path = todo.pop()
        found.setdefault(module, _exported(os.path.join(path, "__init__.py")))
        for below in pkgutil.iter_modules([path], module + "."):
            stem = os.path.join(path, below.name.rpartition(".")[2])
            if below.ispkg:
                todo.append((below.name, stem))
            elif not os.path.basename(stem).startswith("_"):
                found[below.name] = _exported(stem + ".py")
    return found


def _listed(homes: Mapping[str, str]) -> Tuple[str, ...]:
    """Return the public names of one module of ``Homes``."""
    return tuple(name for name in homes if name != ANY and not name.startswith("_"))


def _exported(path: str) -> Tuple[str, ...]:
    """Return ``__all__`` of a Python file, or an empty tuple if there is none."""
    try:
        with open(path, encoding="utf-8") as source:
            body = ast.parse(source.read()).body
    except (OSError, SyntaxError):
        return ()
    for node in body:
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == "__all__" for to in node.targets):
            return tuple(ast.literal_eval(node.value))
    return ()
