"""Manifest and pair record of a checkpoint, as JSON.

The manifest lists the contents of the sparse part, with a digest per file. The pair record lists the files of the
matching dense part. Each record contains a digest of its content (``sealed_json.py``). The pair record is written last,
so a directory with a pair record is complete. The functions are pure.
"""
from typing import Any, Dict, Iterator, NamedTuple, Optional, Sequence, Tuple

from ascpipe.checkpoint import checks, sealed_json
from ascpipe.checkpoint.contents import (
    ColumnVariable,
    InitialRows,
    Link,
    Policies,
    Position,
    ReadPosition,
    Slice,
    SlotSpec,
    TablePosition,
    TableSpec,
)
from ascpipe.checkpoint.digests import digest_of
from ascpipe.checkpoint.keys import check_rank
from ascpipe.checkpoint.table_folders import Piece, all_pieces
from ascpipe.errors.base import shown

VERSION = 2
SLICED_VERSION = 3  #: format version of a manifest of several ranks
MAX_BYTES = 16 << 20  #: maximum size of a record

_FORMAT = "ascpipe checkpoint"
_PAIR_FORMAT = "ascpipe checkpoint pair"
_SLICE_FORMAT = "ascpipe checkpoint slice"


class SavedFile(NamedTuple):
    """Length and digest of a saved file."""

    size: int
    digest: str


class SliceContent(NamedTuple):
    """Content of one rank's slice.

    Attributes:
        tables: specs, in the order of the save, with the key counts of this rank.
        data: sizes and digests of the data files, by table and folder.
        position: training position of this rank.
    """

    tables: Tuple[TableSpec, ...]
    data: Dict[str, Dict[str, SavedFile]]
    position: Position


class Manifest(NamedTuple):
    """Contents of the sparse part.

    Attributes:
        step: training step of the save, or None if the checkpoint was saved without a step.
        stem: ``base-step`` of the save, prefix of the names of the dense files.
        saved_at: seconds since 1970 by the clock of the saving machine, for display only.
        slices: contents of the slices by rank.
        parent: parent of a delta, or None if the checkpoint is full.
    """

    step: Optional[int]
    stem: str
    saved_at: float
    slices: Tuple[SliceContent, ...]
    parent: Optional[Link] = None

    @property
    def tables(self) -> Tuple[TableSpec, ...]:
        """Return the specs of the tables, with the key counts of all ranks added up."""
        return merged(self.slices)

    @property
    def position(self) -> Position:
        """Return the training position of rank 0."""
        return self.slices[0].position


    def arrays(self) -> Iterator[Tuple[str, Slice, Piece]]:
        """Yield (name of the table, slice, piece) for each saved array."""
        for rank, content in enumerate(self.slices):
            for spec in content.tables:
                for piece in all_pieces(spec, rank):
                    yield spec.name, Slice(rank, len(self.slices)), piece


def merged(slices: Sequence[SliceContent]) -> Tuple[TableSpec, ...]:
    """Return the specs of the tables, with the key counts of all ranks added up.

    Raises:
        ValueError: the tables of two ranks differ. The message names the rank, table and field.
    """
    of_first = slices[0].tables
    for rank, other in enumerate(slices[1:], 1):
        names = [[spec.name for spec in tables] for tables in (of_first, other.tables)]
        if names[0] != names[1]:
            raise ValueError("rank 0 has the tables {}, rank {} has {}".format(shown(names[0]), rank, shown(names[1])))
        for mine, its in zip(map(_alike, of_first), map(_alike, other.tables)):
            for field, value in mine._asdict().items():
                if value != getattr(its, field):
                    raise ValueError("table {!r}: its {} is {} on rank 0 and {} on rank {}".format(
                        mine.name, field, shown(value), shown(getattr(its, field)), rank))
    return tuple(_together(specs) for specs in zip(*(one.tables for one in slices)))


def _alike(spec: TableSpec) -> TableSpec:
    """Return the spec without the fields that may differ between ranks: key counts and last timestamp."""
    policies = spec.policies and spec.policies._replace(time=0)
    return spec._replace(policies=policies, rows=0, candidates=0, deleted=0)


def _together(specs: Sequence[TableSpec]) -> TableSpec:
    spec = specs[0]._replace(rows=sum(of.rows for of in specs), candidates=sum(of.candidates for of in specs),
                             deleted=sum(of.deleted for of in specs))
    times = [of.policies.time for of in specs if of.policies is not None]
    return spec if spec.policies is None else spec._replace(policies=spec.policies._replace(time=max(times)))


