"""Collects what is recorded beside every number: machine, commit, versions, command and date."""
import contextlib
import ctypes
import datetime
import os
import platform
import subprocess
import sys
import warnings
from typing import Any, Dict

#: packages whose versions are written down with every result
VERSIONS_OF = ("numpy", "numba", "tensorflow", "msgpack")

# glibc's mallopt: parameter numbers of malloc.h
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_MAX = -4


def now() -> Dict[str, Any]:
    """Machine, commit, versions, command and date."""
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC"),
            "command": " ".join(["python", "-m", "bench"] + sys.argv[1:]), "commit": commit(), "versions": versions(),
            "machine": machine()}


def machine() -> Dict[str, Any]:
    """Processor, cores this process may use, memory in bytes, kernel, load average of the last minute."""
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
    """The commit of the tree, with ``+`` when files differ from it; "unknown" outside a repository."""
    folder = os.path.dirname(os.path.abspath(__file__))
    try:
        done = subprocess.run(["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"], cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, timeout=10, text=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def versions() -> Dict[str, str]:
    """Python's, and that of each package of ``VERSIONS_OF`` that is installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its successor is newer than this Python
        import pkg_resources  # type: ignore[import]

    found = {"python": platform.python_version()}
    for package in VERSIONS_OF:
        with contextlib.suppress(pkg_resources.DistributionNotFound):
            found[package] = pkg_resources.get_distribution(package).version
    return found


def steady_malloc() -> bool:
    """Have malloc keep large blocks, so that page faults do not come and go; whether glibc agreed.

    Outputs of 10 MB cross its mmap threshold: up to 12 ms of page faults per training step, on every side, depending
    on the history of the heap.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all(mallopt(parameter, value) == 1 for parameter, value in (
        (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2 ** 31 - 1), (_M_TOP_PAD, 256 << 20)))
