"""Program that compiles all kernels to a shared library, which workers load without numba.

::

    python -m ascpipe.kernels.linking FOLDER LEVEL...

There is a library for each level of ``ascpipe.layout.kernel_library``. Several processes translate kernels to LLVM code
(``lowering``), which is most of the work. Then all code is linked to one module. So each kernel is optimized once, and
not again in each of its callers. A C compiler and the headers of Python are needed.
"""
import contextlib
import importlib
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import traceback
from typing import Any, Iterable, Iterator, List, Mapping, NamedTuple, NoReturn, Sequence, Tuple

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import types
from numba.core.compiler_lock import global_compiler_lock
from numba.np import numpy_support

from ascpipe import kernels
from ascpipe.kernels import compiled, lowering
from ascpipe.layout.kernel_library import COMPILERS, LEVELS, NATIVE, file_name

_SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "library.c")
#: numba's reference counts in C++, from numba 0.58 on; ``library.c`` includes the C source of older versions.
_RUNTIME = os.path.join(os.path.dirname(numba.__file__), "core/runtime/nrt.cpp")
_OF_CPP = ("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")  # the code then needs no C++ library
_TIMEOUT_S = 120.0
_ENVIRONMENT = "_ZN08NumbaEnv"  # prefix of the symbols of environments
_WRAPPER = "_ZN7cpython7ascpipe7kernels"
_LOOK_S = 0.05


class Argument(NamedTuple):
    """Argument of a kernel. ``library.c`` explains the fields."""

    kind: str
    parts: int = 0
    type: str = "0"
    item_bytes: int = 0
    contiguous: int = 0
    writeable: int = 0
    aligned: int = 0


def arguments_of(kind: Any) -> Iterator[Argument]:
    """Yield the C arguments for a value of a numba type. For a tuple, also yield the arguments for each item.

    Raises:
        TypeError: the type is not supported.
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


def link(folder: str, levels: Sequence[str], jobs: int) -> None:
    """For each level, write a library that contains all kernels. After the call, this process cannot run compiled
    kernels.

    Args:
        folder: folder of the libraries. ``file_name`` returns their names.
        levels: names in ``LEVELS``, or NATIVE.
        jobs: number of processes.

    Raises:
        OSError: there is no compiler, or the library cannot be written.
        subprocess.CalledProcessError: the compiler failed and printed the reason on stderr.
        subprocess.TimeoutExpired: the compiler ran for more than 120 s.
        RuntimeError: a process that compiles kernels failed.
        TypeError: a kernel has an argument or a constant that a library does not support.
    """
    command = _command()
    # Passes over single functions use costs of instructions. These costs must not depend on this machine.
    numba.config.CPU_NAME, numba.config.CPU_FEATURES = LEVELS[list(LEVELS)[-1]][:2]
    compiled.only_declare()
    for found in pkgutil.iter_modules(kernels.__path__):
        importlib.import_module("{}.{}".format(kernels.__name__, found.name))
    by_name = dict(sorted(compiled.KERNELS.items()))
    declared = list(by_name.values())
    lowering.declare(declared)
    with tempfile.TemporaryDirectory(prefix="ascpipe-") as made:
        _lower(declared, made, jobs)
        module = _merged(declared, made)
        with open(os.path.join(made, "kernels.h"), "w") as header:
            header.write(table({name: [(one.fndesc.llvm_cpython_wrapper_name, one.signature.args)
                                       for one in kernel.overloads.values()] for name, kernel in by_name.items()},
                               [variable.name for variable in module.global_variables
                                if variable.name.startswith(_ENVIRONMENT)]))
        sources = [[_SOURCE], [*_OF_CPP, _RUNTIME]] if os.path.exists(_RUNTIME) else [[_SOURCE]]
        support = [os.path.join(made, "support-{}.o".format(number)) for number in range(len(sources))]
        with contextlib.ExitStack() as compilers:
            compiling = [compilers.enter_context(subprocess.Popen(
                [*command, "-I" + made, *source, "-c", "-o", path], stdin=subprocess.DEVNULL))
                for source, path in zip(sources, support)]
            objects = [_emit(declared[0].targetctx.codegen(), module.clone(), level, made) for level in levels]
            for one in compiling:
                if one.wait(_TIMEOUT_S):
                    raise subprocess.CalledProcessError(one.returncode, command)
        for level, path in zip(levels, objects):
            linked = path + ".so"
            subprocess.run([*command, "-shared", "-Wl,-z,now", "-s", "-o", linked, *support, path], check=True,
                           stdin=subprocess.DEVNULL, timeout=_TIMEOUT_S)
            final = os.path.join(folder, file_name(level))
            beside = "{}.{}".format(final, os.getpid())
            shutil.copyfile(linked, beside)
            os.replace(beside, final)


def table(kernels_by_name: Mapping[str, Sequence[Tuple[str, Sequence[Any]]]], environments: Iterable[str]) -> str:
    """Return the C code of the file that ``library.c`` includes.

    Args:
        kernels_by_name: symbol and argument types of each overload.
        environments: symbols of environments.
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


