"""Compiles the TensorFlow ops, and the row engine: ``python -m ascpipe.tfops.build``.

This writes ``build/build.ninja``, and ninja compiles what is older than its source or a header, or was made by another
command.  The result is ``libascpipe_ops.so`` and, beside it, ``build_info.json``; and ``libascpipe_disk.so``, which
does without TensorFlow.  Paths in the tree are relative, so that a tree that is moved or copied has nothing to compile.
"""
import argparse
import fcntl
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ascpipe import __version__
from ascpipe.errors import AscpipeError
from ascpipe.layout import generate, structs
from ascpipe.tfops.load import DISK_LIBRARY, HERE, INFO, LIBRARY, SourcesMissingError

SOURCES = HERE / "src"
OBJECTS = HERE / "build"
GENERATED = OBJECTS / "generated"  # headers that ascpipe/layout writes

JOBS = 2
#: -DNDEBUG: without it TensorFlow's header checks abort the trainer when it frees our resources.
#: -ffp-contract=off: the same bits on machines with and without fused multiply-add.
FLAGS = ("-std=c++14", "-O2", "-DNDEBUG", "-ffp-contract=off", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror")
#: Loops over rows are in the core: vectorised, also where they take roots, which therefore do not set errno.
CORE_FLAGS = ("-O3", "-fno-math-errno")
#: Names stay inside the library, so that another library in the same process cannot replace them.
HIDDEN = ("-fvisibility=hidden",)
DISK = "disk"  #: folder of sources that make a library of their own
ALSO_DISK = ("core/bell.cc",)  #: what it takes of the other one
WITHOUT_TENSORFLOW = ("core", "peers", DISK)

_COMPILES = re.compile(r"\[\d+/\d+\] compiling ")  # begins a line of ninja for each file that is compiled


class BuildError(Exception):
    """The compiler or the linker failed; the text is what it printed."""


def _read_json(path: Path) -> Dict[str, Any]:
    try:
        loaded = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def tensorflow_flags() -> Dict[str, Any]:
    """Version, ABI flag and flags of the installed TensorFlow.

    Importing TensorFlow takes seconds, so the answer is kept until its library changes.
    """
    spec = importlib.util.find_spec("tensorflow_core")
    if spec is None or spec.origin is None:
        raise BuildError("tensorflow 1.15.5 is not installed for {}. Run: make setup".format(sys.executable))
    library = Path(spec.origin).parent / "libtensorflow_framework.so.1"
    stamp = "{}:{}".format(library, library.stat().st_mtime_ns if library.exists() else 0)
    cache = OBJECTS / "tensorflow.json"
    known = _read_json(cache)
    if known.get("stamp") != stamp:
        script = ("import json, tensorflow as tf; print(json.dumps({'version': tf.__version__, "
                  "'abi': tf.sysconfig.CXX11_ABI_FLAG, 'compile': tf.sysconfig.get_compile_flags(), "
                  "'link': tf.sysconfig.get_link_flags()}))")
        asked = subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=False, capture_output=True,
                               text=True)
        if asked.returncode != 0:
            raise BuildError("tensorflow cannot be imported:\n" + asked.stderr)
        known = dict(json.loads(asked.stdout.splitlines()[-1]), stamp=stamp)
        OBJECTS.mkdir(exist_ok=True)
        cache.write_text(json.dumps(known))
    return known


def build_info(tensorflow: Dict[str, Any]) -> Dict[str, Any]:
    """What `load` compares: versions, ABI flag and layout hash."""
    return {"tensorflow": tensorflow["version"], "cxx11_abi": int(tensorflow["abi"]), "layout": structs.layout_hash(),
            "ascpipe": __version__}


_RULES = """\
rule compile
  command = $cxx -MD -MF $out.d $flags -c $in -o $out
  description = compiling $source
  depfile = $out.d
  deps = gcc
rule link
  # A process that has the old file mapped keeps it: the new one takes the name in one step.
  command = $cxx -shared -pthread $in $flags -o $out.new && mv $out.new $out
  description = linking $out
"""


def _statements(tensorflow: Dict[str, Any], info: Dict[str, Any]) -> Iterator[str]:
    """The lines of ``build.ninja``."""
    yield "cxx = " + _quoted(os.environ.get("CXX", "g++"))
    yield _RULES
    objects: Dict[Path, List[Path]] = {LIBRARY: [], DISK_LIBRARY: []}
    for source in sorted(SOURCES.glob("*/*.cc")):
        made = OBJECTS / ("-".join(source.relative_to(SOURCES).with_suffix("").parts) + ".o")
        objects[DISK_LIBRARY if source.parent.name == DISK else LIBRARY].append(made)
        if source.relative_to(SOURCES).as_posix() in ALSO_DISK and (SOURCES / DISK).exists():
            objects[DISK_LIBRARY].append(made)
        yield from _statement("compile", made, [source], source=str(source.relative_to(HERE)),
                              flags=_shell(_flags(source, tensorflow, info)))
    link = ["-L" + _from_objects(flag[2:]) if flag.startswith("-L") else flag for flag in tensorflow["link"]]
    yield from _statement("link", LIBRARY, objects[LIBRARY], flags=_shell(link))
    if objects[DISK_LIBRARY]:
        yield from _statement("link", DISK_LIBRARY, objects[DISK_LIBRARY], flags="")


