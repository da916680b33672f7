"""Bells in shared memory. A thread sleeps on its bell until another process publishes data and rings the bell.

A bell belongs to one waiting thread, its owner. A publisher rings the bell of each thread that may wait for the
change, *after* publishing with a full fence (``exchange``, ``compare_exchange``). The owner sets `waiting` with a full
fence before its last check. So either the publisher sees the new value of `waiting`, or the owner sees the change
(label ``bell``).

The futex is a separate word, which is incremented before the wake. A ring between the last check and the sleep ends the
sleep.

An owner that has finished many batches in advance *pauses*. It sleeps briefly to let work accumulate. A process that
publishes work does not wake a pausing owner (``ring_unless_pausing``). A process that waits for the owner wakes it
(``ring``).

Sleeping and waking need more time than many waits. So the owner spins before it sleeps, for up to twice the time of the
last wait. After a long wait, it does not spin. Threads thus stay awake while batches arrive in quick succession, and
sleep during a training step. A spinning owner yields between checks, so that it does not slow down busy threads.

The C++ version is ``tfops/src/core/bell.h``.
"""
import os
import time
from typing import Any, Callable

import numpy as np

from ascpipe.layout import bells, structs
from ascpipe.shm import syscalls

SLICE_S = bells.SLICE_MS / 1000  #: maximum default sleep between checks of `stop`
_GRACE_S = bells.GRACE_MS / 1000
_FUTEX = structs.BELL.fields["futex"][1] // 4
_WAITING = structs.BELL.fields["waiting"][1] // 4


def _bell_words(session: "np.ndarray[Any, Any]", index: int) -> "np.ndarray[Any, Any]":
    if not 0 <= index < structs.BELLS:
        raise IndexError("bell {} is outside [0, {})".format(index, structs.BELLS))
    start = structs.SESSION_BELLS_OFFSET + index * structs.BELL.itemsize
    return session[start:start + structs.BELL.itemsize].view(np.uint32)


def ring_plain(session: "np.ndarray[Any, Any]", index: int) -> None:
    """Ring a bell without compiled atomics, and without checking `waiting`. The supervisor uses this function.

    The kernel increments the word atomically, which is a full fence.
    """
    words = _bell_words(session, index)
    syscalls.futex_bump_and_wake(words.ctypes.data + 4 * _FUTEX)


def spin_after(waited_ns: int, most_ns: int) -> int:
    """Return the maximum spin time of the next wait, given the duration ``waited_ns`` of the last wait. The result is
    at most ``most_ns``.
    """
    return min(most_ns, max(2 * waited_ns, bells.LEAST_SPIN_NS)) if waited_ns <= most_ns else 0


class Bell:
    """Bell in a session segment. The owner of the bell calls ``wait``, ``pause`` and ``says``; other threads call
    ``ring``.

    Args:
        session_buffer: session segment, uint8[structs.SESSION_BYTES].
        index: ``structs.BELL_*``.
        spin_us: maximum time in microseconds that ``wait`` spins before it sleeps.
    """

    def __init__(self, session_buffer: "np.ndarray[Any, Any]", index: int, spin_us: int = 0) -> None:
        # the supervisor imports this module and must not load numba
        from ascpipe.kernels import atomics

        self._atomics = atomics
        self._words = _bell_words(session_buffer, index)
        self._fields = self._words.view(structs.BELL)[0]
        self.at = int(self._words.ctypes.data)  #: address of the BELL, for compiled code
        self._futex_address = self.at + 4 * _FUTEX
        self._spin_ns = self._most_spin_ns = spin_us * 1000

    def ring(self) -> None:
        """Wake the owner if it sleeps or pauses. The caller must publish its change with a full fence before this call.
        """
        if self._atomics.load_acquire_u32(self._words, _WAITING) != bells.AWAKE:  # SYNC bell: load
            self._wake()

    def ring_unless_pausing(self) -> None:
        """Wake the owner if it sleeps. A pausing owner is not woken, because it will soon check for work anyway."""
        if self._atomics.load_acquire_u32(self._words, _WAITING) == bells.ASLEEP:  # SYNC bell: load
            self._wake()

    def _wake(self) -> None:
        self._atomics.add_u32(self._words, _FUTEX, 1)
        syscalls.futex_wake(self._futex_address)

    def says(self, waits_for: int, table: int = -1, ticket: int = 0) -> None:
        """Store the reason why the owner waits (``words.WAIT_*``), a table number and a ticket. ``ascpipe status``
        shows these values.
        """
        self._fields["waits_table"] = table
        self._fields["waits_ticket"] = ticket
        self._fields["waits_for"] = waits_for

    def wait(self, ready: Callable[[], bool], stop: Callable[[], bool], timeout_s: float,
             longest_slice_s: float = SLICE_S) -> bool:
        """Block until ``ready()`` or ``stop()`` returns True, or until the timeout.

        The functions are called often and must be fast. ``stop`` is called between sleeps. The first sleep
        lasts ``SLICE_S``. Each later sleep is twice as long, up to ``longest_slice_s``.

        Returns:
            The last result of ``ready()``.
        """
        if ready():
            return True
        deadline = time.monotonic() + timeout_s
        began = now = time.perf_counter_ns()
        while now - began < self._spin_ns:
            if ready():
                self._spin_ns = spin_after(now - began, self._most_spin_ns)
                return True
            os.sched_yield()
            now = time.perf_counter_ns()
        slice_s = SLICE_S
        while True:
            if stop():
                return ready()
            if self._sleep_once(ready, stop, max(0.0, min(slice_s, deadline - time.monotonic()))):
                self._spin_ns = spin_after(self._woken - began, self._most_spin_ns)
                return True
            self._spin_ns = 0
            slice_s = min(2 * slice_s, longest_slice_s)
            if time.monotonic() >= deadline:
                return ready()

    def _sleep_once(self, ready: Callable[[], bool], stop: Callable[[], bool], longest_s: float) -> bool:
        words = self._words
        load = self._atomics.load_acquire_u32
        self._atomics.exchange_u32(words, _WAITING, bells.ASLEEP)  # SYNC bell: store
        self._woken = time.perf_counter_ns()
        try:
            seen = load(words, _FUTEX)
            if ready():
                return True
            if stop():
                return False
            self._fields["sleeps"] += 1
            woken = syscalls.futex_wait(self._futex_address, seen, longest_s)
            self._woken = time.perf_counter_ns()  # read before `ready`, which may perform the work
            if not ready():
                return False
            if not woken and load(words, _FUTEX) == seen:
                # This is a lost wake-up, unless the publisher is about to ring.
                syscalls.futex_wait(self._futex_address, seen, _GRACE_S)
                if load(words, _FUTEX) == seen:
                    self._fields["late"] += 1
            return True
        finally:
            words[_WAITING] = bells.AWAKE

    def pause(self, look: Callable[[], float]) -> bool:
        """Call ``look``, then sleep for the number of seconds that ``look`` returns.

        A process that waits for the owner rings the bell and so ends the sleep. A ring during ``look`` prevents it.

        Returns:
            False if ``look`` returned 0, because there is no reason to pause.
        """
        seen = self._atomics.load_acquire_u32(self._words, _FUTEX)
        self._atomics.exchange_u32(self._words, _WAITING, bells.PAUSING)  # SYNC bell: store
        try:
            seconds = look()
            if seconds > 0:
                syscalls.futex_wait(self._futex_address, seen, seconds)
            return seconds > 0
        finally:
            self._words[_WAITING] = bells.AWAKE
