"""Disk worker, which reads rows from row files into memory and writes home rows to row files.

::

    python -m ascpipe.workers.disk_worker --channel FD --index I --generation G --title TEXT

The worker has no state that could be lost. A restarted worker repeats requests that are ASKED or TAKEN. The worker
passes batches of requests to the row engine. The engine's threads complete the requests and ring the bells of the
waiting processes.
"""
import errno
import os
from typing import Dict, List, NamedTuple, Sequence

import numpy as np

from ascpipe.disk.row_engine import Batch, RowEngine, RowEngineError, Rows
from ascpipe.kernels.atomics import exchange_u32
from ascpipe.kernels.disk_asks import repeat_requests, take_asked, take_requests
from ascpipe.layout import structs
from ascpipe.layout.calls import DiskFigures
from ascpipe.layout.row_blocks import file_bytes, file_of, growth_bytes, slots_per_block
from ascpipe.layout.words import REQUEST_FAILED
from ascpipe.shm.ring import TableView
from ascpipe.workers.runner import Attachment, Work, Worker, command

_THREADS = 64  # number of concurrent operations per disk; see docs/internals/row_files.md
_MOST_ROWS = 1 << 14  # maximum number of rows per table and step
_KIND_READ = 0
_KIND_WRITE = 1


class File(NamedTuple):
    """Row file of a table.

    Attributes:
        number: number in the row engine.
        growth: number of bytes by which the file grows at a time.
    """

    number: int
    growth: int


class _Rows:
    """Requests, and the memory for the requested rows.

    Args:
        requests: REQUEST[n].
        rows_at: address of float32[n, row floats].
        bell_at: address of the bell of the waiting process.
    """

    def __init__(self, requests: np.ndarray, rows_at: int, bell_at: int) -> None:
        self.requests = requests
        self.rows_at = rows_at
        self.bell_at = bell_at
        self.requests_at = int(requests.ctypes.data)


