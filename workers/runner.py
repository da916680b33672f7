"""Main loop of all workers. The loop reads the channel to the supervisor, maps segments and performs steps.

A worker sends ``loaded`` and waits until the supervisor sends ``attach`` with the descriptors of the segments. Then it
repeats steps, and sleeps on its bell if no work is ready. ``add_stream`` and ``add_table`` add segments later. The end
of file on the channel means that the supervisor has exited. The worker then exits immediately, because it owns no
resources.
"""
import functools
import os
import select
import socket
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import click
import numpy as np

from ascpipe.control import fdsocket
from ascpipe.control.process_title import set_process_title
from ascpipe.errors import ConnectionClosedError, WorkerError
from ascpipe.eviction_log import EvictionLog
from ascpipe.layout import bells, structs
from ascpipe.layout.words import WAIT_BATCH
from ascpipe.shm import segment
from ascpipe.shm.bell import Bell
from ascpipe.shm.ring import RingView, TableView
from ascpipe.shm.spans import SpanRing

_READ_S = 10.0  # timeout for the remaining bytes of a message that has begun to arrive
_IDLE_S = 1e9  # practically unlimited; the wait ends when the supervisor exits
# The supervisor rings the bell if a producer dies before it rings, so checks without a ring are rarely
# needed. They must be rare, because each check needs time per table.
_LONGEST_SLICE_S = bells.IDLE_SLICE_MS / 1000


class Worker(NamedTuple):
    """Identity of this process.

    Attributes:
        number: number among the workers of its kind.
        generation: unique number of this process start, at least 1. A key worker claims frames with this number.
    """

    number: int
    generation: int


class Work(NamedTuple):
    """Functions that the main loop of a worker calls.

    Attributes:
        step: function that performs ready actions without blocking, and returns their number.
        pause_s: function that returns the seconds for which the worker may pause, or 0.
    """

    step: Callable[[], int]
    pause_s: Callable[[], float]


class StreamView(NamedTuple):
    """A stream, and the mapped ring of the stream.

    Attributes:
        channel: TRAIN, EVAL or LOCAL.
        tables: numbers of the stream's tables, in the order of the ring's columns.
    """

    ring: RingView
    channel: int
    tables: List[int]


class Attachment:
    """Mapped segments of one trainer.

    Attributes:
        session: session segment, uint8[].
        streams: all streams.
        tables: mapped segments by table number.
        workers: indexes of table workers by table number.
        restart: whether an earlier worker with this number died.
        spin_us: maximum time in microseconds to spin before sleeping on a bell.
        hash_seed: 64-bit seed, equal in all workers of the daemon.
        eviction_log: log of the keys that evictions remove, or None.
        spans: path and capacity (``count``) of the span file, or None if spans are not recorded.
        row_files: descriptor and directory of each row file by table number. Only the disk worker has row files.
    """

    def __init__(self, body: Dict[str, Any], fds: List[int]) -> None:
        sizes = [body["session_bytes"]] + [s["bytes"] for s in body["streams"]] + [t["bytes"] for t in body["tables"]]
        memory = [segment.map(fd, size) for fd, size in zip(fds, sizes)]
        streams = len(body["streams"])
        self.row_files: Dict[int, List[Tuple[int, str]]] = {}
        self._take_row_files(body.get("row_files", []), fds[len(sizes):])
        self.session: np.ndarray = memory[0]
        self.streams = [_stream_view(one, part) for one, part in zip(body["streams"], memory[1:1 + streams])]
        self._visitors: List[Callable[[StreamView], None]] = []
        self._table_visitors: List[Callable[[int], None]] = []
        self._table_fds = {t["table"]: fd for t, fd in zip(body["tables"], fds[1 + streams:])}
        self.tables = {t["table"]: _table_view(t, part, fd) for t, part, fd in zip(
            body["tables"], memory[1 + streams:], fds[1 + streams:])}
        self.workers = {t["table"]: t["worker"] for t in body["tables"]}
        self.restart = bool(body["restart"])
        self.spin_us = int(body["spin_us"])
        self.hash_seed = int(body["hash_seed"])
        self.eviction_log = EvictionLog(body["eviction_log"], body["eviction_log_mb"] << 20, _warn) if body.get(
            "eviction_log") else None
        self.spans: Optional[Dict[str, Any]] = body.get("spans")

    def _take_row_files(self, files: List[Dict[str, Any]], fds: List[int]) -> None:
        for file, fd in zip(files, fds):
            self.row_files.setdefault(file["table"], []).append((fd, file["directory"]))

    def each_stream(self, visit: Callable[[StreamView], None]) -> None:
        """Call ``visit`` for each stream now, and later for each stream that is added between two steps."""
        self._visitors.append(visit)
        for stream in self.streams:
            visit(stream)

    def add_stream(self, body: Dict[str, Any], fds: List[int]) -> None:
        """Map the ring of a new stream."""
        stream = _stream_view(body, segment.map(fds[0], body["bytes"]))
        self.streams.append(stream)
        for visit in self._visitors:
            visit(stream)

    def each_table(self, visit: Callable[[int], None]) -> None:
        """Call ``visit`` for each table number now, and later for each table that is added between two steps."""
        self._table_visitors.append(visit)
        for number in sorted(self.tables):
            visit(number)

    def add_table(self, body: Dict[str, Any], fds: List[int]) -> None:
        """Map the segment of a new table. The new table may replace an untrained table that has the same number."""
        number = body["table"]
        if number in self._table_fds:
            os.close(self._table_fds[number])
        self._table_fds[number] = fds[0]
        self.row_files.pop(number, None)
        self._take_row_files(body.get("row_files", []), fds[1:])
        self.tables[number] = _table_view(body, segment.map(fds[0], body["bytes"]), fds[0])
        self.workers[number] = body["worker"]
        for visit in self._table_visitors:
            visit(number)

    def disk_table(self, worker: int, number: int) -> Any:
        """Return a table's struct DISK_TABLE. Return None if the table has no rows on disk, or if ``worker`` does not
        serve the table.
        """
        return self.tables[number].disk_table if self.workers[number] == worker else None

    def bell(self, index: int) -> Bell:
        """Return bell ``index`` of the session."""
        return Bell(self.session, index, self.spin_us)

    def bells_of_tables(self, numbers: List[int]) -> List[Bell]:
        """Return the bells of the workers that serve the given tables, without duplicates."""
        return [self.bell(structs.BELL_TABLE_WORKERS + worker)
                for worker in sorted({self.workers[number] for number in numbers})]


