"""Manifest of exported rows, ``manifest.json``. The functions are pure.

The record contains a digest of its text. File names are derived from the format and the columns; names in the record
are only compared with the derived names.
"""
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ascpipe.checkpoint import sealed_json
from ascpipe.checkpoint.checks import MAX_ROWS, MAX_SLOTS, MAX_WIDTH
from ascpipe.checkpoint.manifest import SavedFile
from ascpipe.checkpoint.paths import SLOT_NAME
from ascpipe.errors.base import shown
from ascpipe.rows.columns import COUNT, FLOAT16, FLOAT32, FORMATS, INT64, KEY, ROW, SLOT, TIMESTAMP, Column, files_of

NAME = "manifest.json"
MAX_BYTES = 1 << 20  #: maximum size of a manifest

_FORMAT = "ascpipe rows"
_VERSION = 1
_FIELDS = ("format", "version", "file_format", "table", "dim", "dtype", "columns", "rows", "files", "checkpoint",
           "step", "where")


class Exported(NamedTuple):
    """Content of a manifest.

    Attributes:
        file_format: ``parquet``, ``npy`` or ``tsv``.
        table: name of the table.
        dim: floats of a row.
        dtype: ``float32`` or ``float16``.
        columns: columns in their order.
        rows: number of rows.
        files: lengths and digests by file name.
        checkpoint: name of the checkpoint, ``base-step``.
        step: training step of the checkpoint, or None.
        where: condition of the export, or None.
    """

    file_format: str
    table: str
    dim: int
    dtype: str
    columns: Sequence[Column]
    rows: int
    files: Dict[str, SavedFile]
    checkpoint: str
    step: Optional[int]
    where: Optional[str]


def encoded(exported: Exported) -> bytes:
    """Return the bytes of ``manifest.json``."""
    return sealed_json.encoded({"format": _FORMAT, "version": _VERSION, **described(exported)})


def described(exported: Exported) -> Dict[str, Any]:
    """Return the content of a manifest as a dict that can be encoded as JSON."""
    files = {name: {"bytes": file.size, "digest": file.digest} for name, file in exported.files.items()}
    return {**exported._asdict(), "columns": [dict(column._asdict()) for column in exported.columns], "files": files}


def decoded(record: bytes) -> Exported:
    """Parse a manifest. Raise ``ValueError`` or ``TypeError`` if the manifest is damaged or inconsistent."""
    content = sealed_json.fields(sealed_json.decoded(record), _FIELDS)
    if (content.pop("format"), content.pop("version")) != (_FORMAT, _VERSION):
        raise ValueError("it is not a manifest of rows that this ascpipe can read")
    columns = [_column(one) for one in sealed_json.array(content["columns"])]
    _check(content, columns)
    files = {}
    for name in files_of(content["file_format"], columns):
        file = sealed_json.fields(content["files"].get(name), ["bytes", "digest"])
        if type(file["bytes"]) is not int or file["bytes"] < 0 or not isinstance(file["digest"], str):
            raise ValueError("{} has no valid size and digest".format(name))
        files[name] = SavedFile(file["bytes"], file["digest"])
    return Exported(**{**content, "columns": columns, "files": files})


def _column(content: Any) -> Column:
    found = Column(**sealed_json.fields(content, Column._fields))
    if not isinstance(found.name, str) or type(found.width) is not int or found.dtype not in (INT64, FLOAT16, FLOAT32):
        raise ValueError("{} is not a column".format(shown(content)))
    return found


def _check(content: Dict[str, Any], columns: List[Column]) -> None:
    if content["file_format"] not in FORMATS or type(content["rows"]) is not int or not isinstance(
            content["files"], dict) or not 0 <= content["rows"] <= MAX_ROWS:
        raise ValueError("its format, number of rows or files are not valid")
    names = [column.name for column in columns]
    slots = [column for column in columns if column.name.startswith(SLOT) and SLOT_NAME.match(column.name[len(SLOT):])]
    wanted = [KEY, ROW, *(slot.name for slot in slots), *([COUNT, TIMESTAMP] if COUNT in names else [])]
    if names != wanted or len(set(names)) != len(names) or len(slots) > MAX_SLOTS:
        raise ValueError("its columns {} are not the columns of an export".format(shown(names)))
    for column in columns:
        has_floats = column.dtype != INT64
        if has_floats != (column.name == ROW or column in slots) or not has_floats <= column.width <= (
                MAX_WIDTH * has_floats):
            raise ValueError("column {!r} has the width {} and the type {}".format(*column))
    if set(content["files"]) != set(files_of(content["file_format"], columns)):
        raise ValueError("its files {} are not the files of its format".format(shown(sorted(content["files"]))))
