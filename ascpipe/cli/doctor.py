"""Command ``ascpipe doctor``, which checks the requirements of a daemon and a trainer, and recommends solutions."""
import contextlib
import importlib.util
import json
import os
import platform
import re
import resource
import shutil
import socket
import struct
import sys
import tempfile
from typing import Any, Callable, Iterator, List, NamedTuple, Tuple

import click

from ascpipe import __version__, names
from ascpipe.cli.versions import installed
from ascpipe.errors import AscpipeError
from ascpipe.layout.kernel_library import COMPILERS
from ascpipe.logs import counted, one_line
from ascpipe.ranks import HOROVOD_VERSION
from ascpipe.shm.memory import Places

OK = "ok"
WARNING = "warning"
PROBLEM = "problem"

#: Version of Python -> (series of TensorFlow, release of this series with which ascpipe is tested).
_SUPPORTED = {(3, 7): ("1.15", "1.15.5"), (3, 10): ("2.15", "2.15.1"), (3, 11): ("2.15", "2.15.1")}
_LEAST_FILES = 4096  # a daemon raises its limit to 65536 or the hard limit
_LEAST_MEMORY = 1 << 30
_ANSWER_S = 2.0  # a daemon that a signal has stopped must not block the command
_GIB = float(1 << 30)
_TOLD = ("avx", "avx2", "fma", "avx512f")  # instruction sets to report
_BUILD = "make build, in the tree of ascpipe"
_CPUINFO = "/proc/cpuinfo"
_ELF = struct.Struct("<40xQ10xHH2x")  # 64-bit library: offset, entry size and number of sections


class Finding(NamedTuple):
    """Result of a check.

    Attributes:
        subject: name of the check.
        state: OK, WARNING or PROBLEM.
        text: result of the check.
        cure: recommended action, or an empty string if the state is OK.
    """

    subject: str
    state: str
    text: str
    cure: str = ""