def _merged(kernels: Sequence[compiled.Kernel], folder: str) -> Any:
    """Return one module with the LLVM code of all kernels."""
    module = llvm.parse_assembly(str(kernels[0].targetctx.codegen()._create_empty_module("kernels")))
    for number in range(len(kernels)):
        with open(_path(folder, number), "rb") as file:
            module.link_in(llvm.parse_bitcode(file.read()))
    return module


def _set_linkage(module: Any, linkage: str) -> None:
    """Set the linkage of a module's functions. The linkage of wrapper functions is not changed, because code outside
    the module calls wrapper functions.
    """
    for function in module.functions:
        if not function.is_declaration and not function.name.startswith(_WRAPPER):
            function.linkage = linkage


@global_compiler_lock
def _emit(codegen: Any, module: Any, level: str, folder: str) -> str:
    """Optimize a module as numba does, and compile the module for an instruction set level. Return the path of the
    object file.
    """
    processor, features = ((llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()) if level == NATIVE else
                           (LEVELS[level].processor, LEVELS[level].without))
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=processor, features=features, opt=numba.config.OPT, reloc="pic", codemodel="default")
    codegen._tm = machine  # passes read the costs of instructions from this object
    _set_linkage(module, "linkonce_odr")  # numba links callees in the same way, and inlining depends on it
    for options in ({"loop_vectorize": False, "slp_vectorize": False, "opt": 0, "cost": "cheap"}, {}):
        codegen._module_pass_manager(**options).run(module)
    _set_linkage(module, "internal")
    path = os.path.join(folder, level + ".o")
    with open(path, "wb") as file:
        file.write(machine.emit_object(module))
    return path


def _lower(kernels: Sequence[compiled.Kernel], folder: str, jobs: int) -> None:
    """Write the LLVM code of each kernel to a separate file (``_path``). ``jobs`` processes, including this process, do
    the work.

    Raises:
        RuntimeError: another process failed. It printed the reason on stderr.
    """
    # The longest kernels are first, so that all processes finish at about the same time.
    numbers = sorted(range(len(kernels)), key=lambda one: -len(kernels[one].py_func.__code__.co_code))
    children = []
    for _ in range(1, jobs):
        child = os.fork()
        if child == 0:
            _be_child(kernels, numbers, folder)
        children.append(child)
    try:
        _lower_some(kernels, numbers, folder)
    finally:
        codes = [_ended(child) for child in children]
    if any(codes):
        raise RuntimeError("a process that compiles kernels exited with {}".format(max(codes)))


def _lower_some(kernels: Sequence[compiled.Kernel], numbers: Sequence[int], folder: str) -> None:
    """Translate the kernels that no other process has claimed, and write the LLVM code of each kernel to a file."""
    for number in numbers:
        with contextlib.suppress(FileExistsError), open(_path(folder, number), "xb") as file:
            file.write(lowering.lower(kernels[number]))


def _be_child(kernels: Sequence[compiled.Kernel], numbers: Sequence[int], folder: str) -> NoReturn:
    code = 1
    try:
        _lower_some(kernels, numbers, folder)
        code = 0
    except BaseException:  # noqa: BLE001  (nothing of the parent may run here)
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _ended(child: int) -> int:
    """Wait for a child. Return the exit code or the negative signal number. Kill the child after the timeout."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(_LOOK_S)


def _path(folder: str, number: int) -> str:
    """Return the path of the file for a kernel's LLVM code."""
    return os.path.join(folder, "{}.bc".format(number))


def _command() -> List[str]:
    """Return the command line of the C compiler: the path and the options.

    Raises:
        OSError: there is no C compiler.
    """
    compiler = next((found for found in (shutil.which(name) for name in COMPILERS) if found), None)
    if compiler is None:
        raise OSError("there is no C compiler ({})".format(", ".join(COMPILERS)))
    includes = [os.path.dirname(numba.__file__), sysconfig.get_paths()["include"], np.get_include()]
    return [compiler, "-fPIC", "-O2", "-w", "-pthread", *("-I" + path for path in includes)]


def main(arguments: Sequence[str]) -> None:
    """Link the libraries. If linking fails, the last line of stderr contains the reason.

    Args:
        arguments: folder and levels of the libraries.
    """
    try:
        link(arguments[0], arguments[1:], len(os.sched_getaffinity(0)))
    except subprocess.CalledProcessError as error:
        sys.exit("{} ended with {}".format(error.cmd[0], error.returncode))
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
