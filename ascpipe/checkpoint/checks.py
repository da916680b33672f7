"""Functions that check table specs and training positions, from programs and from manifests. The functions are pure."""
import math
import re
from typing import Any, Iterable, Pattern

from ascpipe.checkpoint.contents import (
    ColumnVariable,
    InitialRows,
    Link,
    Policies,
    Position,
    ReadPosition,
    SlotSpec,
    TablePosition,
    TableSpec,
)
from ascpipe.checkpoint.paths import SLOT_NAME, TABLE_NAME, has_control_characters
from ascpipe.checkpoint.table_folders import OURS
from ascpipe.errors.base import shown
from ascpipe.layout.initial_kinds import POOL

MAX_ROWS = 1 << 40  #: maximum rows per table; no memory can hold more rows, and byte counts stay below 2^63
MAX_WIDTH = 1 << 16
MAX_SLOTS = 64
_INT64 = (-(1 << 63), (1 << 63) - 1)
_NAME = re.compile(r".{1,255}\Z", re.DOTALL)
_VARIABLE = re.compile(r".+\Z", re.DOTALL)
_STEM = re.compile(r".{0,255}\Z", re.DOTALL)
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_RUN_ID = re.compile(r".{1,128}\Z", re.DOTALL)


def check_specs(specs: Iterable[TableSpec], *, delta: bool) -> None:
    """Raise ``ValueError`` unless the specs are valid for one checkpoint. ``delta`` is true for a delta."""
    seen = set()
    for spec in specs:
        _check_spec(spec)
        _integer("table {!r}: deleted".format(spec.name), spec.deleted, 0, MAX_ROWS if delta else 0)
        if spec.name in seen:
            raise ValueError("two tables are named {}".format(shown(spec.name)))
        seen.add(spec.name)


def check_position(position: Position, tables: Iterable[str]) -> None:
    """Raise ``ValueError`` unless ``position`` is valid for a checkpoint with ``tables``."""
    _text("run_id", position.run_id, _RUN_ID)
    if set(position.tables) != set(tables):
        raise ValueError("the position lists the tables {}, but the checkpoint has {}".format(
            shown(sorted(position.tables)), shown(sorted(tables))))
    for name, table in position.tables.items():
        _kind("position of table {}".format(shown(name)), table, TablePosition)
        _integer("last_ticket of table {}".format(shown(name)), table.last_ticket, -1)
        _integer("cuts of table {}".format(shown(name)), table.cuts, 0)
    for stream, batches in position.trained_batches.items():
        _text("name of a stream", stream, _NAME)
        _integer("trained_batches of stream {}".format(shown(stream)), batches, 0)
    for stream, read in position.reads.items():
        _text("name of a stream", stream, _NAME)
        _kind("reading position of stream {}".format(shown(stream)), read, ReadPosition)
        _text("data of stream {}".format(shown(stream)), read.data, _RUN_ID)
        for name in ("pass_number", "epoch", "consumed"):
            _integer("{} of stream {}".format(name, shown(stream)), getattr(read, name), 0)


def check_stem(stem: str) -> None:
    """Raise ``ValueError`` unless ``stem`` is a valid checkpoint name of the form ``base-step``."""
    _text("stem", stem, _STEM)
    if "/" in stem or stem.startswith("."):
        raise ValueError("stem: {} is not a file name".format(shown(stem)))


def check_link(link: Link) -> None:
    """Raise ``ValueError`` unless ``link`` is a valid reference to the parent of a delta."""
    check_stem(link.stem)
    if not isinstance(link.manifest, str) or not _DIGEST.match(link.manifest):
        raise ValueError("link to {}: {} is not a digest".format(shown(link.stem), shown(link.manifest)))


def _check_spec(spec: TableSpec) -> None:
    _kind("spec of a table", spec, TableSpec)
    _text("name of a table", spec.name, TABLE_NAME)
    where = "table {!r}: ".format(spec.name)
    _integer(where + "dim", spec.dim, 1, MAX_WIDTH)
    if spec.key_dtype not in ("int64", "int32"):
        raise ValueError("{}key_dtype {} is neither 'int64' nor 'int32'".format(where, shown(spec.key_dtype)))
    _integer(where + "rows", spec.rows, 0, MAX_ROWS)
    _integer(where + "candidates", spec.candidates, 0, MAX_ROWS)
    _check_slots(where, spec)
    _check_initial(where, spec.initial)
    _check_policies(where, spec.policies)
    if spec.column is not None:
        _kind(where + "column", spec.column, ColumnVariable)
        _text(where + "name of its variable", spec.column.name, _VARIABLE)
        _integer(where + "buckets", spec.column.buckets, 1)


def _check_slots(where: str, spec: TableSpec) -> None:
    if len(spec.slots) > MAX_SLOTS:
        raise ValueError("{}it has {} optimizer slots; at most {} are supported".format(
            where, len(spec.slots), MAX_SLOTS))
    seen = set(OURS)
    for slot in spec.slots:
        _kind(where + "optimizer slot", slot, SlotSpec)
        _text(where + "name of an optimizer slot", slot.name, SLOT_NAME)
        if slot.name in seen:
            raise ValueError("{}the name {!r} of an optimizer slot is already used".format(where, slot.name))
        seen.add(slot.name)
        _integer("{}width of {!r}".format(where, slot.name), slot.width, 1, MAX_WIDTH)
        _number("{}initial value of {!r}".format(where, slot.name), slot.initial)


def _check_initial(where: str, initial: Any) -> None:
    _kind(where + "initial", initial, InitialRows)
    _integer(where + "seed", initial.seed, 0, (1 << 64) - 1)
    _integer(where + "kind of initial rows", initial.kind, 0, POOL)
    for name in ("a", "b", "scale"):
        _number(where + name, getattr(initial, name))
    low, high = (1, MAX_ROWS) if initial.kind == POOL else (0, 0)
    _integer(where + "pool_rows", initial.pool_rows, low, high)


def _check_policies(where: str, policies: Any) -> None:
    _kind(where + "policies", policies, Policies)
    _integer(where + "access_threshold", policies.access_threshold, -1)
    _kind(where + "counting", policies.counting, bool)
    _integer(where + "faae_coefficient", policies.faae_coefficient, 0)
    _integer(where + "eviction_threshold", policies.eviction_threshold, -1)
    _integer(where + "time", policies.time, 0)


def _kind(what: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise ValueError("{}: expected {}, not {}".format(what, kind.__name__, shown(value)))


def _integer(what: str, value: Any, low: int, high: int = _INT64[1]) -> None:
    if type(value) is not int or not low <= value <= high:
        raise ValueError("{}: {} is not an int in [{}, {}]".format(what, shown(value), low, high))


def _number(what: str, value: Any) -> None:
    if type(value) is not float or not math.isfinite(value):
        raise ValueError("{}: {} is not a finite float".format(what, shown(value)))


def _text(what: str, value: Any, pattern: Pattern[str]) -> None:
    if not isinstance(value, str) or not pattern.match(value) or has_control_characters(value):
        raise ValueError("{}: {} is not a valid name".format(what, shown(value)))