class Pair(NamedTuple):
    """Record that connects a manifest with a dense part.

    Attributes:
        manifest: digest of the manifest's bytes.
        dense: TensorFlow's files by name; empty if there is no dense part.
    """

    manifest: str
    dense: Dict[str, SavedFile]


def encoded_manifest(manifest: Manifest) -> bytes:
    """Return the bytes of ``MANIFEST.json``."""
    parent = None if manifest.parent is None else dict(manifest.parent._asdict())
    slices = [_slice_json(content) for content in manifest.slices]
    return sealed_json.encoded({
        "format": _FORMAT, "version": VERSION if len(slices) == 1 else SLICED_VERSION, "step": manifest.step,
        "stem": manifest.stem, "saved_at": manifest.saved_at, "parent": parent,
        **(slices[0] if len(slices) == 1 else {"slices": slices})})


def decoded_manifest(record: bytes) -> Manifest:
    """Parse a manifest. Raise ``ValueError`` if the manifest is malformed or inconsistent."""
    content = _of_format(record, _FORMAT, SLICED_VERSION)
    parts = ["slices"] if content["version"] == SLICED_VERSION else list(_SLICE_FIELDS)
    content = sealed_json.fields(content, ["format", "version", "step", "stem", "saved_at", "parent", *parts])
    parent = None if content["parent"] is None else Link(**sealed_json.fields(content["parent"], Link._fields))
    if parent is not None:
        checks.check_link(parent)
    if content["version"] == SLICED_VERSION:
        slices = tuple(_slice_content(sealed_json.fields(one, _SLICE_FIELDS), rank, delta=parent is not None)
                       for rank, one in enumerate(sealed_json.array(content["slices"])))
        if len(slices) < 2:
            raise ValueError("it has {} slices; a manifest of version {} has 2 or more".format(
                len(slices), SLICED_VERSION))
    else:
        slices = (_slice_content(content, 0, delta=parent is not None),)
    merged(slices)
    step = content["step"]
    stem = content["stem"]
    if step is not None and (type(step) is not int or not 0 <= step < 1 << 63):
        raise ValueError("its step {} is not an integer in [0, 2^63)".format(shown(step)))
    if type(content["saved_at"]) is not float:
        raise ValueError("its saved_at {} is not a float".format(shown(content["saved_at"])))
    checks.check_stem(stem)
    return Manifest(step, stem, content["saved_at"], slices, parent)


def encoded_slice(content: SliceContent, rank: int, ranks: int, *, delta: bool) -> bytes:
    """Return the bytes of ``SLICE_<rank>.json``, which describes a rank's written slice. Rank 0 reads this file."""
    return sealed_json.encoded({"format": _SLICE_FORMAT, "version": VERSION, "rank": rank, "ranks": ranks,
                                "delta": delta, **_slice_json(content)})


def decoded_slice(record: bytes, rank: int, ranks: int, *, delta: bool) -> SliceContent:
    """Parse ``SLICE_<rank>.json``. Raise ``ValueError`` if the record is malformed or belongs to another rank."""
    content = sealed_json.fields(_of_format(record, _SLICE_FORMAT),
                                 ["format", "version", "rank", "ranks", "delta", *_SLICE_FIELDS])
    check_rank(rank, ranks)
    if (content["rank"], content["ranks"], content["delta"]) != (rank, ranks, delta):
        raise ValueError("it belongs to rank {} of {}".format(shown(content["rank"]), shown(content["ranks"])))
    return _slice_content(content, rank, delta=delta)


_SLICE_FIELDS = ("tables", "position")


def _slice_json(content: SliceContent) -> Dict[str, Any]:
    tables = [{"spec": _spec_json(spec), "data": _files_json(content.data[spec.name])} for spec in content.tables]
    return {"tables": tables, "position": _position_json(content.position)}


def _slice_content(content: Dict[str, Any], rank: int, *, delta: bool) -> SliceContent:
    tables = [sealed_json.fields(table, ["spec", "data"]) for table in sealed_json.array(content["tables"])]
    specs = tuple(_spec(table["spec"]) for table in tables)
    checks.check_specs(specs, delta=delta)
    position = _position(content["position"])
    checks.check_position(position, [spec.name for spec in specs])
    data = {spec.name: _data(spec, table["data"], rank) for spec, table in zip(specs, tables)}
    return SliceContent(specs, data, position)


