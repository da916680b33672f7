"""Reader and writer of Parquet rows for the conversion of data files. See ``ascpipe/data/conversion.py``."""
import ctypes
from typing import Any, BinaryIO, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from ascpipe.data import parquet
from ascpipe.data.columns import FLOAT32, INT64, STRING
from ascpipe.data.conversion import Values, Watched
from ascpipe.data.example import FeatureValues
from ascpipe.data.files import DataFile
from ascpipe.errors import DataError

_CHUNK = 1024  # rows that are Python objects at the same time
_GROUP_ROWS = 1 << 16  # maximum number of rows of a row group that is written
_GROUP_BYTES = 1 << 26  # bytes of values; a row group ends after the row that reaches this number
_MOST_INT64 = 2 ** 63 - 1


class RowColumn(NamedTuple):
    """A column that is written.

    Attributes:
        type: ``"int64"``, ``"float32"`` or ``"string"``.
        is_list: whether each row has any number of values. Otherwise, each row has one value or null.
    """

    type: str
    is_list: bool


def row_records(files: Sequence[DataFile], names: Sequence[str], watched: Watched) -> Iterator[Values]:
    """Yield the rows of Parquet files. If a column of a row is null, the record has no feature for this column.

    Args:
        files: the files.
        names: columns to read. Each column must have a type that features support.
        watched: function that shows the progress.

    Raises:
        DataError: a row group cannot be read, or a row has a value that no feature can have.
    """
    for file in files:
        footer = parquet.footer(file.path)
        columns = {column.name: column for column in footer.columns}
        with watched(file) as progress:
            for number in range(len(footer.rows)):
                batch = parquet.read(parquet.RowGroup(file.path, footer.bytes, footer.modified_ns, number), names)
                for first in range(0, batch.num_rows, _CHUNK):
                    part = batch.slice(first, _CHUNK)
                    lists = [part.column(place).to_pylist() for place in range(len(names))]
                    for row in range(part.num_rows):
                        where = "row {} of row group {} of {}".format(first + row, number, file.path)
                        yield {name: FeatureValues(columns[name].type, _values(rows[row], columns[name], where))
                               for name, rows in zip(names, lists) if rows[row] is not None}
                if progress is not None:
                    progress(footer.bytes * (number + 1) // len(footer.rows))


def _values(cell: Any, column: parquet.Column, where: str) -> List[Any]:
    return [_value(one, column, where) for one in (cell if isinstance(cell, list) else [cell])]


def _value(value: Any, column: parquet.Column, where: str) -> Any:
    if value is None or (column.type == INT64 and value > _MOST_INT64):
        raise DataError("Column {!r} has {} in {}, which no feature can have. Nothing was written. Name the columns to "
                        "convert with --columns".format(column.name, "a null in a list" if value is None else value,
                                                        where))
    if column.type == INT64:
        return int(value)
    if column.type == FLOAT32:
        return ctypes.c_float(value).value
    return value if isinstance(value, bytes) else value.encode()


class RowWriter:
    """Writer of Parquet files. Call ``close`` after the last record.

    Args:
        file: the output file.
        path: path of the output, for messages.
        columns: columns by name.
        compression: ``"snappy"`` or ``"gzip"``.

    Raises:
        ParquetMissingError: pyarrow is not installed.
        DataError: the name of a column is not UTF-8.
    """

    def __init__(self, file: BinaryIO, path: str, columns: Mapping[str, RowColumn], compression: str) -> None:
        module = parquet.required(path)
        import pyarrow

        types = {INT64: pyarrow.int64(), FLOAT32: pyarrow.float32(), STRING: pyarrow.binary()}
        for name in columns:
            if name.encode("utf-8", "replace").decode() != name:
                raise DataError("Feature {!r} cannot be a column of a Parquet file, because its name is not UTF-8. "
                                "Nothing was written. Name the features to convert with --columns".format(name))
        self._columns = columns
        self._schema = pyarrow.schema([(name, pyarrow.list_(types[of.type]) if of.is_list else types[of.type])
                                       for name, of in columns.items()])
        self._writer = module.ParquetWriter(file, self._schema, compression=compression)
        self._rows: Dict[str, List[Any]] = {name: [] for name in columns}
        self._count = 0
        self._bytes = 0

    def write(self, values: Values) -> None:
        """Append a record. A feature that the record does not contain is written as null."""
        for name, rows in self._rows.items():
            rows.append(self._cell(name, values.get(name)))
        self._count += 1
        if self._count == _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the last row group and the footer."""
        if self._count > 0:
            self._flush()
        self._writer.close()

    def _cell(self, name: str, one: Optional[FeatureValues]) -> Any:
        if one is None:
            return None
        self._bytes += sum(len(value) if isinstance(value, bytes) else 8 for value in one.values)
        if self._columns[name].is_list:
            return one.values
        return one.values[0] if one.values else None

    def _flush(self) -> None:
        import pyarrow

        self._writer.write_table(pyarrow.Table.from_pydict(self._rows, self._schema), row_group_size=self._count)
        self._rows = {name: [] for name in self._columns}
        self._count = 0
        self._bytes = 0
