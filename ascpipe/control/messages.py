"""Requests to the daemon, and the daemon's replies. Each field of a request is validated by a rule.

A request is ``{"v": 1, "id": int, "verb": str, "body": map}``. A reply is ``{"v": 1, "id": int, "ok": true, "body":
map}`` or ``{"v": 1, "id": int, "ok": false, "error": {"code": "E210", "text": str}}``. ``codec`` limits size and depth.
"""
import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Dict, List, Mapping, Set, Tuple, Union

from ascpipe.control import codec
from ascpipe.control.fields import RULE, Rule, exact_bytes, fields, integer, items, of_type, printable, record, text
from ascpipe.errors import AscpipeError, MessageError, received
from ascpipe.layout.words import CHANNELS, LOCAL, TRAIN

VERSION = 1
TOKEN_BYTES = 16
MAX_STREAMS = 32
MAX_TABLES = 200
MAX_RANKS = 4095
MAX_DIRECTORIES = 16
MAX_PATH = 1024
MAX_SPANS = 1_000_000  # limit of the setting timeline_spans

_INT31 = 2**31 - 1
_INT64 = 2**63 - 1
_ENVELOPE = {"v": integer(VERSION, VERSION), "id": integer(0, _INT64)}
_TABLE_NUMBER = integer(0, MAX_TABLES - 1)
_TOKEN = {RULE: exact_bytes(TOKEN_BYTES)}


@dataclass(frozen=True)
class Status:
    """Request for the state of the daemon."""


@dataclass(frozen=True)
class Stop:
    """Request to stop the daemon, even if the daemon serves a trainer."""


@dataclass(frozen=True)
class Bye:
    """Request to end the trainer's session.

    Attributes:
        token: token of the trainer's ``Register``. Each request that changes the session needs the token.
            Other processes do not know the token.
    """

    token: bytes = field(repr=False, metadata=_TOKEN)


@dataclass(frozen=True)
class Register:
    """Request to register the trainer that has sent ``token`` over a lifeline socket.

    Attributes:
        layout: ``layout.layout_hash()`` of the trainer's build.
        version: version of the trainer's ascpipe, for the error message.
    """

    pid: int = field(metadata={RULE: integer(1, _INT31)})
    layout: int = field(metadata={RULE: integer(0, _INT64)})
    version: str = field(metadata={RULE: printable(64)})
    token: bytes = field(repr=False, metadata=_TOKEN)


@dataclass(frozen=True)
class Stream:
    """Description of a stream and the stream's ring.

    Attributes:
        stream: number of the stream.
        channel: 0 for training, 1 for evaluation, 2 for local ids.
        tables: table numbers in ring order.
        rank_size: number of ranks that own the keys of a local ring (2 or more), or 1 for other rings.
    """

    stream: int = field(metadata={RULE: integer(0, _INT31)})
    channel: int = field(metadata={RULE: integer(0, CHANNELS - 1)})
    tables: Tuple[int, ...] = field(metadata={RULE: items(_TABLE_NUMBER, MAX_TABLES)})
    rank_size: int = field(default=1, metadata={RULE: integer(1, MAX_RANKS)})


@dataclass(frozen=True)
class Table:
    """Description of a table. Tables must be numbered from 0 without gaps.

    Attributes:
        dim: number of floats of an embedding.
        device_rows: number of rows on the device, or 0 for an expansion table.
        home_rows: maximum number of home rows, or 0 if all rows stay on the device.
        row_floats: number of floats of a home row, which consists of the embedding and the optimizer slots.
        access_threshold: number of occurrences at which a key gets a row, or -1 if admission is off.
        faae_coefficient: weight of one occurrence.
        eviction_threshold: age at which an eviction deletes a key, or -1 if eviction is off.
        disk_rows: maximum number of rows in host memory and on disk together, or 0 if no rows are on disk.
        directories: absolute paths of the directories for row files. A table with rows on disk has at least one.
    """

    table: int = field(metadata={RULE: _TABLE_NUMBER})
    name: str = field(metadata={RULE: printable(255)})
    dim: int = field(metadata={RULE: integer(1, 1 << 20)})
    device_rows: int = field(metadata={RULE: integer(0, _INT31)})
    home_rows: int = field(default=0, metadata={RULE: integer(0, _INT31 - 2)})
    row_floats: int = field(default=0, metadata={RULE: integer(0, 1 << 24)})
    access_threshold: int = field(default=-1, metadata={RULE: integer(-1, _INT31)})
    faae_coefficient: int = field(default=1, metadata={RULE: integer(1, _INT31)})
    eviction_threshold: int = field(default=-1, metadata={RULE: integer(-1, _INT31)})
    disk_rows: int = field(default=0, metadata={RULE: integer(0, _INT31 - 2)})
    directories: Tuple[str, ...] = field(default=(), metadata={RULE: items(printable(MAX_PATH), MAX_DIRECTORIES, 0)})


