"""Threads that wait in an event loop of gloo's do not interrupt others; all other threads stay as they are."""
import contextlib
import os
import select
import socket
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
        wait_until(lambda: numbers and gloo_loops._system_call(numbers[0])[0] not in ("", "running"),
                   what="the wait")
        yield numbers[0]
    finally:
        wake()
        thread.join()


def pair(stack):
    """Two connected local sockets, as asyncio wakes its loop by them."""
    return [stack.enter_context(end) for end in socket.socketpair()]


def connection(stack):
    """Two ends of a TCP connection on this machine."""
    listener = stack.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    first = stack.enter_context(socket.create_connection(listener.getsockname()))
    return first, stack.enter_context(listener.accept()[0])


def pipe(stack):
    """The ends of a pipe."""
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    return ends


WATCHED = {"gloo": (["connection", "pipe"], True), "connections alone": (["connection", "connection"], False),
           "pipes": (["pipe", "pipe"], False), "asyncio": (["connection", "pair"], False),
           "a pipe": (["pipe"], False)}


@pytest.mark.skipif(gloo_loops._system_call(os.getpid()) == [""], reason="the kernel does not tell")
@pytest.mark.parametrize("kind", WATCHED)
def test_loops_of_gloo_become_batch_threads_and_others_do_not(kind):
    names, is_gloo = WATCHED[kind]
    done = threading.Event()
    with contextlib.ExitStack() as stack:
        watched = stack.enter_context(select.epoll())
        for name in names:
            ends = {"connection": connection, "pipe": pipe, "pair": pair}[name](stack)
            watched.register(ends[0], select.EPOLLIN)
        wakes = ends[1]
        wake = (lambda: os.write(wakes, b"1")) if isinstance(wakes, int) else (lambda: wakes.send(b"1"))
        with thread_in(lambda: watched.poll(30), wake) as loop, thread_in(lambda: done.wait(30), done.set) as sleeper:
            gloo_loops.make_loops_batch(others={loop})  # it was there before Horovod
            assert os.sched_getscheduler(loop) == os.SCHED_OTHER
            found = gloo_loops.make_loops_batch()
            assert os.sched_getscheduler(loop) == (os.SCHED_BATCH if is_gloo else os.SCHED_OTHER)
            assert found >= is_gloo
            assert {os.sched_getscheduler(thread) for thread in (0, sleeper)} == {os.SCHED_OTHER}
