"""Writers of exported rows: Parquet, npy and TSV files."""
import io
from typing import Any, Dict, Iterable, List, Sequence, Union

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.digests import StreamDigest
from ascpipe.checkpoint.manifest import SavedFile
from ascpipe.data.parquet import required
from ascpipe.errors import ArgumentError
from ascpipe.rows.columns import FLOAT16, NPY, PARQUET, TSV, Column
from ascpipe.rows.sorting import Arrays, regrouped

_GROUP_BYTES = 16 << 20  #: bytes of rows in a row group of a Parquet file
_GROUP_ROWS = 1 << 16
_SYNC_BYTES = 8 << 20  #: bytes that are written back to the disk at a time
_FLOAT16_PYARROW = 15  #: first release that writes float16 to Parquet files
_DIGITS = {"float32": b"%.9g", FLOAT16: b"%.5g"}  #: the number of digits that identifies each value


class DigestFile(io.BufferedIOBase):
    """File that computes the digest of the written bytes. The caller closes the descriptor."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self._digest = StreamDigest()
        self._begun = 0  # number of bytes whose write-back has started

    def write(self, content: Any) -> int:
        """Write bytes."""
        view = memoryview(content).cast("B")
        disk.write_all(self._fd, view)
        self._digest.update(view)
        if self._digest.size - self._begun >= _SYNC_BYTES:
            disk.begin_sync(self._fd, self._begun, self._digest.size)
            self._begun = self._digest.size
        return view.nbytes

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._digest.size

    def saved(self) -> SavedFile:
        """Return the length and the digest of the file."""
        return SavedFile(self._digest.size, self._digest.hexdigest())


def check(file_format: str, dtype: str, path: str) -> None:
    """Check that the file format supports the type ``dtype``.

    Raises:
        ParquetMissingError: pyarrow is not installed.
        ArgumentError: the installed pyarrow does not support float16 in Parquet files.
    """
    if file_format != PARQUET:
        return
    required(path)
    import pyarrow

    if dtype == FLOAT16 and int(pyarrow.__version__.split(".")[0]) < _FLOAT16_PYARROW:
        raise ArgumentError("pyarrow {} writes no Parquet files with float16. Nothing was written. Use the format npy "
                            "or tsv, the type float32, or pyarrow {}".format(pyarrow.__version__, _FLOAT16_PYARROW))


def begin(file_format: str, files: Sequence[DigestFile], columns: Sequence[Column], rows: int) -> None:
    """Write the headers of npy files. In each file, the header precedes the values.

    Args:
        files: the files of ``columns.files_of``.
        rows: number of rows.
    """
    for file, column in zip(files, columns) if file_format == NPY else ():
        np.lib.format.write_array_header_1_0(file, {
            "descr": np.lib.format.dtype_to_descr(np.dtype(column.dtype)), "fortran_order": False,
            "shape": (rows, column.width) if column.width else (rows,)})


def write(file_format: str, files: Sequence[DigestFile], columns: Sequence[Column], blocks: Iterable[Arrays]) -> None:
    """Write all rows.

    Args:
        files: the files that were passed to ``begin``.
        blocks: the rows, one array for each column.
    """
    if file_format == NPY:
        _write_npy(files, blocks)
    elif file_format == TSV:
        _write_tsv(files[0], columns, blocks)
    else:
        _write_parquet(files[0], columns, blocks)


def _write_npy(files: Sequence[DigestFile], blocks: Iterable[Arrays]) -> None:
    for arrays in blocks:
        for file, values in zip(files, arrays):
            file.write(np.ascontiguousarray(values).view(np.uint8))


def _write_tsv(file: DigestFile, columns: Sequence[Column], blocks: Iterable[Arrays]) -> None:
    texts = [b" ".join([_DIGITS[column.dtype]] * column.width) if column.width else b"%d" for column in columns]
    line = b"\t".join(texts) + b"\n"
    for arrays in blocks:
        lists: List[List[Any]] = [values.tolist() for values in arrays]
        file.write(b"".join([line % tuple(_flat(row)) for row in zip(*lists)]))


def _flat(row: Iterable[Union[int, List[float]]]) -> List[Any]:
    flat: List[Any] = []
    for cell in row:
        if isinstance(cell, list):
            flat += cell
        else:
            flat.append(cell)
    return flat


def _write_parquet(file: DigestFile, columns: Sequence[Column], blocks: Iterable[Arrays]) -> None:
    import pyarrow
    from pyarrow import parquet

    types: Dict[str, Any] = {
        column.name: pyarrow.list_(pyarrow.from_numpy_dtype(column.dtype), column.width) if column.width
        else pyarrow.int64() for column in columns}
    schema = pyarrow.schema(list(types.items()))
    rows = max(1, min(_GROUP_ROWS, _GROUP_BYTES // sum(column.row_bytes for column in columns)))
    keys = [column.name for column in columns if not column.width]
    with parquet.ParquetWriter(file, schema, compression="snappy", use_dictionary=False,
                               write_statistics=keys) as writer:
        for arrays in regrouped(blocks, rows):
            cells = [pyarrow.array(values) if not column.width else pyarrow.FixedSizeListArray.from_arrays(
                pyarrow.array(values.reshape(-1)), column.width) for column, values in zip(columns, arrays)]
            writer.write_table(pyarrow.Table.from_arrays(cells, schema=schema), row_group_size=rows)