def _flags(source: Path, tensorflow: Dict[str, Any], info: Dict[str, Any]) -> List[str]:
    flags = [*FLAGS, *HIDDEN, "-I" + _from_objects(str(SOURCES)), "-I" + _from_objects(str(GENERATED))]
    if source.parent.name == "core":
        flags += CORE_FLAGS
    for flag in tensorflow["compile"]:
        if not flag.startswith("-I"):
            flags.append(flag)
        elif source.parent.name not in WITHOUT_TENSORFLOW:
            flags.append("-isystem" + _from_objects(flag[2:]))
    if source.name == "c_api.cc":  # the one file that says what it was built for, so that others stay as they are
        flags.append("-DASC_BUILD_INFO=" + json.dumps(json.dumps(info, sort_keys=True)))
    return flags


def _statement(rule: str, made: Path, of: Sequence[Path], **variables: str) -> Iterator[str]:
    """How ninja makes one file."""
    yield "build {}: {} {}".format(_paths([made]), rule, _paths(of))
    for name, value in variables.items():
        yield "  {} = {}".format(name, _quoted(value))


def _paths(paths: Sequence[Path]) -> str:
    return " ".join(_quoted(_from_objects(str(path))).replace(" ", "$ ").replace(":", "$:") for path in paths)


def _from_objects(path: str) -> str:
    """A path below the tree as ninja has it, which runs in OBJECTS; others stay as they are."""
    return os.path.relpath(path, str(OBJECTS)) if HERE.parent in Path(path).parents else path


def _quoted(text: str) -> str:
    return text.replace("$", "$$")


def _shell(words: Sequence[str]) -> str:
    return " ".join(map(shlex.quote, words))


def build(verbose: bool = True) -> Tuple[int, float]:
    """Bring the libraries up to date.

    Returns:
        Number of files compiled, and seconds it took.

    Raises:
        BuildError: with the failed file, the command, and what the compiler printed.
        SourcesMissingError: this is no tree, but an installed package.
    """
    began = time.monotonic()
    if not SOURCES.is_dir():
        raise SourcesMissingError(str(SOURCES))
    OBJECTS.mkdir(exist_ok=True)
    with (OBJECTS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another build of the same tree: wait for it, then find everything fresh
        tensorflow = tensorflow_flags()
        info = build_info(tensorflow)
        generate.generate(GENERATED)  # before ninja: it sees the time of a header that has changed
        (OBJECTS / "build.ninja").write_text("\n".join(_statements(tensorflow, info)) + "\n")
        compiled = _run_ninja(verbose)
        if _read_json(INFO) != info:
            INFO.write_text(json.dumps(info, sort_keys=True) + "\n")
    return compiled, time.monotonic() - began


def _run_ninja(verbose: bool) -> int:
    """Number of files that it compiled."""
    import ninja  # of those that build: an installed package does without

    program = Path(ninja.BIN_DIR, "ninja")
    if program.read_bytes()[:2] == b"#!":  # it would start the package ninja, which would start it, and so on
        raise BuildError("{} is a script and not ninja itself. Install ninja==1.11.1.1 for {}".format(
            program, sys.executable))
    command = [str(program), "-C", str(OBJECTS), "-j", str(JOBS)]
    lines = []
    with subprocess.Popen(command, env={**os.environ, "NINJA_STATUS": "[%f/%t] "}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True) as running:
        for line in running.stdout or ():
            lines.append(line)
            if verbose and _COMPILES.match(line):
                print(line, end="", flush=True)
    if running.returncode != 0:
        raise BuildError("".join(lines))
    return sum(_COMPILES.match(line) is not None for line in lines)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Command line: exit code 0, or 1 with the reason, such as the compiler's text, on stderr."""
    parser = argparse.ArgumentParser(prog="python -m ascpipe.tfops.build", description=__doc__.splitlines()[0])
    parser.add_argument("--quiet", action="store_true", help="print nothing unless it fails")
    options = parser.parse_args(arguments)
    try:
        compiled, seconds = build(verbose=not options.quiet)
    except (BuildError, AscpipeError) as error:
        print(error, file=sys.stderr)
        return 1
    if compiled and not options.quiet:
        print("{}, {}: {} compiled, {:.1f} s".format(LIBRARY.name, DISK_LIBRARY.name, compiled, seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
