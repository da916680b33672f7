"""Function ``warm_up``, which compiles the kernels of workers before the first start of a worker."""
import subprocess
import sys
from typing import Mapping, NamedTuple, Sequence, Tuple

from ascpipe.control.exec_worker import NO_ROOM_FOR_KERNELS
from ascpipe.control.launch import child_environment
from ascpipe.daemon import kernel_cache
from ascpipe.daemon.worker_ends import ended_by_broken_kernels
from ascpipe.directories import refusing, room
from ascpipe.errors import DirectoryFullError, WorkerError

_LOADING = (sys.executable, "-m", "ascpipe.workers.loading")
_LINKING = (sys.executable, "-m", "ascpipe.kernels.linking")
_TIMEOUT_S = 600.0


class Warm(NamedTuple):
    """Result of a warm-up.

    Attributes:
        folder: directory of the compiled kernels.
        library: path of the library that workers load, or an empty string if they load numba's files.
        files: number of files written by numba.
        is_new: whether kernels were compiled.
        damaged: number of damaged files that were removed first.
        unlinked: reason why there is no library, or an empty string. Without a library, workers need numba and
            start slowly.
    """

    folder: str
    library: str
    files: int
    is_new: bool
    damaged: int
    unlinked: str


def warm_up(cache_dir: str) -> Warm:
    """Compile missing or damaged kernels, and record the digests of the kernels. ``cache_dir`` is the value of the
    setting ``cache_dir``.

    Raises:
        RunDirError: other users could change the directory, or the directory is not writable.
        DirectoryFullError: the file system has no space for the kernels.
        WorkerError: the kernels cannot be compiled.
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
    """Build the library. Return the reason if the library cannot be built, and an empty string otherwise."""
    if not kernel_cache.may_link(environment):
        return "kernels with bounds checks, or without compilation, are requested"
    code, reason = _run((*_LINKING, folder, kernel_cache.level()), folder)
    return reason if code else ""


def _compile_by_numba(folder: str) -> int:
    """Compile the kernels with numba, and return the number of removed files.

    If damaged kernel files crash the process, all kernel files are removed, and the kernels are compiled again.
    """
    removed = 0
    code, reason = _run(_LOADING, folder)
    if ended_by_broken_kernels(code):
        removed = kernel_cache.count(folder)
        kernel_cache.clear(folder)
        code, reason = _run(_LOADING, folder)
    if code == NO_ROOM_FOR_KERNELS:
        raise DirectoryFullError(folder, reason, room(folder))
    if code:
        raise WorkerError("the kernels in {} cannot be compiled: {}".format(folder, reason))
    return removed


def _run(command: Sequence[str], folder: str) -> Tuple[int, str]:
    """Run a command that loads or compiles the kernels in ``folder``. Return (exit code or negative signal number, last
    line of stderr).
    """
    environment = {**child_environment(), "NUMBA_CACHE_DIR": folder, "PYTHONFAULTHANDLER": "1"}
    try:
        done = subprocess.run(command, env=environment, cwd="/", stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return 1, "it takes more than {:g} s".format(_TIMEOUT_S)
    said = done.stderr.decode("utf-8", "replace").strip()
    return done.returncode, (said.splitlines() or ["no reason was given"])[-1]
