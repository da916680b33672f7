"""Parquet files, which pyarrow reads. Each row of a Parquet file is a record, and each row group is read as a whole."""
import functools
import os
import stat
from types import ModuleType
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, cast

from ascpipe.errors import (
    DamagedRecordsError,
    DataChangedError,
    DataFilesError,
    DataUnreadableError,
    ParquetMissingError,
)

SCALAR = None  #: ``Column.length`` of a column with one value in each row
ANY_LENGTH = -1  #: ``Column.length`` of a column of lists
_FOOTERS = 256  #: maximum number of footers that are kept
_BUFFER_BYTES = 1 << 20  #: bytes of a column that are read at a time; without a buffer, pyarrow first reads all columns


class Column(NamedTuple):
    """A column of a file.

    Attributes:
        name: name of the column.
        described: type of the column, for messages.
        type: ``"int64"``, ``"float32"`` or ``"string"``: narrowest feature type that can represent all values of the
            column, except unsigned numbers above ``2 ** 63 - 1``. None if there is no such type.
        length: number of values in each row, ``ANY_LENGTH`` or ``SCALAR``.
        is_whole: whether the values are integers or bools.
    """

    name: str
    described: str
    type: Optional[str]
    length: Optional[int]
    is_whole: bool


class Footer(NamedTuple):
    """Content of a Parquet file's footer.

    Attributes:
        path: path of the file.
        bytes, modified_ns: size and modification time of the file.
        rows: number of rows of each row group.
        columns: columns in the order of the file.
    """

    path: str
    bytes: int
    modified_ns: int
    rows: List[int]
    columns: List[Column]


