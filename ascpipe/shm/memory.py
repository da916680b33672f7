"""Functions that check the available memory, and choose the kind of shared memory.

There are four limits:

- the size of /dev/shm (64 MiB in a Docker container)
- the memory limits of the control groups of this process
- the available memory of the machine
- the address space of this process (``ulimit -v``)

All limits are checked before the first allocation, because the kernel kills a process that exceeds a control
group's limit.
"""
import os
import re
from typing import Iterator, List, NamedTuple, Optional, Tuple

from ascpipe.errors import OutOfSharedMemoryError
from ascpipe.shm import segment

MARGIN_BYTES = 16 << 20  #: number of bytes below each limit that are left free for other processes

_GIB = float(1 << 30)
_NO_LIMIT = 1 << 62  # cgroup v1 writes a number near 2**63 for "no limit"


class Places(NamedTuple):
    """Files in which the kernel reports the available memory. Tests use other files."""

    shm_dir: str = segment.SHM_DIR
    meminfo: str = "/proc/meminfo"
    own_groups: str = "/proc/self/cgroup"
    group_root: str = "/sys/fs/cgroup"
    own_limits: str = "/proc/self/limits"
    own_size: str = "/proc/self/statm"


class Room(NamedTuple):
    """Available memory under one limit.

    Attributes:
        free_bytes: bytes that can still be allocated.
        limit_bytes: value of the limit.
        text: phrase with both numbers, for an error message.
    """

    free_bytes: int
    limit_bytes: int
    text: str


def preflight(need_bytes: int, what: str, places: Places = Places()) -> bool:  # noqa: B008  (immutable)
    """Choose the kind of shared memory for segments whose total size is ``need_bytes``.

    Returns:
        True if memfds must be used because /dev/shm is too small. False for POSIX shared memory.

    Raises:
        OutOfSharedMemoryError: neither kind of memory has enough bytes.
    """
    require(need_bytes, what, places=places)
    return needs_memfd(need_bytes, places)


def needs_memfd(need_bytes: int, places: Places = Places()) -> bool:  # noqa: B008  (immutable)
    """Return True if /dev/shm is too small for ``need_bytes``."""
    return shm_room(places.shm_dir).free_bytes < need_bytes + MARGIN_BYTES


def require(need_bytes: int, what: str, *, shm_counts: bool = False,
            places: Places = Places()) -> None:  # noqa: B008  (immutable)
    """Raise ``OutOfSharedMemoryError`` if a limit leaves less than ``need_bytes`` of memory.

    Args:
        what: purpose of the memory, for the error message.
        shm_counts: whether the memory is in /dev/shm, whose size is then a limit.

    Raises:
        OutOfSharedMemoryError: a limit is too low. The message contains all limits.
    """
    shm = shm_room(places.shm_dir)
    limits = _limits(places)
    binding = limits + ([shm] if shm_counts else [])
    if any(room.free_bytes < need_bytes + MARGIN_BYTES for room in binding):
        raise OutOfSharedMemoryError(what, need_bytes, ", ".join(room.text for room in [shm] + limits))


def limit_bytes(places: Places = Places()) -> int:  # noqa: B008  (immutable)
    """Return the lowest memory limit in bytes. Limits of the machine, the control groups and this process are compared.
    """
    return min([room.limit_bytes for room in _limits(places)] + [_NO_LIMIT])


def limits_text(places: Places = Places()) -> str:  # noqa: B008  (immutable)
    """Return the free memory under each limit except /dev/shm, as a string for an error message."""
    return ", ".join(room.text for room in _limits(places)) or "no limit is known"


def process_room(places: Places) -> Optional[Room]:
    """Return the free address space of this process, or None if the address space is not limited."""
    limit = re.search(r"^Max address space +(\d+) ", _read(places.own_limits) or "", re.MULTILINE)
    used = re.match(r"\d+", _read(places.own_size) or "")
    if limit is None or used is None:
        return None
    most = int(limit.group(1))
    mapped = int(used.group()) * os.sysconf("SC_PAGE_SIZE")
    return Room(max(0, most - mapped), most, "the address space of this process is limited to {:.2f} GiB (ulimit -v), "
                                             "used {:.2f} GiB".format(most / _GIB, mapped / _GIB))


