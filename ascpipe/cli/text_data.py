"""Implementation of ``ascpipe data head`` and ``check`` for text files (CSV, TSV)."""
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ascpipe.data.fields import Field, TextSchema, merged, names_of, split
from ascpipe.data.files import DataFile, record_format_of
from ascpipe.data.formats import Format
from ascpipe.data.records import Record, RecordFile
from ascpipe.errors import DataError

_STEP_BYTES = 64 << 20
_SHOWN_PROBLEMS = 10  # maximum number per file

Shown = Tuple[str, Record, Optional[Dict[str, bytes]], Optional[str]]  #: path, record, fields, problem


class CheckedText(NamedTuple):
    """Result of checking one text file.

    Attributes:
        path, compression: see ``DataFile``.
        records: number of valid records.
        bytes: size of the file.
        fields: fields of these records.
        problems: the first ten errors.
        more_problems: number of further errors.
    """

    path: str
    compression: str
    records: int
    bytes: int
    fields: List[Field]
    problems: List[DataError]
    more_problems: int


def checked_text(file: DataFile, record_format: Format, progress: Optional[Callable[[int], None]]) -> CheckedText:
    """Read a text file, and check all its records. Invalid records are skipped."""
    schema = TextSchema(record_format)
    problems: List[DataError] = []
    more = 0
    names: List[str] = []
    try:
        with RecordFile(file.path, file.compression, record_format) as opened:
            is_end = False
            while not is_end:
                _, position, is_end = schema.check(opened, _STEP_BYTES, problems)
                more += len(problems[_SHOWN_PROBLEMS:])
                del problems[_SHOWN_PROBLEMS:]
                if progress is not None:
                    progress(position)
        names = names_of(file.path, record_format, len(schema.fields()))
    except DataError as error:  # the file or its header cannot be read
        problems.append(error)
    return CheckedText(file.path, file.compression, schema.records, os.stat(file.path).st_size, schema.fields(names),
                       problems, more)


def first_texts(files: Sequence[DataFile], settings: Tuple[bool, bool], count: int) -> Tuple[List[Shown], List[Field]]:
    """Read the first ``count`` records in total, file by file. Return the records and the types of their fields.

    Args:
        files: text files.
        settings: whether the files have headers, and whether quotes are interpreted.
        count: maximum number of records of all files.

    Raises:
        DataError: a record cannot be read.
    """
    shown: List[Shown] = []
    all_fields = []
    for file in files:
        if len(shown) == count:
            break
        record_format = record_format_of(file.format, *settings)
        with RecordFile(file.path, file.compression, record_format) as opened:
            records = [record for record, _ in zip(opened, range(count - len(shown)))]
        schema = TextSchema(record_format)
        problems: List[DataError] = []
        with RecordFile(file.path, file.compression, record_format) as opened:
            while schema.records + len(problems) < len(records):
                schema.check(opened, 2 ** 62, problems, len(records) - schema.records - len(problems))
        fields = schema.fields(names_of(file.path, record_format, len(schema.fields())))
        all_fields.append(fields)
        left = iter(problems)
        for record in records:
            texts = split(record.data, len(fields), record_format) if fields else None
            named = None if texts is None else {field.name: text for field, text in zip(fields, texts)}
            shown.append((file.path, record, named, None if texts is not None else str(next(left))))
    return shown, merged(all_fields)


def file_json(one: CheckedText) -> Dict[str, Any]:
    """Return the check result of one file as a JSON object."""
    return {"path": one.path, "compression": one.compression or None, "records": one.records, "bytes": one.bytes,
            "problems": [{"code": problem.code, "text": str(problem)} for problem in one.problems],
            "more_problems": one.more_problems, "fields": len(one.fields)}


def columns_json(fields: Sequence[Field]) -> List[Dict[str, Any]]:
    """Return the fields for JSON."""
    return [dict(one._asdict()) for one in fields]


def different_counts(checked: Sequence[CheckedText]) -> Optional[str]:
    """Return an error message if the files have different numbers of fields, or else None."""
    with_records = [one for one in checked if one.records]
    for one in with_records[1:]:
        if len(one.fields) != len(with_records[0].fields):
            return "{} has {} fields, but {} has {}".format(with_records[0].path, len(with_records[0].fields), one.path,
                                                         len(one.fields))
    return None
