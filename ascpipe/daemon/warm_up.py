"""Compiles the kernels of the workers ahead of their first start."""
import subprocess
import sys
from typing import Mapping, NamedTuple, Sequence, Tuple

from ascpipe.control.exec_worker import NO_ROOM_FOR_KERNELS
from ascpipe.control.launch import child_environment
from ascpipe.daemon import kernel_cache
from ascpipe.daemon.worker_ends import met_broken_kernels
from ascpipe.directories import refusing, room
from ascpipe.errors import DirectoryFullError, WorkerError

_LOADING = (sys.executable, "-m", "ascpipe.workers.loading")
_LINKING = (sys.executable, "-m", "ascpipe.kernels.linking")
_TIMEOUT_S = 600.0


class Warm(NamedTuple):
    """Compiled kernels.

    Attributes:
        folder: of the compiled kernels.
        library: path of the library that workers load; empty if there is none, and workers take numba's files.
        files: number of files of numba.
        is_new: whether something had to be compiled.
        damaged: how many files were removed first.
        unlinked: why there is no library, if so: workers then need numba, and longer to start.
    """

    folder: str
    library: str
    files: int
    is_new: bool
    damaged: int
    unlinked: str


def warm_up(cache_dir: str) -> Warm:
    """Compile the kernels that are missing or damaged, and seal them.

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
    environment = child_environment()
    library = kernel_cache.library(folder, environment)
    if library:
        return Warm(folder, library, kernel_cache.count(folder), False, damaged, "")
    kernel_cache.require_writable(folder)
    unlinked = _link(folder, environment)
    before = kernel_cache.count(folder)
    if unlinked:
        damaged += _compile_by_numba(folder)
    with refusing(folder):
        kernel_cache.seal(folder)
    library = kernel_cache.library(folder, environment)
    files = kernel_cache.count(folder)
    return Warm(folder, library, files, bool(library) or files > before, damaged, unlinked)


def _link(folder: str, environment: Mapping[str, str]) -> str:
    """Have the library made; returns why it is not there, if so."""
    if not kernel_cache.may_link(environment):
        return "kernels with bounds checks, or not compiled, are wanted"
    code, reason = _run((*_LINKING, folder, kernel_cache.level()), folder)
    return reason if code else ""


def _compile_by_numba(folder: str) -> int:
    """Fill numba's folder; returns how many files were removed first, because they were broken before they were sealed.
    """
    removed = 0
    code, reason = _run(_LOADING, folder)
    if met_broken_kernels(code):
        removed = kernel_cache.count(folder)
        kernel_cache.clear(folder)
        code, reason = _run(_LOADING, folder)
    if code == NO_ROOM_FOR_KERNELS:
        raise DirectoryFullError(folder, reason, room(folder))
    if code:
        raise WorkerError("the kernels in {} cannot be compiled: {}".format(folder, reason))
    return removed


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
