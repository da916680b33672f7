"""Makes the shared library of the machine code of all entries, for workers to load without numba.

    python -m ascpipe.kernels.linking LIBRARY

Takes what numba has compiled, as it is, from its cache: only the last step, from LLVM's code to the processor's, is
done again, since code for a library lies anywhere in memory. Needs a C compiler and the headers of Python.
"""
import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from typing import Any, Iterable, Iterator, List, Mapping, NamedTuple, Sequence, Set, Tuple

import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core.compiler_lock import global_compiler_lock
from numba.np import numpy_support

from ascpipe import kernels
from ascpipe.kernels import compiled
from ascpipe.kernels.compiler import types
from ascpipe.layout.kernel_library import COMPILERS

_SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "library.c")
_TIMEOUT_S = 120.0
_ENVIRONMENT = "_ZN08NumbaEnv"  # what its symbols begin with
_READS_CONSTANT = "PyList_GetItem"


class Argument(NamedTuple):
    """What a kernel takes, as in ``library.c``, which says what each field is."""

    kind: str
    parts: int = 0
    type: str = "0"
    item_bytes: int = 0
    contiguous: int = 0
    writeable: int = 0
    aligned: int = 0


def arguments_of(kind: Any) -> Iterator[Argument]:
    """An argument of a numba type; a tuple is followed by its items.

    Raises:
        TypeError: no kernel takes such ones yet.
    """
    if isinstance(kind, types.Array):
        item = numpy_support.as_dtype(kind.dtype)
        yield Argument("ARRAY", kind.ndim, "'{}'".format(item.kind), item.itemsize, int(kind.layout == "C"),
                       int(kind.mutable), int(kind.aligned))
    elif isinstance(kind, types.Record):
        yield Argument("RECORD", item_bytes=kind.size)
    elif isinstance(kind, (types.Integer, types.Boolean)):
        yield Argument("NUMBER")
    elif isinstance(kind, types.BaseTuple):
        yield Argument("TUPLE", len(kind))
        for item in kind:
            yield from arguments_of(item)
    else:
        raise TypeError("a kernel of a library takes {}".format(kind))


@global_compiler_lock  # type: ignore[misc]  # numba has no types
def link(path: str) -> None:
    """Write the library of all kernels of this package to ``path``.

    Raises:
        OSError: there is no compiler, or it cannot be written.
        subprocess.CalledProcessError: the compiler fails; it has said why on stderr.
    """
    for module in pkgutil.iter_modules(kernels.__path__):
        if module.name != "linking":
            importlib.import_module("{}.{}".format(kernels.__name__, module.name))
    entries = sorted(compiled.ENTRIES.items())
    with tempfile.TemporaryDirectory(prefix="ascpipe-") as folder:
        objects, environments = _objects([one for _, kernel in entries for one in kernel.overloads.values()], folder)
        with open(os.path.join(folder, "kernels.h"), "w") as header:
            header.write(table({name: [(one.fndesc.llvm_cpython_wrapper_name, one.signature.args)
                                       for one in kernel.overloads.values()] for name, kernel in entries},
                               environments))
        made = os.path.join(folder, "made.so")
        subprocess.run([*_compile(folder), "-o", made, *objects], stdin=subprocess.DEVNULL, check=True,
                       timeout=_TIMEOUT_S)
        beside = "{}.{}".format(path, os.getpid())
        shutil.copyfile(made, beside)
        os.replace(beside, path)


def table(kernels_by_name: Mapping[str, Sequence[Tuple[str, Sequence[Any]]]], environments: Iterable[str]) -> str:
    """What ``library.c`` includes.

    Args:
        kernels_by_name: the symbol and the types of the arguments of each overload.
        environments: symbols.
    """
    lines: List[str] = []
    rows: List[str] = []
    for number, (name, overloads) in enumerate(sorted(kernels_by_name.items())):
        found = []
        for at, (symbol, kinds) in enumerate(overloads):
            arguments = [argument for kind in kinds for argument in arguments_of(kind)] or [Argument("NUMBER")]
            lines += ["extern PyObject *{}(PyObject *, PyObject *, PyObject *);".format(symbol),
                      "static const Argument arguments_{}_{}[] = {{{}}};".format(number, at, ", ".join(
                          "{{{}}}".format(", ".join(map(str, argument))) for argument in arguments))]
            found.append("{{{}, arguments_{}_{}, {}}}".format(symbol, number, at, len(kinds)))
        lines.append("static const Overload overloads_{}[] = {{{}}};".format(number, ", ".join(found)))
        rows.append('{{{{"{}"}}, overloads_{}, {}}}'.format(name, number, len(found)))
    symbols = sorted(environments)
    return "\n".join([*lines, *("extern void *{};".format(symbol) for symbol in symbols),
                      "static Kernel kKernels[] = {{{}}};".format(",\n".join(rows)),
                      "static void **const kEnvironments[] = {{{}}};\n".format(",\n".join("&" + s for s in symbols))])


def _objects(results: Sequence[Any], folder: str) -> Tuple[List[str], Set[str]]:
    """Machine code of each for a library: object files, and the symbols of the environments that they want.

    Raises:
        TypeError: one of them uses constants of an environment, which a library does not have.
    """
    _, processor, features = next(iter(compiled.ENTRIES.values())).targetctx.codegen().magic_tuple()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=processor, features=features, opt=numba.config.OPT, reloc="pic", codemodel="default")
    paths, environments = [], set()
    for number, one in enumerate(results):
        module = one.library._get_module_for_linking().clone()
        environments |= {variable.name for variable in module.global_variables
                         if variable.name.startswith(_ENVIRONMENT)}
        if any(function.name == _READS_CONSTANT for function in module.functions):
            raise TypeError("{} uses constants, which a library does not have".format(one.fndesc.qualname))
        paths.append(os.path.join(folder, "{}.o".format(number)))
        with open(paths[-1], "wb") as file:
            file.write(machine.emit_object(module))
    return paths, environments


def _compile(folder: str) -> List[str]:
    """The compiler and what it is told, but the object files."""
    compiler = next((found for found in (shutil.which(name) for name in COMPILERS) if found), None)
    if compiler is None:
        raise OSError("there is no C compiler ({})".format(", ".join(COMPILERS)))
    helpers = os.path.dirname(numba.__file__)
    includes = [folder, helpers, sysconfig.get_paths()["include"], np.get_include()]
    return [compiler, "-shared", "-fPIC", "-O2", "-w", "-pthread", "-Wl,-z,now", *("-I" + path for path in includes),
            _SOURCE]


def main() -> None:
    """Link; why it cannot be done is the last line of stderr."""
    try:
        link(sys.argv[1])
    except subprocess.CalledProcessError as error:
        sys.exit("{} ended with {}".format(error.cmd[0], error.returncode))
    except (OSError, subprocess.TimeoutExpired) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
