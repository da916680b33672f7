"""Contents of a checkpoint: table specs, training positions, and blocks of trained state."""
from typing import Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np

#: bytes of a key, count or timestamp (int64); row elements are float32
INT_BYTES = 8
FLOAT_BYTES = 4


class SlotSpec(NamedTuple):
    """An optimizer slot of a table.

    Attributes:
        name: name of the slot's folder, ``<optimizer>_<state>`` such as ``LazyAdam_momentum``.
        width: floats per row.
        initial: initial value of each element of a new row, or None if the checkpoint does not contain the value.
    """

    name: str
    width: int
    initial: Optional[float]


class InitialRows(NamedTuple):
    """Parameters that determine the row of a new key.

    Attributes:
        seed: unsigned 64-bit integer.
        kind: 0: constant a; 1: uniform [a, b); 2: normal (mean a, stddev b); 3: truncated normal; 4: a row of the pool.
        a, b: parameters of ``kind``.
        scale: factor by which each initial value is multiplied.
        pool_rows: number of rows of the pool; 0 unless ``kind`` is 4.
    """

    seed: int
    kind: int
    a: float
    b: float
    scale: float
    pool_rows: int = 0


class Policies(NamedTuple):
    """Admission and eviction settings of a table, as they were after the last trained step.

    Attributes:
        access_threshold: count at which a key gets a row, or -1 if admission is off.
        counting: whether occurrences are counted.
        faae_coefficient: weight of one occurrence.
        eviction_threshold: age at which an eviction drops a key, or -1 if eviction is off.
        time: timestamp of the last batch with a timestamp, or 0.
    """

    access_threshold: int
    counting: bool
    faae_coefficient: int
    eviction_threshold: int
    time: int


class ColumnVariable(NamedTuple):
    """Variable that belongs to a feature column and is replaced by a table.

    Attributes:
        name: name of the variable in TensorFlow, at least one character.
        buckets: number of rows that the variable has in TensorFlow.
    """

    name: str
    buckets: int


class TableSpec(NamedTuple):
    """Properties of one table of a checkpoint.

    Attributes:
        name: 1 to 100 letters, digits and underscores.
        dim: floats of an embedding.
        key_dtype: ``"int64"`` or ``"int32"``, as declared by the program; keys are stored as int64.
        slots: optimizer slots, in their order within a row.
        rows: number of keys that have a row; for a delta, only the keys of the delta.
        candidates: number of keys that are counted and have no row; for a delta, only the keys of the delta.
        initial: None if there is no ascpipe manifest.
        policies: None if there is no ascpipe manifest.
        deleted: number of keys of the parent that a delta deletes; 0 in a full checkpoint.
        column: variable that the table replaces. It is None if the table belongs to no feature column, or if an
            earlier version of ascpipe saved the checkpoint.
    """

    name: str
    dim: int
    key_dtype: str
    slots: Tuple[SlotSpec, ...]
    rows: int
    candidates: int
    initial: Optional[InitialRows]
    policies: Optional[Policies]
    deleted: int = 0
    column: Optional[ColumnVariable] = None

    @property
    def row_floats(self) -> int:
        """Return the number of floats per row, in the embedding and all optimizer slots."""
        return self.dim + sum(slot.width for slot in self.slots)


class Block(NamedTuple):
    """Keys with their rows.

    Attributes:
        keys: int64[n].
        rows: float32[n, row_floats]: embedding, then the optimizer slots in the order of the spec.
        counts: int64[n], 0 or more.
        timestamps: int64[n], time of last use of each key, in the unit of the data, or 0 if the key never had
            a timestamp.
    """

    keys: np.ndarray
    rows: np.ndarray
    counts: np.ndarray
    timestamps: np.ndarray


class PartedBlock(NamedTuple):
    """Keys with their rows. A row may be split into several arrays.

    Attributes:
        keys, counts, timestamps: the arrays of ``Block``.
        parts: float32[n, ...] each. The parts, concatenated along axis 1, are the rows. The embedding and
            each optimizer slot are never split between parts.
    """

    keys: np.ndarray
    parts: Tuple[np.ndarray, ...]
    counts: np.ndarray
    timestamps: np.ndarray

    def joined(self) -> Block:
        """Return a ``Block`` in which the arrays of ``parts`` are concatenated to ``rows``."""
        rows = self.parts[0] if len(self.parts) == 1 else np.concatenate(self.parts, axis=1)
        return Block(self.keys, rows, self.counts, self.timestamps)


def columns(parts: Sequence[np.ndarray], column: int, width: int) -> np.ndarray:
    """Return a view of ``width`` columns of the rows, starting at ``column``.

    The view is float32[n, width]. Columns are counted over all parts. Raise ``ValueError`` unless one part contains all
    these columns.
    """
    for part in parts:
        if column >= 0 and column + width <= part.shape[1]:
            return part if width == part.shape[1] else part[:, column:column + width]
        column -= part.shape[1]
    raise ValueError("no part of the rows has all of these {} columns".format(width))


class KeyBlock(NamedTuple):
    """Keys with counts and timestamps, but without rows: candidates, or the keys of a ``Block``.

    Attributes:
        keys: int64[n].
        counts: int64[n], 0 or more.
        timestamps: int64[n], as in ``Block``.
    """

    keys: np.ndarray
    counts: np.ndarray
    timestamps: np.ndarray


class TablePosition(NamedTuple):
    """Progress of a table. Together with the run id, the progress identifies the saved state of the table.

    Attributes:
        last_ticket: last finished ticket, or -1 if no ticket is finished.
        cuts: number of cuts (changes between two steps) that were applied to the table.
    """

    last_ticket: int
    cuts: int


class Link(NamedTuple):
    """Reference to the parent of a delta.

    The digest distinguishes the parent from a later checkpoint with the same name.

    Attributes:
        stem: ``base-step`` of the parent.
        manifest: digest of the parent's manifest.
    """

    stem: str
    manifest: str


class Slice(NamedTuple):
    """One rank's part of a checkpoint. A slice contains the keys with ``|key| % ranks == rank``.

    Attributes:
        rank: number of the rank.
        ranks: number of ranks.
    """

    rank: int = 0
    ranks: int = 1

    @property
    def data(self) -> str:
        """Return the name of the slice's data files. Each folder of a table contains one data file per slice."""
        return self._file("data")

    @property
    def attribute(self) -> str:
        """Return the name of the slice's shape files. Each folder of a table contains one shape file per slice."""
        return self._file("attribute")

    def _file(self, what: str) -> str:
        return "slice.{}".format(what) if self.ranks == 1 else "slice_{}.{}".format(self.rank, what)


WHOLE = Slice()  #: the slice of a run with one rank


class ReadPosition(NamedTuple):
    """Position of a stream's dataset after the last trained batch.

    Attributes:
        data: string that identifies the records and their order. The position is valid only for the same string.
        pass_number: number of iterators that have read the data before.
        epoch: number of the epoch in the pass.
        consumed: number of records that all ranks together have read in the epoch.
    """

    data: str
    pass_number: int
    epoch: int
    consumed: int


class Position(NamedTuple):
    """Training position.

    Attributes:
        run_id: id of the daemon's session, unique among all runs; 1 to 128 characters.
        tables: positions by table name.
        trained_batches: by stream name, the number of batches trained since the tables were initialized,
            including earlier runs. The number is the argument of ``dataset.skip(n)`` when training resumes.
        reads: by stream name, the positions of datasets that ``asc.data.read`` created.
    """

    run_id: str
    tables: Dict[str, TablePosition]
    trained_batches: Dict[str, int]
    reads: Dict[str, ReadPosition] = {}
