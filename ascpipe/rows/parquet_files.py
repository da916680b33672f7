"""Parquet files with rows, read by pyarrow."""
import contextlib
import functools
import os
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.contents import TableSpec
from ascpipe.checkpoint.errors import RowsNotImportedError
from ascpipe.data.parquet import contradiction_of, failures, required
from ascpipe.rows.columns import COUNT, KEY, ROW, SLOT, TIMESTAMP
from ascpipe.rows.parquet_lists import values_of_largest_batch
from ascpipe.rows.parquet_pages import Chunk, LargePageError, checked_pages
from ascpipe.rows.sources import Part, Source, Wrong, block_rows, check_columns, widths_of

_BUFFER_BYTES = 1 << 20  #: bytes of a column that are read at a time
_FEW = 4096  #: number of values that every row group may have
_FITS = -1  # fault of a row without a fault; numbers from 0 on are wrong lengths
_NULL = -2
_KEYS = (KEY, "keys")
_ROWS = (ROW, "rows", "embedding")


class _File(NamedTuple):
    """Parquet file that is open only while it is read.

    Attributes:
        path: path of the file.
        stamp: its stamp when its footer was read.
        groups: number of row groups.
        fields: for each column to import, the columns of the file that contain it.
    """

    path: str
    stamp: disk.Stamp
    groups: int
    fields: Dict[str, List[str]]


