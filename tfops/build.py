"""Compile the TensorFlow ops, the row engine and the reader of records: ``python -m ascpipe.tfops.build``.

The build writes ``libascpipe_ops.so`` and ``build_info.json``, and ``libascpipe_files.so``, which needs no TensorFlow.
Sources are compiled in units (units.py). Each object has a record with the digests of its command and its input files.
A unit is recompiled if a digest differs. File times are ignored and paths are relative, so a copied or moved tree is up
to date. If the user's cache has a build with the same digests, the files of that build are copied (kept_builds.py).
"""
import argparse
import concurrent.futures
import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ascpipe import __version__
from ascpipe.errors import AscpipeError
from ascpipe.layout import generate, structs
from ascpipe.tfops import kept_builds, units
from ascpipe.tfops.load import FILES_LIBRARY, HERE, INFO, LIBRARY, SourcesMissingError
from ascpipe.tfops.units import WITHOUT_TENSORFLOW, Unit  # noqa: F401  # tests ask for it here

SOURCES = HERE / "src"
OBJECTS = HERE / "build"
GENERATED = OBJECTS / "generated"  # headers that ascpipe/layout writes

JOBS = min(8, len(os.sched_getaffinity(0)))
#: Flags for sources without TensorFlow while TensorFlow is not installed. They equal the flags of TensorFlow's packages
#: for this Python.
BEFORE_TENSORFLOW = ({"version": "", "abi": 0, "compile": ["-D_GLIBCXX_USE_CXX11_ABI=0"], "link": []}
                     if sys.version_info < (3, 8) else
                     {"version": "", "abi": 1, "link": [],
                      "compile": ["-D_GLIBCXX_USE_CXX11_ABI=1", "--std=c++17", "-DEIGEN_MAX_ALIGN_BYTES=64"]})


class BuildError(Exception):
    """The libraries cannot be built. The message contains the reason, such as the output of the compiler."""


def _read_json(path: Path) -> Dict[str, Any]:
    try:
        loaded = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def tensorflow_flags() -> Dict[str, Any]:
    """Return version, ABI flag and flags of the installed TensorFlow.

    Importing TensorFlow needs several seconds, so the result is cached until TensorFlow's library changes.
    """
    # TensorFlow 1.15 has its libraries in tensorflow_core, later releases in tensorflow.
    spec = importlib.util.find_spec("tensorflow_core") or importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        raise BuildError("TensorFlow is not installed for {}. Run: make setup".format(sys.executable))
    stamp = str([(str(library), library.stat().st_mtime_ns)
                 for library in sorted(Path(spec.origin).parent.glob("libtensorflow_framework.so.*"))])
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
    """Return the versions, ABI flag and layout hash that `load` compares."""
    return {"tensorflow": tensorflow["version"], "cxx11_abi": int(tensorflow["abi"]), "layout": structs.layout_hash(),
            "ascpipe": __version__}


def _compiler() -> List[str]:
    return shlex.split(os.environ.get("CXX", "g++"))