def encoded_pair(manifest_record: bytes, dense: Dict[str, SavedFile]) -> bytes:
    """Return the bytes of a ``PAIR.json`` that connects a manifest with TensorFlow's files."""
    return sealed_json.encoded({"format": _PAIR_FORMAT, "version": VERSION, "manifest": digest_of(manifest_record),
                           "dense": _files_json(dense)})


def decoded_pair(record: bytes) -> Pair:
    """Parse a pair record. Raise ``ValueError`` if the record is malformed."""
    content = sealed_json.fields(_of_format(record, _PAIR_FORMAT), ["format", "version", "manifest", "dense"])
    return Pair(content["manifest"], _files(content["dense"]))


def _of_format(record: bytes, wanted: str, newest: int = VERSION) -> Dict[str, Any]:
    content = sealed_json.decoded(record)
    if content.get("format") != wanted:
        raise ValueError("its format is {}, expected {!r}".format(shown(content.get("format")), wanted))
    if content.get("version") not in range(VERSION, newest + 1):
        raise ValueError("its format has version {}, but this ascpipe reads version {}. Use the ascpipe that saved it"
                         .format(shown(content.get("version")), VERSION if newest == VERSION else "2 and 3"))
    return content


def _data(spec: TableSpec, content: Any, rank: int) -> Dict[str, SavedFile]:
    files = _files(content)
    pieces = all_pieces(spec, rank)
    sealed_json.fields(files, [piece.folder for piece in pieces])
    for piece in pieces:
        if files[piece.folder].size != piece.data_bytes:
            raise ValueError("table {!r}: {} has {} bytes, but its spec needs {}".format(
                spec.name, piece.folder, files[piece.folder].size, piece.data_bytes))
    return files


def _files_json(files: Dict[str, SavedFile]) -> Dict[str, Any]:
    return {name: {"bytes": file.size, "digest": file.digest} for name, file in files.items()}


def _files(content: Any) -> Dict[str, SavedFile]:
    if not isinstance(content, dict):
        raise ValueError("expected files by name, not {}".format(shown(content)))
    files = {}
    for name, described in content.items():
        file = sealed_json.fields(described, ["bytes", "digest"])
        if type(file["bytes"]) is not int or file["bytes"] < 0 or not isinstance(file["digest"], str):
            raise ValueError("file {} has no valid size and digest: {}".format(shown(name), shown(described)))
        files[name] = SavedFile(file["bytes"], file["digest"])
    return files


def _spec_json(spec: TableSpec) -> Dict[str, Any]:
    content = dict(spec._asdict())
    content["slots"] = [dict(slot._asdict()) for slot in spec.slots]
    for name in ("initial", "policies"):
        content[name] = dict(content[name]._asdict())
    del content["column"]
    if spec.column is not None:  # omitted if None, as in manifests of earlier versions
        content["column"] = dict(spec.column._asdict())
    return content


def _spec(content: Any) -> TableSpec:
    found = dict(sealed_json.fields({"column": None, **content} if isinstance(content, dict) else content,
                                    TableSpec._fields))
    if found["column"] is not None:
        found["column"] = ColumnVariable(**sealed_json.fields(found["column"], ColumnVariable._fields))
    found["slots"] = tuple(SlotSpec(**sealed_json.fields(slot, SlotSpec._fields))
                           for slot in sealed_json.array(found["slots"]))
    found["initial"] = InitialRows(**sealed_json.fields(found["initial"], InitialRows._fields))
    found["policies"] = Policies(**sealed_json.fields(found["policies"], Policies._fields))
    return TableSpec(**found)


def _position_json(position: Position) -> Dict[str, Any]:
    tables = {name: dict(table._asdict()) for name, table in position.tables.items()}
    content = {"run_id": position.run_id, "tables": tables, "trained_batches": dict(position.trained_batches)}
    if position.reads:  # omitted if empty, as in manifests of earlier versions
        content["reads"] = {name: dict(read._asdict()) for name, read in position.reads.items()}
    return content


def _position(content: Any) -> Position:
    found = sealed_json.fields({"reads": {}, **content} if isinstance(content, dict) else content, Position._fields)
    if not all(isinstance(found[name], dict) for name in ("tables", "trained_batches", "reads")):
        raise ValueError("its position has no tables, no trained_batches or no reads")
    tables = {name: TablePosition(**sealed_json.fields(table, TablePosition._fields))
              for name, table in found["tables"].items()}
    reads = {name: ReadPosition(**sealed_json.fields(read, ReadPosition._fields))
             for name, read in found["reads"].items()}
    return Position(found["run_id"], tables, found["trained_batches"], reads)
