"""Circumstances that are recorded with every number: machine, commit, versions, command and date."""
import contextlib
import ctypes
import datetime
import os
import platform
import subprocess
import sys
import warnings
from typing import Any, Dict

#: packages whose versions are recorded with every result
VERSIONS_OF = ("numpy", "numba", "tensorflow", "msgpack")

# Parameter numbers of glibc's mallopt, from malloc.h
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_MAX = -4


def now() -> Dict[str, Any]:
    """Return machine, commit, versions, command and date."""
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC"),
            "command": " ".join(["python", "-m", "bench"] + sys.argv[1:]), "commit": commit(), "versions": versions(),
            "machine": machine()}


def machine() -> Dict[str, Any]:
    """Return the processor, the number of cores of this process, the memory in bytes, the kernel, and the load average
    of the last minute.
    """
    pages = os.sysconf("SC_PHYS_PAGES")
    page = os.sysconf("SC_PAGE_SIZE")
    return {"processor": _processor(), "cores": len(os.sched_getaffinity(0)), "memory_bytes": pages * page,
            "kernel": platform.release(), "load": os.getloadavg()[0]}


def _processor() -> str:
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()


def commit() -> str:
    """Return the commit of the tree. A ``+`` is appended if files differ from the commit. The result is "unknown"
    outside a repository.
    """
    folder = os.path.dirname(os.path.abspath(__file__))
    try:
        done = subprocess.run(["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"], cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, timeout=10, text=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def versions() -> Dict[str, str]:
    """Return the version of Python, and of each installed package of ``VERSIONS_OF``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this Python does not have the successor of the module
        import pkg_resources  # type: ignore[import]

    found = {"python": platform.python_version()}
    for package in VERSIONS_OF:
        with contextlib.suppress(pkg_resources.DistributionNotFound):
            found[package] = pkg_resources.get_distribution(package).version
    return found


def steady_malloc() -> bool:
    """Configure malloc to keep large blocks, so that the number of page faults does not vary. Return whether glibc
    accepted the settings.

    Outputs of 10 MB are near the mmap threshold. Without these settings, page faults cost up to 12 ms per training step
    on every side, depending on the history of the heap.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all(mallopt(parameter, value) == 1 for parameter, value in (
        (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2 ** 31 - 1), (_M_TOP_PAD, 256 << 20)))
