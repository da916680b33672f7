"""What a checkpoint holds: the specs of its tables, where training was, and blocks of trained state."""
from typing import Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np

#: Key and count or timestamp are int64, an element of a row is float32.
INT_BYTES = 8
FLOAT_BYTES = 4


class SlotSpec(NamedTuple):
    """An optimizer slot of a table.

    Attributes:
        name: of its folder, ``<optimizer>_<state>`` such as ``LazyAdam_momentum``.
        width: floats per row.
        initial: what each element of a new row begins with; None where the checkpoint does not say.
    """

    name: str
    width: int
    initial: Optional[float]


class InitialRows(NamedTuple):
    """From what the row of a new key is computed.

    Attributes:
        seed: 64 bits, unsigned.
        kind: 0 constant a, 1 uniform [a, b), 2 normal (mean a, stddev b), 3 truncated normal, 4 a row of the pool.
        a, b: see ``kind``.
        scale: multiplies each initial value.
        pool_rows: rows of the pool; 0 for other kinds than 4.
    """

    seed: int
    kind: int
    a: float
    b: float
    scale: float
    pool_rows: int = 0


class Policies(NamedTuple):
    """Admission and eviction of a table, as they are after the last trained step.

    Attributes:
        access_threshold: count at which a key gets a row, -1: admission is off.
        counting: whether occurrences are counted.
        faae_coefficient: how much an occurrence counts.
        eviction_threshold: age at which an eviction drops a key, -1: off.
        time: the table's time: the last timestamp that it has seen, 0: none.
    """

    access_threshold: int
    counting: bool
    faae_coefficient: int
    eviction_threshold: int
    time: int


class TableSpec(NamedTuple):
    """One table of a checkpoint.

    Attributes:
        name: 1 to 100 letters, digits and underscores.
        dim: floats of an embedding.
        key_dtype: ``"int64"`` or ``"int32"``, as the program declared it; keys are int64 everywhere.
        slots: its optimizer slots, in their order within a row.
        rows: keys that have a row; in a delta, of those that it tells of.
        candidates: keys that are counted and have no row; as ``rows``.
        initial: None where the checkpoint does not say (one without our manifest).
        policies: None where the checkpoint does not say.
        deleted: in a delta, keys that the table had in the checkpoint before it and has no more; else 0.
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

    @property
    def row_floats(self) -> int:
        """Floats of a row: the embedding, then each optimizer slot."""
        return self.dim + sum(slot.width for slot in self.slots)


class Block(NamedTuple):
    """Some keys that have a row.

    Attributes:
        keys: int64[n].
        rows: float32[n, row_floats]: embedding, then the optimizer slots in the order of the spec.
        counts: int64[n], 0 or more.
        timestamps: int64[n], when each key was last used, in the unit of the data; 0: never with a timestamp.
    """

    keys: np.ndarray
    rows: np.ndarray
    counts: np.ndarray
    timestamps: np.ndarray


class PartedBlock(NamedTuple):
    """Some keys that have a row, which need not be in one piece.

    Attributes:
        keys, counts, timestamps: as those of a Block.
        parts: float32[n, ...] each; side by side they are the rows. Neither the embedding nor an optimizer slot lies
            in two of them.
    """

    keys: np.ndarray
    parts: Tuple[np.ndarray, ...]
    counts: np.ndarray
    timestamps: np.ndarray

    def joined(self) -> Block:
        """The same with rows in one piece."""
        rows = self.parts[0] if len(self.parts) == 1 else np.concatenate(self.parts, axis=1)
        return Block(self.keys, rows, self.counts, self.timestamps)


def columns(parts: Sequence[np.ndarray], column: int, width: int) -> np.ndarray:
    """float32[n, width]: some columns of rows that are these parts side by side; ValueError if no part has them all."""
    for part in parts:
        if column >= 0 and column + width <= part.shape[1]:
            return part if width == part.shape[1] else part[:, column:column + width]
        column -= part.shape[1]
    raise ValueError("no part of the rows has all of these {} columns".format(width))


class KeyBlock(NamedTuple):
    """Some keys and what is known of them, without rows: those of candidates, which have none, or those of a Block.

    Attributes:
        keys: int64[n].
        counts: int64[n], 0 or more.
        timestamps: int64[n], as those of a Block.
    """

    keys: np.ndarray
    counts: np.ndarray
    timestamps: np.ndarray


class TablePosition(NamedTuple):
    """How far a table was: with the run's id, what tells whether the live state is the saved one.

    Attributes:
        last_ticket: the last ticket it had finished, -1: none.
        cuts: changes between steps that were applied to it.
    """

    last_ticket: int
    cuts: int


class Link(NamedTuple):
    """Names one checkpoint of a directory, and no other that has its name later: what a delta stands upon.

    Attributes:
        stem: its ``base-step``.
        manifest: digest of its manifest.
    """

    stem: str
    manifest: str


class Slice(NamedTuple):
    """Whose part of a checkpoint: of several ranks each writes the keys that are its own, ``|key| % ranks == rank``.

    Attributes:
        rank: which.
        ranks: how many there are.
    """

    rank: int = 0
    ranks: int = 1

    @property
    def data(self) -> str:
        """Name of the file of an array, in each folder."""
        return self._file("data")

    @property
    def attribute(self) -> str:
        """Name of the file of its shape."""
        return self._file("attribute")

    def _file(self, what: str) -> str:
        return "slice.{}".format(what) if self.ranks == 1 else "slice_{}.{}".format(self.rank, what)


WHOLE = Slice()  #: of one rank


class Position(NamedTuple):
    """Where training was.

    Attributes:
        run_id: of the daemon's session, unique among all runs; 1 to 128 characters.
        tables: by the name of the table.
        trained_batches: by the name of the stream: how many of its batches are trained, of all runs that led here,
            since the tables were initialized; the input position, as ``dataset.skip(n)`` wants it.
    """

    run_id: str
    tables: Dict[str, TablePosition]
    trained_batches: Dict[str, int]
