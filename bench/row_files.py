"""Rows per second of a row file: `python -m bench.row_files [--directory D] [--threads N] [--rows N]`.

Batches of random rows are read one after another, and then written into the emptiest blocks. The file is opened without
the page cache if the file system allows it. Lower caches, such as the cache of a virtual machine's host, stay active.
"""
import argparse
import tempfile
import time
from typing import Callable, Dict, List, NamedTuple, Optional

import numpy as np

from ascpipe.disk.row_engine import Batch, RowEngine, Rows
from ascpipe.kernels import disk_slots
from bench.disk_room import empty_room

BATCH = 10_000
LIMIT_S = 60.0
FREE = 0.2  # free share of the slots


class Measured(NamedTuple):
    """Figures of one row size: rows per second, bytes written per byte of a row, and latency of one read or write."""

    read_rows_per_s: float
    write_rows_per_s: float
    written_per_byte: float
    read_p50_us: int
    read_p99_us: int
    write_p50_us: int
    write_p99_us: int


class RowsOnDisk:
    """Rows 0 to n - 1 of one size, in a file with one fifth of its slots free.

    Args:
        engine: engine that reads and writes.
        directory: directory of the file.
        row_bytes: size of a row.
        n: number of rows.
    """

    def __init__(self, engine: RowEngine, directory: str, row_bytes: int, n: int) -> None:
        self._engine = engine
        self._row_bytes = row_bytes
        self.file = engine.create(directory, row_bytes)
        self._per_block = int(engine.describe(self.file).slots_per_block)
        blocks = int((n / (1 - FREE) + BATCH) / self._per_block) + 1  # a row has two slots while its batch is written
        engine.grow(self.file, blocks)
        self._room = empty_room(blocks, self._per_block)
        self._slots = np.full(n, -1, np.int64)
        self._generations = np.zeros(n, np.uint32)
        self.memory = np.zeros((BATCH, row_bytes), np.uint8)
        shuffled = np.random.RandomState(1).permutation(n).astype(np.int64, copy=False)
        for begin in range(0, n, BATCH):
            self.write(shuffled[begin:begin + BATCH])

    def read(self, keys: np.ndarray) -> float:
        """Read rows, and return the seconds."""
        return self._carry_out(self._engine.read, keys, None)

    def write(self, keys: np.ndarray) -> float:
        """Write rows to new slots, and return the seconds."""
        old = self._slots[keys]
        slots = np.zeros(keys.size, np.int64)
        alone = np.zeros(keys.size, np.uint8)
        begin = time.monotonic()
        if disk_slots.place_rows(self._room, slots, alone) != keys.size:
            raise ValueError("the file is too small")
        self._slots[keys] = slots
        self._generations[keys] += 1
        self._carry_out(self._engine.write, keys, alone)
        disk_slots.free_disk_slots(self._room, old[old >= 0])
        return time.monotonic() - begin

    def _carry_out(self, call: Callable[[int, Rows], Batch], keys: np.ndarray, alone: Optional[np.ndarray]) -> float:
        addresses = self.memory.ctypes.data + self._row_bytes * np.arange(keys.size, dtype=np.uint64)
        rows = Rows(self._slots[keys], keys, self._generations[keys], addresses.astype(np.uint64), alone)
        begin = time.monotonic()
        batch = call(self.file, rows)
        if not batch.wait(LIMIT_S) or batch.results.any():
            raise OSError("rows were not read or written: {}".format(np.unique(batch.results)))
        return time.monotonic() - begin


def measure(directory: str, row_bytes: int, n: int, batches: int, threads: int) -> Measured:
    """Read and then write random batches of distinct rows."""
    engine = RowEngine(threads)
    on_disk = RowsOnDisk(engine, directory, row_bytes, n)
    random = np.random.RandomState(2)
    read_s = write_s = 0.0
    before = engine.figures(on_disk.file).written_bytes
    for _ in range(batches):
        keys = np.unique(random.randint(0, n, BATCH)).astype(np.int64)
        read_s += on_disk.read(keys)
        write_s += on_disk.write(keys)
    figures = engine.figures(on_disk.file)
    rows = int(figures.rows_read)
    engine.close(LIMIT_S)
    return Measured(rows / read_s, rows / write_s, (figures.written_bytes - before) / (rows * row_bytes),
                    figures.read_p50_us, figures.read_p99_us, figures.write_p50_us, figures.write_p99_us)


def main(arguments: Optional[List[str]] = None) -> Dict[int, Measured]:
    """Print a line per row size, and return the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.row_files", description=__doc__.splitlines()[0])
    parser.add_argument("--directory", default=tempfile.gettempdir(), help="a directory on the disk to measure")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--row-bytes", type=int, nargs="+", default=[128, 512])
    options = parser.parse_args(arguments)
    found = {}
    for row_bytes in options.row_bytes:
        found[row_bytes] = figures = measure(options.directory, row_bytes, options.rows, options.batches,
                                             options.threads)
        print("{} B: {:,.0f} rows/s read (p50 {} us, p99 {} us), {:,.0f} rows/s written (p50 {} us, p99 {} us), "
              "{:.1f} bytes written per byte".format(
                  row_bytes, figures.read_rows_per_s, figures.read_p50_us, figures.read_p99_us,
                  figures.write_rows_per_s, figures.write_p50_us, figures.write_p99_us, figures.written_per_byte),
              flush=True)
    return found


if __name__ == "__main__":
    main()