class ParquetRows(Source):
    """Rows of Parquet files.

    Args:
        path: path of the file or directory that the user passed.
        files: paths of the files.
        spec: table into which the rows are imported.
    """

    def __init__(self, path: str, files: Sequence[str], spec: TableSpec) -> None:
        super().__init__(path)
        required(path)
        self._widths = widths_of(spec)
        self._block_rows = block_rows(spec)
        self._parquet_files = [self._looked_at(file, spec) for file in files]
        first = self._parquet_files[0]
        self.columns = list(first.fields)
        self.titles = {name: fields[0] for name, fields in first.fields.items() if len(fields) == 1}
        for one in self._parquet_files:
            if sorted(one.fields) != sorted(self.columns):
                raise self.refused(one.path, "its columns {} differ from the columns {} of {}".format(
                    ", ".join(one.fields), ", ".join(self.columns), first.path))
        check_columns(self, spec)

    def check_unchanged(self) -> None:
        """Raise ``DamagedRowsError`` if a file has changed since its footer was read."""
        for one in self._parquet_files:
            with _opened(self, one.path, one.stamp):
                pass

    def _looked_at(self, path: str, spec: TableSpec) -> _File:
        with _opened(self, path) as (file, stamp, _):
            count = file.metadata.num_row_groups
            try:
                rows = [file.metadata.row_group(number).num_rows for number in range(count)]
            except failures() as error:
                raise self.damaged(path, str(error)) from error
            contradiction = contradiction_of(file.metadata.num_rows, rows)
            if contradiction:
                raise self.damaged(path, contradiction)
            return _File(path, stamp, count, self._fields(path, file.schema_arrow, spec))

    def _fields(self, path: str, schema: Any, spec: TableSpec) -> Dict[str, List[str]]:
        """Return, for each imported column, the columns of the file that contain its values."""
        names = list(schema.names)
        keys = _named(names, _KEYS) or [
            field.name for field in schema if _is_whole(field.type) and field.name not in (COUNT, TIMESTAMP)]
        rows = _row_columns(schema)
        are_floats = bool(rows) and not _named(names, _ROWS) and _is_float(schema.field(rows[0]).type)
        what = "it has the columns {}. ".format(", ".join("{} ({})".format(field.name, field.type)
                                                          for field in list(schema)[:20]))
        if len(keys) != 1 or not _is_whole(schema.field(keys[0]).type):
            raise self.refused(path, what + "Name the column of the keys 'key', and use int64")
        if not rows or (len(rows) > 1 and not are_floats) or (are_floats and len(rows) != spec.dim):
            raise self.refused(path, what + "Name the column of the rows 'row', and use lists of {} floats, or write "
                               "{} columns of floats".format(spec.dim, spec.dim))
        others = [name for name in names if name.startswith(SLOT) or name in (COUNT, TIMESTAMP)]
        fields = {KEY: keys, ROW: rows, **{name: [name] for name in others}}
        for name in {one for part in fields.values() for one in part}:
            if names.count(name) > 1:
                raise self.refused(path, "it has {} columns with the name {!r}".format(names.count(name), name))
        for name, of in fields.items():
            wanted = self._widths.get(name, 1)
            for one in of:
                self._check_type(path, schema.field(one), wanted, is_list=not (are_floats and of is rows))
        return fields

    def _check_type(self, path: str, field: Any, width: int, *, is_list: bool) -> None:
        if width == 0:
            fits = _is_whole(field.type)
        else:
            fits = _is_list(field.type) if is_list else _is_float(field.type)
        if not fits:
            raise self.refused(path, "column {!r} has the type {}, expected {}".format(
                field.name, field.type, "lists of {} floats".format(width) if width else "int64"))

    def parts(self, columns: Sequence[str]) -> Iterator[Part]:
        """Yield the rows. See ``Source.parts``."""
        wrong = Wrong()
        for one in self._parquet_files:
            with _opened(self, one.path, one.stamp) as (file, _, fd):
                for group in range(one.groups):
                    self._check_group(file, fd, one, group, [KEY, *columns])
                    yield from self._parts_of_group(file, one, group, [KEY, *columns], wrong)
        wrong.raise_if_any(self)

    def _parts_of_group(self, file: Any, one: _File, group: int, columns: Sequence[str],
                        wrong: Wrong) -> Iterator[Part]:
        fields = [field for name in columns for field in one.fields[name]]
        where = _where(one, group)
        try:
            rows = file.metadata.row_group(group).num_rows
            batches = file.iter_batches(self._block_rows, row_groups=[group], columns=fields, use_threads=False)
        except failures() as error:
            raise self.damaged(where, str(error)) from error
        first = 0
        while True:
            try:
                batch = next(batches, None)
                if batch is None:
                    break
                batch.validate(full=True)  # the decoder does not check all offsets
            except failures() as error:
                raise self.damaged(where, str(error)) from error
            place = functools.partial(_place, where, first)
            found = {name: self._values(batch, one.fields[name], name) for name in columns}
            self._count(found, place, wrong)
            if wrong.count == 0:
                yield Part({name: values for name, (values, _) in found.items()}, place)
            first += batch.num_rows
        if first != rows:
            raise self.damaged(where, "it has {} rows, but {} are expected".format(first, rows))

    def _check_group(self, file: Any, fd: int, one: _File, group: int, columns: Sequence[str]) -> None:
        """Raise an error if a page is too large, or if a column has too many values in a row group or batch of lists.
        """
        fields = [field for name in columns for field in one.fields[name]]
        where = _where(one, group)

        def read(start: int, count: int) -> bytes:
            return os.pread(fd, count, start)

        try:
            rows = file.metadata.row_group(group).num_rows
            for name, chunk, lists in _chunks(file, group):
                if any(name == field or name.startswith(field + ".") for field in fields):
                    self._check_values(where, name, chunk.values, rows)
                    pages = checked_pages(read, chunk)
                    if lists is not None:
                        together = min(rows, self._block_rows)
                        self._check_values(where, name, values_of_largest_batch(read, pages, lists, together), together)
        except LargePageError as error:
            raise self.refused(where, "column {!r}: {}".format(name, error)) from error
        except RowsNotImportedError:
            raise
        except failures() as error:
            raise self.damaged(where, str(error)) from error

    def _check_values(self, where: str, name: str, values: int, rows: int) -> None:
        most = rows * max(self._widths.values())
        if values > 2 * most + _FEW:
            raise self.refused(where, "column {!r} has {} values in {} rows, expected at most {}".format(
                name, values, rows, most), rows)

    def _values(self, batch: Any, fields: Sequence[str], name: str) -> Tuple[np.ndarray, np.ndarray]:
        """Return the values of a column, and the fault of each row as int64[n]: _FITS if there is no fault, _NULL for
        a null row, or the wrong length of the row.
        """
        width = self._widths[name]
        arrays = [batch.column(batch.schema.get_field_index(field)) for field in fields]
        if width and not _is_list(arrays[0].type):
            floats = np.stack([_floats(array) for array in arrays], axis=1)
            return floats, np.full(len(floats), _FITS)
        (array,) = arrays
        is_null = np.asarray(array.is_null().to_numpy(zero_copy_only=False), bool)
        if not width:
            values = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
            return values, np.where(is_null, _NULL, _FITS)
        lengths = _lengths(array)
        faults = np.where(is_null, _NULL, np.where(lengths == width, _FITS, lengths))
        if (faults != _FITS).any():
            return np.zeros((len(array), width), np.float32), faults
        return _floats(array.flatten()).reshape(len(array), width), faults

    def _count(self, found: Dict[str, Tuple[np.ndarray, np.ndarray]], place: Callable[[int], str],
               wrong: Wrong) -> None:
        bad = np.any([faults != _FITS for _, faults in found.values()], axis=0)
        if not bad.any():
            return
        row = int(np.argmax(bad))
        name, faults = next((name, faults) for name, (_, faults) in found.items() if faults[row] != _FITS)
        length = int(faults[row])
        width = self._widths[name]
        reason = "is null" if length == _NULL else "has {} floats, expected {}".format(length, width)
        if length > 0 and (faults == length).all():
            reason += (". To append zeros to the rows, pass --pad (pad=True in Python)" if length < width else
                       ". To drop their last floats, pass --truncate (truncate=True in Python)")
        wrong.add(place(row), "column {!r} {}".format(self.title(name), reason), int(bad.sum()))


