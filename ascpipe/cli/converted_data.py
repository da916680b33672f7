"""Implementation of ``ascpipe data convert``."""
import contextlib
import gzip
import itertools
import os
from typing import BinaryIO, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ascpipe.cli.checked_data import checked_file, progress_of
from ascpipe.cli.parquet_data import checked_rows
from ascpipe.cli.text_data import CheckedText, checked_text, different_counts
from ascpipe.data import criteo
from ascpipe.data.columns import FLOAT32, HEX, INT64, STRING, Column
from ascpipe.data.conversion import (
    ExampleWriter,
    TextChunk,
    TextColumn,
    TextWriter,
    Values,
    check_single,
    example_records,
    text_chunks,
)
from ascpipe.data.fields import header_of, merged
from ascpipe.data.files import CSV, PARQUET, TFRECORD, TSV, DataFile, by_name, of_one_kind, readable, record_format_of
from ascpipe.data.formats import Format
from ascpipe.data.parquet import footer, required
from ascpipe.data.parquet_rows import RowColumn, RowWriter, row_records
from ascpipe.data.schema import merged as merged_features
from ascpipe.errors import ArgumentError, DataError, DataFilesError

CRITEO = "criteo"  #: value of --format, in addition to the formats of files
FORMATS = (TFRECORD, CSV, TSV, PARQUET)  #: values of --to
COLUMN_TYPES = ("int32", "int64", "float32", STRING, HEX)
_LEVEL = 6  # compression level; the default of gzip
_DELIMITERS = {CSV: b",", TSV: b"\t"}


class Request(NamedTuple):
    """Arguments of the command.

    Attributes:
        files: paths or patterns of the input.
        output: path of the output.
        format: format of the input: TFRECORD, CSV, TSV, PARQUET, CRITEO or None to recognize it.
        to: format of the output, or None to derive the format from the file name.
        header, quotes: whether text input has a header, and whether quotes in the text are interpreted.
        columns: NAME or NAME:TYPE of the features to convert, or None.
        output_header: whether text output has a header.
        is_compressed: whether the output is compressed, or None to derive this from the file name.
        force: whether an existing output is replaced.
    """

    files: Sequence[str]
    output: str
    format: Optional[str]
    to: Optional[str]
    header: bool
    quotes: bool
    columns: Optional[str]
    output_header: bool
    is_compressed: Optional[bool]
    force: bool


class Input(NamedTuple):
    """Records to convert.

    Attributes:
        total: number of records.
        most: name -> maximum number of values in a record, in the order of the output.
        types: name -> "int64", "float32" or "string".
        records: the records of TFRecord or Parquet input, or None for text input.
        chunks: the records of text input.
    """

    total: int
    most: Dict[str, int]
    types: Dict[str, str]
    records: Optional[Iterator[Values]]
    chunks: Iterator[TextChunk] = iter(())


def converted(request: Request) -> Tuple[str, int]:
    """Convert files. The output is written to a temporary file in the output directory. If the conversion succeeds, the
    temporary file is renamed.

    Returns:
        Format of the output, and number of records.

    Raises:
        ArgumentError, DataFilesError: an argument is not allowed, or the output exists.
        DataError: the input cannot be read, or the output cannot be written. Nothing was changed.
    """
    to = request.to or by_name(request.output)
    if to not in FORMATS:
        raise DataFilesError("The name {} has no format that can be written. Nothing was read. Pass --to tfrecord, "
                             "csv, tsv or parquet".format(request.output))
    _check_output(request)
    if to == PARQUET:
        required(request.output)
    files = _files(request)
    found = _of_texts(files, request, to) if files[0].format in _DELIMITERS else _of_features(files, request)
    is_compressed = request.output.endswith(".gz") if request.is_compressed is None else request.is_compressed
    if to in _DELIMITERS:
        check_single(found.most)
    with _written(request, is_compressed and to != PARQUET) as file:
        if to == TFRECORD:
            _write_examples(ExampleWriter(file), found)
        elif to == PARQUET:
            _write_rows(file, request.output, found, "gzip" if is_compressed else "snappy")
        else:
            writer = TextWriter(file, list(found.most), _DELIMITERS[to], request.output_header)
            for record in _records_of(found):
                writer.write(record)
    return to, found.total


def _write_rows(file: BinaryIO, path: str, found: Input, compression: str) -> None:
    columns = {name: RowColumn(found.types[name], count > 1) for name, count in found.most.items()}
    writer = RowWriter(file, path, columns, compression)
    for record in _records_of(found):
        writer.write(record)
    writer.close()


