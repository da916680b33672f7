"""Compiles the kernels of the workers ahead of their first start."""
import os
import subprocess
import sys
from typing import NamedTuple, Sequence, Tuple

from ascpipe.control.exec_worker import NO_ROOM_FOR_KERNELS
from ascpipe.control.launch import child_environment
from ascpipe.daemon import kernel_cache
from ascpipe.daemon.supervisor import met_broken_kernels
from ascpipe.directories import refusing, room
from ascpipe.errors import DirectoryFullError, WorkerError

_LOADING = (sys.executable, "-m", "ascpipe.workers.loading")
_LINKING = (sys.executable, "-m", "ascpipe.kernels.linking")
_TIMEOUT_S = 600.0


class Warm(NamedTuple):
    """Compiled kernels.

    Attributes:
        folder: where they lie.
        files: how many there are.
        compiled: how many of them were not there before.
        damaged: how many were removed first.
        unlinked: why there is no library of them, if so: workers then need numba, and longer to start.
    """

    folder: str
    files: int
    compiled: int
    damaged: int
    unlinked: str


def warm_up(cache_dir: str) -> Warm:
    """Fill the folder of compiled kernels and seal it; files that are damaged are made again.

    Args:
        cache_dir: the setting of that name.

    Raises:
        RunDirError: the folder could be changed by others, or cannot be written to.
        DirectoryFullError: it has no room for the kernels.
        WorkerError: the kernels cannot be compiled; says why.
    """
    folder = kernel_cache.prepare(cache_dir)
    with refusing(folder):
        damaged = len(kernel_cache.drop_damaged(folder))
    before = kernel_cache.count(folder)
    code, reason = _run(_LOADING, folder)
    if met_broken_kernels(code):  # one that was damaged before it was sealed
        damaged += before
        kernel_cache.clear(folder)
        before, (code, reason) = 0, _run(_LOADING, folder)
    if code == NO_ROOM_FOR_KERNELS:
        raise DirectoryFullError(folder, reason, room(folder))
    if code:
        raise WorkerError("the kernels in {} cannot be compiled: {}".format(folder, reason))
    unlinked = _link(folder)
    with refusing(folder):
        kernel_cache.seal(folder)
    files = kernel_cache.count(folder)
    return Warm(folder, files, files - before, damaged, unlinked)


def _link(folder: str) -> str:
    """Have the library made, unless it is there; returns why not, if so."""
    if kernel_cache.library(folder, {}) or not kernel_cache.may_link(child_environment()):
        return ""
    code, reason = _run((*_LINKING, os.path.join(folder, kernel_cache.library_name())), folder)
    return reason if code else ""


def _run(command: Sequence[str], folder: str) -> Tuple[int, str]:
    """Run a process whose kernels lie in ``folder``; its exit code or, below 0, its signal, and its last line."""
    environment = {**child_environment(), "NUMBA_CACHE_DIR": folder, "PYTHONFAULTHANDLER": "1"}
    try:
        done = subprocess.run(command, env=environment, cwd="/", stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return 1, "it takes more than {:g} s".format(_TIMEOUT_S)
    said = done.stderr.decode("utf-8", "replace").strip()
    return done.returncode, (said.splitlines() or ["no reason was given"])[-1]
