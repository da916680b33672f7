"""Commands ``ascpipe data index``, ``head``, ``check`` and ``convert``. The commands need neither TensorFlow nor a
daemon.
"""
import json
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Tuple

import click

from ascpipe.cli import near_verbs, printing
from ascpipe.logs import counted, one_line

if TYPE_CHECKING:
    from ascpipe.cli.checked_data import CheckedFile
    from ascpipe.data.example import FeatureValues

_FAILED = 1
_MB = 1e6
_SHOWN_VALUES = 8  # maximum number of values per feature in the text of `head`
_SHOWN_BYTES = 40  # maximum length of a string in this text

_files = click.argument("files", metavar="FILE...", nargs=-1, required=True)
_header = click.option("--header", is_flag=True, help="The first record of each text file contains the names of the "
                                                      "fields.")
_no_quotes = click.option("--no-quotes", is_flag=True, help="Quotes have no meaning in text files: each line is a "
                                                            "record.")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("data", cls=near_verbs.Group, help="Index, show, check and convert files of training data.")
def command() -> None:
    """Group of commands. Each command imports its modules when it is called."""


@command.command("index", help="Build the index of each TFRecord, CSV or TSV file. An index contains the offset of "
                               "each record, and is needed to shuffle records. An existing index is kept. Parquet "
                               "files need no index.")
@_files
@_header
@_no_quotes
@_as_json
def index(files: Tuple[str, ...], header: bool, no_quotes: bool, as_json: bool) -> None:
    """Print one line per file as soon as its index exists, or one JSON text for all files."""
    from ascpipe.cli.checked_data import progress_of
    from ascpipe.data.files import PARQUET, readable, record_format_of
    from ascpipe.data.index import indexed

    shown: List[Dict[str, Any]] = []
    for file in readable(files):
        if file.format == PARQUET:
            shown.append({"path": file.path, "index": None, "records": None, "is_new": False})
            if not as_json:
                click.echo(one_line("none  {}  Parquet files need no index, because the footer has their row "
                                    "groups".format(file.path)))
            continue
        with progress_of(file) as progress:
            built = indexed(file.path, progress, record_format_of(file.format, header, not no_quotes))
        with built.opened as opened:
            shown.append({"path": file.path, "index": opened.path, "records": opened.records, "is_new": built.is_new})
            if not as_json:
                click.echo(one_line("{}  {}  {}: {}".format(
                    "new " if built.is_new else "kept", file.path, counted(opened.records, "record"), opened.path)))
    if as_json:
        click.echo(json.dumps({"files": shown}, indent=2))


@command.command("head", help="Show the first records, and the feature specs that describe them.")
@_files
@click.option("--records", default=3, show_default=True, type=click.IntRange(1, 100000),
              help="Total number of records.")
@_header
@_no_quotes
@_as_json
def head(files: Tuple[str, ...], records: int, header: bool, no_quotes: bool, as_json: bool) -> None:
    """Show records. For a record that is not a tf.train.Example, print why it cannot be parsed."""
    from ascpipe.cli.checked_data import first_records, spec_dict
    from ascpipe.cli.parquet_data import first_rows
    from ascpipe.data.files import PARQUET, TFRECORD, of_one_kind
    from ascpipe.data.schema import spec_lines

    found = of_one_kind(files)
    is_parquet = found[0].format == PARQUET
    if not is_parquet and found[0].format != TFRECORD:
        from ascpipe.cli.shown_texts import show_head

        show_head(found, (header, not no_quotes), records, as_json)
        return
    first: Callable[..., Any] = first_rows if is_parquet else first_records
    shown, features, examples = first(found, records)
    if as_json:
        click.echo(json.dumps({"records": [_record_json(*one) for one in shown],
                               "features": spec_dict(features, examples)}, indent=2))
        return
    for path, record, values, problem in shown:
        title = "record {} of {}".format(record.number, path)
        if not is_parquet:
            title += ", {} at byte {}".format(counted(len(record.data), "byte"), record.offset)
        if problem is not None:
            printing.show([title, "  " + problem], [])
        else:
            printing.show([], [(one_line(title), ["feature", "type", "count", "values"], [
                [name, one.type or "-", str(len(one.values)), _values_text(one)]
                for name, one in sorted(values.items())])])
    if not shown:
        printing.show(["the files have no records"], [])
    elif features:
        printing.show(["# feature specs of {}".format(counted(examples, "record")),
                       *spec_lines(features, examples)], [])


@command.command("check", help="Verify all records, and compare their features or fields. The exit code is 1 if a "
                               "record is damaged, or if a feature has different types in different records.")
