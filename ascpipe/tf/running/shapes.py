"""Descriptions of tables and streams for the pipeline and the native library."""
from typing import NamedTuple, Optional, Tuple

import numpy as np
import tensorflow as tf

from ascpipe.checkpoint.contents import ColumnVariable, SlotSpec

MAX_VOCABULARY = 10 ** 9  #: maximum rows of a table
NO_TABLE = -1  #: number of a feature that is omitted, or of a table that is not in the pipeline


class TableShape(NamedTuple):
    """Description of a table for the native library.

    Attributes:
        number: number of the table, starting at 0.
        name: name of the table in error messages and in the status.
        dim: number of floats of an embedding.
        device_rows: number of rows of the table variable. It is 0 for an expansion table, although its variable has one
            unused row.
        home_rows: maximum number of rows in host memory. It is 0 for a table whose rows are only on the device. For an
            expansion table, it is set when the pipeline starts.
        row_floats: number of floats of a home row, which contains the embedding and the optimizer slots.
        seed: 64-bit seed of the initial rows.
        kind: kind of the initial rows (see ``ascpipe/layout/initial_kinds.py``).
        a, b: parameters of ``kind``.
        scale: factor of each initial value.
        pool: float32[rows, dim] if ``kind`` is POOL, otherwise None.
        padding_keys: keys whose rows can be looked up but are never updated.
        averages: True if the sum of gradients over ranks is divided by the number of ranks.
        disk_rows: maximum number of rows on disk, or 0 without rows on disk. If it is not 0, there is also a home row
            for each device row.
        directories: absolute paths of the directories of the row files.
    """

    number: int
    name: str
    dim: int
    device_rows: int
    seed: int
    kind: int
    a: float
    b: float
    scale: float
    pool: Optional[np.ndarray] = None
    home_rows: int = 0
    row_floats: int = 0
    padding_keys: Tuple[int, ...] = ()
    averages: bool = False
    disk_rows: int = 0
    directories: Tuple[str, ...] = ()

    @property
    def expands(self) -> bool:
        """Return whether the table is an expansion table."""
        return self.device_rows == 0


class StreamShape(NamedTuple):
    """Description of a stream for the native library.

    Attributes:
        number: number of the stream, which is also an attribute of the stream's ops.
        channel: 0 for training, or 1 for evaluation.
        tables: numbers of the tables, in ring order.
        parts: for each input of the stream's AscSubmit, the index of its table in ``tables``, or NO_TABLE.
        names: names of the inputs in error messages.
    """

    number: int
    channel: int
    tables: Tuple[int, ...]
    parts: Tuple[int, ...]
    names: Tuple[str, ...]


class Thresholds(NamedTuple):
    """Admission and eviction thresholds of a table.

    Attributes:
        access: number of occurrences at which a key gets a row. With 0, admission is on and every key gets a row. With
            -1, admission is off.
        eviction: age at which an eviction deletes a key, in the unit of the batches' timestamps. With -1, no key is
            evicted.
        coefficient: weight of an occurrence.
    """

    access: int = -1
    eviction: int = -1
    coefficient: int = 1

    @property
    def evicts(self) -> bool:
        """Return whether an eviction threshold is set."""
        return self.eviction >= 0


class KnownTable(NamedTuple):
    """A table of the pipeline, as described by the first graph that trains the table.

    If no graph trains the table, the description is from the first graph that contains the table.

    Attributes:
        shape: shape of the table at its creation.
        key_dtype: declared dtype of the keys.
        is_save: True if checkpoints contain the table.
        slots: optimizer slots, in the order of the slots in a home row.
        thresholds: thresholds of admission and eviction.
        column: variable of a feature column that the table replaces, or None.
    """

    shape: TableShape
    key_dtype: tf.DType
    is_save: bool
    slots: Tuple[SlotSpec, ...]
    thresholds: Thresholds
    column: Optional[ColumnVariable] = None


class ReadSource(NamedTuple):
    """A dataset that reads files.

    Attributes:
        source: number of the dataset in this process.
        data: value that identifies the records and their order.
        obstacle: reason why a position of the dataset cannot be restored, or None.
    """

    source: int
    data: str
    obstacle: Optional[str]
