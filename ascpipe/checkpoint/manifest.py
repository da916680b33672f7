"""The manifest: what the sparse part is, with a digest of every file.  The pair record: which dense part goes with it.

Both are sealed records; the pair record is written last, so a directory that has it was written to its end.  Pure.
"""
from typing import Any, Dict, NamedTuple, Optional, Tuple

from ascpipe.checkpoint import checks, sealed_json
from ascpipe.checkpoint.contents import InitialRows, Link, Policies, Position, SlotSpec, TablePosition, TableSpec
from ascpipe.checkpoint.digests import digest_of
from ascpipe.checkpoint.table_folders import all_pieces

VERSION = 2
MAX_BYTES = 16 << 20  #: of a record

_FORMAT = "ascpipe checkpoint"
_PAIR_FORMAT = "ascpipe checkpoint pair"


class SavedFile(NamedTuple):
    """A file as it was saved: its length and digest."""

    size: int
    digest: str


class Manifest(NamedTuple):
    """What the sparse part is.

    Attributes:
        step: of the save; None: it had none.
        stem: ``base-step`` of the save, with which the names of the dense files begin.
        saved_at: seconds since 1970 by the clock of that machine; for people only.
        tables: specs, in the order of the save.
        data: by table, by folder: its ``slice.data``.
        position: where training was.
        parent: of a delta: what it stands upon; None: it is a full checkpoint.
    """

    step: Optional[int]
    stem: str
    saved_at: float
    tables: Tuple[TableSpec, ...]
    data: Dict[str, Dict[str, SavedFile]]
    position: Position
    parent: Optional[Link] = None


class Pair(NamedTuple):
    """Which dense part goes with which manifest.

    Attributes:
        manifest: digest of the manifest's bytes.
        dense: by name: TensorFlow's files; empty: there is no dense part.
    """

    manifest: str
    dense: Dict[str, SavedFile]


def encoded_manifest(manifest: Manifest) -> bytes:
    """The bytes of ``MANIFEST.json``."""
    tables = [{"spec": _spec_json(spec), "data": _files_json(manifest.data[spec.name])} for spec in manifest.tables]
    parent = None if manifest.parent is None else dict(manifest.parent._asdict())
    return sealed_json.encoded({
        "format": _FORMAT, "version": VERSION, "step": manifest.step, "stem": manifest.stem,
        "saved_at": manifest.saved_at, "tables": tables, "position": _position_json(manifest.position),
        "parent": parent})


def decoded_manifest(record: bytes) -> Manifest:
    """The manifest of these bytes; ValueError if it is none, or one that makes no sense."""
    content = _of_format(record, _FORMAT)
    content = sealed_json.fields(
        content, ["format", "version", "step", "stem", "saved_at", "tables", "position", "parent"])
    parent = None if content["parent"] is None else Link(**sealed_json.fields(content["parent"], Link._fields))
    if parent is not None:
        checks.check_link(parent)
    tables = [sealed_json.fields(table, ["spec", "data"]) for table in sealed_json.array(content["tables"])]
    specs = tuple(_spec(table["spec"]) for table in tables)
    checks.check_specs(specs, delta=parent is not None)
    position = _position(content["position"])
    checks.check_position(position, [spec.name for spec in specs])
    data = {spec.name: _data(spec, table["data"]) for spec, table in zip(specs, tables)}
    step, stem = content["step"], content["stem"]
    if step is not None and (type(step) is not int or not 0 <= step < 1 << 63):
        raise ValueError("step {!r}".format(step))
    if type(content["saved_at"]) is not float:
        raise ValueError("saved_at {!r}".format(content["saved_at"]))
    checks.check_stem(stem)
    return Manifest(step, stem, content["saved_at"], specs, data, position, parent)


def encoded_pair(manifest_record: bytes, dense: Dict[str, SavedFile]) -> bytes:
    """The bytes of ``PAIR.json``, for the bytes of a manifest."""
    return sealed_json.encoded({"format": _PAIR_FORMAT, "version": VERSION, "manifest": digest_of(manifest_record),
                           "dense": _files_json(dense)})


def decoded_pair(record: bytes) -> Pair:
    """The pair record of these bytes; ValueError if it is none."""
    content = sealed_json.fields(_of_format(record, _PAIR_FORMAT), ["format", "version", "manifest", "dense"])
    return Pair(content["manifest"], _files(content["dense"]))


def _of_format(record: bytes, wanted: str) -> Dict[str, Any]:
    content = sealed_json.decoded(record)
    if content.get("format") != wanted:
        raise ValueError("its format is {!r}, expected {!r}".format(content.get("format"), wanted))
    if content.get("version") != VERSION:
        raise ValueError("its format has version {!r}, this ascpipe reads version {}; use the version that saved "
                         "it".format(content.get("version"), VERSION))
    return content


def _data(spec: TableSpec, content: Any) -> Dict[str, SavedFile]:
    files, pieces = _files(content), all_pieces(spec)
    sealed_json.fields(files, [piece.folder for piece in pieces])
    for piece in pieces:
        if files[piece.folder].size != piece.data_bytes:
            raise ValueError("table {!r}: {} has {} bytes, its spec asks for {}".format(
                spec.name, piece.folder, files[piece.folder].size, piece.data_bytes))
    return files


def _files_json(files: Dict[str, SavedFile]) -> Dict[str, Any]:
    return {name: {"bytes": file.size, "digest": file.digest} for name, file in files.items()}


def _files(content: Any) -> Dict[str, SavedFile]:
    if not isinstance(content, dict):
        raise ValueError("expected files by name, not {!r}".format(content))
    files = {}
    for name, described in content.items():
        file = sealed_json.fields(described, ["bytes", "digest"])
        if type(file["bytes"]) is not int or file["bytes"] < 0 or not isinstance(file["digest"], str):
            raise ValueError("file {!r}: {!r}".format(name, described))
        files[name] = SavedFile(file["bytes"], file["digest"])
    return files


def _spec_json(spec: TableSpec) -> Dict[str, Any]:
    content = dict(spec._asdict())
    content["slots"] = [dict(slot._asdict()) for slot in spec.slots]
    for name in ("initial", "policies"):
        content[name] = dict(content[name]._asdict())
    return content


def _spec(content: Any) -> TableSpec:
    found = dict(sealed_json.fields(content, TableSpec._fields))
    found["slots"] = tuple(SlotSpec(**sealed_json.fields(slot, SlotSpec._fields))
                           for slot in sealed_json.array(found["slots"]))
    found["initial"] = InitialRows(**sealed_json.fields(found["initial"], InitialRows._fields))
    found["policies"] = Policies(**sealed_json.fields(found["policies"], Policies._fields))
    return TableSpec(**found)


def _position_json(position: Position) -> Dict[str, Any]:
    tables = {name: dict(table._asdict()) for name, table in position.tables.items()}
    return {"run_id": position.run_id, "tables": tables, "trained_batches": dict(position.trained_batches)}


def _position(content: Any) -> Position:
    found = sealed_json.fields(content, Position._fields)
    if not isinstance(found["tables"], dict) or not isinstance(found["trained_batches"], dict):
        raise ValueError("a position without tables or trained_batches")
    tables = {name: TablePosition(**sealed_json.fields(table, TablePosition._fields))
              for name, table in found["tables"].items()}
    return Position(found["run_id"], tables, found["trained_batches"])