@_files
@_header
@_no_quotes
@_as_json
def check(files: Tuple[str, ...], header: bool, no_quotes: bool, as_json: bool) -> None:
    """Print one line per file as soon as it is checked, then the features."""
    from ascpipe.cli.checked_data import checked_file, progress_of, spec_dict
    from ascpipe.cli.parquet_data import checked_rows
    from ascpipe.data.files import PARQUET, TFRECORD, of_one_kind
    from ascpipe.data.schema import merged, spec_lines

    found = of_one_kind(files)
    is_parquet = found[0].format == PARQUET
    if not is_parquet and found[0].format != TFRECORD:
        from ascpipe.cli.shown_texts import show_check

        if not show_check(found, (header, not no_quotes), as_json):
            sys.exit(_FAILED)
        return
    checked: List[CheckedFile] = []
    for file in found:
        with progress_of(file) as progress:
            checked.append((checked_rows if is_parquet else checked_file)(file, progress))
        if not as_json:
            for line in _check_lines(checked[-1], "row group" if is_parquet else "record"):
                click.echo(one_line(line))
    features, conflicts = merged([(one.path, one.features) for one in checked])
    examples = sum(one.examples for one in checked)
    if as_json:
        click.echo(json.dumps({"files": [_file_json(one) for one in checked],
                               "features": spec_dict(features, examples),
                               "conflicts": [dict(one._asdict()) for one in conflicts]}, indent=2))
    else:
        for conflict in conflicts:
            click.echo(one_line("BAD  feature {}: its type is {}, but {}".format(
                conflict.name, conflict.type, conflict.where)))
        if features:
            printing.show(["# feature specs of {}".format(counted(examples, "record")),
                           *spec_lines(features, examples)], [])
    if conflicts or any(one.problems for one in checked):
        sys.exit(_FAILED)


@command.command("convert", help="Convert TFRecord, CSV, TSV or Parquet files into one file of another format.")
@click.argument("files", metavar="IN...", nargs=-1, required=True)
@click.argument("output", metavar="OUT", type=click.Path())
@click.option("--to", default=None, type=click.Choice(["tfrecord", "csv", "tsv", "parquet"]),
              help="Format of the output. Default: the format that matches the name of OUT.")
@click.option("--format", "kind", default=None, type=click.Choice(["tfrecord", "csv", "tsv", "parquet", "criteo"]),
              help="Format of the input; criteo means tab-separated Criteo logs. Default: the format is recognized.")
@_header
@_no_quotes
@click.option("--columns", default=None, metavar="NAME,...",
              help="Fields or features to convert, in the order of the output. NAME:TYPE also sets the type of a field "
                   "of text: int32, int64, float32, string or hex. Without --header, pass one name per field.")
@click.option("--no-output-header", is_flag=True, help="Do not write field names into text output.")
@click.option("--compression", default=None, type=click.Choice(["gzip", "none"]),
              help="Compression of the output. Default: gzip if OUT ends in .gz.")
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@_as_json
def convert(as_json: bool, **given: Any) -> None:
    """Convert files and print the number of records."""
    from ascpipe.cli.converted_data import Request, converted

    request = Request(
        given["files"], given["output"], given["kind"], given["to"], given["header"], not given["no_quotes"],
        given["columns"], not given["no_output_header"],
        None if given["compression"] is None else given["compression"] == "gzip", given["force"])
    to, records = converted(request)
    if as_json:
        click.echo(json.dumps({"output": request.output, "format": to, "records": records}, indent=2))
    else:
        click.echo(one_line("{}  {}  {}".format(to, request.output, counted(records, "record"))))


def _check_lines(one: "CheckedFile", unit: str) -> List[str]:
    content = "{}, {:.1f} MB, {}".format(counted(one.records, "record"), one.bytes / _MB,
                                         counted(len(one.features), "feature"))
    if one.not_example is not None:
        content += "; record {} is not a tf.train.Example, {} are".format(one.not_example, one.examples)
    if not one.problems:
        return ["ok   {}  {}".format(one.path, content)]
    lines = ["BAD  {}  {}".format(one.path, problem) for problem in one.problems]
    if one.more_problems:
        lines.append("BAD  {}  {} more".format(one.path, counted(one.more_problems, "damaged " + unit)))
    return [*lines, "     {}  the other records: {}".format(one.path, content)]


def _file_json(one: "CheckedFile") -> Dict[str, Any]:
    return {"path": one.path, "compression": one.compression or None, "records": one.records, "bytes": one.bytes,
            "problems": [{"code": problem.code, "text": str(problem)} for problem in one.problems],
            "more_problems": one.more_problems, "examples": one.examples, "not_example": one.not_example}


def _record_json(path: str, record: Any, values: Dict[str, "FeatureValues"], problem: Any) -> Dict[str, Any]:
    place = {} if not hasattr(record, "offset") else {"offset": record.offset, "bytes": len(record.data)}
    return {"path": path, "number": record.number, **place, "problem": problem,
            "features": {name: {"type": one.type, "values": [_json_value(value) for value in one.values]}
                         for name, one in values.items()}}


def _json_value(value: Any) -> Any:
    """Return a value for JSON. Bytes that are not UTF-8 become ``{"hex": ...}``; NaN and infinity become strings."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"hex": value.hex()}
    return str(value) if isinstance(value, float) and value - value != 0.0 else value


def _values_text(one: "FeatureValues") -> str:
    shown = []
    for value in one.values[:_SHOWN_VALUES]:
        if isinstance(value, bytes):
            shown.append(repr(value[:_SHOWN_BYTES])[1:] + ("..." if len(value) > _SHOWN_BYTES else ""))
        else:
            shown.append("{:.7g}".format(value) if isinstance(value, float) else str(value))
    return ", ".join(shown) + (", ..." if len(one.values) > _SHOWN_VALUES else "")
