"""Implementation of ``ascpipe data head`` and ``check`` for Parquet files."""
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ascpipe.cli.checked_data import CheckedFile
from ascpipe.data import parquet
from ascpipe.data.example import FeatureValues
from ascpipe.data.files import DataFile
from ascpipe.data.schema import Feature, merged
from ascpipe.errors import DamagedRecordsError, DataError

_SHOWN_PROBLEMS = 10  # maximum number per file


class Row(NamedTuple):
    """A row of a file. ``number`` is counted from 0."""

    number: int


Shown = Tuple[str, Row, Dict[str, FeatureValues], Optional[str]]  #: path, row, values by column, None


def first_rows(files: Sequence[DataFile], count: int) -> Tuple[List[Shown], List[Feature], int]:
    """Read the first ``count`` rows in total, file by file. Return the rows, the features and the number of rows.

    Raises:
        DataError: a file cannot be read.
    """
    shown: List[Shown] = []
    features = []
    for file in files:
        if len(shown) == count:
            break
        footer = parquet.footer(file.path)
        table = parquet.first(footer, count - len(shown))
        features.append((file.path, _features(footer, table)))
        values = {column.name: table.column(place).to_pylist() for place, column in enumerate(footer.columns)}
        types = {column.name: column.type or column.described for column in footer.columns}
        for number in range(table.num_rows):
            shown.append((file.path, Row(number), {
                name: FeatureValues(types[name], _list(rows[number])) for name, rows in values.items()}, None))
    return shown, merged(features)[0], len(shown)


def checked_rows(file: DataFile, progress: Optional[Callable[[int], None]]) -> CheckedFile:
    """Decode all row groups of a file. Row groups that cannot be decoded are skipped.

    Args:
        file: a Parquet file.
        progress: function that receives the approximate number of file bytes read so far.
    """
    problems: List[DataError] = []
    features: List[Tuple[str, List[Feature]]] = []
    records = 0
    try:
        footer = parquet.footer(file.path)
        names = [column.name for column in footer.columns]
        for number in range(len(footer.rows)):
            try:
                group = parquet.RowGroup(file.path, footer.bytes, footer.modified_ns, number)
                batch = parquet.read(group, names, use_threads=True)
            except DamagedRecordsError as error:
                problems.append(error)
                continue
            records += batch.num_rows
            features.append((file.path, _features(footer, batch)))
            if progress is not None:
                progress(footer.bytes * (number + 1) // len(footer.rows))
    except DataError as error:  # the footer or the file cannot be read
        problems.append(error)
    return CheckedFile(file.path, file.compression, records, os.stat(file.path).st_size, merged(features)[0], records,
                       None, problems[:_SHOWN_PROBLEMS], max(len(problems) - _SHOWN_PROBLEMS, 0))


def _features(footer: parquet.Footer, rows: Any) -> List[Feature]:
    """Return the columns that can be read as features.

    Args:
        footer: footer of the file.
        rows: table with all columns.
    """
    found = []
    for place, column in enumerate(footer.columns):
        if column.type is None:
            continue
        values = rows.column(place)
        counts = parquet.counts(values, column)
        found.append(Feature(column.name, column.type, len(values) - values.null_count, *counts))
    return sorted(found)


def _list(value: Any) -> List[Any]:
    """Return the values of a row in one column. Each value is bytes, or a number that JSON supports."""
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    return [int(one) if isinstance(one, bool) else one if isinstance(one, (bytes, float, int)) else str(one).encode()
            for one in values]
