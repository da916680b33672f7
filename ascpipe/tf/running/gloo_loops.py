"""Lets gloo's event loops of this process not interrupt those whose messages they read.

A thread of Horovod's that writes a message holds the lock of its connection. On one machine the write wakes the loop of
the rank that reads it, which then often takes the writer's processor; the writer's own loop, in need of the same lock,
turns round without a pause until it gets that. With as many processors as ranks this took a quarter of a step. A thread
of the policy SCHED_BATCH does not interrupt others when it wakes, and needs no rights (docs/internals/adr/0043).
"""
import os
import platform
import time
from typing import Collection, List, Sequence, Set

#: Numbers of epoll_wait and epoll_pwait.
_WAITS = {"x86_64": {"232", "281"}, "aarch64": {"22"}}.get(platform.machine(), set())
_LOOKS = 3
_BETWEEN_S = 0.004  # a loop that has just woken waits again


def threads() -> Set[int]:
    """Threads of this process, by the numbers that the kernel gives them."""
    return {int(thread) for thread in os.listdir("/proc/self/task")}


def make_loops_batch(others: Collection[int] = ()) -> int:
    """Give gloo's event loops in this process the policy SCHED_BATCH; how many have it now.

    A loop of gloo's waits in ``epoll_wait`` for TCP connections and one pipe. Loops of others, such as asyncio, gRPC
    and ZeroMQ, are woken by a local socket or an ``eventfd``, and stay as they are. Does nothing where the kernel does
    not tell what threads wait for.

    Args:
        others: threads that cannot be gloo's, as they were there before Horovod was started.
    """
    found: Set[int] = set()
    for look in range(_LOOKS):
        if look:
            time.sleep(_BETWEEN_S)
        found |= _loops()
    return sum(_is_batch_now(thread) for thread in found.difference(others))


def _loops() -> Set[int]:
    """Threads of this process that wait in a loop of gloo's."""
    waiting = {thread: _watched_by(thread) for thread in threads()}
    connections = {"socket:[{}]".format(inode) for inode in _connections()} if any(waiting.values()) else set()
    return {thread for thread, watched in waiting.items() if _is_of_gloo(watched, connections)}


def _is_of_gloo(watched: Sequence[str], connections: Collection[str]) -> bool:
    """Whether files are those that a loop of gloo's watches: connections and one pipe.

    Args:
        watched: names of the files, as of links in ``/proc/self/fd``.
        connections: names of all TCP sockets.
    """
    others = [name for name in watched if name not in connections]
    return len(watched) > 1 and len(others) == 1 and others[0].startswith("pipe:")


def _watched_by(thread: int) -> List[str]:
    """Names of the files that a thread waits for in an event loop; none if it waits for something else."""
    number, *arguments = _system_call(thread)
    if number not in _WAITS or not arguments:
        return []
    try:
        with open("/proc/self/fdinfo/{}".format(int(arguments[0], 16))) as file:
            targets = [line.split()[1] for line in file if line.startswith("tfd:")]
        return [os.readlink("/proc/self/fd/{}".format(target)) for target in targets]
    except OSError:  # it was closed
        return []


def _connections() -> List[str]:
    """Inodes of TCP sockets, of this machine."""
    found: List[str] = []
    for table in ("tcp", "tcp6"):
        try:
            with open("/proc/self/net/" + table) as file:
                found.extend(line.split()[9] for line in list(file)[1:])
        except OSError:  # without that version of IP
            continue
    return found


def _system_call(thread: int) -> List[str]:
    """The system call that a thread is in, with its arguments; "running", and other words, where it is in none."""
    try:
        with open("/proc/self/task/{}/syscall".format(thread)) as file:
            return file.read().split() or [""]
    except OSError:  # it has ended, or the kernel does not tell
        return [""]


def _is_batch_now(thread: int) -> bool:
    try:
        if os.sched_getscheduler(thread) == os.SCHED_OTHER:
            os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
        return os.sched_getscheduler(thread) == os.SCHED_BATCH
    except OSError:  # it has ended
        return False
