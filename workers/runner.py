"""What all workers share: the channel to the supervisor, the mapped segments, the loop.

A worker starts idle.  The supervisor sends ``attach`` with the descriptors of the segments; from then on
the worker does what is ready and sleeps on its bell.  The end of the channel means that the supervisor is
gone: the worker exits at once, it owns nothing.
"""
import select
import socket
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import click
import numpy as np

from ascpipe.control import fdsocket
from ascpipe.errors import ConnectionClosedError
from ascpipe.shm import layout, segment
from ascpipe.shm.bell import Bell
from ascpipe.shm.ring import RingView, TableView

_IDLE_S = 1e9  # an idle worker waits for its supervisor's word, or its end, as long as it takes


class Worker(NamedTuple):
    """Who this process is.

    Attributes:
        number: among the workers of its kind.
        generation: unique per process start, at least 1; marks the frames a key worker has claimed.
    """

    number: int
    generation: int


class Attachment:
    """The segments of one trainer, mapped.

    Attributes:
        session: uint8[], the session segment.
        rings: the ring of each stream, in the order of ``streams``.
        streams: {"stream", "channel", "tables"} of each.
        tables: table number -> its segment.
        workers: table number -> index of the table worker that serves it.
        restart: an earlier worker in this place died.
        spin_us: microseconds to spin before a bell sleeps.
    """

    def __init__(self, body: Dict[str, Any], fds: List[int]) -> None:
        sizes = [body["session_bytes"]] + [s["bytes"] for s in body["streams"]] + [t["bytes"] for t in body["tables"]]
        memory = [segment.map(fd, size) for fd, size in zip(fds, sizes)]
        streams = len(body["streams"])
        self.session: np.ndarray = memory[0]
        self.streams: List[Dict[str, Any]] = body["streams"]
        self.rings = [RingView(part) for part in memory[1:1 + streams]]
        self.tables = {t["table"]: TableView(part, fd) for t, part, fd in zip(
            body["tables"], memory[1 + streams:], fds[1 + streams:])}
        self.workers = {t["table"]: t["worker"] for t in body["tables"]}
        self.restart = bool(body["restart"])
        self.spin_us = int(body["spin_us"])

    def bell(self, index: int) -> Bell:
        """Bell ``index`` of the session."""
        return Bell(self.session, index, self.spin_us)

    def bells_of_tables(self, numbers: List[int]) -> List[Bell]:
        """The bells of the workers that serve these tables, each once."""
        return [self.bell(layout.BELL_TABLE_WORKERS + worker)
                for worker in sorted({self.workers[number] for number in numbers})]


def run(worker: Worker, channel: socket.socket, bell_index: int,
        make_step: Callable[[Worker, Attachment], Callable[[], int]]) -> None:
    """Wait for ``attach``, then step until the supervisor says ``stop`` or is gone.

    Args:
        worker: who we are.
        channel: unix stream socket to the supervisor.
        bell_index: this worker's bell.
        make_step: builds the step from the mapped segments; a step does what is ready, returns how much
            that was, and never blocks.
    """
    body, fds = _receive_attach(channel)
    attachment = Attachment(body, fds)
    bell = attachment.bell(bell_index)
    step = make_step(worker, attachment)
    fdsocket.send(channel, {"verb": "attached"})
    poller = select.poll()
    poller.register(channel, select.POLLIN)

    def is_over() -> bool:
        return bool(poller.poll(0))

    while not is_over():
        while step():
            pass
        bell.says(layout.WAIT_BATCH)
        bell.wait(lambda: step() > 0, is_over, _IDLE_S)


def _receive_attach(channel: socket.socket) -> Tuple[Dict[str, Any], List[int]]:
    body, fds = fdsocket.receive(channel, _IDLE_S)
    if body["verb"] != "attach":
        sys.exit(0)
    return body, fds


def command(name: str, bell_base: int, make_step: Callable[[Worker, Attachment], Callable[[], int]]) -> click.Command:
    """The command line of a worker module: ``--channel FD --index I --generation G``."""

    @click.command(name)
    @click.option("--channel", type=int, required=True, help="Descriptor of the socket to the supervisor.")
    @click.option("--index", type=int, required=True, help="Number among the workers of this kind.")
    @click.option("--generation", type=int, required=True, help="Unique number of this process start.")
    def main(channel: int, index: int, generation: int) -> None:
        with socket.socket(fileno=channel) as supervisor:
            try:
                run(Worker(index, generation), supervisor, bell_base + index, make_step)
            except ConnectionClosedError:
                sys.exit(0)  # the supervisor is gone; nothing here is ours to clean

    return main
