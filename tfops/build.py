"""Compiles the TensorFlow ops: ``python -m ascpipe.tfops.build``.

Every object is rebuilt when the content of its source, of a header of ours, or its command changes; so a
second call only compares hashes.  The result is ``libascpipe_ops.so`` and, beside it, ``build_info.json``.
"""
import argparse
import fcntl
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "src"
OBJECTS = HERE / "build"
GENERATED = OBJECTS / "generated"  # headers that ascpipe/layout writes
LIBRARY = HERE / "libascpipe_ops.so"
INFO = HERE / "build_info.json"

JOBS = 2
#: -DNDEBUG: without it TensorFlow's header checks abort the trainer when it frees our resources.
#: -ffp-contract=off: the same bits on machines with and without fused multiply-add.
FLAGS = ("-std=c++14", "-O2", "-DNDEBUG", "-ffp-contract=off", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror")
#: Loops over rows are in the core: vectorised, also where they take roots, which therefore do not set errno.
CORE_FLAGS = ("-O3", "-fno-math-errno")
#: Names stay inside the library, so that another library in the same process cannot replace them.
HIDDEN = ("-fvisibility=hidden",)


class BuildError(Exception):
    """The compiler or the linker failed; the text is what it printed."""


def _hash(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def _file_hash(path: str) -> Optional[str]:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return None


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


def _shared_layout() -> int:
    """Write the headers of ``ascpipe/layout``, also if the package is not installed; ``layout_hash()``."""
    root = str(HERE.parent)
    if root not in sys.path:
        sys.path.append(root)
    from ascpipe.layout import generate, structs

    generate.generate(GENERATED)
    return structs.layout_hash()


def _version() -> str:
    for line in (HERE.parent / "pyproject.toml").read_text().splitlines():
        if line.startswith("version"):
            return line.split('"')[1]
    raise BuildError("pyproject.toml has no version")


def build_info(tensorflow: Dict[str, Any]) -> Dict[str, Any]:
    """What `load` compares: versions, ABI flag and layout hash."""
    return {"tensorflow": tensorflow["version"], "cxx11_abi": int(tensorflow["abi"]), "layout": _shared_layout(),
            "ascpipe": _version()}


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise BuildError("{}\n{}".format(" ".join(command), done.stdout))


def _dependencies(depfile: Path) -> List[str]:
    """Files named by a make rule of ``g++ -MMD``."""
    text = depfile.read_text().replace("\\\n", " ")
    return text.split(":", 1)[1].split()


class _Object:
    """One source file and what its object was made from."""

    def __init__(self, source: Path, command: List[str]) -> None:
        name = "-".join(source.relative_to(SOURCES).with_suffix("").parts)
        self.source = source
        self.path = OBJECTS / (name + ".o")
        self.depfile = OBJECTS / (name + ".d")
        self.record = OBJECTS / (name + ".json")
        self.command = command + ["-MMD", "-MF", str(self.depfile), "-c", str(source), "-o", str(self.path)]

    def is_fresh(self) -> bool:
        known = _read_json(self.record)
        if known.get("command") != _hash(*self.command) or not self.path.exists():
            return False
        files = known.get("files", {})
        return bool(files) and all(_file_hash(path) == content for path, content in files.items())

    def compile(self) -> None:
        # Hashed before the compiler reads them: a change made meanwhile is then seen by the next call.
        before = {str(path): _file_hash(str(path)) for path in SOURCES.glob("*/*")}
        self.record.unlink() if self.record.exists() else None
        _run(self.command)
        files = {path: before.get(path, _file_hash(path)) for path in _dependencies(self.depfile)}
        self.record.write_text(json.dumps({"command": _hash(*self.command), "files": files}))


def _objects(tensorflow: Dict[str, Any], info: Dict[str, Any]) -> List[_Object]:
    system_includes = [flag.replace("-I", "-isystem", 1) for flag in tensorflow["compile"] if flag.startswith("-I")]
    definitions = [flag for flag in tensorflow["compile"] if not flag.startswith("-I")]
    common = [os.environ.get("CXX", "g++"), *FLAGS, *HIDDEN, *definitions, "-I" + str(SOURCES), "-I" + str(GENERATED)]
    # Only the file that answers for it is compiled with the build info, so that the others stay as they are.
    text = json.dumps(info, sort_keys=True).replace('"', '\\"')
    answers = ['-DASC_BUILD_INFO="{}"'.format(text)]
    objects = []
    for source in sorted(SOURCES.glob("*/*.cc")):
        command = list(common)
        command += CORE_FLAGS if source.parent.name == "core" else system_includes
        if source.name == "c_api.cc":
            command += answers
        objects.append(_Object(source, command))
    return objects


def build(verbose: bool = True) -> Tuple[int, float]:
    """Bring the library up to date.

    Returns:
        Number of files compiled, and seconds it took.

    Raises:
        BuildError: with what the compiler printed.
    """
    began = time.monotonic()
    OBJECTS.mkdir(exist_ok=True)
    with (OBJECTS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another build of the same tree: wait for it, then find everything fresh
        compiled = _build_locked(verbose)
    return compiled, time.monotonic() - began


def _build_locked(verbose: bool) -> int:
    tensorflow = tensorflow_flags()
    info = build_info(tensorflow)
    objects = _objects(tensorflow, info)
    stale = [item for item in objects if not item.is_fresh()]

    def compile_one(item: _Object) -> None:
        if verbose:
            print("compiling {}".format(item.source.relative_to(HERE)), flush=True)
        item.compile()

    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(compile_one, stale))
    link = [os.environ.get("CXX", "g++"), "-shared", "-pthread", *(str(item.path) for item in objects),
            *tensorflow["link"]]
    linked = OBJECTS / "link.json"
    if stale or not LIBRARY.exists() or _read_json(linked).get("command") != _hash(*link):
        # A process that has the old file mapped keeps it: the new one takes the name in one step.
        fresh = LIBRARY.with_suffix(".so.new")
        _run([*link, "-o", str(fresh)])
        fresh.replace(LIBRARY)
        linked.write_text(json.dumps({"command": _hash(*link)}))
    if _read_json(INFO) != info:
        INFO.write_text(json.dumps(info, sort_keys=True) + "\n")
    return len(stale)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Command line: exit code 0, or 1 with the compiler's text on stderr."""
    parser = argparse.ArgumentParser(prog="python -m ascpipe.tfops.build", description=__doc__.splitlines()[0])
    parser.add_argument("--quiet", action="store_true", help="print nothing unless it fails")
    options = parser.parse_args(arguments)
    try:
        compiled, seconds = build(verbose=not options.quiet)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    if not options.quiet:
        print("{}: {} compiled, {:.1f} s".format(LIBRARY.name, compiled, seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
