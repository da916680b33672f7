"""Plain descriptions of tables and streams, as the pipeline and its native side take them."""
from typing import NamedTuple, Optional, Tuple

import numpy as np
import tensorflow as tf

from ascpipe.checkpoint.contents import SlotSpec

MAX_VOCABULARY = 10 ** 9  #: rows of a table
NO_TABLE = -1  #: a feature that is left out; a table that the pipeline does not have


class TableShape(NamedTuple):
    """The native side's description of a table.

    Attributes:
        number: of the table, from 0.
        name: for error texts and the status.
        dim: length of a row.
        device_rows: rows of the table variable; 0 for an expansion table, whose variable is one row without use.
        home_rows: rows that the host holds at most; 0 for a table that lives on the device alone. Those of an
            expansion table are known when the pipeline starts.
        row_floats: floats of a home row: the embedding and its optimizer slots.
        seed: of the initial rows, 64 bits.
        kind: of the initial rows, of ``ascpipe/layout/initial_kinds.py``.
        a, b: see ``kind``.
        scale: multiplies each initial value.
        pool: float32[rows, dim] of kind POOL, else None.
        padding_keys: keys whose rows are looked up and never updated.
        averages: whether its gradients, summed over ranks, are divided by the number of ranks.
        disk_rows: rows that it may have, where rows go to disk; then there are home rows for those of the host and, as
            a row on the device keeps its own, of the device. 0 = none goes to disk.
        directories: for its row files, absolute.
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
        """Whether it is an expansion table: its rows are used at home, and it grows."""
        return self.device_rows == 0


class StreamShape(NamedTuple):
    """The native side's description of a stream.

    Attributes:
        number: of the stream, an attribute of its ops.
        channel: 0 training, 1 evaluation.
        tables: numbers of its tables, in ring order.
        parts: for each input of its AscSubmit, which of ``tables`` it looks into, or NO_TABLE.
        names: name of each input, for error texts.
    """

    number: int
    channel: int
    tables: Tuple[int, ...]
    parts: Tuple[int, ...]
    names: Tuple[str, ...]


class Thresholds(NamedTuple):
    """When a key of a table gets a row, and when it loses it.

    Attributes:
        access: occurrences before a key gets a row; 0: admission is on, every key gets one; -1: off.
        eviction: age, in the unit of the batches' timestamps, at which an eviction drops a key; -1: never.
        coefficient: how much an occurrence counts.
    """

    access: int = -1
    eviction: int = -1
    coefficient: int = 1

    @property
    def evicts(self) -> bool:
        """Whether an eviction drops keys."""
        return self.eviction >= 0


class KnownTable(NamedTuple):
    """A table of the pipeline, as the first graph has it that trains it, else as the first one.

    Attributes:
        shape: as it was created.
        key_dtype: of its keys as declared.
        is_save: whether checkpoints hold it.
        slots: what optimizers keep beside its rows, in the order of a home row.
        thresholds: admission and eviction.
    """

    shape: TableShape
    key_dtype: tf.DType
    is_save: bool
    slots: Tuple[SlotSpec, ...]
    thresholds: Thresholds
