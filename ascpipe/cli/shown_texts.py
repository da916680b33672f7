"""Output of ``ascpipe data head`` and ``check`` for text files."""
import json
from typing import Any, Dict, List, Sequence, Tuple

import click

from ascpipe.cli import printing
from ascpipe.cli.checked_data import progress_of
from ascpipe.cli.text_data import (
    CheckedText,
    Shown,
    checked_text,
    columns_json,
    different_counts,
    file_json,
    first_texts,
)
from ascpipe.data.fields import Field, feature_lines, looks_like_names, merged
from ascpipe.data.files import DataFile, record_format_of
from ascpipe.errors import DataError
from ascpipe.logs import counted, one_line

_MB = 1e6
_SHOWN_BYTES = 40  # maximum length of a field
_COMPARED = 3  # number of records that are read to recognize a header


def show_head(files: Sequence[DataFile], settings: Tuple[bool, bool], records: int, as_json: bool) -> None:
    """Print the first records and their fields.

    Args:
        files: text files.
        settings: whether the files have headers, and whether quotes are interpreted.
        records: maximum number of records.
        as_json: whether to print JSON.
    """
    shown, fields = first_texts(files, settings, records)
    if as_json:
        click.echo(json.dumps({"records": [_record_json(one) for one in shown], "columns": columns_json(fields)},
                              indent=2))
        return
    types = {one.name: one.type for one in fields}
    for path, record, texts, problem in shown:
        title = one_line("record {} of {}, {} at byte {}".format(record.number, path, counted(len(record.data), "byte"),
                                                                 record.offset))
        if texts is None:
            printing.show([title, "  {}".format(problem)], [])
        else:
            printing.show([], [(title, ["field", "type", "value"], [
                [one_line(name), types.get(name) or "-", _text(value)] for name, value in texts.items()])])
    if not shown:
        printing.show(["the files have no records"], [])
    elif fields:
        _print_features(files, settings, fields, sum(texts is not None for _, _, texts, _ in shown))


def show_check(files: Sequence[DataFile], settings: Tuple[bool, bool], as_json: bool) -> bool:
    """Check files and print the results. Return False if a record is invalid, or if the files have different numbers of
    fields.

    Args:
        files, settings, as_json: see ``show_head``.
    """
    checked: List[CheckedText] = []
    for file in files:
        with progress_of(file) as progress:
            checked.append(checked_text(file, record_format_of(file.format, *settings), progress))
        if not as_json:
            _print_check(checked[-1])
    difference = different_counts(checked)
    fields = merged([one.fields for one in checked if one.records]) if difference is None else []
    if as_json:
        click.echo(json.dumps({"files": [file_json(one) for one in checked], "columns": columns_json(fields),
                               "difference": difference}, indent=2))
    else:
        if difference is not None:
            click.echo(one_line("BAD  {}".format(difference)))
        if fields:
            records = sum(one.records for one in checked)
            _print_fields(fields, records)
            _print_features(files, settings, fields, records)
    return difference is None and not any(one.problems for one in checked)


def _print_check(one: CheckedText) -> None:
    content = "{}, {:.1f} MB, {}".format(counted(one.records, "record"), one.bytes / _MB,
                                         counted(len(one.fields), "field"))
    lines = ["BAD  {}  {}".format(one.path, problem) for problem in one.problems]
    if one.more_problems:
        lines.append("BAD  {}  {} more".format(one.path, counted(one.more_problems, "invalid record")))
    lines.append("     {}  the other records: {}".format(one.path, content) if lines
                 else "ok   {}  {}".format(one.path, content))
    for line in lines:
        click.echo(one_line(line))


def _print_fields(fields: Sequence[Field], records: int) -> None:
    printing.show([], [("fields of {}".format(counted(records, "record")), ["field", "type", "missing"], [
        [one_line(one.name), one.type or "-", str(records - one.records)] for one in fields])])


def _print_features(files: Sequence[DataFile], settings: Tuple[bool, bool], fields: Sequence[Field],
                    records: int) -> None:
    """Print feature specs, or a hint that ``--header`` is missing."""
    if not settings[0] and _has_names(files[0], settings):
        printing.show(["# record 0 looks like field names. For the feature specs, pass --header"], [])
        return
    printing.show(["# feature specs of {}".format(counted(records, "record")),
                   *feature_lines(fields, records, header=settings[0])], [])


def _has_names(file: DataFile, settings: Tuple[bool, bool]) -> bool:
    """Return whether the first record of a file looks like a header. Return False if the records cannot be read."""
    try:
        shown, _ = first_texts([file], settings, _COMPARED)
    except DataError:
        return False
    records = [list(texts.values()) for _, _, texts, _ in shown if texts is not None]
    return len(records) == len(shown) and looks_like_names(records[0], records[1:])


def _record_json(one: Shown) -> Dict[str, Any]:
    path, record, texts, problem = one
    return {"path": path, "number": record.number, "offset": record.offset, "bytes": len(record.data),
            "problem": problem,
            "fields": None if texts is None else {name: _json_value(value) for name, value in texts.items()}}


def _json_value(value: bytes) -> Any:
    """Return a field for JSON. Bytes that are not UTF-8 become ``{"hex": ...}``."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"hex": value.hex()}


def _text(value: bytes) -> str:
    return one_line(value[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")) + (
        "..." if len(value) > _SHOWN_BYTES else "")
