"""Our row file, RocksDB, LMDB and memmap: `python -m bench.row_stores [--directory D] [--rows N] [--memory BYTES]`.

Each store is a separate process in a separate memory cgroup. The cgroup is too small for all rows, so that no store
caches the whole table. Batches of random distinct rows are read, changed and written.

RocksDB and LMDB need `pip install rocksdict lmdb==1.4.1`. Stores that are not installed are omitted. Cgroups need root
and the memory controller of version 1.
"""
import argparse
import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import numpy as np

from ascpipe.disk.row_engine import RowEngine
from bench.row_files import BATCH, LIMIT_S, RowsOnDisk

_CGROUPS = "/sys/fs/cgroup/memory"
_LEAST_MEMORY = 256 << 20


class RowFileStore:
    """Our row file, without the page cache.

    Args:
        directory: new directory for this store only. All stores have this argument.
        row_bytes: size of a row.
        n: number of rows. Their keys are 0 to n - 1.
        threads: number of disk threads.
    """

    def __init__(self, directory: str, row_bytes: int, n: int, threads: int) -> None:
        self._engine = RowEngine(threads)
        self._rows = RowsOnDisk(self._engine, directory, row_bytes, n)

    def read(self, keys: np.ndarray) -> np.ndarray:
        """Return the rows of keys, uint8[n, row bytes]."""
        self._rows.read(keys)
        return self._rows.memory[:keys.size]

    def write(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """Replace the rows of keys."""
        self._rows.memory[:keys.size] = rows
        self._rows.write(keys)

    def close(self) -> None:
        """Close the store."""
        self._engine.close(LIMIT_S)


class MemmapStore:
    """`np.memmap` with consecutive rows."""

    def __init__(self, directory: str, row_bytes: int, n: int, threads: int) -> None:
        del threads
        self._rows = np.memmap(os.path.join(directory, "rows"), np.uint8, "w+", shape=(n, row_bytes))

    def read(self, keys: np.ndarray) -> np.ndarray:
        """Return the rows of keys, uint8[n, row bytes]."""
        return self._rows[keys]

    def write(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """Replace the rows of keys."""
        self._rows[keys] = rows

    def close(self) -> None:
        """Write all rows to the disk, and close the store."""
        self._rows.flush()


class LmdbStore:
    """LMDB without a sync for each batch, which is its fastest way of writing."""

    def __init__(self, directory: str, row_bytes: int, n: int, threads: int) -> None:
        del threads
        import lmdb
        self._row_bytes = row_bytes
        self._environment = lmdb.open(directory, map_size=8 * n * (row_bytes + 64) + (1 << 26), sync=False,
                                      writemap=True, readahead=False)

    def read(self, keys: np.ndarray) -> np.ndarray:
        """Return the rows of keys, uint8[n, row bytes]."""
        with self._environment.begin(buffers=True) as transaction:
            rows = b"".join(transaction.get(key.to_bytes(8, "big")) for key in keys.tolist())
        return np.frombuffer(rows, np.uint8).reshape(-1, self._row_bytes)

    def write(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """Replace the rows of keys."""
        with self._environment.begin(write=True) as transaction:
            for key, row in zip(keys.tolist(), rows):
                transaction.put(key.to_bytes(8, "big"), row.tobytes())

    def close(self) -> None:
        """Write all rows to the disk, and close the store."""
        self._environment.sync(True)
        self._environment.close()


class RocksdbStore:
    """RocksDB with bloom filters and without a write-ahead log. Rows of a training run do not need the log."""

    def __init__(self, directory: str, row_bytes: int, n: int, threads: int) -> None:
        del n
        import rocksdict
        self._rocksdict = rocksdict
        self._row_bytes = row_bytes
        options = rocksdict.Options(raw_mode=True)
        options.increase_parallelism(threads)
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_bloom_filter(10.0, False)
        blocks.set_block_cache(rocksdict.Cache(32 << 20))
        options.set_block_based_table_factory(blocks)
        self._rows = rocksdict.Rdict(directory, options)
        self._unlogged = rocksdict.WriteOptions()
        self._unlogged.disable_wal = True

    def read(self, keys: np.ndarray) -> np.ndarray:
        """Return the rows of keys, uint8[n, row bytes]."""
        rows = b"".join(self._rows[[key.to_bytes(8, "big") for key in keys.tolist()]])
        return np.frombuffer(rows, np.uint8).reshape(-1, self._row_bytes)

    def write(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """Replace the rows of keys."""
        batch = self._rocksdict.WriteBatch(raw_mode=True)
        for key, row in zip(keys.tolist(), rows):
            batch.put(key.to_bytes(8, "big"), row.tobytes())
        self._rows.write(batch, self._unlogged)

    def close(self) -> None:
        """Write all rows to the disk, and close the store."""
        self._rows.flush()
        self._rows.close()


#: Name, class and required module of each store.
STORES = {"row file": (RowFileStore, None), "memmap": (MemmapStore, None), "LMDB": (LmdbStore, "lmdb"),
          "RocksDB": (RocksdbStore, "rocksdict")}


class Measured(NamedTuple):
    """Figures of a store: rows per second, and bytes that its process wrote to the disk for each byte of a row."""

    read_rows_per_s: float
    write_rows_per_s: float
    written_per_byte: float


def measure(name: str, directory: str, row_bytes: int, n: int, batches: int, threads: int) -> Measured:
    """Measure a store in this process.

    Raises:
        ValueError: a row that was read differs from the row that was written.
    """
    store: Any = STORES[name][0](directory, row_bytes, n, threads)
    random = np.random.RandomState(2)
    written = np.zeros(n, np.uint16)  # number of the batch that wrote a row
    for begin in range(0, n, BATCH):
        every = np.arange(begin, min(begin + BATCH, n))
        store.write(every, content(every, written[every], row_bytes))
    read_s = 0.0
    write_s = 0.0
    rows = 0
    before = _bytes_written()
    for batch in range(1, batches + 1):
        keys = np.unique(random.randint(0, n, BATCH)).astype(np.int64)
        begin_s = time.monotonic()
        found = store.read(keys)
        read_s += time.monotonic() - begin_s
        if not np.array_equal(found, content(keys, written[keys], row_bytes)):
            raise ValueError("{}: batch {} has rows that were not written so".format(name, batch))
        written[keys] = batch
        changed = content(keys, written[keys], row_bytes)
        begin_s = time.monotonic()
        store.write(keys, changed)
        write_s += time.monotonic() - begin_s
        rows += keys.size
    begin_s = time.monotonic()
    store.close()
    write_s += time.monotonic() - begin_s
    return Measured(rows / read_s, rows / write_s, (_bytes_written() - before) / (rows * row_bytes))


def content(keys: np.ndarray, batches: np.ndarray, row_bytes: int) -> np.ndarray:
    """Return the rows that a batch writes, uint8[n, row bytes]. They come from splitmix64's finalizer, because trained
    rows are not compressible.
    """
    bits = (keys.astype(np.uint64) << np.uint64(24) | batches.astype(np.uint64) << np.uint64(8))[:, None] | np.arange(
        row_bytes // 8, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ bits >> np.uint64(shift)) * np.uint64(factor)
    return (bits ^ bits >> np.uint64(31)).view(np.uint8)


def _bytes_written() -> int:
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("write_bytes"))


@contextlib.contextmanager
def _memory_cgroup(name: str, limit: int) -> Iterator[str]:
    """Create a cgroup with a memory limit in bytes, which includes the page cache. Yield the path of its list of
    processes.
    """
    path = os.path.join(_CGROUPS, "{}-{}".format(name, os.getpid()))
    os.mkdir(path)
    try:
        with open(os.path.join(path, "memory.limit_in_bytes"), "w") as file:
            file.write(str(limit))
        yield os.path.join(path, "cgroup.procs")
    finally:
        os.rmdir(path)


def _measure_within(limit: int, name: str, options: argparse.Namespace, row_bytes: int) -> Optional[Measured]:
    """Measure a store in a separate process with ``limit`` bytes of memory. Return None if the kernel killed
    the process.
    """
    with tempfile.TemporaryDirectory(dir=options.directory) as directory, \
            _memory_cgroup("bench-row-stores", limit) as processes:
        command = [sys.executable, "-m", "bench.row_stores", "--only", name, "--directory", directory,
                   "--rows", str(options.rows), "--batches", str(options.batches), "--threads", str(options.threads),
                   "--row-bytes", str(row_bytes), "--joins", processes]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, timeout=3600)
    if done.returncode == -signal.SIGKILL:
        return None
    done.check_returncode()
    return Measured(*(float(word) for word in done.stdout.split()[-3:]))


def main(arguments: Optional[List[str]] = None) -> Dict[str, Measured]:
    """Print a line per row size and store, and return the figures of the last size."""
    parser = argparse.ArgumentParser(prog="python -m bench.row_stores", description=__doc__.splitlines()[0])
    parser.add_argument("--directory", default=tempfile.gettempdir(), help="a directory on the disk to measure")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--row-bytes", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--memory", type=int,
                        help="bytes of memory for each store; default: a quarter of its rows, at least 256 MiB")
    parser.add_argument("--only", choices=list(STORES), help="measure only this store, in this process")
    parser.add_argument("--joins", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.joins:
        with open(options.joins, "w") as file:
            file.write(str(os.getpid()))
    found = {}
    for row_bytes in options.row_bytes:
        if options.only:
            found = {options.only: measure(options.only, options.directory, row_bytes, options.rows, options.batches,
                                           options.threads)}
            print(*found[options.only])
            continue
        limit = options.memory or max(_LEAST_MEMORY, options.rows * row_bytes // 4)
        for name, (_, module) in STORES.items():
            if module is not None and importlib.util.find_spec(module) is None:
                print("{}: left out, as {} is not installed".format(name, module))
                continue
            figures = _measure_within(limit, name, options, row_bytes)
            if figures is None:
                print("{}: left out, as it was killed: {} MiB of memory are too little".format(name, limit >> 20))
                continue
            found[name] = figures
            print("{} B, {} MiB of memory, {}: {:,.0f} rows/s read, {:,.0f} rows/s written, {:.1f} bytes written per "
                  "byte".format(row_bytes, limit >> 20, name, figures.read_rows_per_s, figures.write_rows_per_s,
                                figures.written_per_byte), flush=True)
    return found


if __name__ == "__main__":
    main()