def shm_room(shm_dir: str) -> Room:
    """Return the available memory in /dev/shm. The result is 0 bytes if /dev/shm is missing or not writable."""
    try:
        status = os.statvfs(shm_dir)
    except OSError as error:
        return Room(0, 0, "{}: {}".format(shm_dir, error.strerror))
    if not os.access(shm_dir, os.W_OK | os.X_OK):  # /dev/shm is mounted read-only, or there is no permission
        return Room(0, 0, "{} is not writable".format(shm_dir))
    free = status.f_bavail * status.f_frsize
    total = status.f_blocks * status.f_frsize
    return Room(free, total, "{} has {:.2f} of {:.2f} GiB free".format(shm_dir, free / _GIB, total / _GIB))


def machine_room(meminfo: str) -> Optional[Room]:
    """Return the available memory of the machine, including the page cache."""
    fields = dict(re.findall(r"^(\w+): +(\d+) kB$", _read(meminfo) or "", re.MULTILINE))
    if "MemAvailable" not in fields:
        return None
    free, total = (1024 * int(fields.get(name, fields["MemAvailable"])) for name in ("MemAvailable", "MemTotal"))
    return Room(free, total, "the machine has {:.2f} GiB available".format(free / _GIB))


def group_rooms(places: Places) -> List[Optional[Room]]:
    """Return the available memory under the limits of this process's control groups (v1 and v2) and of the groups'
    parents.
    """
    return [_group_room(directory, ("memory.max", "memory.current") if unified else
                        ("memory.limit_in_bytes", "memory.usage_in_bytes"))
            for unified, directories in _groups(places) for directory in directories]


def oom_kills(places: Places = Places()) -> Optional[int]:  # noqa: B008  (immutable)
    """Return the number of OOM kills in the control group of this process, or None if the number is unknown."""
    told = None
    for unified, directories in _groups(places):
        counters = "memory.events" if unified else "memory.oom_control"
        texts = [text for text in (_read("{}/{}".format(directory, counters)) for directory in directories) if text]
        found = re.search(r"^oom_kill (\d+)$", texts[0], re.MULTILINE) if texts else None
        told = told if found is None else (told or 0) + int(found.group(1))
    return told


def _groups(places: Places) -> Iterator[Tuple[bool, List[str]]]:
    """Yield (whether the group belongs to cgroup v2, directories of the group and its parents) for each control group
    that may limit this process.
    """
    for line in (_read(places.own_groups) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            for root in (places.group_root, places.group_root + "/unified"):
                yield True, _with_parents(root, path)
        elif "memory" in controllers.split(","):
            yield False, _with_parents(places.group_root + "/memory", path)


def _limits(places: Places) -> List[Room]:
    return [room for room in [*group_rooms(places), machine_room(places.meminfo), process_room(places)]
            if room is not None]


def _with_parents(root: str, path: str) -> List[str]:
    """Return the directories of a control group and its parents.

    In a container, often only the root exists, which is then the group of this process.
    """
    parts = [part for part in path.split("/") if part and part != ".."]
    return ["/".join([root] + parts[:n]) for n in range(len(parts), -1, -1)]


def _group_room(directory: str, names: Tuple[str, str]) -> Optional[Room]:
    limit_text, used_text = (_read("{}/{}".format(directory, name)) for name in names)
    if not limit_text or not used_text or limit_text.strip() == "max":
        return None
    limit = int(limit_text)
    used = int(used_text)
    if limit >= _NO_LIMIT:
        return None
    used = max(0, used - _reclaimable(directory))
    return Room(limit - used, limit, "the memory limit of the control group is {:.2f} GiB, used {:.2f} GiB ({})".format(
        limit / _GIB, used / _GIB, directory))


def _reclaimable(directory: str) -> int:
    stat = _read(directory + "/memory.stat") or ""
    fields = dict(line.split() for line in stat.splitlines() if len(line.split()) == 2)
    return int(fields.get("total_inactive_file", fields.get("inactive_file", "0")))


def _read(path: str) -> Optional[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return None
