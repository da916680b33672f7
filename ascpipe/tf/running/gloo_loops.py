"""Lets gloo's event loops of this process not interrupt those whose messages they read.

A thread of Horovod's that writes a message holds the lock of its connection. On one machine the write wakes the loop of
the rank that reads it, which then often takes the writer's processor; the writer's own loop, in need of the same lock,
turns round without a pause until it gets that. With as many processors as ranks this took a quarter of a step. A thread
of the policy SCHED_BATCH does not interrupt others when it wakes, and needs no rights (docs/internals/adr/0043).
"""
import os
import platform
import time
from typing import Set

#: Numbers of epoll_wait and epoll_pwait.
_WAITS = {"x86_64": {"232", "281"}, "aarch64": {"22"}}.get(platform.machine(), set())
_LOOKS = 3
_BETWEEN_S = 0.004  # a loop that has just woken waits again


def make_loops_batch() -> int:
    """Give threads of this process that wait in an event loop the policy SCHED_BATCH; how many have it now.

    Those that wait there while nothing is exchanged are gloo's, or such as do not mind. Does nothing where the kernel
    does not tell what threads wait for.
    """
    found: Set[int] = set()
    for look in range(_LOOKS):
        if look:
            time.sleep(_BETWEEN_S)
        found |= _in_event_loops()
    return sum(_is_batch_now(thread) for thread in found)


def _in_event_loops() -> Set[int]:
    """Threads of this process that wait for events of files."""
    return {int(thread) for thread in os.listdir("/proc/self/task") if _system_call(thread) in _WAITS}


def _system_call(thread: str) -> str:
    """The number of the system call that a thread is in; "running", and other words, where it is in none."""
    try:
        with open("/proc/self/task/{}/syscall".format(thread)) as file:
            return file.read().partition(" ")[0].strip()
    except OSError:  # it has ended, or the kernel does not tell
        return ""


def _is_batch_now(thread: int) -> bool:
    try:
        if os.sched_getscheduler(thread) == os.SCHED_OTHER:
            os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
        return os.sched_getscheduler(thread) == os.SCHED_BATCH
    except OSError:  # it has ended
        return False
