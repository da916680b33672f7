"""Export of the rows of a table to files of other programs. The table has 2,000,000 rows of 16 floats, and its
checkpoint has them in another order than their keys.

The peer writes the same sorted keys and rows, which it has in memory: ``np.save`` and fsync of each array, or
``pyarrow.parquet.write_table`` and fsync.
"""
import contextlib
import os
import shutil
import tempfile
from typing import Callable, Dict, Iterator

import numpy as np

from bench import workloads
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders

ROWS = 2000000
DIM = 16
MB = 1000000

_OURS = "ascpipe"
_PEERS = {"npy": "np.save, fsync", "parquet": "pyarrow, fsync"}


def _rows() -> int:
    return workloads.sized(ROWS, 50000)


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    file_format = variant.split("-")[1]
    keys = workloads.scramble(np.arange(_rows()))
    rows = np.random.RandomState(1).standard_normal((_rows(), DIM)).astype(np.float32)
    order = np.argsort(keys)
    ordered = (keys[order], rows[order])
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        _save(folder, keys, rows)
        peer = {"npy": _write_npy, "parquet": _write_parquet}[file_format]
        calls: Dict[str, Callable[[], object]] = {
            _OURS: lambda: _export(folder, file_format),
            _PEERS[file_format]: lambda: peer(os.path.join(folder, "peer"), *ordered)}
        yield Contenders((keys.nbytes + rows.nbytes) // MB, calls)


def _save(folder: str, keys: np.ndarray, rows: np.ndarray) -> None:
    from ascpipe.checkpoint.contents import Block, InitialRows, Policies, Position, TablePosition, TableSpec
    from ascpipe.checkpoint.writer import CheckpointWriter

    spec = TableSpec("ids", DIM, "int64", (), len(keys), 0, InitialRows(1, 0, 0.0, 0.0, 1.0),
                     Policies(-1, False, 1, -1, 0))
    with CheckpointWriter(folder, "model", 1, dense=False) as writer:
        writer.begin_tables([spec])
        writer.write_table("ids", [Block(keys, rows, np.ones(len(keys), np.int64), np.ones(len(keys), np.int64))])
        writer.commit(Position("bench", {"ids": TablePosition(1, 0)}, {"training": 1}))


def _export(folder: str, file_format: str) -> None:
    from ascpipe.rows.export import Request, exported

    to = os.path.join(folder, "ours")
    exported(Request(os.path.join(folder, "model-1"), "ids", to, file_format))
    shutil.rmtree(to)


def _write_npy(folder: str, keys: np.ndarray, rows: np.ndarray) -> None:
    os.mkdir(folder)
    for name, values in (("keys", keys), ("rows", rows)):
        with open(os.path.join(folder, name + ".npy"), "wb") as file:
            np.save(file, values)
            file.flush()
            os.fsync(file.fileno())
    shutil.rmtree(folder)


def _write_parquet(folder: str, keys: np.ndarray, rows: np.ndarray) -> None:
    import pyarrow
    from pyarrow import parquet

    os.mkdir(folder)
    table = pyarrow.table({"key": pyarrow.array(keys), "row": pyarrow.FixedSizeListArray.from_arrays(
        pyarrow.array(rows.reshape(-1)), DIM)})
    with open(os.path.join(folder, "rows.parquet"), "wb") as file:
        parquet.write_table(table, file, use_dictionary=False)
        file.flush()
        os.fsync(file.fileno())
    shutil.rmtree(folder)


CASE = Case("rows", "MB", "one_program", ("export-npy", "export-parquet"), prepare,
            "export of {:,} rows in another order than their keys".format(ROWS),
            {"export-" + file_format: [Goal(RATIO, .5, peer)] for file_format, peer in _PEERS.items()})
