"""Descriptions of tables and streams for the pipeline and its native side."""
from typing import NamedTuple, Optional, Tuple

import numpy as np
import tensorflow as tf

from ascpipe.checkpoint.contents import SlotSpec

MAX_VOCABULARY = 10 ** 9  #: maximum rows of a table
NO_TABLE = -1  #: a feature that is left out, or a table that the pipeline lacks


class TableShape(NamedTuple):
    """Description of a table for the native side.

    Attributes:
        number: number of the table, from 0.
        name: for error messages and the status.
        dim: floats of an embedding.
        device_rows: rows of the table variable; 0 for an expansion table, whose variable has one unused row.
        home_rows: maximum rows in host memory; 0 for a table only on the device. For an expansion table, it is set when
            the pipeline starts.
        row_floats: floats of a home row: the embedding and its optimizer slots.
        seed: 64-bit seed of the initial rows.
        kind: kind of the initial rows, see ``ascpipe/layout/initial_kinds.py``.
        a, b: see ``kind``.
        scale: multiplies each initial value.
        pool: float32[rows, dim] if ``kind`` is POOL, else None.
        padding_keys: keys whose rows are looked up and never updated.
        averages: whether gradients, summed over ranks, are divided by the number of ranks.
        disk_rows: maximum rows if rows go to disk, else 0. The home rows then include a home row for each device row.
        directories: absolute directories of its row files.
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
        """Return whether this is an expansion table."""
        return self.device_rows == 0


class StreamShape(NamedTuple):
    """Description of a stream for the native side.

    Attributes:
        number: number of the stream, an attribute of its ops.
        channel: 0 training, 1 evaluation.
        tables: numbers of its tables, in ring order.
        parts: for each input of its AscSubmit, the index in ``tables`` that it looks up, or NO_TABLE.
        names: name of each input, for error messages.
    """

    number: int
    channel: int
    tables: Tuple[int, ...]
    parts: Tuple[int, ...]
    names: Tuple[str, ...]


class Thresholds(NamedTuple):
    """Admission and eviction of a table.

    Attributes:
        access: occurrences before a key gets a row; 0: admission is on, and every key gets one; -1: admission is off.
        eviction: age at which an eviction deletes a key, in the unit of the batches' timestamps; -1: never.
        coefficient: weight of an occurrence.
    """

    access: int = -1
    eviction: int = -1
    coefficient: int = 1

    @property
    def evicts(self) -> bool:
        """Return whether an eviction deletes keys."""
        return self.eviction >= 0


class KnownTable(NamedTuple):
    """A table of the pipeline, as in the first graph that trains it, otherwise as in the first graph that has it.

    Attributes:
        shape: shape at its creation.
        key_dtype: declared dtype of its keys.
        is_save: whether checkpoints contain it.
        slots: its optimizer slots, in the order of a home row.
        thresholds: admission and eviction.
    """

    shape: TableShape
    key_dtype: tf.DType
    is_save: bool
    slots: Tuple[SlotSpec, ...]
    thresholds: Thresholds
