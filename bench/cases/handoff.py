"""One batch of ids from this process to another: the ring's way, and two common ones.

The other process (``bench.handoff_peer``) looks at one id per page of each batch and acknowledges; a call hands over
``BATCHES`` of them, as fast as the other side takes them, and ends with the last acknowledgement.
"""
import contextlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
from typing import Callable, Iterator

import numpy as np

from bench import workloads
from bench.harness import Case, Contenders

BATCHES = 32
SIZES = {"batch-1.7MB": workloads.BATCH_IDS, "batch-16KB": 2048}  #: ids of a batch

_ZMQ, _QUEUE = "ZeroMQ PUSH/PULL, ipc, copy=False", "multiprocessing.Queue"


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    ids = workloads.batches("zipf-1.05", keys=10 ** 6, count=4, ids=SIZES[variant])
    with contextlib.ExitStack() as stack:
        yield Contenders(BATCHES, {
            "ring in shared memory": stack.enter_context(_ring(ids)),
            _ZMQ: stack.enter_context(_zmq(ids)),
            _QUEUE: stack.enter_context(_queue(ids)),
        })


def _expect(answer: int, ids: np.ndarray) -> None:
    wanted = workloads.checksum(ids[(BATCHES - 1) % len(ids)])
    if answer != wanted:
        raise RuntimeError("the other process saw {}, not {}".format(answer, wanted))


# ---- ring ------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def _ring(ids: np.ndarray) -> Iterator[Callable[[], object]]:
    from bench.handoff_ring import Producer

    with Producer(ids.shape[1]) as producer:
        with _peer("ring", *producer.descriptors(), pass_fds=producer.descriptors()[::2]):
            def call() -> None:
                for number in range(BATCHES):
                    producer.put(ids[number % len(ids)])
                _expect(producer.last_checksum(), ids)

            yield call


# ---- ZeroMQ ----------------------------------------------------------------------------------------------

@contextlib.contextmanager
def _zmq(ids: np.ndarray) -> Iterator[Callable[[], object]]:
    import zmq

    with tempfile.TemporaryDirectory(prefix="bench-") as folder, zmq.Context() as context:
        address = "ipc://{}/socket".format(folder)
        push, answers = context.socket(zmq.PUSH), context.socket(zmq.PULL)
        push.set_hwm(8)
        push.bind(address)
        answers.bind(address + "-answers")
        with push, answers, _peer("zmq", address):
            def call() -> None:
                for number in range(BATCHES):
                    push.send(ids[number % len(ids)], copy=False)
                _expect(int.from_bytes(answers.recv(), "little", signed=True), ids)

            yield call
            push.send(b"")  # ends the other side


# ---- multiprocessing -------------------------------------------------------------------------------------

@contextlib.contextmanager
def _queue(ids: np.ndarray) -> Iterator[Callable[[], object]]:
    from bench.handoff_peer import serve_queue

    spawn = multiprocessing.get_context("spawn")
    batches, answers = spawn.Queue(8), spawn.Queue()
    process = spawn.Process(target=serve_queue, args=(batches, answers, BATCHES))
    process.start()
    try:
        def call() -> None:
            for number in range(BATCHES):
                batches.put(ids[number % len(ids)])
            _expect(answers.get(), ids)

        yield call
        batches.put(None)
        process.join(30)
    finally:
        process.kill()
        process.join()
        for queue in (batches, answers):
            queue.close()
            queue.join_thread()


@contextlib.contextmanager
def _peer(role: str, *arguments: object, pass_fds: tuple = ()) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.handoff_peer", role, str(BATCHES)] + [str(value) for value in arguments]
    process = subprocess.Popen(command, pass_fds=pass_fds, cwd=os.path.dirname(os.path.dirname(os.path.dirname(
        os.path.abspath(__file__)))))
    try:
        yield
    finally:
        process.kill()
        process.wait()


CASE = Case("handoff", "batch", "one_producer_one_consumer", tuple(SIZES), prepare,
            "batches of ids from one process to another")
