"""Finds what a test must not leave behind: processes, shared memory, sockets, descriptors, threads.

A ``Snapshot`` says what there is; ``left_behind`` compares two of them.  The gate in ``tests/conftest.py``
does it around every test.  Nothing here needs TensorFlow, numba or a running daemon.
"""
import gc
import os
import re
import signal
import stat
import threading
import time
from pathlib import Path
from typing import Dict, FrozenSet, List, NamedTuple, Set

SETTLE_S = float(os.environ.get("TEST_SETTLE_S", "5"))  #: how long what is on its way out may take
SHM = Path("/dev/shm")

#: native threads that we start
_OUR_THREADS = re.compile(r"^asc")
#: open for the life of the process by libraries, at first use
_KEPT_OPEN = re.compile(r"^(/dev/(null|u?random|pts/\d+|tty)|/proc/.*|/sys/.*)$|\.(so[.\d]*|nbi|nbc|py|pyc|zip)$")
#: of other libraries, in a suite that runs at the same time: of multiprocessing, as horovodrun has them, and of
#: libfaketime; these remove them
_OF_OTHERS = ("sem.mp-", "sem.faketime_sem_", "faketime_shm_")
_OUR_MAPPINGS = re.compile(r"(/memfd:\S*|/dev/shm/\S*)")


class Snapshot(NamedTuple):
    """What this process and its descendants hold, each as a set of sentences."""

    processes: FrozenSet[str]
    shm: FrozenSet[str]
    run_files: FrozenSet[str]
    descriptors: FrozenSet[str]
    mappings: FrozenSet[str]
    threads: FrozenSet[str]


def spare(pid: int, folder: str) -> None:
    """Overlook a daemon that serves several tests, its workers, and its files in ``folder`` of the run directory."""
    _SPARED[pid] = folder


def spare_no_more(pid: int) -> None:
    """It has ended, or is to be seen again."""
    _SPARED.pop(pid, None)


def overlook(pid: int) -> None:
    """Overlook a process that lives as long as this one, but none of its descendants."""
    _OVERLOOKED.add(pid)


def lasting() -> List[int]:
    """Pids of the processes that live longer than a test, without their descendants."""
    return [*_SPARED, *_OVERLOOKED]


def snapshot(run_home: Path) -> Snapshot:
    """Look now.

    Args:
        run_home: the XDG_RUNTIME_DIR of this test session; a process that carries it in its environment is
            ours even if its parent is gone.
    """
    return Snapshot(
        processes=frozenset(_process_text(pid) for pid in our_processes(run_home)),
        shm=frozenset("/dev/shm/" + name for name in _names(SHM) if not name.startswith(_OF_OTHERS)),
        run_files=frozenset(_run_files(run_home)),
        descriptors=frozenset(_descriptors()),
        mappings=frozenset(_mappings()),
        threads=frozenset(_threads()),
    )


def left_behind(before: Snapshot, run_home: Path, *, in_process: bool = True, settle_s: float = SETTLE_S) -> List[str]:
    """What is there now and was not ``before``, one sentence each; waits for what is on its way out.

    Args:
        before: taken before the test.
        run_home: as for ``snapshot``.
        in_process: False leaves out descriptors, mappings and threads of this process (a failed test keeps
            its variables alive in its traceback).
        settle_s: how long to wait.
    """
    deadline = time.monotonic() + settle_s
    while True:
        found = _difference(before, snapshot(run_home), in_process)
        if not found or time.monotonic() > deadline:
            return found
        if in_process:
            gc.collect()  # takes long with TensorFlow loaded, so only when something is there
        time.sleep(0.02)


def end_processes(run_home: Path, spare: FrozenSet[str]) -> None:
    """Kill and reap what a test left, so that the next test starts clean."""
    for pid in our_processes(run_home):
        if _process_text(pid) in spare:
            continue
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue  # already gone, or not our own child: its parent reaps it