class DiskTable:
    """Table whose rows the disk worker reads and writes.

    Args:
        files: row files of the table. The blocks of the table are distributed round-robin.
        bell_at, reader_bell_at: addresses of the bells of the table worker and of the trainer.
    """

    def __init__(self, view: TableView, files: List[File], engine: RowEngine, bell_at: int,
                 reader_bell_at: int) -> None:
        self._view = view
        self._files = files
        self._engine = engine
        self._bell_at = bell_at
        self._row_bytes = 4 * int(view.header["row_floats"])
        self._per_block = slots_per_block(self._row_bytes)
        self._homes_at = int(view.homes.ctypes.data)
        self._homes = _Rows(view.requests, self._homes_at, self._bell_at)
        self._reads = [_Rows(requests, int(rows.ctypes.data), reader_bell_at)
                       for requests, rows in zip(view.reads, view.read_rows)]
        self._seen = [0] * len(self._reads)
        self._numbers = np.zeros((2, _MOST_ROWS), np.int64)
        self._batches: List[Batch] = []

    def take_over(self) -> None:
        """Repeat requests that an earlier disk worker did not complete."""
        begin = 0
        end = int(self._view.header["homes_ready"])
        while begin < end:
            reads, writes, begin = repeat_requests(self._view.requests, begin, end, *self._numbers)
            self._submit(self._homes, reads, writes)
        for rows in self._reads:
            reads, writes, _ = repeat_requests(rows.requests, 0, len(rows.requests), *self._numbers)
            self._submit(rows, reads, writes)

    def step(self) -> int:
        """Pass new requests to the engine and release completed batches. Return the number of requested rows."""
        self._batches = [batch for batch in self._batches if not batch.wait(0)]
        reads, writes = take_asked(self._view.disk_table, self._view.asks, self._view.requests, *self._numbers)
        self._submit(self._homes, reads, writes)
        done = int(reads + writes)
        for reader, rows in enumerate(self._reads):
            asked = self._view.reads_asked(reader)  # SYNC reads-asked: load
            if asked != self._seen[reader]:
                self._seen[reader] = asked
                # ``take_over`` may have taken requests of this batch, which must not be executed twice: the second
                # execution would use the rows of the next batch.
                reads, writes = take_requests(rows.requests, *self._numbers)
                self._submit(rows, reads, writes)
                done += int(reads + writes)
        return done

    def _submit(self, rows: "_Rows", reads: int, writes: int) -> None:
        for kind, count in ((_KIND_READ, reads), (_KIND_WRITE, writes)):
            if count:
                self._submit_kind(rows, kind, self._numbers[kind, :count].copy())

    def _submit_kind(self, rows: "_Rows", kind: int, numbers: np.ndarray) -> None:
        asked = rows.requests[numbers]
        blocks, own = np.divmod(asked["slot"].astype(np.int64), self._per_block)
        for index, file in enumerate(self._files):
            mine = np.flatnonzero(file_of(blocks, len(self._files)) == index)
            if not len(mine):
                continue
            slots = blocks[mine] // len(self._files) * self._per_block + own[mine]
            if kind == _KIND_WRITE and not self._grow(file, int(slots.max()) // self._per_block + 1):
                self._refuse(rows, numbers[mine])
                continue
            begin = self._engine.write if kind == _KIND_WRITE else self._engine.read
            self._batches.append(begin(file.number, Rows(
                slots, asked["key"][mine], asked["generation"][mine],
                (rows.rows_at + numbers[mine] * self._row_bytes).astype(np.uint64), None,
                (rows.requests_at + numbers[mine] * structs.REQUEST.itemsize).astype(np.uint64), rows.bell_at)))

    def _grow(self, file: File, blocks: int) -> bool:
        try:
            self._engine.grow(file.number, blocks, file.growth)
        except RowEngineError:
            return False
        return True

    def _refuse(self, rows: "_Rows", numbers: np.ndarray) -> None:
        for number in numbers.tolist():
            rows.requests["error"][number] = errno.ENOSPC
            exchange_u32(rows.requests["word"], number, REQUEST_FAILED)  # SYNC request-done: store


class Disks:
    """Object that writes statistics of disks to shared memory.

    Args:
        records: DISK[MAX_DISKS] of the session.
    """

    def __init__(self, records: np.ndarray, engine: RowEngine) -> None:
        self._records = records
        self._engine = engine
        self._files: Dict[int, int] = {}  # number of a row file on each device, by device
        records["used"] = 0

    def add(self, table: int, fds: Sequence[int], files: Sequence[File]) -> None:
        """Add the disks that contain the row files of a table. Disks beyond MAX_DISKS are ignored."""
        for index, (fd, file) in enumerate(zip(fds, files)):
            device = os.fstat(fd).st_dev
            if device in self._files or len(self._files) == len(self._records):
                continue
            record = self._records[len(self._files)]
            self._files[device] = file.number
            record["table"] = table
            record["file"] = index
            record["used"] = 1

    def show(self) -> None:
        """Publish the current statistics."""
        for record, file in zip(self._records, self._files.values()):
            figures = self._engine.figures(file)
            for name in _FIGURES:
                record[name] = getattr(figures, name)


_FIGURES = [name for name, _ in DiskFigures._fields_ if name in structs.DISK.names]


def make_work(worker: Worker, attachment: Attachment) -> Work:
    """Return the functions that the main loop of the disk worker calls. The functions handle all tables with rows on
    disk.
    """
    engine = RowEngine(_THREADS)
    served: Dict[int, DiskTable] = {}
    begin = structs.SESSION_DISKS_OFFSET
    disks = Disks(attachment.session[begin:structs.SESSION_EXCHANGES_OFFSET].view(structs.DISK), engine)

    def serve(number: int) -> None:
        view = attachment.tables[number]
        if view.disk_table is None:
            return
        row_bytes = 4 * int(view.header["row_floats"])
        known = attachment.row_files[number]
        growth = growth_bytes(file_bytes(int(view.disk_table["disk_slots"]), row_bytes, len(known)))
        files = [File(engine.adopt(fd, directory, row_bytes), growth) for fd, directory in known]
        disks.add(number, [fd for fd, _ in known], files)
        bell = attachment.bell(structs.BELL_TABLE_WORKERS + attachment.workers[number])
        served[number] = DiskTable(view, files, engine, bell.at, attachment.bell(structs.BELL_TRAINER).at)
        served[number].take_over()

    def step() -> int:
        done = sum(table.step() for table in served.values())
        if not done:
            disks.show()
        return done

    attachment.each_table(serve)
    return Work(step, lambda: 0.0)


main = command("disk_worker", structs.BELL_DISK_WORKER, make_work)

if __name__ == "__main__":
    main()
