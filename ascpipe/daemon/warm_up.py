"""Compiles what workers compile, before the first one needs it."""
import subprocess
import sys
from typing import NamedTuple, Optional

from ascpipe.control.launch import child_environment
from ascpipe.daemon import kernel_cache, kernel_seal
from ascpipe.daemon.supervisor import met_broken_cache
from ascpipe.errors import WorkerError

_WORKERS = "import ascpipe.workers.key_worker, ascpipe.workers.table_worker"
_TIMEOUT_S = 600.0


class Warm(NamedTuple):
    """Compiled kernels.

    Attributes:
        folder: where they lie.
        files: how many there are.
        compiled: how many of them were not there before.
        damaged: how many were removed first.
    """

    folder: str
    files: int
    compiled: int
    damaged: int


def warm_up(cache_dir: str) -> Warm:
    """Fill the folder of compiled kernels and seal it; files that are damaged are made again.

    Args:
        cache_dir: the setting of that name.

    Raises:
        RunDirError: the folder is not ours alone.
        WorkerError: the kernels cannot be compiled; says why.
    """
    folder = kernel_cache.prepare(cache_dir)
    damaged = len(kernel_seal.drop_damaged(folder))
    before = kernel_seal.count(folder)
    said = _load(folder)
    if said is not None and met_broken_cache(said):  # one that was damaged before it was sealed
        damaged += before
        kernel_cache.clear(folder)
        before, said = 0, _load(folder)
    if said is not None:
        raise WorkerError("the kernels in {} cannot be compiled: {}".format(
            folder, (said.strip().splitlines() or ["no reason was given"])[-1]))
    kernel_seal.seal(folder)
    files = kernel_seal.count(folder)
    return Warm(folder, files, files - before, damaged)


def _load(folder: str) -> Optional[str]:
    """Have a process load the kernels; None, or what it wrote when it failed."""
    environment = {**child_environment(), "NUMBA_CACHE_DIR": folder, "PYTHONFAULTHANDLER": "1"}
    try:
        done = subprocess.run([sys.executable, "-c", _WORKERS], env=environment, cwd="/", stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return "it takes more than {:g} s".format(_TIMEOUT_S)
    return None if done.returncode == 0 else done.stderr.decode("utf-8", "replace")
