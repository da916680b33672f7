"""Columns of exported rows, and the files that contain the columns. The functions are pure."""
from typing import List, NamedTuple, Sequence

import numpy as np

from ascpipe.checkpoint.contents import TableSpec
from ascpipe.checkpoint.table_folders import Piece, count_pieces, float_pieces

KEY = "key"
ROW = "row"
COUNT = "count"
TIMESTAMP = "timestamp"
SLOT = "slot_"  #: prefix of the columns of optimizer slots

PARQUET = "parquet"
NPY = "npy"
TSV = "tsv"
FORMATS = (PARQUET, NPY, TSV)
FLOAT32 = "float32"
FLOAT16 = "float16"
INT64 = "int64"

_NPY_NAMES = {KEY: "keys", ROW: "rows", COUNT: "counts", TIMESTAMP: "timestamps"}


class Column(NamedTuple):
    """Column of a file.

    Attributes:
        name: ``key``, ``row``, ``slot_<slot>``, ``count`` or ``timestamp``.
        width: numbers in each row, or 0 for one int64.
        dtype: type of the numbers: int64, float32 or float16.
    """

    name: str
    width: int
    dtype: str

    @property
    def row_bytes(self) -> int:
        """Return the number of bytes that the column takes in each row."""
        return int(np.dtype(self.dtype).itemsize) * max(self.width, 1)


def columns_of(spec: TableSpec, *, slots: bool, counts: bool, dtype: str = FLOAT32) -> List[Column]:
    """Return the columns of an export, in the order in which they are written."""
    found = [Column(KEY, 0, INT64), Column(ROW, spec.dim, dtype)]
    if slots:
        found += [Column(SLOT + slot.name, slot.width, dtype) for slot in spec.slots]
    if counts:
        found += [Column(COUNT, 0, INT64), Column(TIMESTAMP, 0, INT64)]
    return found


def pieces_of(spec: TableSpec, names: Sequence[str]) -> List[Piece]:
    """Return the checkpoint's folders that contain the columns ``names``."""
    key, count, timestamp = count_pieces(spec)
    row, *slots = float_pieces(spec)
    known = {KEY: key, ROW: row, COUNT: count, TIMESTAMP: timestamp,
             **{SLOT + piece.folder: piece for piece in slots}}
    return [known[name] for name in names]


def files_of(file_format: str, columns: Sequence[Column]) -> List[str]:
    """Return the names of the files of an export. The npy format has one file for each column."""
    if file_format != NPY:
        return ["rows." + file_format]
    return [npy_name(column.name) for column in columns]


def npy_name(column: str) -> str:
    """Return the name of the npy file of a column."""
    return _NPY_NAMES.get(column, column) + ".npy"