def our_processes(run_home: Path) -> List[int]:
    """Pids of the descendants of this process, and of every process with our run directory in its environment."""
    me = os.getpid()
    listed = _pids()
    _STRANGERS.intersection_update(listed)  # a number may come back for another process
    parents = {pid: parent for pid, parent in ((pid, _parent(pid)) for pid in listed - _STRANGERS) if parent}
    return sorted(pid for pid in set(parents) - _OVERLOOKED - {me}
                  if not any(_descends(pid, spared, parents) for spared in _SPARED)
                  and (_descends(pid, me, parents) or _carries(pid, run_home)))


def _difference(before: Snapshot, now: Snapshot, in_process: bool) -> List[str]:
    kinds = ["processes", "shm", "run_files"] + (["descriptors", "mappings", "threads"] if in_process else [])
    found = []
    for kind in kinds:
        for thing in sorted(getattr(now, kind) - getattr(before, kind)):
            found.append("{}: {}".format(kind.replace("_", " "), thing))
    return found


def _names(folder: Path) -> List[str]:
    try:
        return os.listdir(str(folder))
    except FileNotFoundError:
        return []


def _run_files(run_home: Path) -> List[str]:
    """Sockets, locks and other files of daemons; logs stay, to show why one ended. A daemon that runs during several
    tests gets its record of saves in one of them."""
    files = (path for path in (run_home / "ascpipe").rglob("*")
             if not path.is_dir() and path.suffix != ".log" and path.parent.name not in _SPARED.values()
             and not (path.name == "saves.json" and (path.parent / "control.sock").exists()))
    return [str(path.relative_to(run_home)) for path in files]


def _descriptors() -> List[str]:
    found = []
    for name in _names(Path("/proc/self/fd")):
        if int(name) <= 2:
            continue  # pytest's capture points them elsewhere, and back when it ends
        try:
            target = os.readlink("/proc/self/fd/" + name)
            mode = os.fstat(int(name)).st_mode
        except OSError:
            continue  # closed since it was listed, as the listing's own descriptor is
        if stat.S_ISDIR(mode) or not _KEPT_OPEN.search(target):
            found.append("descriptor {} -> {}".format(name, target))
    return found


def _mappings() -> List[str]:
    with open("/proc/self/maps") as maps:
        lines = [line for line in maps if ("/memfd:" in line or "/dev/shm/" in line) and _OUR_MAPPINGS.search(line)]
    return ["{} at {}".format(" ".join(line.split()[5:]), line.split("-")[0]) for line in lines]


def _threads() -> List[str]:
    found = ["Python thread {} ({})".format(thread.name, thread.ident) for thread in threading.enumerate()]
    for task in _names(Path("/proc/self/task")):
        name = _read("/proc/self/task/{}/comm".format(task)).strip()
        if _OUR_THREADS.match(name):
            found.append("native thread {} ({})".format(name, task))
    return found


def _pids() -> Set[int]:
    return {int(name) for name in _names(Path("/proc")) if name.isdigit()}


def _parent(pid: int) -> int:
    # "pid (command) state parent ...": the command may hold spaces and brackets
    fields = _read("/proc/{}/stat".format(pid)).rpartition(")")[2].split()
    return int(fields[1]) if fields else 0


def _descends(pid: int, ancestor: int, parents: Dict[int, int]) -> bool:
    while pid in parents and pid != ancestor:
        pid = parents[pid]
    return pid == ancestor


def _carries(pid: int, run_home: Path) -> bool:
    environment = _read("/proc/{}/environ".format(pid)) + "\0"
    carries = "XDG_RUNTIME_DIR={}\0".format(run_home) in environment
    if not carries and environment != "\0":  # it is empty for a moment when a process executes a program
        _STRANGERS.add(pid)
    return carries


def _process_text(pid: int) -> str:
    state = _read("/proc/{}/stat".format(pid)).rpartition(")")[2].split()[:1]
    command = _read("/proc/{}/cmdline".format(pid)).replace("\0", " ").strip()
    if state == ["Z"]:
        command = "zombie"
    return "pid {} {}".format(pid, command[:160])


def _read(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""  # the process has ended, or belongs to another user


#: process -> folder, of ``spare``
_SPARED: Dict[int, str] = {}
#: of ``overlook``
_OVERLOOKED: Set[int] = set()
#: processes that are older than this one or belong to others; they are not looked at again
_STRANGERS = _pids() - {os.getpid()}
