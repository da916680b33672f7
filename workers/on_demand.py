"""Loads the compiled kernels that Python code calls, and no others.

A kernel with a signature is compiled, or loaded from the cache, at import. But half of the kernels are called by other
kernels alone, whose machine code has them in it: what is loaded of them is never used, and takes as long.
"""
import contextlib
import sys
from types import CodeType
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from numba.core.registry import CPUDispatcher
from numba.core.target_extension import dispatcher_registry, target_registry

_OURS = "ascpipe."


class _OnDemand(CPUDispatcher):  # type: ignore[misc]  # numba has no types
    """A function of ours with one signature, loaded by ``load``, when it is called, or when a caller is compiled."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: signatures to load; None: compile at once, as numba's own functions that are made meanwhile
        self._waiting: Optional[List[str]] = [] if self.py_func.__module__.startswith(_OURS) else None

    def compile(self, sig: Any) -> Any:
        if self._waiting is None:
            return super().compile(sig)
        self._waiting.append(sig)
        return None

    def disable_compile(self, val: bool = True) -> None:
        if not self._waiting:
            super().disable_compile(val)

    def load(self) -> None:
        """Take it from the cache, or compile it. Idempotent."""
        waiting, self._waiting = self._waiting, None
        for signature in waiting or ():
            found = self._cache.load_overload(signature, self.targetctx)
            if found is None:
                super().compile(signature)
            else:  # as `compile` does it, but without timers: they cost as much as the rest
                self.targetctx.insert_user_function(found.entry_point, found.fndesc, [found.library])
                self.add_overload(found)
        if waiting:
            super().disable_compile()

    def get_call_template(self, args: Any, kws: Any) -> Any:  # a caller is compiled
        self.load()
        return super().get_call_template(args, kws)

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:  # it is called
        is_first = bool(self._waiting)
        self.load()
        if not is_first:
            return super()._compile_for_args(*args, **kws)
        (compiled,) = self.overloads.values()
        given = [self.typeof_pyval(value) for value in args]
        if len(given) != len(compiled.signature.args) or any(
                self.typingctx.can_convert(one, wanted) is None for one, wanted in zip(given, compiled.signature.args)):
            raise TypeError("{} takes {}, it was given {}".format(
                self.py_func.__name__, compiled.signature.args, tuple(given)))
        return compiled.entry_point


@contextlib.contextmanager
def kernels_on_demand() -> Iterator[None]:
    """Kernels of modules that are imported in the block are loaded at its end, if Python code of ours calls them.

    Others are loaded when they are called or compiled into a caller; so is what the search has missed.
    """
    target = target_registry["cpu"]
    before = dispatcher_registry.pop(target)  # it refuses to replace one
    dispatcher_registry[target] = _OnDemand
    try:
        yield
    finally:
        del dispatcher_registry[target]
        dispatcher_registry[target] = before
    names, kernels = _named_in_python()
    for kernel in kernels:
        if kernel.py_func.__name__ in names:
            kernel.load()


def _named_in_python() -> Tuple[Set[str], List[_OnDemand]]:
    """What functions of ours that are not compiled name, and those that are."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith(_OURS)]
    kernels: Dict[int, _OnDemand] = {
        id(found): found for module in modules for found in vars(module).values() if isinstance(found, _OnDemand)}
    compiled = {_place(kernel.py_func.__code__) for kernel in kernels.values()}
    names: Set[str] = set()
    todo: List[CodeType] = [module.__loader__.get_code(module.__name__)  # type: ignore[union-attr]
                            for module in modules if hasattr(module.__loader__, "get_code")]
    while todo:
        code = todo.pop()
        if _place(code) in compiled:
            continue
        if code.co_name != "<module>":  # where a module defines and imports, it does not call
            names.update(code.co_names)
        todo += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return names, list(kernels.values())


def _place(code: CodeType) -> Tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_name
