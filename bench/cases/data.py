"""Files of 100 million records: the index of a TFRecord file, and the shuffled order of an epoch.

The file has records of 8 bytes. The peer of the index only reads the file. Both contenders of the order write the
numbers of all records to memory; our order computes each batch alone, and needs no memory for the rest of the epoch.
"""
import contextlib
import ctypes
import os
import tempfile
from typing import Callable, Iterator

import numpy as np

from bench import record_files, workloads
from bench.harness import Case, Contenders

RECORDS = 10 ** 8
BATCH = 4096
_SMALL_RECORDS = 10 ** 5
_PAYLOAD = b"8 bytes."
_BLOCK_RECORDS = 10 ** 5
_BLOCK_BYTES = 1 << 20  # bytes per read


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    with {"index": _index, "shuffle": _shuffle}[variant](workloads.sized(RECORDS, _SMALL_RECORDS)) as contenders:
        yield contenders


@contextlib.contextmanager
def _index(records: int) -> Iterator[Contenders]:
    from ascpipe.data.index import beside, indexed

    with tempfile.TemporaryDirectory(prefix="bench-data-") as folder:
        path = os.path.join(folder, "records.tfrecord")
        block = record_files.framed([_PAYLOAD]) * _BLOCK_RECORDS
        with open(path, "wb") as file:
            for _ in range(records // _BLOCK_RECORDS):
                file.write(block)

        def remove() -> None:
            if os.path.exists(beside(path)):
                os.remove(beside(path))

        def build() -> None:
            index, _ = indexed(path)
            with index:
                if index.records != records:
                    raise RuntimeError("the index has {} records, not {}".format(index.records, records))

        def read() -> None:
            with open(path, "rb", buffering=0) as file:
                while file.read(_BLOCK_BYTES):
                    pass

        yield Contenders(records, {"ascpipe": build, "read of the file": read}, before={"ascpipe": remove},
                         notes=lambda: {"index": "{:.2f} bytes per record".format(
                             os.path.getsize(beside(path)) / records)})


@contextlib.contextmanager
def _shuffle(records: int) -> Iterator[Contenders]:
    yield Contenders(records, {"ascpipe": _orders(records), "numpy.random.permutation": lambda: _permuted(records)},
                     notes=lambda: {"memory": "one batch of {:,} numbers; numpy: {:,} MB".format(
                         BATCH, np.dtype(np.int64).itemsize * records // 10 ** 6)})


def _orders(records: int) -> Callable[[], object]:
    """Return a function that computes the batches of an epoch, one after the other."""
    from ascpipe.data import native
    from ascpipe.layout.calls import BatchPlanArguments

    plan = BatchPlanArguments(records, 1, 1, BATCH, 1, 1, 0, 0)
    numbers = (ctypes.c_int64 * BATCH)()

    def call() -> None:
        position = native.Position(0, 0)
        count = ctypes.c_int64()
        done = 0
        while done < records:
            native.call("asc_data_plan_batch", ctypes.byref(plan), 0, position, numbers, ctypes.byref(count))
            done += count.value

    return call


def _permuted(records: int) -> None:
    np.random.permutation(records)


CASE = Case("data", "record", "one_thread", ("index", "shuffle"), prepare,
            "the index of a file of {:,} records, and the order of a shuffled epoch of it".format(RECORDS),
            warm_up=1, repeats=3)