def run(worker: Worker, channel: socket.socket, bell_index: int,
        make_work: Callable[[Worker, Attachment], Work]) -> None:
    """Wait for ``attach``, then perform steps until the supervisor sends ``stop``.

    Args:
        channel: unix stream socket to the supervisor.
        bell_index: index of the bell of this worker.
        make_work: function that returns the work for the mapped segments.

    Raises:
        ConnectionClosedError: the supervisor has exited.
    """
    fdsocket.send(channel, {"verb": "loaded"})
    body, fds = fdsocket.receive(channel, _IDLE_S)
    if body["verb"] != "attach":
        sys.exit(0)
    attachment = Attachment(body, fds)
    bell = attachment.bell(bell_index)
    made = make_work(worker, attachment)
    steps = _Steps(made.step, attachment, worker, bell_index)
    fdsocket.send(channel, {"verb": "attached"})
    poller = select.poll()
    poller.register(channel, select.POLLIN)

    def has_message() -> bool:
        return bool(poller.poll(0))

    def work() -> float:
        while steps.step():
            pass
        return 0.0 if has_message() else made.pause_s()  # the sender of a later message rings the bell

    bell.says(WAIT_BATCH)  # this is the only reason to wait
    while True:
        while not has_message():
            if not bell.pause(work):
                bell.wait(lambda: steps.step() > 0, has_message, _IDLE_S, _LONGEST_SLICE_S)
        body, fds = fdsocket.receive(channel, _READ_S)
        if body["verb"] == "add_stream":
            attachment.add_stream(body, fds)
        elif body["verb"] == "add_table":
            attachment.add_table(body, fds)
        elif body["verb"] == "record":
            steps.record(body["spans"])
        else:
            return


class _Steps:
    """Step function of a worker. The function also records spans if the supervisor has requested spans."""

    def __init__(self, step: Callable[[], int], attachment: Attachment, worker: Worker, bell_index: int) -> None:
        self.step = self._plain = step
        self._attachment = attachment
        self._worker = worker
        self._bell_index = bell_index
        self.record(attachment.spans)

    def record(self, spans: Optional[Dict[str, Any]]) -> None:
        """Start recording to a span file, or stop if ``spans`` is None or the file cannot be created."""
        self.step = self._plain
        if spans is None or self._bell_index >= structs.BELL_DISK_WORKER:
            return
        from ascpipe.workers.recording import recorded  # imported only if spans are recorded

        kind = "key" if self._bell_index < structs.BELL_TABLE_WORKERS else "table"
        try:
            ring = SpanRing(spans["path"], spans["count"], kind, self._worker.number)
        except OSError as error:
            _warn("no spans are recorded, because there is no memory for them: {}".format(error))
            return
        self.step = recorded(self._plain, ring, kind, self._attachment.streams,
                             functools.partial(self._attachment.disk_table, self._worker.number))


def _warn(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _table_view(table: Dict[str, Any], part: np.ndarray, fd: int) -> TableView:
    return TableView(part, fd, table["name"], table["directories"])


def _stream_view(body: Dict[str, Any], memory: np.ndarray) -> StreamView:
    return StreamView(RingView(memory), body["channel"], body["tables"])


def command(name: str, bell_base: int, make_work: Callable[[Worker, Attachment], Work]) -> click.Command:
    """Return the command of a worker module: ``--channel FD --index I --generation G --title TEXT``."""

    @click.command(name)
    @click.option("--channel", type=int, required=True, help="Descriptor of the socket to the supervisor.")
    @click.option("--index", type=int, required=True, help="Number among the workers of this kind.")
    @click.option("--generation", type=int, required=True, help="Unique number of this process start.")
    @click.option("--title", required=True, help="What ps and top show.")
    def main(channel: int, index: int, generation: int, title: str) -> None:
        set_process_title(title)
        with socket.socket(fileno=channel) as supervisor:
            try:
                run(Worker(index, generation), supervisor, bell_base + index, make_work)
            except ConnectionClosedError:
                sys.exit(0)  # the supervisor has exited; a worker owns no resources to clean up
            except WorkerError as error:
                fdsocket.send(supervisor, {"verb": "failed", "code": error.code, "text": error.sentence()})
                sys.exit(1)

    return main
