"""Functions that translate single kernels to LLVM code. ``linking`` optimizes all kernels together.

To call another kernel, a caller needs only the declared signature and the name of the symbol. Neither depends on the
process, so several processes can translate different kernels at the same time, and each kernel is translated once.
"""
from typing import Any, NamedTuple, Sequence, Set

import llvmlite.binding as llvm
from numba.core import funcdesc, itanium_mangler
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import rtsys

from ascpipe.kernels import library
from ascpipe.kernels.compiled import Kernel

_READS_CONSTANT = "PyList_GetItem"


class Overload(NamedTuple):
    """Signature of a kernel, with the attributes that numba reads when it compiles a caller of the kernel.

    Attributes:
        signature: numba's signature.
        fndesc: names of the symbols.
        entry_point: object that identifies the overload. It is never called.
        objectmode: always False.
    """

    signature: Any
    fndesc: Any
    entry_point: object
    objectmode: bool = False


class _Code(JITCodeLibrary):
    """LLVM code that this process does not compile to machine code."""

    def add_linking_library(self, library: Any) -> None:
        self._linking_libraries.append(library)

    def get_pointer_to_function(self, name: str) -> int:
        return 1  # numba stores this address in function objects that are never called

    def _ensure_finalized(self) -> None:
        pass


def declare(kernels: Sequence[Kernel]) -> None:
    """Prepare this process to translate functions that call ``kernels``. After the call, the process cannot run
    compiled code.
    """
    context = kernels[0].targetctx
    names = {library.name_of(kernel.py_func) for kernel in kernels}

    def mangled(name: str, types: Sequence[Any], *, abi_tags: Sequence[str] = (), uid: Any = None) -> str:
        # numba numbers functions in the order in which a process compiles them
        if name.replace(".NumbaEnv.", "", 1) in names:
            abi_tags = ()
            uid = None
        return str(itanium_mangler.mangle(name, types, abi_tags=abi_tags, uid=uid))

    context.mangler = mangled
    context.codegen()._library_class = _Code
    context.codegen().set_env = lambda name, environment: None
    for kernel in kernels:
        for signature in kernel.meant():
            one = Overload(signature, _described(kernel, signature, mangled), object())
            kernel.overloads[tuple(signature.args)] = one
            context.insert_user_function(one.entry_point, one.fndesc)
        kernel.disable_compile()


def _described(kernel: Kernel, signature: Any, mangler: Any) -> Any:
    function = kernel.py_func
    return funcdesc.FunctionDescriptor(
        native=True, modname=function.__module__, qualname=function.__qualname__, unique_name=function.__qualname__,
        doc="", typemap={}, restype=signature.return_type, calltypes={}, args=(), kws=(), mangler=mangler,
        argtypes=tuple(signature.args))


@global_compiler_lock
def lower(kernel: Kernel) -> bytes:
    """Return the LLVM bitcode of all signatures of a kernel.

    The code includes numba functions that the kernel calls. Other kernels are external.

    Raises:
        TypeError: the kernel uses constants of an environment, which a library does not have.
    """
    module = llvm.parse_assembly(str(kernel.targetctx.codegen()._create_empty_module(library.name_of(kernel.py_func))))
    external: Set[str] = set()
    linked: Set[Any] = set()
    for one in kernel.overloads.values():
        external |= {one.fndesc.llvm_func_name, one.fndesc.llvm_cpython_wrapper_name}
        made = kernel._compiler.compile(tuple(one.signature.args), one.signature.return_type)
        _link(module, made.library, linked)
    run_time = {function.name for function in rtsys.library.get_defined_functions()}
    for function in module.functions:
        if function.name == _READS_CONSTANT:
            raise TypeError("{} uses constants, which a library does not have".format(library.name_of(kernel.py_func)))
        if not function.is_declaration and function.name not in external:
            # Another process may use the same name for another function. Functions of the run-time library keep their
            # names and are merged later, because the pass that removes reference counts recognizes them by name.
            function.linkage = "linkonce_odr" if function.name in run_time else "internal"
    return bytes(module.as_bitcode())


def _link(module: Any, code: Any, linked: Set[Any]) -> None:
    """Link ``code``, and the libraries that ``code`` needs, into ``module``."""
    if code in linked:
        return
    linked.add(code)
    module.link_in(code._final_module, preserve=True)
    for needed in code._linking_libraries:
        _link(module, needed, linked)
