"""``ascpipe doctor``: looks at all that a daemon and its trainer need, and says how to mend what is wrong."""
import json
import os
import platform
import re
import resource
import sys
from typing import Any, Callable, Iterator, List, NamedTuple, Tuple

import click

from ascpipe import __version__, names
from ascpipe.errors import AscpipeError
from ascpipe.logs import counted, one_line
from ascpipe.shm.memory import Places

OK, WARNING, PROBLEM = "ok", "warning", "problem"

_TENSORFLOW = "1.15"
_PYTHON = (3, 7)
_LEAST_FILES = 4096  # a daemon raises its limit to 65536, or as far as it may
_LEAST_MEMORY = 1 << 30
_GIB = float(1 << 30)
_TOLD = ("avx", "avx2", "fma", "avx512f")  # instruction sets
_CPUINFO = "/proc/cpuinfo"


class Finding(NamedTuple):
    """What a look found.

    Attributes:
        subject: what was looked at.
        state: OK, WARNING or PROBLEM.
        text: what was found.
        cure: what to do; empty if it is ok.
    """

    subject: str
    state: str
    text: str
    cure: str = ""


@click.command("doctor", help="Look at all that a daemon and a trainer need; exit code 1 if something is a problem.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of lines.")
def command(as_json: bool) -> None:
    """Changes nothing, starts nothing."""
    found = findings()
    if as_json:
        click.echo(json.dumps([one._asdict() for one in found], indent=2))
    else:
        for one in found:
            click.echo(one_line("{:<8} {:<16} {}".format(one.state, one.subject, one.text)))
            if one.cure:
                click.echo(one_line("{:<25} cure: {}".format("", one.cure)))
    if any(one.state == PROBLEM for one in found):
        sys.exit(1)


def findings(places: Places = Places()) -> List[Finding]:  # noqa: B008  (immutable)
    """All looks; one that fails is a problem.

    Args:
        places: where memory and its limits are read.
    """
    looks: Tuple[Tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("Python", python), ("TensorFlow", tensorflow), ("ops", ops), ("processor", processor),
        ("shared memory", lambda: shared_memory(places)), ("memory", lambda: memory_limits(places)),
        ("limits", limits), ("settings", settings), ("run directory", run_directories), ("kernels", kernels))
    found: List[Finding] = []
    for subject, look in looks:
        try:
            found += look()
        except AscpipeError as error:
            found.append(Finding(subject, PROBLEM, str(error), "ascpipe explain {}".format(error.code)))
        except OSError as error:
            found.append(Finding(subject, PROBLEM, str(error), "make that file or folder readable"))
    return found


def python() -> Iterator[Finding]:
    """The interpreter, which TensorFlow 1.15 and the compiled ops prescribe."""
    text = "{} {} ({})".format(platform.python_implementation(), platform.python_version(), sys.executable)
    if sys.version_info[:2] == _PYTHON and platform.python_implementation() == "CPython":
        yield Finding("Python", OK, text)
    else:
        yield Finding("Python", PROBLEM, text, "run ascpipe with CPython 3.7")


def tensorflow() -> Iterator[Finding]:
    """By its metadata: it is not imported."""
    version = tensorflow_version()
    if version is None:
        yield Finding("TensorFlow", PROBLEM, "not installed for this Python", "pip install tensorflow==1.15.5")
    elif version.startswith(_TENSORFLOW + "."):
        yield Finding("TensorFlow", OK, version)
    else:
        yield Finding("TensorFlow", PROBLEM, version, "pip install tensorflow==1.15.5")


def tensorflow_version() -> Any:
    """Version of the distribution, None where there is none."""
    import importlib_metadata

    for name in ("tensorflow", "tensorflow-cpu", "tensorflow-gpu"):
        try:
            return importlib_metadata.version(name)
        except importlib_metadata.PackageNotFoundError:
            continue
    return None


def ops() -> Iterator[Finding]:
    """Whether the library with the ops is there, and fits; of the C++ ABI only what it was built for is known."""
    from ascpipe.layout import structs
    from ascpipe.tfops import load

    load.library_path()
    info = load.read_info()
    here = {"tensorflow": tensorflow_version(), "layout": structs.layout_hash(), "ascpipe": __version__}
    wrong = ["{} {}, here it is {}".format(name, info.get(name), value) for name, value in here.items()
             if info.get(name) != value]
    if wrong:
        yield Finding("ops", PROBLEM, "built for " + "; ".join(wrong), "make build, in the tree of ascpipe")
    else:
        yield Finding("ops", OK, "built for TensorFlow {}, C++ ABI flag {}".format(
            info["tensorflow"], info.get("cxx11_abi")))


