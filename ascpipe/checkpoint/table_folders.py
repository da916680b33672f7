"""Names, contents and sizes of the folders of a table in a checkpoint. The functions are pure."""
from typing import NamedTuple, Tuple

import numpy as np

from ascpipe.checkpoint.contents import FLOAT_BYTES, INT_BYTES, TableSpec
from ascpipe.layout.initial_kinds import POOL

KEY = "key"
EMBEDDING = "embedding"
COUNT = "count"
TIMESTAMP = "timestamp"
CANDIDATE_KEY = "candidate_key"
CANDIDATE_COUNT = "candidate_count"
CANDIDATE_TIMESTAMP = "candidate_timestamp"
DELETED_KEY = "deleted_key"
INITIAL_POOL = "initial_pool"
KEYS = (KEY, CANDIDATE_KEY, DELETED_KEY)  #: folders of unique keys
COUNTS = (COUNT, TIMESTAMP, CANDIDATE_COUNT, CANDIDATE_TIMESTAMP)  #: folders of non-negative numbers
OURS = frozenset([*KEYS, *COUNTS, EMBEDDING, INITIAL_POOL])


class Piece(NamedTuple):
    """One folder of a table, with one data file and one shape file per slice. ``contents.Slice`` has the file names.

    Attributes:
        folder: name of the folder.
        rows: rows of the array.
        width: float32 values per row, or 0 if the array is int64[rows].
    """

    folder: str
    rows: int
    width: int

    @property
    def row_bytes(self) -> int:
        """Return the number of bytes per row."""
        return self.width * FLOAT_BYTES if self.width else INT_BYTES

    @property
    def data_bytes(self) -> int:
        """Return the length of the data file."""
        return self.rows * self.row_bytes

    @property
    def dtype(self) -> np.dtype:
        """Return the dtype of an element."""
        return np.dtype("<f4") if self.width else np.dtype("<i8")

    @property
    def attribute(self) -> bytes:
        """Return the content of the shape file: int64 [rows, 8] or [rows, width, 4]."""
        shape = [self.rows, self.width, FLOAT_BYTES] if self.width else [self.rows, INT_BYTES]
        return np.array(shape, "<i8").tobytes()

    @property
    def file_bytes(self) -> int:
        """Return the total length of the data file and the shape file."""
        return self.data_bytes + len(self.attribute)


def row_pieces(spec: TableSpec) -> Tuple[Piece, ...]:
    """Return the pieces of the keys with a row: keys, embedding, optimizer slots, counts, timestamps."""
    keys, *counts = count_pieces(spec)
    return (keys, *float_pieces(spec), *counts)


def count_pieces(spec: TableSpec) -> Tuple[Piece, ...]:
    """Return the pieces of the keys with a row, but without the rows: keys, counts, timestamps."""
    return tuple(Piece(folder, spec.rows, 0) for folder in (KEY, COUNT, TIMESTAMP))


def float_pieces(spec: TableSpec) -> Tuple[Piece, ...]:
    """Return the pieces of the rows: the embedding, followed by the optimizer slots in the order of the spec."""
    slots = tuple(Piece(slot.name, spec.rows, slot.width) for slot in spec.slots)
    return (Piece(EMBEDDING, spec.rows, spec.dim), *slots)


def candidate_pieces(spec: TableSpec) -> Tuple[Piece, ...]:
    """Return the pieces of the keys without a row (candidates): keys, counts, timestamps."""
    return tuple(Piece(folder, spec.candidates, 0) for folder in (CANDIDATE_KEY, CANDIDATE_COUNT, CANDIDATE_TIMESTAMP))


def deleted_pieces(spec: TableSpec) -> Tuple[Piece, ...]:
    """Return the piece with the deleted keys, or no piece if no keys were deleted."""
    return (Piece(DELETED_KEY, spec.deleted, 0),) if spec.deleted else ()


def pool_pieces(spec: TableSpec) -> Tuple[Piece, ...]:
    """Return the piece with the pool of initial rows, or no piece if the table has no pool."""
    if spec.initial is None or spec.initial.kind != POOL:
        return ()
    return (Piece(INITIAL_POOL, spec.initial.pool_rows, spec.dim),)


def key_pieces(spec: TableSpec) -> Tuple[Piece, ...]:
    """Return all int64 pieces: keys, counts and timestamps."""
    return count_pieces(spec) + candidate_pieces(spec) + deleted_pieces(spec)


def all_pieces(spec: TableSpec, rank: int = 0) -> Tuple[Piece, ...]:
    """Return all pieces that a rank writes. Only rank 0 writes the pool, which is equal on all ranks."""
    return key_pieces(spec) + float_pieces(spec) + (pool_pieces(spec) if rank == 0 else ())
