"""Scheduling policy for gloo's event loops, so that the loops do not preempt Horovod's threads.

A Horovod thread holds the lock of a connection while it writes a message. If both ranks run on one machine, the write
wakes the event loop of the reading rank, which often preempts the writer. The event loop of the writing rank then
spins, because it needs the same lock. With as many processors as ranks, this spinning took a quarter of the step time.
With the policy SCHED_BATCH, a thread does not preempt other threads when it wakes (docs/internals/adr/0043). Setting
this policy needs no privileges.
"""
import os
import platform
import time
from typing import Collection, List, Sequence, Set

#: System call numbers of epoll_wait and epoll_pwait.
_WAITS = {"x86_64": {"232", "281"}, "aarch64": {"22"}}.get(platform.machine(), set())
_LOOKS = 3
_BETWEEN_S = 0.004  # pause after which an event loop that was running waits again


def threads() -> Set[int]:
    """Return the kernel ids of the threads of this process."""
    return {int(thread) for thread in os.listdir("/proc/self/task")}


def make_loops_batch(others: Collection[int] = ()) -> int:
    """Set the policy SCHED_BATCH for gloo's event loops in this process.

    Return the number of loops that have the policy afterwards. A loop of gloo waits in ``epoll_wait`` for TCP
    connections and one pipe. The loops of asyncio, gRPC and ZeroMQ use a local socket or an ``eventfd`` instead of the
    pipe. Do nothing if the kernel does not show the system calls of threads.

    Args:
        others: threads that existed before Horovod started. They do not belong to gloo.
    """
    found: Set[int] = set()
    for look in range(_LOOKS):
        if look:
            time.sleep(_BETWEEN_S)
        found |= _loops()
    return sum(_is_batch_now(thread) for thread in found.difference(others))


def _loops() -> Set[int]:
    waiting = {thread: _watched_by(thread) for thread in threads()}
    connections = {"socket:[{}]".format(inode) for inode in _connections()} if any(waiting.values()) else set()
    return {thread for thread, watched in waiting.items() if _is_of_gloo(watched, connections)}


def _is_of_gloo(watched: Sequence[str], connections: Collection[str]) -> bool:
    """Return whether a thread is a gloo loop, given the files for which the thread waits.

    Args:
        watched: names of the files, which are targets of symbolic links in ``/proc/self/fd``.
        connections: names of all TCP sockets.
    """
    others = [name for name in watched if name not in connections]
    return len(watched) > 1 and len(others) == 1 and others[0].startswith("pipe:")


def _watched_by(thread: int) -> List[str]:
    """Return the names of the files for which a thread waits in ``epoll_wait``.

    Return an empty list for other threads.
    """
    number, *arguments = _system_call(thread)
    if number not in _WAITS or not arguments:
        return []
    try:
        with open("/proc/self/fdinfo/{}".format(int(arguments[0], 16))) as file:
            targets = [line.split()[1] for line in file if line.startswith("tfd:")]
        return [os.readlink("/proc/self/fd/{}".format(target)) for target in targets]
    except OSError:  # the file was closed
        return []


def _connections() -> List[str]:
    """Return the inodes of all TCP sockets of this process's network namespace."""
    found: List[str] = []
    for table in ("tcp", "tcp6"):
        try:
            with open("/proc/self/net/" + table) as file:
                found.extend(line.split()[9] for line in list(file)[1:])
        except OSError:  # no support for this version of IP
            continue
    return found


def _system_call(thread: int) -> List[str]:
    """Return the number and arguments of a thread's current system call, or a state such as "running"."""
    try:
        with open("/proc/self/task/{}/syscall".format(thread)) as file:
            return file.read().split() or [""]
    except OSError:  # the thread has ended, or the kernel does not show its system call
        return [""]


def _is_batch_now(thread: int) -> bool:
    try:
        if os.sched_getscheduler(thread) == os.SCHED_OTHER:
            os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
        return os.sched_getscheduler(thread) == os.SCHED_BATCH
    except OSError:  # the thread has ended
        return False