def _compiler_version() -> str:
    """Return the version line of the compiler, or the version line of the last build if the compiler is missing."""
    known = OBJECTS / "compiler.txt"
    try:
        asked = subprocess.run([*_compiler(), "--version"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        if known.exists():
            return known.read_text()
        raise BuildError("the C++ compiler does not start: {}. Install g++, or set CXX".format(error)) from error
    version = asked.stdout.partition("\n")[0]
    if not known.exists() or known.read_text() != version:
        known.write_text(version)
    return version


class _Build:
    """One build of the libraries of this tree."""

    def __init__(self, tensorflow: Dict[str, Any], verbose: bool) -> None:
        self.info = build_info(tensorflow)
        self.verbose = verbose
        self.version = _compiler_version()
        self.flags = ["-I" + _from_objects(flag[2:]) if flag.startswith("-I") else flag
                      for flag in tensorflow["compile"]]
        self.link_flags = ["-L" + _from_objects(flag[2:]) if flag.startswith("-L") else flag
                           for flag in tensorflow["link"]]
        self.units = units.divide(path.relative_to(SOURCES).as_posix() for path in SOURCES.glob("*/*.cc"))
        self.digests = {_from_objects(str(path)): _digest(path) for folder in (SOURCES, GENERATED)
                        for path in sorted(folder.glob("*/*")) if path.suffix in (".cc", ".h")}
        self.commands = {unit.name: self.command(unit) for unit in self.units}
        self.failed = threading.Event()
        self.running: List[subprocess.Popen[str]] = []
        self.prefix = threading.Event()  # set when the headers are precompiled or are not needed

    def command(self, unit: Unit) -> List[str]:
        """Return the command that compiles a unit. The working directory of the command is OBJECTS."""
        flags = [*units.flags_of(unit, self.flags, self.info), "-I" + _from_objects(str(SOURCES)),
                 "-I" + _from_objects(str(GENERATED))]
        what = unit.name + ".cc" if unit.text else _from_objects(str(SOURCES / unit.sources[0]))
        return [*_compiler(), *flags, "-MD", "-MF", unit.name + ".d", "-c", what, "-o", unit.name + ".o"]

    def command_digest(self, unit: Unit) -> str:
        """Return the digest of an object's dependencies, except the files of the source tree."""
        needs = [self.info["tensorflow"], units.PREFIX_TEXT] if unit.needs_tensorflow else []
        return units.digest_of(self.commands[unit.name], unit.text, self.version, needs)

    def state(self) -> str:
        """Return the digest of all dependencies of the libraries."""
        return units.digest_of([self.command_digest(unit) for unit in self.units], self.digests, self.link_flags,
                               self.info)

    def pending(self) -> List[Unit]:
        """Return the units that are out of date."""
        return [unit for unit in self.units if not (OBJECTS / (unit.name + ".o")).exists() or not units.is_current(
            _read_json(OBJECTS / (unit.name + ".json")), self.command_digest(unit), self.digests)]

    def compile(self, pending: Sequence[Unit]) -> None:
        """Compile units in parallel, JOBS at a time. The first failure terminates the other compilers."""
        self.remove_others()
        precompile = sum(unit.needs_tensorflow for unit in pending) >= units.LEAST_FOR_PREFIX
        jobs = [(lambda unit=unit: self.compile_one(unit)) for unit in pending]
        if precompile:
            jobs.insert(0, lambda: self.precompile(next(unit for unit in pending if unit.needs_tensorflow)))
        else:
            self.prefix.set()
        if any(unit.needs_tensorflow for unit in pending):
            (OBJECTS / units.PREFIX).write_text(units.PREFIX_TEXT)
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            try:
                for number, done in enumerate(concurrent.futures.as_completed([pool.submit(job) for job in jobs]), 1):
                    what = done.result()
                    if self.verbose:
                        print("[{}/{}] {}".format(number, len(jobs), what), flush=True)
            finally:
                self.failed.set()  # prevents the start of more compilers
                self.prefix.set()
                for process in self.running:
                    process.terminate()
                with contextlib.suppress(FileNotFoundError):
                    (OBJECTS / (units.PREFIX + ".gch")).unlink()  # 270 MB

    def compile_one(self, unit: Unit) -> str:
        """Compile a unit, write its record, and return a line for the log."""
        if unit.needs_tensorflow:
            self.prefix.wait()
        record = OBJECTS / (unit.name + ".json")
        with contextlib.suppress(FileNotFoundError):
            record.unlink()
        if unit.text:
            (OBJECTS / (unit.name + ".cc")).write_text(unit.text)
        self.run(self.commands[unit.name])
        rule = OBJECTS / (unit.name + ".d")
        record.write_text(json.dumps({"command": self.command_digest(unit),
                                      "inputs": units.inputs_of(rule.read_text(), self.digests)}))
        rule.unlink()
        return "compiled {}, {} sources".format(unit.name, len(unit.sources)) if unit.text else "compiled " + unit.name

    def precompile(self, unit: Unit) -> str:
        """Precompile TensorFlow's headers with the flags of a unit."""
        flags = units.flags_of(unit, self.flags, self.info)
        self.run([*_compiler(), *flags[:flags.index("-include")], "-x", "c++-header", units.PREFIX, "-o",
                  units.PREFIX + ".gch"])
        self.prefix.set()
        return "precompiled TensorFlow's headers"

    def remove_others(self) -> None:
        """Remove objects and records of units that no longer exist."""
        names = {unit.name for unit in self.units}
        for path in [*OBJECTS.glob("*.o"), *OBJECTS.glob("*-*.json")]:
            if path.stem not in names:
                path.unlink()

    def run(self, command: Sequence[str]) -> None:
        """Run a compiler or linker in OBJECTS.

        Raises:
            BuildError: the command failed.
        """
        if self.failed.is_set():
            raise BuildError("not started, because another part failed")
        process = subprocess.Popen(command, cwd=str(OBJECTS), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   universal_newlines=True)
        self.running.append(process)
        try:
            said = process.communicate()[0]
        finally:
            self.running.remove(process)
        if process.returncode != 0:
            raise BuildError("FAILED: {}\n{}".format(" ".join(map(shlex.quote, command)), said))

    def link(self) -> None:
        """Link the libraries whose objects have changed."""
        ours = [unit for unit in self.units if unit.folder not in units.ONLY_FILES]
        files = [unit for unit in self.units if unit.folder in units.FILES]
        also = [unit for unit in self.units if unit.sources[0] in units.ALSO_FILES]
        # Before glibc 2.34, dlopen was in a separate library.
        for library, parts, flags in ((LIBRARY, ours, self.link_flags), (FILES_LIBRARY, [*files, *also], ["-ldl"])):
            if not files and library == FILES_LIBRARY:
                continue
            objects = [unit.name + ".o" for unit in sorted(parts)]
            target = _from_objects(str(library))
            command = [*_compiler(), "-shared", "-pthread", *objects, *flags, "-o", target + ".new"]
            digests = {name: _digest(OBJECTS / name) for name in objects}
            record = OBJECTS / (library.name + ".json")
            said = units.digest_of(command, self.version)
            if library.exists() and units.is_current(_read_json(record), said, digests):
                continue
            with contextlib.suppress(FileNotFoundError):
                record.unlink()
            self.run(command)
            # The replacement is atomic. Processes that have mapped the old file keep it.
            os.replace(str(library) + ".new", str(library))
            record.write_text(json.dumps({"command": said, "inputs": digests}))

    # ---- the user's cache

    def take(self) -> bool:
        """Copy the libraries and objects from the cache. Return False if the cache does not contain these files."""
        files = kept_builds.read(self.state())
        for name, content in (files or {}).items():
            target = (HERE if name in (LIBRARY.name, FILES_LIBRARY.name) else OBJECTS) / name
            beside = target.with_name(name + ".new")
            beside.write_bytes(content)
            beside.chmod(0o755 if target.suffix == ".so" else 0o644)
            beside.replace(target)
        return bool(files)

    def keep(self) -> None:
        """Store the libraries and objects in the cache."""
        files = [path for path in (LIBRARY, FILES_LIBRARY) if path.exists()]
        for name in [*(unit.name for unit in self.units), *(path.name for path in files)]:
            files += [path for path in (OBJECTS / (name + ".o"), OBJECTS / (name + ".json")) if path.exists()]
        kept_builds.keep(self.state(), files)

    @contextlib.contextmanager
    def cache(self) -> Iterator[None]:
        """Context manager that ignores errors of the cache in its block, because a build does not need the cache."""
        try:
            yield
        except (OSError, AscpipeError) as error:
            if self.verbose:
                print("the cache of builds is not used: {}".format(error), file=sys.stderr, flush=True)


def _from_objects(path: str) -> str:
    """Return a path of the tree relative to OBJECTS, where compilers run. Other paths are returned unchanged."""
    return os.path.relpath(path, str(OBJECTS)) if HERE.parent in Path(path).parents else path


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build(verbose: bool = True, without_tensorflow: bool = False) -> Tuple[int, float]:
    """Rebuild the libraries if they are out of date.

    Args:
        verbose: whether to print a line for each compiled unit.
        without_tensorflow: compile only units that do not include TensorFlow, which need not be installed.

    Returns:
        Number of compiled units, and duration in seconds.

    Raises:
        BuildError: a command failed. The message contains the command and the compiler's output.
        SourcesMissingError: the package is installed without sources.
    """
    began = time.monotonic()
    if not SOURCES.is_dir():
        raise SourcesMissingError(str(SOURCES))
    OBJECTS.mkdir(exist_ok=True)
    with (OBJECTS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # wait for another build of the same tree
        tensorflow = BEFORE_TENSORFLOW if without_tensorflow else tensorflow_flags()
        generate.generate(GENERATED)
        run = _Build(tensorflow, verbose)
        pending = run.pending()
        if without_tensorflow:
            pending = [unit for unit in pending if not unit.needs_tensorflow]
        else:
            taken = False
            if len(pending) >= units.LEAST_FOR_PREFIX:
                with run.cache():
                    taken = run.take()
            if taken:
                pending = run.pending()
        if pending:
            run.compile(pending)
        if not without_tensorflow:
            run.failed.clear()
            run.link()
            if _read_json(INFO) != run.info:
                INFO.write_text(json.dumps(run.info, sort_keys=True) + "\n")
            if len(pending) >= units.LEAST_FOR_PREFIX:  # small builds after an edit are not cached
                with run.cache():
                    run.keep()
    return len(pending), time.monotonic() - began


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command line. Return 0, or print an error to stderr and return 1."""
    parser = argparse.ArgumentParser(prog="python -m ascpipe.tfops.build", description=__doc__.splitlines()[0])
    parser.add_argument("--quiet", action="store_true", help="print nothing unless it fails")
    parser.add_argument("--without-tensorflow", action="store_true",
                        help="compile only the sources that do not need TensorFlow, which may be missing")
    options = parser.parse_args(arguments)
    try:
        compiled, seconds = build(verbose=not options.quiet, without_tensorflow=options.without_tensorflow)
    except (BuildError, AscpipeError) as error:
        print(error, file=sys.stderr)
        return 1
    if compiled and not options.quiet:
        print("{}, {}: {} units compiled, {:.1f} s".format(LIBRARY.name, FILES_LIBRARY.name, compiled, seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