def _check_stream(stream: Stream, where: str) -> None:
    if len(set(stream.tables)) < len(stream.tables):
        raise MessageError("{} {} has the same table twice".format(where, stream.stream))
    if (stream.channel == LOCAL) != (stream.rank_size > 1):
        raise MessageError("{} {} of channel {} has rank_size {}; expected 2 or more in channel {}, and 1 in other "
                           "channels".format(
            where, stream.stream, stream.channel, stream.rank_size, LOCAL))


def _check_rows(table: Table) -> None:
    if (table.disk_rows > 0) != bool(table.directories) or table.disk_rows > 0 and table.home_rows == 0:
        raise MessageError("table {} has {} rows on disk, {} directories, and {} home rows".format(
            table.table, table.disk_rows, len(table.directories), table.home_rows))
    if max(table.device_rows, table.home_rows) == 0 or (table.home_rows > 0 and table.row_floats < table.dim):
        raise MessageError("table {} has {} rows on the device and {} home rows of {} floats (dim {})".format(
            table.table, table.device_rows, table.home_rows, table.row_floats, table.dim))


@dataclass(frozen=True)
class Start:
    """Request to create the segments of streams and tables, and to attach the workers."""

    streams: Tuple[Stream, ...] = field(metadata={RULE: items(record(Stream), MAX_STREAMS)})
    tables: Tuple[Table, ...] = field(metadata={RULE: items(record(Table), MAX_TABLES)})
    token: bytes = field(repr=False, metadata=_TOKEN)


@dataclass(frozen=True)
class AddStream:
    """Request to add a ring to the running session."""

    stream: Stream = field(metadata={RULE: record(Stream, _check_stream)})
    token: bytes = field(repr=False, metadata=_TOKEN)


@dataclass(frozen=True)
class AddTable:
    """Request to add a table to the running session, or to replace a table that has not been trained."""

    table: Table = field(metadata={RULE: record(Table)})
    token: bytes = field(repr=False, metadata=_TOKEN)


@dataclass(frozen=True)
class ReadTable:
    """Request for read-only file descriptors of a table's memory."""

    table: str = field(metadata={RULE: printable(255)})


@dataclass(frozen=True)
class Trace:
    """Request to start a trace that keeps the newest ``spans`` spans of each worker. If ``spans`` is 0, the trace
    stops.
    """

    spans: int = field(metadata={RULE: integer(0, MAX_SPANS)})


Body = Union[Status, Stop, Bye, Register, Start, AddStream, AddTable, ReadTable, Trace]


@dataclass(frozen=True)
class Request:
    """Decoded request. The reply to a request has the ``id`` of the request."""

    id: int
    verb: str
    body: Body


@dataclass(frozen=True)
class Reply:
    """Decoded reply. ``error`` is None after success; ``body`` is empty after a failure."""

    id: int
    body: Dict[str, Any]
    error: Union[AscpipeError, None]


def verb_of(body: Body) -> str:
    """Return the verb that belongs to a request body, for example ``"add_stream"`` for an AddStream."""
    return re.sub(r"\B([A-Z])", r"_\1", type(body).__name__).lower()


def extended(start: Start, stream: Stream) -> Start:
    """Return a copy of ``start`` with one more stream.

    Raises:
        MessageError: the stream number is in use, a table does not exist or is in another training stream, or there are
            too many streams.
    """
    where = "stream {}".format(stream.stream)
    if any(stream.stream == other.stream for other in start.streams):
        raise MessageError("{} is there already".format(where))
    if len(start.streams) >= MAX_STREAMS:
        raise MessageError("{} exceeds the limit: a session has at most {} streams".format(where, MAX_STREAMS))
    for number in stream.tables:
        if number >= len(start.tables):
            raise MessageError("{} has table {}, but there are {}".format(where, number, len(start.tables)))
        if stream.channel == TRAIN and number in _trained(start):
            raise MessageError("{} would be the second stream that trains table {}".format(where, number))
    return replace(start, streams=(*start.streams, stream))