def _write_examples(writer: ExampleWriter, found: Input) -> None:
    for chunk in found.chunks:
        writer.write_chunk(chunk)
    for record in found.records or ():
        writer.write(record)


def _records_of(found: Input) -> Iterator[Values]:
    if found.records is not None:
        return found.records
    return itertools.chain.from_iterable(chunk.records() for chunk in found.chunks)


def columns_of(given: Optional[str]) -> Optional[Dict[str, Optional[str]]]:
    """Parse the option ``--columns``, such as ``label,user:int64``. Return a dict that maps each name to its type, or
    to None if no type is given.

    Return None if the option is not given.

    Raises:
        ArgumentError: a name is empty or repeated, or a type is unknown.
    """
    if given is None:
        return None
    found: Dict[str, Optional[str]] = {}
    for part in given.split(","):
        first, colon, kind = part.rpartition(":")
        name = first if colon else part
        if not name or name in found or (colon and kind not in COLUMN_TYPES):
            raise ArgumentError("Part {!r} of --columns is empty, repeated or has an unknown type. Nothing was read. "
                                "Pass NAME or NAME:TYPE, separated by commas. The types are {}".format(
                                    part, ", ".join(COLUMN_TYPES)))
        found[name] = kind if colon else None
    return found


def _files(request: Request) -> List[DataFile]:
    if request.format is not None:
        kind = TSV if request.format == CRITEO else request.format
        return [one._replace(format=kind) for one in readable(request.files)]
    files = of_one_kind(request.files)
    for one in files:
        if one.format != files[0].format:
            raise DataFilesError("{} is a {} file, and {} is a {} file. Nothing was written. Convert them separately, "
                                 "or pass --format".format(files[0].path, files[0].format.upper(), one.path,
                                                           one.format.upper()))
    return files


def _of_features(files: Sequence[DataFile], request: Request) -> Input:
    """Return the records of TFRecord or Parquet files, whose features already have types."""
    is_parquet = files[0].format == PARQUET
    checked = []
    for file in files:
        with progress_of(file) as progress:
            checked.append((checked_rows if is_parquet else checked_file)(file, progress))
        if checked[-1].problems:
            raise checked[-1].problems[0]
        if checked[-1].not_example is not None:
            raise DataError("{}: record {} is not a tf.train.Example. Nothing was written. `ascpipe data head` shows "
                            "the reason".format(file.path, checked[-1].not_example))
    features, conflicts = merged_features([(one.path, one.features) for one in checked])
    if conflicts:
        raise DataError("Feature {!r} has the type {}, but {}. Nothing was written. Convert the files separately, or "
                        "name the features to convert with --columns".format(*conflicts[0]))
    most = {one.name: one.most for one in features}
    columns = columns_of(request.columns)
    if columns is not None:
        _check_names(list(columns), list(most), files[0].path)
        if any(columns.values()):
            raise ArgumentError("--columns has types, but the features of {} files have types already. Nothing was "
                                "written. Pass names only".format("Parquet" if is_parquet else "TFRecord"))
        most = {name: most[name] for name in columns}
    names = None if columns is None else list(columns)
    if is_parquet and names is None:
        _check_columns(files)
        names = list(most)
    records = row_records(files, names or [], progress_of) if is_parquet else example_records(files, names, progress_of)
    return Input(sum(one.examples for one in checked), most, {one.name: one.type or STRING for one in features},
                 records)


def _check_columns(files: Sequence[DataFile]) -> None:
    """Check that each column of Parquet files can be read as a feature, and that all files have the same columns."""
    names = [column.name for column in footer(files[0].path).columns]
    for file in files:
        columns = footer(file.path).columns
        for column in columns:
            if column.type is None:
                raise DataFilesError("Column {!r} of {} has the type {}, which no feature can have. Nothing was "
                                     "written. Name the columns to convert with --columns".format(
                                         column.name, file.path, column.described))
        if sorted(column.name for column in columns) != sorted(names):
            raise DataFilesError("{} and {} have different columns. Nothing was written. Name the columns to convert "
                                 "with --columns".format(files[0].path, file.path))


