"""Class ``Kernel``, a function that numba compiles or loads from its cache. ``door`` declares kernels."""
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
    """Make this process only declare kernels, without loading or compiling them."""
    global _only_declares
    _only_declares = True


@functools.lru_cache(maxsize=None)
def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class _Locator(caching._CacheLocator):
    """Cache locator for numba that identifies the cache entries of a function by the digest of the source file.

    Copies of the source tree therefore share cache entries. numba's own locators use the path and the time stamp of the
    source file.
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
    """Function that numba compiles only for its declared signatures.

    Args:
        function: Python function to compile. The machine code runs without the interpreter's lock.
        signatures: signatures in numba's notation.
    """

    def __init__(self, function: Callable[..., Any], signatures: Sequence[str]) -> None:
        super().__init__(function, targetoptions={"nopython": True, "nogil": True, "boundscheck": None})
        self._declared = signatures
        self._cache = _Cache(function)

    def meant(self) -> Iterator[Any]:
        """Yield the declared signatures as numba types."""
        return (_meant(ast.parse(declared, mode="eval").body) for declared in self._declared)

    def load(self) -> None:
        """Load the kernel from the cache, or compile it. Further calls do nothing."""
        if self.overloads or _only_declares:
            return
        for signature in self.meant():
            found = self._cache.load_overload(signature, self.targetctx)
            if found is None:
                self.compile(signature)
            else:  # like ``compile``, but without timers, which would double the time
                self.targetctx.insert_user_function(found.entry_point, found.fndesc, [found.library])
                self.add_overload(found)
        self.disable_compile()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Load the kernel when numba compiles a caller."""
        self.load()
        return super().get_call_template(args, kws)

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        """Load the kernel when Python calls the kernel for the first time. Return the object to call."""
        self.load()
        return self  # the kernel now has its signatures


def _meant(node: ast.AST) -> Any:
    """Convert a node of a parsed signature (a name, number, function type or array type) to a numba type or a Python
    value."""
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
