"""Threads that wait in an event loop do not interrupt others; all other threads stay as they are."""
import contextlib
import os
import select
import threading

import pytest

from ascpipe.tf.running import gloo_loops
from tests.support.waiting import wait_until


@contextlib.contextmanager
def thread_in(wait, wake):
    """The number of a thread of the kernel's that waits."""
    numbers = []

    def run():
        with open("/proc/thread-self/stat") as file:
            numbers.append(int(file.read().split()[0]))
        wait()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_until(lambda: numbers and gloo_loops._system_call(str(numbers[0])) not in ("", "running"), what="the wait")
        yield numbers[0]
    finally:
        wake()
        thread.join()


@pytest.mark.skipif(not gloo_loops._system_call(str(os.getpid())), reason="the kernel does not tell")
def test_event_loops_become_batch_threads_and_others_do_not():
    done, watched = threading.Event(), select.epoll()
    first, other = os.pipe()
    watched.register(first, select.EPOLLIN)
    with thread_in(lambda: watched.poll(30), lambda: os.write(other, b"1")) as loop:
        with thread_in(lambda: done.wait(30), done.set) as sleeper:
            assert gloo_loops.make_loops_batch() >= 1
            assert os.sched_getscheduler(loop) == os.SCHED_BATCH
            assert {os.sched_getscheduler(thread) for thread in (0, sleeper)} == {os.SCHED_OTHER}
    watched.close()
    for end in (first, other):
        os.close(end)
