"""A kernel that numba compiles, or takes from its cache; see ``door``."""
import ast
import functools
import hashlib
import os
from typing import Any, Callable, Dict, Iterator, Optional, Sequence

from numba import config
from numba.core import caching
from numba.core.registry import CPUDispatcher

from ascpipe.kernels import signatures
from ascpipe.kernels.compiler import types
from ascpipe.layout.kernel_library import NUMBA_FOLDER

#: kernels by their names in a library, for ``linking``
KERNELS: Dict[str, "Kernel"] = {}
_only_declares = False


def only_declare() -> None:
    """From here on no kernel is loaded or compiled when it is declared."""
    global _only_declares
    _only_declares = True


@functools.lru_cache(maxsize=None)
def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class _Locator(caching._CacheLocator):
    """Finds what numba keeps of a function by the content of its source, so that a copy of the tree finds it, too.

    numba's own locators go by the path and the time stamp of the source.
    """

    def __init__(self, function: Callable[..., Any], path: str) -> None:
        self._line = function.__code__.co_firstlineno
        self._digest = _digest(path)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> Optional["_Locator"]:
        return cls(py_func, py_file) if config.CACHE_DIR else None

    def get_cache_path(self) -> str:
        return os.path.join(config.CACHE_DIR, NUMBA_FOLDER + ("-bounds" if config.BOUNDSCHECK else ""))

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return str(self._line)


class _Found(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator, *caching.CacheImpl._locator_classes]


class _Cache(caching.FunctionCache):
    _impl_class = _Found


class Kernel(CPUDispatcher):
    """A function with the signatures that it was declared with, and no others.

    Args:
        function: to be compiled; without the interpreter's lock.
        signatures: as numba writes them.
    """

    def __init__(self, function: Callable[..., Any], signatures: Sequence[str]) -> None:
        super().__init__(function, targetoptions={"nopython": True, "nogil": True, "boundscheck": None})
        self._declared = signatures
        self._cache = _Cache(function)

    def meant(self) -> Iterator[Any]:
        """Those that it was declared with, as numba has them."""
        return (_meant(ast.parse(declared, mode="eval").body) for declared in self._declared)

    def load(self) -> None:
        """Take it from the cache, or compile it.  Idempotent."""
        if self.overloads or _only_declares:
            return
        for signature in self.meant():
            found = self._cache.load_overload(signature, self.targetctx)
            if found is None:
                self.compile(signature)
            else:  # as ``compile`` does it, but without timers: they cost as much as the rest
                self.targetctx.insert_user_function(found.entry_point, found.fndesc, [found.library])
                self.add_overload(found)
        self.disable_compile()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Called by numba when a caller is compiled."""
        self.load()
        return super().get_call_template(args, kws)

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        """Called by numba for a call from Python before anything is loaded; returns what is to be called."""
        self.load()
        return self  # which chooses among its signatures, now that it has some


def _meant(node: ast.AST) -> Any:
    """What a part of a signature means: a name, a type of some arguments, or an array of a type."""
    if isinstance(node, ast.Name):
        return signatures.numba_types().get(node.id) or getattr(types, node.id)
    if isinstance(node, ast.Num):
        return node.n
    if isinstance(node, ast.Call):
        return _meant(node.func)(*[_meant(argument) for argument in node.args])
    if isinstance(node, ast.Subscript):
        step = node.slice.step if isinstance(node.slice, ast.Slice) else None
        return _meant(node.value)[::_meant(step) if step else None]
    raise TypeError("a signature has {}".format(ast.dump(node)))