def processor() -> Iterator[Finding]:
    """Cores that we may use, and instruction sets: wheels of TensorFlow need AVX."""
    cores = len(os.sched_getaffinity(0))
    yield Finding("cores", OK if cores > 1 else WARNING, "{} of {} may be used".format(cores, os.cpu_count()),
                  "" if cores > 1 else "workers and training take turns: allow this process a second one")
    with open(_CPUINFO, encoding="ascii", errors="replace") as file:
        flags = re.search(r"^flags\s*: (.*)$", file.read(), re.MULTILINE)
    there = [name for name in _TOLD if flags is not None and name in flags.group(1).split()]
    if "avx" in there:
        yield Finding("instructions", OK, " ".join(there))
    else:
        yield Finding("instructions", PROBLEM, "no AVX, which wheels of TensorFlow need",
                      "another machine, or a TensorFlow that is built for this one")


def shared_memory(places: Places) -> Iterator[Finding]:
    """Where it is too small the daemon takes memory without a file system, so this is no problem."""
    from ascpipe.shm import memory

    room = memory.shm_room(places.shm_dir)
    if room.free_bytes < _LEAST_MEMORY:
        yield Finding("shared memory", WARNING, room.text + ": memfds are taken where it is too small",
                      "none is needed; Docker: --shm-size")
    else:
        yield Finding("shared memory", OK, room.text)


def memory_limits(places: Places) -> Iterator[Finding]:
    """What the machine has, and the limits of our control groups."""
    from ascpipe.shm import memory

    for room in [memory.machine_room(places.meminfo), *memory.group_rooms(places)]:
        if room is not None:
            is_small = room.free_bytes < _LEAST_MEMORY
            yield Finding("memory", WARNING if is_small else OK, room.text,
                          "more memory, or a larger limit (MemoryMax=, docker --memory): large tables are E401"
                          if is_small else "")


def limits() -> Iterator[Finding]:
    """Open files; locked memory, of which nothing is needed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_low = hard != resource.RLIM_INFINITY and hard < _LEAST_FILES
    yield Finding("open files", WARNING if is_low else OK, "limit {}, at most {}".format(_limit(soft), _limit(hard)),
                  "raise it: ulimit -Hn 65536, LimitNOFILE= of systemd" if is_low else "")
    yield Finding("locked memory", OK, "limit {} bytes; none is locked".format(
        _limit(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])))


def settings() -> Iterator[Finding]:
    """Whether the settings in force here are valid."""
    from ascpipe.config import Settings, load_settings

    found = load_settings()
    set_here = sorted(name for name in Settings.__fields__ if found.is_given(name))
    yield Finding("settings", OK, "set here: {}".format(", ".join(set_here) or "none"))


def run_directories() -> Iterator[Finding]:
    """The place of run directories, and what dead daemons left there."""
    from ascpipe.control.client import running_daemons
    from ascpipe.daemon.run_directory import dead_runs

    base = names.base_dir()
    known = names.known_names()  # refuses one that is not ours alone
    yield Finding("run directory", OK, "{}, {}".format(base, counted(len(running_daemons()), "daemon") + " there"))
    dead = [run.name for run in dead_runs()] if known else []
    if dead:
        yield Finding("leftovers", WARNING, "of dead daemons: {}".format(", ".join(dead)),
                      "the next daemon removes them, or `ascpipe clean`")


def kernels() -> Iterator[Finding]:
    """The cache of compiled kernels."""
    from ascpipe.config import load_settings
    from ascpipe.daemon import kernel_cache
    from ascpipe.directories import make_safe_dir

    setting = load_settings().cache_dir
    folder = kernel_cache.folder_of(setting)
    if os.path.isdir(folder):
        make_safe_dir(folder)  # it is there: this checks only
    if not os.path.isdir(folder) or not kernel_cache.count(folder):
        yield Finding("kernels", WARNING, "not compiled: nothing in {}".format(folder),
                      "`ascpipe warmup`; else the first daemon takes half a minute")
    elif not kernel_cache.library(folder, os.environ):
        yield Finding("kernels", WARNING, "compiled, in {}, but there is no library of them".format(folder),
                      "`ascpipe warmup` with a C compiler; else daemons take half a second longer to start")
    else:
        yield Finding("kernels", OK, "compiled, in {}".format(folder))
    others = kernel_cache.folders_of_others(setting)
    if others:
        yield Finding("kernels", OK, "of {} there, too (`ascpipe clean` removes them)".format(
            counted(len(others), "other version")))


def _limit(value: int) -> str:
    return "none" if value == resource.RLIM_INFINITY else str(value)
