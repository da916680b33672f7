"""Read-only copies ("instances") of a checkpoint's tables, for sessions that only evaluate."""
import ctypes
import functools
from typing import Iterator, NamedTuple, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint.contents import TableSpec
from ascpipe.checkpoint.errors import NoRoomForCopyError
from ascpipe.checkpoint.reader import Checkpoint
from ascpipe.checkpoint.table_folders import row_pieces
from ascpipe.errors import OutOfSharedMemoryError
from ascpipe.shm import memory
from ascpipe.tf.clean_up import interruptible
from ascpipe.tf.running import native


class Wanted(NamedTuple):
    """Table that a new instance contains, and the source of the table's rows.

    Attributes:
        number: number of the live table.
        checkpoint: checkpoint that contains the rows.
        spec: spec of the table in the checkpoint, with the number of rows to read. If this number is 0, the table may
            be missing in the checkpoint.
        rank: rank whose keys are read.
        ranks: number of ranks.
    """

    number: int
    checkpoint: Checkpoint
    spec: TableSpec
    rank: int = 0
    ranks: int = 1


@interruptible
def instance_of(tables: Sequence[Wanted]) -> Iterator[int]:
    """Context manager that creates an instance by reading the keys and embeddings of tables into memory of this
    process.

    Yields: The number of the instance, for ``GraphState.attach``. A session that is attached within the block keeps the
    instance.

    Raises:
        NoRoomForCopyError: there is too little memory.
        DamagedCheckpointError: the files have changed since they were verified.
        tf.errors.OpError: a key occurs twice, or memory cannot be allocated.
    """
    need = sum(native.number("asc_instance_bytes", wanted.spec.rows, wanted.spec.dim) for wanted in tables)
    prefixes = ", ".join(sorted({wanted.checkpoint.prefix for wanted in tables}))
    try:
        memory.require(need, "the rows of checkpoint " + prefixes)
    except OutOfSharedMemoryError as error:
        raise NoRoomForCopyError(prefixes, need, error.have) from error
    with native.acquired("asc_instance_new", release=functools.partial(native.call, "asc_instance_release"),
                         what="a copy of " + prefixes) as number:
        for wanted in tables:
            _read(number, wanted)
        yield number


def _read(instance: int, wanted: Wanted) -> None:
    spec = wanted.spec
    start = 0
    keys, rows = _memory(instance, wanted)
    if spec.rows:
        for some_keys, some_rows in wanted.checkpoint.arrays(spec.name, lambda of: row_pieces(of)[:2],
                                                                  wanted.rank, wanted.ranks):
            end = start + len(some_keys)
            keys[start:end] = some_keys
            rows[start:end] = some_rows
            start = end
    native.call("asc_instance_index", instance, wanted.number)


def _memory(instance: int, wanted: Wanted) -> Tuple[np.ndarray, np.ndarray]:
    """Allocate arrays for keys, int64[rows], and for rows, float32[rows, dim]."""
    spec = wanted.spec
    keys = ctypes.POINTER(ctypes.c_int64)()
    rows = ctypes.POINTER(ctypes.c_float)()
    native.call("asc_instance_add", instance, wanted.number, spec.name.encode(), spec.rows, spec.dim,
                ctypes.byref(keys), ctypes.byref(rows))
    return np.ctypeslib.as_array(keys, (spec.rows,)), np.ctypeslib.as_array(rows, (spec.rows, spec.dim))