def required(path: str) -> ModuleType:
    """Return ``pyarrow.parquet``.

    Raises:
        ParquetMissingError: pyarrow is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ParquetMissingError(path) from error
    return cast(ModuleType, pyarrow.parquet)


def footer(path: str) -> Footer:
    """Read the footer of a Parquet file.

    Raises:
        ParquetMissingError: pyarrow is not installed.
        DamagedRecordsError: the file is not a Parquet file, or its footer is damaged.
        DataChangedError, DataUnreadableError: the file has changed meanwhile, or cannot be read.
    """
    required(path)
    found = _stat(path)
    metadata = _metadata(path, found.st_size, found.st_mtime_ns)
    try:
        schema = metadata.schema.to_arrow_schema()
        rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        columns = [_column(field) for field in schema]
    except failures() as error:
        raise _damaged(path, "the footer", error) from error
    if min(rows, default=0) < 0:
        raise _damaged(path, "the footer", "a row group has {} rows".format(min(rows)))
    contradiction = contradiction_of(metadata.num_rows, rows)
    if contradiction:
        raise _damaged(path, "the footer", contradiction)
    return Footer(path, found.st_size, found.st_mtime_ns, rows, columns)


def contradiction_of(rows: int, of_row_groups: Sequence[int]) -> str:
    """Return an error message if the row counts in a footer contradict each other. pyarrow does not check them."""
    found = sum(of_row_groups)
    if found == rows:
        return ""
    return "the file has {} rows, and its {} row groups have {} rows".format(rows, len(of_row_groups), found)


class RowGroup(NamedTuple):
    """Part of a file.

    Attributes:
        path: path of the file.
        bytes, modified_ns: size and modification time of the file when its footer was read.
        number: number of the row group in the file.
    """

    path: str
    bytes: int
    modified_ns: int
    number: int


def read(group: RowGroup, columns: Sequence[str], use_threads: bool = False) -> Any:
    """Decode columns of a row group.

    Returns:
        A ``pyarrow.RecordBatch`` with these columns in this order.

    Raises:
        ParquetMissingError: pyarrow is not installed.
        DataChangedError: size or modification time of the file have changed.
        DamagedRecordsError: the row group cannot be decoded.
        DataFilesError: several columns have a requested name.
        DataUnreadableError: the file cannot be read.
    """
    parquet = required(group.path)
    import pyarrow

    _check_unchanged(group.path, group.bytes, group.modified_ns)
    metadata = _metadata(group.path, group.bytes, group.modified_ns)
    what = "row group {}".format(group.number)
    try:
        with pyarrow.OSFile(group.path) as source:
            file = parquet.ParquetFile(source, metadata=metadata, buffer_size=_BUFFER_BYTES)
            table = file.read_row_group(group.number, list(columns), use_threads=use_threads)
        table.validate(full=True)  # the decoder does not check all offsets and indices that C++ will use
        arrays = [_together(table.column(_place(name, table.schema, group.path))) for name in columns]
        batch = pyarrow.RecordBatch.from_arrays(arrays, names=list(columns))
    except failures() as error:
        _check_unchanged(group.path, group.bytes, group.modified_ns)  # a changed file is the cause of other errors
        raise _damaged(group.path, what, error) from error
    _check_unchanged(group.path, group.bytes, group.modified_ns)
    return batch


def export(batch: Any, array: int, schema: int) -> None:
    """Pass the result of ``read`` to C++ through the Arrow C data interface.

    Args:
        batch: result of ``read``.
        array, schema: addresses of an empty ArrowArray and ArrowSchema, which will own the memory.
    """
    batch._export_to_c(array, schema)


def first(of: Footer, count: int) -> Any:
    """Decode the first rows of a Parquet file.

    Returns:
        A ``pyarrow.Table`` with all columns and at most ``count`` rows.

    Raises:
        DataError: see ``read``.
    """
    parquet = required(of.path)
    import pyarrow

    try:
        with pyarrow.OSFile(of.path) as source:
            file = parquet.ParquetFile(source)
            batches: List[Any] = []
            for batch in file.iter_batches(count):
                batches.append(batch)
                if sum(one.num_rows for one in batches) >= count:
                    break
            table = pyarrow.Table.from_batches(batches, file.schema_arrow).slice(0, count)
        table.validate(full=True)
    except failures() as error:
        _check_unchanged(of.path, of.bytes, of.modified_ns)
        raise _damaged(of.path, "the first row group", error) from error
    return table


def counts(values: Any, column: Column) -> Tuple[int, int]:
    """Return the minimum and the maximum number of values that a row has in a column. Rows with null are ignored."""
    import pyarrow.compute

    if column.length is SCALAR:
        return 1, 1
    lengths = pyarrow.compute.min_max(pyarrow.compute.list_value_length(values)).as_py()
    return lengths["min"] or 0, lengths["max"] or 0


def _place(name: str, schema: Any, path: str) -> int:
    places = schema.get_all_field_indices(name)
    if len(places) != 1:
        raise DataFilesError("{} has {} columns with the name {!r}. None of them was read. Write the file with "
                             "different names".format(path, len(places), name))
    return int(places[0])


def failures() -> Any:
    """Return the exception classes that pyarrow raises for damaged files."""
    import pyarrow

    # Errors of damaged files have many classes: OSError, ValueError, MemoryError, UnicodeDecodeError, ...
    return (pyarrow.ArrowException, OSError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError,
            RuntimeError)


def _damaged(path: str, what: str, reason: Any) -> DamagedRecordsError:
    return DamagedRecordsError("{} of {} cannot be decoded: {}. No batch has its rows. Check the file with `ascpipe "
                               "data check`, and write it again".format(
                                   what[0].upper() + what[1:], path, " ".join(str(reason).split())))


def _stat(path: str) -> os.stat_result:
    try:
        found = os.stat(path)
    except OSError as error:
        raise DataUnreadableError("{} cannot be read: {}. Nothing was changed. Check the path and its "
                                  "permissions".format(path, error.strerror or error)) from error
    if not stat.S_ISREG(found.st_mode):
        raise DataUnreadableError("{} is not a regular file. Nothing was read. Pass the path of a file".format(path))
    return found


def _check_unchanged(path: str, size: int, modified_ns: int) -> None:
    now = _stat(path)
    if (now.st_size, now.st_mtime_ns) != (size, modified_ns):
        raise DataChangedError("{} has changed while it was read: expected {} bytes, modified at {} ns since 1970; "
                               "found {} bytes, modified at {} ns. Read it again when no other process writes "
                               "it".format(path, size, modified_ns, now.st_size, now.st_mtime_ns))


@functools.lru_cache(maxsize=_FOOTERS)
def _metadata(path: str, size: int, modified_ns: int) -> Any:
    """Return the footer of a file as a ``pyarrow.parquet.FileMetaData``. Several threads may use this object."""
    parquet = required(path)
    import pyarrow

    try:
        with pyarrow.OSFile(path) as source:
            metadata = parquet.read_metadata(source)
    except failures() as error:
        _check_unchanged(path, size, modified_ns)
        if isinstance(error, (PermissionError, FileNotFoundError)):
            raise DataUnreadableError("{} cannot be read: {}. Nothing was changed. Check the path and its "
                                      "permissions".format(path, error.strerror or error)) from error
        raise _damaged(path, "the footer", error) from error
    _check_unchanged(path, size, modified_ns)
    return metadata


def _together(column: Any) -> Any:
    """Return the values of a chunked array as one array."""
    import pyarrow

    if column.num_chunks == 1:
        return column.chunk(0)
    if column.num_chunks == 0:
        return pyarrow.array([], column.type)
    wide: Dict[Any, Any] = {pyarrow.string(): pyarrow.large_string(), pyarrow.binary(): pyarrow.large_binary()}
    if column.type in wide:  # together, chunks may have more than 2 GiB
        column = column.cast(wide[column.type])
    return pyarrow.concat_arrays(column.chunks)


def _column(field: Any) -> Column:
    from pyarrow import types

    item = field.type
    length: Optional[int] = SCALAR
    if types.is_fixed_size_list(item):
        length = item.list_size
    elif types.is_list(item) or types.is_large_list(item):
        length = ANY_LENGTH
    if length is not SCALAR:
        item = item.value_type
    if types.is_dictionary(item):
        item = item.value_type
    is_whole = types.is_integer(item) or types.is_boolean(item)
    kind = None
    if is_whole:
        kind = "int64"
    elif types.is_float32(item) or types.is_float64(item):
        kind = "float32"
    elif (types.is_string(item) or types.is_binary(item) or types.is_large_string(item)
          or types.is_large_binary(item)):
        kind = "string"
    return Column(field.name, str(field.type), kind, length, is_whole)