def with_table(start: Start, table: Table) -> Start:
    """Return a copy of ``start`` that contains ``table``. ``table`` may replace a table that is in no training stream.

    Raises:
        MessageError: the table number leaves a gap, or the replaced table is in a training stream or has another name,
            dim or number of device rows.
    """
    where = "table {}".format(table.table)
    _check_rows(table)
    if table.table > len(start.tables):
        raise MessageError("{} follows {} tables, but tables are numbered without "
                           "gaps".format(where, len(start.tables)))
    if table.table == len(start.tables):
        return replace(start, tables=(*start.tables, table))
    before = start.tables[table.table]
    if table.table in _trained(start) or any(
            getattr(before, field) != getattr(table, field) for field in ("name", "dim", "device_rows")):
        raise MessageError("{} is there already".format(where))
    return replace(start, tables=tuple(table if known is before else known for known in start.tables))


def _trained(start: Start) -> Set[int]:
    return {number for stream in start.streams if stream.channel == TRAIN for number in stream.tables}


def request_bytes(request_id: int, body: Body) -> bytes:
    """Return the encoded request. The function first checks the request with the rules that the receiver uses."""
    plain = _plain(asdict(body))
    _BODIES[verb_of(body)](plain, "body")
    return codec.pack({"v": VERSION, "id": request_id, "verb": verb_of(body), "body": plain})


def reply_bytes(request_id: int, body: Mapping[str, Any]) -> bytes:
    """Return the encoded reply to a request that succeeded."""
    return codec.pack({"v": VERSION, "id": request_id, "ok": True, "body": _plain(dict(body))})


def error_bytes(request_id: int, error: AscpipeError) -> bytes:
    """Return the encoded reply to a request that failed with ``error``."""
    text = error.sentence()[:1000]  # at most 4000 bytes of UTF-8
    return codec.pack({"v": VERSION, "id": request_id, "ok": False, "error": {"code": error.code, "text": text}})


def parse_request(data: bytes, most_values: int = codec.MAX_VALUES) -> Request:
    """Decode a request that contains at most ``most_values`` values.

    Raises:
        MessageError: the request is invalid. The message names the field.
    """
    found = fields(codec.unpack(data, most_values), "request", {**_ENVELOPE, "verb": text(32), "body": of_type(dict)})
    if found["verb"] not in _BODIES:
        raise MessageError("verb {!r} is not one of {}".format(found["verb"], ", ".join(sorted(_BODIES))))
    return Request(found["id"], found["verb"], _BODIES[found["verb"]](found["body"], "body"))


def parse_reply(data: bytes) -> Reply:
    """Decode a reply. The body may be a map with any fields.

    Raises:
        MessageError: the reply is invalid.
    """
    body = codec.unpack(data)
    rules = {**_ENVELOPE, "ok": of_type(bool)}
    if body.get("ok") is True:
        found = fields(body, "reply", {**rules, "body": of_type(dict)})
        return Reply(found["id"], found["body"], None)
    found = fields(body, "reply", {**rules, "error": of_type(dict)})
    error = fields(found["error"], "error", {"code": text(8), "text": text(codec.MAX_STRING_BYTES)})
    return Reply(found["id"], {}, received(error["code"], error["text"]))


def _plain(value: Any) -> Any:
    """Convert tuples to lists recursively, because the codec does not accept tuples."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _check_start(start: Start, where: str) -> None:
    if [table.table for table in start.tables] != list(range(len(start.tables))):
        raise MessageError("{}.tables are not numbered 0, 1, 2, ...".format(where))
    for table in start.tables:
        _check_rows(table)
    seen_streams: List[int] = []
    seen_tables: List[Tuple[int, int]] = []
    for stream in start.streams:
        if stream.stream in seen_streams:
            raise MessageError("{}.streams contains stream {} twice".format(where, stream.stream))
        seen_streams.append(stream.stream)
        for number in stream.tables:
            if number >= len(start.tables):
                raise MessageError("stream {} has table {}, but there are {}".format(
                    stream.stream, number, len(start.tables)))
            if stream.channel != LOCAL and (stream.channel, number) in seen_tables:
                raise MessageError("table {} is in two streams of channel {}".format(number, stream.channel))
            seen_tables.append((stream.channel, number))
        _check_stream(stream, "stream")


_BODIES: Dict[str, Rule] = {
    "status": record(Status), "stop": record(Stop), "bye": record(Bye), "register": record(Register),
    "start": record(Start, _check_start), "add_stream": record(AddStream), "add_table": record(AddTable),
    "read_table": record(ReadTable), "trace": record(Trace)}