def _of_texts(files: Sequence[DataFile], request: Request, to: str) -> Input:
    is_criteo = request.format == CRITEO
    record_format = criteo.FORMAT if is_criteo else record_format_of(files[0].format, request.header, request.quotes)
    checked: List[CheckedText] = []
    for file in files:
        with progress_of(file) as progress:
            checked.append(checked_text(file, record_format, progress))
        if checked[-1].problems:
            raise checked[-1].problems[0]
    difference = different_counts(checked)
    if difference is not None:
        raise DataFilesError("{}. Nothing was written. Convert the files separately".format(difference))
    count = sum(one.records for one in checked)
    fields = merged([one.fields for one in checked if one.records])
    columns = columns_of(request.columns)
    if is_criteo:
        known = [TextColumn(number, column, False) for number, column in enumerate(criteo.COLUMNS)]
        if fields and len(fields) != len(known):
            raise DataFilesError("{} has {} fields, and the Criteo logs have {}. Nothing was written. Convert the file "
                                 "without --format criteo".format(files[0].path, len(fields), len(known)))
    else:
        names = _names(files, record_format, len(fields), columns)
        given = [None if columns is None else columns.get(name) for name in names]
        known = [_text_column(number, name, of, fields[number].type if fields else None,
                              bool(fields) and fields[number].records < count, to)
                 for number, (name, of) in enumerate(zip(names, given))]
    by_column = {one.column.name: one for one in known}
    chosen_names = list(by_column) if columns is None else list(columns)
    _check_names(chosen_names, list(by_column), files[0].path)
    chosen = [by_column[name] for name in chosen_names]
    chunks = text_chunks(files, record_format, chosen, progress_of) if count else iter(())
    types = {one.column.name: {STRING: STRING, FLOAT32: FLOAT32}.get(one.column.type, INT64) for one in chosen}
    return Input(count, dict.fromkeys(chosen_names, 1), types, None, chunks)


def _text_column(number: int, name: str, chosen: Optional[str], narrowest: Optional[str], has_missing: bool,
                 to: str) -> TextColumn:
    """Return the output column for a text field. The default type is string for text output. For other output, it is
    the narrowest type that fits.

    Hexadecimal digits remain text, because they may be identifiers and not numbers.
    """
    kind = chosen or (STRING if to in _DELIMITERS or narrowest in (None, HEX) else narrowest) or STRING
    if kind == STRING:
        return TextColumn(number, Column(name, STRING, b""), False)
    default = 0.0 if kind == "float32" else 0
    return TextColumn(number, Column(name, kind, default if has_missing else None), has_missing)


def _names(files: Sequence[DataFile], record_format: Format, count: int,
           columns: Optional[Dict[str, Optional[str]]]) -> List[str]:
    """Return the names of all fields, from the header or from --columns. Without names, return the field numbers."""
    if not record_format.header:
        if columns is not None and count in (0, len(columns)):
            return list(columns)
        return [str(number) for number in range(count)]
    names = header_of(files[0].path, record_format)
    for file in files[1:]:
        if header_of(file.path, record_format) != names:
            raise DataFilesError("{} and {} have different names of fields. Nothing was written. Convert the files "
                                 "separately".format(files[0].path, file.path))
    if (count and len(names) != count) or len(set(names)) != len(names):
        raise DataFilesError("The first record of {} has the names {}, but its records have {} fields, or a name is "
                             "repeated. Nothing was written. Correct the names, or convert without --header".format(
                                 files[0].path, ", ".join(names), count))
    return names


def _check_names(wanted: Sequence[str], known: Sequence[str], path: str) -> None:
    for name in wanted:
        if name not in known:
            raise ArgumentError("--columns has the name {!r}, but {} does not have this field or feature. Nothing was "
                                "written. It has {}. Without names, pass a name for each field".format(
                                    name, path, ", ".join(known) or "none"))


def _check_output(request: Request) -> None:
    if os.path.isdir(request.output):
        raise DataFilesError("The output {} is a directory. Nothing was read. Pass the path of a file".format(
            request.output))
    if os.path.lexists(request.output) and not request.force:
        raise DataFilesError("The output {} exists. Nothing was read. Pass another path, or --force to replace "
                             "it".format(request.output))


@contextlib.contextmanager
def _written(request: Request, is_compressed: bool) -> Iterator[BinaryIO]:
    """Context manager that yields the output file. The file is renamed to its final name if the block succeeds."""
    folder, name = os.path.split(request.output)
    beside = os.path.join(folder, ".{}.{}.tmp".format(name, os.getpid()))
    try:
        with open(beside, "xb") as file:
            try:
                if is_compressed:  # no name and time in the header, so that the same records result in the same bytes
                    with gzip.GzipFile("", "wb", _LEVEL, file, 0) as packed:
                        yield packed  # type: ignore[misc]
                else:
                    yield file
                file.flush()
                os.fsync(file.fileno())
                _check_output(request)
                os.replace(beside, request.output)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(beside)
    except OSError as error:
        raise DataError("{} cannot be written: {}. Nothing was changed. Check the directory and its free "
                        "space".format(request.output, error.strerror or error)) from error