def _where(one: _File, group: int) -> str:
    return "row group {} of {}".format(group, one.path)


def _chunks(file: Any, group: int) -> Iterator[Tuple[str, Chunk, Optional[str]]]:
    """Yield name, column chunk and compression of each column in a row group. The compression is None for columns that
    do not contain lists.
    """
    metadata = file.metadata.row_group(group)
    for place in range(metadata.num_columns):
        column = metadata.column(place)
        start = column.data_page_offset
        if column.has_dictionary_page and 0 < column.dictionary_page_offset < start:
            start = column.dictionary_page_offset
        is_list = file.schema.column(place).max_repetition_level > 0
        yield column.path_in_schema, Chunk(start, column.num_values), column.compression if is_list else None


@contextlib.contextmanager
def _opened(owner: Source, path: str, stamp: Optional[disk.Stamp] = None) -> Iterator[Tuple[Any, disk.Stamp, int]]:
    """Context manager that opens a file, and yields its ``pyarrow.parquet.ParquetFile``, its stamp and its descriptor.

    Raise ``DamagedRowsError`` if the footer cannot be read, or if the stamp of the file differs from ``stamp``.
    """
    import pyarrow
    from pyarrow import parquet

    fd = owner.opened(path)
    try:
        found = disk.stamp(fd)
        if stamp is not None and found != stamp:
            raise owner.damaged(path, "it changed while it was read")
        try:
            source = pyarrow.OSFile("/proc/self/fd/{}".format(fd))
            file = parquet.ParquetFile(source, buffer_size=_BUFFER_BYTES)
            file.schema_arrow  # noqa: B018 (reads the types, which may be damaged)
        except failures() as error:
            raise owner.damaged(path, str(error)) from error
        with source:
            yield file, found, fd
    finally:
        owner.close()


def dim_of_parquet(path: str, file: str) -> Optional[int]:
    """Return the number of floats per row in a Parquet file, or None if the number is unknown. Only the footer is read.

    Args:
        path: path that the user passed.
        file: path of the file.
    """
    required(path)
    with _opened(Source(path), file) as (opened, _, _):
        schema = opened.schema_arrow
        names = _row_columns(schema)
        kind = schema.field(names[0]).type if names else None
        if kind is None or _is_float(kind):
            return len(names) or None
        try:
            metadata = opened.metadata.row_group(0) if opened.metadata.num_row_groups else None
            for place in range(metadata.num_columns if metadata is not None and metadata.num_rows else 0):
                column = metadata.column(place)
                if column.path_in_schema.startswith(names[0] + "."):
                    return int(column.num_values // metadata.num_rows)
        except failures():
            return None  # ``ParquetRows`` raises an error
    return None


def _row_columns(schema: Any) -> List[str]:
    """Return the names of the columns that may contain the rows: columns of lists, or columns of floats."""
    lists = [field.name for field in schema if _is_list(field.type) and not field.name.startswith(SLOT)]
    return _named(list(schema.names), _ROWS) or lists or [field.name for field in schema if _is_float(field.type)]


def _place(where: str, first: int, row: int) -> str:
    return "row {} of {}".format(first + row, where)


def _lengths(array: Any) -> np.ndarray:
    import pyarrow.compute

    return np.asarray(pyarrow.compute.list_value_length(array).fill_null(-1).to_numpy(zero_copy_only=False))


def _floats(array: Any) -> np.ndarray:
    """Return floats as float32. Nulls become NaN."""
    with np.errstate(over="ignore"):
        return np.asarray(array.to_numpy(zero_copy_only=False)).astype(np.float32, copy=False)


def _named(names: Sequence[str], known: Sequence[str]) -> List[str]:
    return [name for name in known if name in names][:1]


def _is_whole(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind)) and not types.is_uint64(kind)


def _is_float(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_floating(kind))


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return (types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)) and _is_float(
        kind.value_type)
