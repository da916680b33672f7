"""A kernel that numba compiles, or takes from its cache; see ``door``."""
import ast
from typing import Any, Callable, Dict, Sequence

from numba.core.registry import CPUDispatcher

from ascpipe.kernels import records
from ascpipe.kernels.compiler import types

#: entries by their names in a library, for ``linking``
ENTRIES: Dict[str, "Kernel"] = {}


class Kernel(CPUDispatcher):  # type: ignore[misc]  # numba has no types
    """A function with the signatures that it was declared with, and no others.

    Args:
        function: to be compiled; without the interpreter's lock.
        signatures: as numba writes them.
    """

    def __init__(self, function: Callable[..., Any], signatures: Sequence[str]) -> None:
        super().__init__(function, targetoptions={"nopython": True, "nogil": True, "boundscheck": None})
        self._declared = signatures
        self.enable_caching()

    def load(self) -> None:
        """Take it from the cache, or compile it.  Idempotent."""
        if self.overloads:
            return
        for declared in self._declared:
            signature = _meant(ast.parse(declared, mode="eval").body)
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
        return records.numba_types().get(node.id) or getattr(types, node.id)
    if isinstance(node, ast.Num):
        return node.n
    if isinstance(node, ast.Call):
        return _meant(node.func)(*[_meant(argument) for argument in node.args])
    if isinstance(node, ast.Subscript):
        step = node.slice.step if isinstance(node.slice, ast.Slice) else None
        return _meant(node.value)[::_meant(step) if step else None]
    raise TypeError("a signature has {}".format(ast.dump(node)))