@click.command("doctor", help="Check the requirements of daemon and trainer. The exit code is 1 if there is a problem.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """Run all checks. The command changes no files and starts no processes."""
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
    """Run all checks. If a check raises an error, report the error as a problem.

    Args:
        places: files and folders with memory sizes and limits.
    """
    looks: Tuple[Tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("Python", python), ("TensorFlow", tensorflow), ("ops", ops), ("processor", processor),
        ("shared memory", lambda: shared_memory(places)), ("memory", lambda: memory_limits(places)),
        ("limits", limits), ("settings", settings), ("metrics", metrics), ("run directory", run_directories),
        ("kernels", kernels), ("ranks", ranks))
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
    """Check that the version of Python is supported. TensorFlow and the compiled ops require a supported version."""
    text = "{} {} ({})".format(platform.python_implementation(), platform.python_version(), sys.executable)
    if sys.version_info[:2] in _SUPPORTED and platform.python_implementation() == "CPython":
        yield Finding("Python", OK, text)
    else:
        yield Finding("Python", PROBLEM, text, "run ascpipe with CPython {}".format(
            ", ".join("{}.{}".format(*version) for version in _SUPPORTED)))


def tensorflow() -> Iterator[Finding]:
    """Check the version of TensorFlow without importing TensorFlow. The version is read from the package metadata."""
    version = tensorflow_version()
    series, release = _SUPPORTED.get(sys.version_info[:2], next(iter(_SUPPORTED.values())))
    cure = "pip install tensorflow=={}".format(release)
    if version is None:
        yield Finding("TensorFlow", PROBLEM, "not installed for this Python", cure)
    elif version.startswith(series + "."):
        yield Finding("TensorFlow", OK, version)
    else:
        yield Finding("TensorFlow", PROBLEM, version, cure)


def tensorflow_version() -> Any:
    """Return the version of the TensorFlow distribution, or None if TensorFlow is not installed."""
    return installed("tensorflow", "tensorflow-cpu", "tensorflow-gpu")


def ops() -> Iterator[Finding]:
    """Check that the op library exists, and that it was built for the installed ascpipe and TensorFlow."""
    from ascpipe.layout import structs
    from ascpipe.tfops import load

    for path in (load.library_path(), str(load.FILES_LIBRARY)):
        if not is_whole(path):
            yield Finding("ops", PROBLEM, "{} does not exist, or is incomplete".format(path), _BUILD)
            return
    info = load.read_info()
    here = {"tensorflow": tensorflow_version(), "layout": structs.layout_hash(), "ascpipe": __version__}
    wrong = ["{} {}, here it is {}".format(name, info.get(name), value) for name, value in here.items()
             if info.get(name) != value]
    if wrong:
        yield Finding("ops", PROBLEM, "built for " + "; ".join(wrong), _BUILD)
    else:
        yield Finding("ops", OK, "built for TensorFlow {}, C++ ABI flag {}".format(
            info["tensorflow"], info.get("cxx11_abi")))


def is_whole(path: str) -> bool:
    """Return whether a file is a complete shared library. For example, a file is incomplete if the disk was full when
    the file was written.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(_ELF.size)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return False
    if len(head) < _ELF.size or not head.startswith(b"\x7fELF"):
        return False
    sections, section_bytes, section_count = _ELF.unpack(head)
    return bool(size >= sections + section_bytes * section_count)  # the section table is at the end of the file


def processor() -> Iterator[Finding]:
    """Check the available cores and instruction sets. TensorFlow wheels need AVX."""
    cores = len(os.sched_getaffinity(0))
    yield Finding("cores", OK if cores > 1 else WARNING, "{} of {} may be used".format(cores, os.cpu_count()),
                  "" if cores > 1 else "workers and training share one processor: allow this process a second one")
    with open(_CPUINFO, encoding="ascii", errors="replace") as file:
        flags = re.search(r"^flags\s*: (.*)$", file.read(), re.MULTILINE)
    there = [name for name in _TOLD if flags is not None and name in flags.group(1).split()]
    if "avx" in there:
        yield Finding("instructions", OK, " ".join(there))
    else:
        yield Finding("instructions", PROBLEM, "no AVX, which TensorFlow wheels need",
                      "use another machine, or a TensorFlow that was built for this one")


def shared_memory(places: Places) -> Iterator[Finding]:
    """Check shared memory. Too little shared memory is only a warning, since the daemon falls back to memfds."""
    from ascpipe.shm import memory

    room = memory.shm_room(places.shm_dir)
    if room.free_bytes < _LEAST_MEMORY:
        yield Finding("shared memory", WARNING, room.text + ": memfds are used if it is too small",
                      "none is needed; Docker: --shm-size")
    else:
        yield Finding("shared memory", OK, room.text)


def memory_limits(places: Places) -> Iterator[Finding]:
    """Check the free memory of the machine, and the memory limits of the control groups of this process."""
    from ascpipe.shm import memory

    for room in [memory.machine_room(places.meminfo), *memory.group_rooms(places)]:
        if room is not None:
            is_small = room.free_bytes < _LEAST_MEMORY
            yield Finding("memory", WARNING if is_small else OK, room.text,
                          "more memory, or a higher limit (MemoryMax=, docker --memory); large tables raise E401"
                          if is_small else "")


def limits() -> Iterator[Finding]:
    """Check the limit of open files, and report the limit of locked memory. ascpipe locks no memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_low = hard != resource.RLIM_INFINITY and hard < _LEAST_FILES
    yield Finding("open files", WARNING if is_low else OK, "limit {}, at most {}".format(_limit(soft), _limit(hard)),
                  "raise it: ulimit -Hn 65536, LimitNOFILE= of systemd" if is_low else "")
    yield Finding("locked memory", OK, "limit {} bytes; none is locked".format(
        _limit(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])))


def settings() -> Iterator[Finding]:
    """Check that the current settings are valid."""
    from ascpipe.config import Settings, load_settings

    found = load_settings()
    set_here = sorted(name for name in Settings.__fields__ if found.is_given(name))
    yield Finding("settings", OK, "set here: {}".format(", ".join(set_here) or "none"))


def metrics() -> Iterator[Finding]:
    """If the settings enable metrics, check that metrics can be exported."""
    from ascpipe.config import load_settings

    found = load_settings()
    if not (found.metrics_port or found.metrics_file):
        return
    if importlib.util.find_spec("prometheus_client") is None:
        yield Finding("metrics", PROBLEM, "metrics are enabled, but the package prometheus_client is not installed",
                      'pip install "ascpipe[metrics]"')
        return
    reason = why_not_writable(os.path.dirname(found.metrics_file)) if found.metrics_file else ""
    if reason:
        yield Finding("metrics", PROBLEM, "metrics_file cannot be written: {}".format(reason), "another metrics_file")
    elif found.metrics_port and is_taken(found.metrics_address, found.metrics_port):
        yield Finding("metrics", WARNING, "port {} of {} is in use".format(found.metrics_port, found.metrics_address),
                      "ignore this if it is your daemon (`ascpipe list`). If it is another program (E224), set "
                      "another metrics_port")
    else:
        yield Finding("metrics", OK, "they can be exported")


def is_taken(address: str, port: int) -> bool:
    """Return whether a TCP port cannot be bound, usually because it is in use."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the exporter sets this option, too
        try:
            sock.bind((address, port))
        except OSError:
            return True
    return False


def why_not_writable(path: str) -> str:
    """Return why no file can be created in a folder, or an empty string if files can be created. The folder may not
    exist yet.
    """
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    try:
        tempfile.TemporaryFile(dir=path).close()  # creates an unnamed file
    except OSError as error:
        return "{}: {}".format(path, error.strerror)
    return ""


def run_directories() -> Iterator[Finding]:
    """Check the parent directory of the run directories, and report run directories of dead daemons."""
    from ascpipe.control.client import running_daemons
    from ascpipe.daemon.run_directory import dead_runs

    base = names.base_dir()
    known = names.known_names()  # raises if the parent is not private
    names.run_dir(names.private_name(1 << 22))  # raises if socket paths would be too long
    reason = why_not_writable(base)
    if reason:
        yield Finding("run directory", PROBLEM, "no daemon can create one: {}".format(reason),
                      "export XDG_RUNTIME_DIR=$(mktemp -d), in every process that uses the daemon")
        return
    yield Finding("run directory", OK, "{}, {}".format(base, counted(len(running_daemons()), "daemon") + " there"))
    dead = [run.name for run in dead_runs()] if known else []
    if dead:
        yield Finding("leftovers", WARNING, "of dead daemons: {}".format(", ".join(dead)),
                      "the next daemon removes them, or `ascpipe clean`")


def compiling_daemons() -> List[str]:
    """Return the names of the running daemons that compile kernels now."""
    from ascpipe.control import messages
    from ascpipe.control.client import ask, running_daemons

    found = []
    for name in running_daemons():
        with contextlib.suppress(AscpipeError):  # the daemon has just exited, or does not answer
            if ask(names.run_dir(name), messages.Status(), _ANSWER_S).get("compiling"):
                found.append(name)
    return found


def kernels() -> Iterator[Finding]:
    """Check the cache of compiled kernels."""
    from ascpipe.config import load_settings
    from ascpipe.daemon import kernel_cache
    from ascpipe.directories import make_safe_dir

    setting = load_settings().cache_dir
    folder = kernel_cache.folder_of(setting)
    if os.path.isdir(folder):
        make_safe_dir(folder)  # the folder exists, so this call only checks it
    library = kernel_cache.library(folder, os.environ)
    by = [] if library else compiling_daemons()
    if by:
        yield Finding("kernels", OK, "being compiled by daemon {}; the first batch waits a minute or two, longer on a "
                                     "busy machine".format(", ".join(map(repr, by))))
    elif not library and (not os.path.isdir(folder) or not kernel_cache.count(folder)):
        reason = why_not_writable(folder)
        if reason:
            yield Finding("kernels", PROBLEM, "not compiled, and cannot be compiled: {}".format(reason),
                          "set ASCPIPE_CACHE_DIR to a writable folder")
            return
        yield Finding("kernels", WARNING, "not compiled: nothing in {}".format(folder),
                      "run `ascpipe warmup`; otherwise the first batch waits a minute or two")
    elif not library:
        kernel_cache.require_writable(folder)
        text = "compiled, in {}, but there is no library".format(folder)
        if any(map(shutil.which, COMPILERS)):
            yield Finding("kernels", WARNING, text, "run `ascpipe warmup`; otherwise daemons take half a second "
                                                    "longer to start")
        else:  # not a warning, because the user would have to install a C compiler
            yield Finding("kernels", OK, text + ": there is no C compiler; daemons take half a second longer to start")
    else:
        yield Finding("kernels", OK, "compiled, {}".format(library))
    others = kernel_cache.other_folders(setting)
    if others:
        yield Finding("kernels", OK, "of {} there, too (`ascpipe clean` removes them)".format(
            counted(len(others), "other version")))


def ranks() -> Iterator[Finding]:
    """Check the version of Horovod. Only programs with several ranks need Horovod."""
    version = installed("horovod")
    if version is None:
        yield Finding("ranks", OK, "Horovod is not installed; only `ascpipe run --ranks` needs it (make ranks)")
    elif version == HOROVOD_VERSION:
        yield Finding("ranks", OK, "Horovod {}".format(version))
    else:
        yield Finding("ranks", WARNING, "Horovod {}, but ranks need {}".format(version, HOROVOD_VERSION), "make ranks")


def _limit(value: int) -> str:
    return "none" if value == resource.RLIM_INFINITY else str(value)
