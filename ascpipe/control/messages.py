"""Defines the control messages, with a rule for every field.

request ``{"v": 1, "id": int, "verb": str, "body": map}``; reply ``{"v": 1, "id": int, "ok": true, "body": map}`` or
``{"v": 1, "id": int, "ok": false, "error": {"code": "E210", "text": str}}``.  Sizes and depth are codec's matter.
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
MAX_SPANS = 1_000_000  # as the setting timeline_spans

_INT31 = 2**31 - 1
_INT64 = 2**63 - 1
_ENVELOPE = {"v": integer(VERSION, VERSION), "id": integer(0, _INT64)}
_TABLE_NUMBER = integer(0, MAX_TABLES - 1)
_TOKEN = {RULE: exact_bytes(TOKEN_BYTES)}


@dataclass(frozen=True)
class Status:
    """What is going on?"""


@dataclass(frozen=True)
class Stop:
    """End the daemon, whatever it does."""


@dataclass(frozen=True)
class Bye:
    """The trainer is done.

    Attributes:
        token: of its ``Register``, as in each request that changes its session: no other process has it.
    """

    token: bytes = field(repr=False, metadata=_TOKEN)


@dataclass(frozen=True)
class Register:
    """A trainer that has sent ``token`` over its lifeline wants this daemon.

    Attributes:
        pid: of the trainer.
        layout: ``layout.layout_hash()`` it was built with.
        version: of its ascpipe, for the error text.
        token: random bytes.
    """

    pid: int = field(metadata={RULE: integer(1, _INT31)})
    layout: int = field(metadata={RULE: integer(0, _INT64)})
    version: str = field(metadata={RULE: printable(64)})
    token: bytes = field(repr=False, metadata=_TOKEN)


@dataclass(frozen=True)
class Stream:
    """A ring that is wanted.

    Attributes:
        stream: its number.
        channel: 0 train, 1 evaluation, 2 local.
        tables: table numbers in ring order.
        rank_size: ranks among which the keys of a local ring are dealt, 2 or more; 1 for any other ring.
    """

    stream: int = field(metadata={RULE: integer(0, _INT31)})
    channel: int = field(metadata={RULE: integer(0, CHANNELS - 1)})
    tables: Tuple[int, ...] = field(metadata={RULE: items(_TABLE_NUMBER, MAX_TABLES)})
    rank_size: int = field(default=1, metadata={RULE: integer(1, MAX_RANKS)})


@dataclass(frozen=True)
class Table:
    """A table that is wanted; tables are numbered from 0 without gaps.

    Attributes:
        dim: floats of an embedding.
        device_rows: rows on the device; 0 for a table that lives in home rows alone.
        home_rows: home rows at most; 0 for a table that lives on the device alone.
        row_floats: floats of a home row: embedding and optimizer slots.
        access_threshold: occurrences before a key gets a row; -1 without admission.
        faae_coefficient: how much an occurrence counts.
        eviction_threshold: age at which an eviction drops a key; -1 never.
        disk_rows: rows that the table may have, at home and on disk together; 0 = none goes to disk.
        directories: for its row files, absolute; as rows go to disk, at least one.
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
        raise MessageError("{} {} has a table twice".format(where, stream.stream))
    if (stream.channel == LOCAL) != (stream.rank_size > 1):
        raise MessageError("{} {} of channel {} has rank_size {}: 2 or more in channel {}, 1 in any other".format(
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
    """Make the segments of these streams and tables, and set the workers to work."""

    streams: Tuple[Stream, ...] = field(metadata={RULE: items(record(Stream), MAX_STREAMS)})
    tables: Tuple[Table, ...] = field(metadata={RULE: items(record(Table), MAX_TABLES)})
    token: bytes = field(repr=False, metadata=_TOKEN)


@dataclass(frozen=True)
class AddStream:
    """Make one more ring while the session goes on."""

    stream: Stream = field(metadata={RULE: record(Stream, _check_stream)})
    token: bytes = field(repr=False, metadata=_TOKEN)


@dataclass(frozen=True)
class AddTable:
    """Make the segment of one more table while the session goes on, or another one of a table that was not trained."""

    table: Table = field(metadata={RULE: record(Table)})
    token: bytes = field(repr=False, metadata=_TOKEN)


@dataclass(frozen=True)
class ReadTable:
    """A process wants to read what a table knows; descriptors of its memory come with the answer, for reading only."""

    table: str = field(metadata={RULE: printable(255)})


@dataclass(frozen=True)
class Trace:
    """Keep the newest spans of each worker from now on, as many as this says; 0: keep none any more."""

    spans: int = field(metadata={RULE: integer(0, MAX_SPANS)})


Body = Union[Status, Stop, Bye, Register, Start, AddStream, AddTable, ReadTable, Trace]


@dataclass(frozen=True)
class Request:
    """One question.  ``id`` comes back with its answer."""

    id: int
    verb: str
    body: Body


@dataclass(frozen=True)
class Reply:
    """One answer.

    Attributes:
        body: empty for a failure.
        error: the failure, or None.
    """

    id: int
    body: Dict[str, Any]
    error: Union[AscpipeError, None]


def verb_of(body: Body) -> str:
    """``"register"`` of a Register, ``"add_stream"`` of an AddStream."""
    return re.sub(r"\B([A-Z])", r"_\1", type(body).__name__).lower()


def extended(start: Start, stream: Stream) -> Start:
    """A start with one more stream.

    Raises:
        MessageError: its number is taken, it has a table that is not there or, for training, one that is trained by
            another stream, or there are as many streams as can be.
    """
    where = "stream {}".format(stream.stream)
    if any(stream.stream == other.stream for other in start.streams):
        raise MessageError("{} is there already".format(where))
    if len(start.streams) >= MAX_STREAMS:
        raise MessageError("{} is one too many: a session has at most {} streams".format(where, MAX_STREAMS))
    for number in stream.tables:
        if number >= len(start.tables):
            raise MessageError("{} has table {}, there are {}".format(where, number, len(start.tables)))
        if stream.channel == TRAIN and number in _trained(start):
            raise MessageError("{} would be the second to train table {}".format(where, number))
    return replace(start, streams=(*start.streams, stream))


def with_table(start: Start, table: Table) -> Start:
    """A start with one more table, or with another one in the place of a table that is in no training stream.

    Raises:
        MessageError: its number is not the next one, or that of a table that is trained or has other rows.
    """
    where = "table {}".format(table.table)
    _check_rows(table)
    if table.table > len(start.tables):
        raise MessageError("{} comes after {} tables: they are numbered without gaps".format(where, len(start.tables)))
    if table.table == len(start.tables):
        return replace(start, tables=(*start.tables, table))
    before = start.tables[table.table]
    if table.table in _trained(start) or any(
            getattr(before, field) != getattr(table, field) for field in ("name", "dim", "device_rows")):
        raise MessageError("{} is there already".format(where))
    return replace(start, tables=tuple(table if known is before else known for known in start.tables))


def _trained(start: Start) -> Set[int]:
    """Numbers of the tables that are in a training stream."""
    return {number for stream in start.streams if stream.channel == TRAIN for number in stream.tables}


def request_bytes(request_id: int, body: Body) -> bytes:
    """A request, ready to be sent; checked as the receiver will check it."""
    plain = _plain(asdict(body))
    _BODIES[verb_of(body)](plain, "body")
    return codec.pack({"v": VERSION, "id": request_id, "verb": verb_of(body), "body": plain})


def reply_bytes(request_id: int, body: Mapping[str, Any]) -> bytes:
    """A good answer."""
    return codec.pack({"v": VERSION, "id": request_id, "ok": True, "body": _plain(dict(body))})


def error_bytes(request_id: int, error: AscpipeError) -> bytes:
    """A bad answer."""
    text = error.sentence()[:1000]  # at most 4000 bytes of UTF-8
    return codec.pack({"v": VERSION, "id": request_id, "ok": False, "error": {"code": error.code, "text": text}})


def parse_request(data: bytes, most_values: int = codec.MAX_VALUES) -> Request:
    """The request in ``data``, which has ``most_values``.

    Raises:
        MessageError: anything that is not exactly a request; names the field.
    """
    found = fields(codec.unpack(data, most_values), "request", {**_ENVELOPE, "verb": text(32), "body": of_type(dict)})
    if found["verb"] not in _BODIES:
        raise MessageError("verb {!r} is none of {}".format(found["verb"], ", ".join(sorted(_BODIES))))
    return Request(found["id"], found["verb"], _BODIES[found["verb"]](found["body"], "body"))


def parse_reply(data: bytes) -> Reply:
    """The reply in ``data``; its body is only known to be a map.

    Raises:
        MessageError
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
    """Tuples as lists, all the way down: the codec takes no other types."""
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
            raise MessageError("{}.streams has stream {} twice".format(where, stream.stream))
        seen_streams.append(stream.stream)
        for number in stream.tables:
            if number >= len(start.tables):
                raise MessageError("stream {} has table {}, there are {}".format(
                    stream.stream, number, len(start.tables)))
            if stream.channel != LOCAL and (stream.channel, number) in seen_tables:
                raise MessageError("table {} is in two streams of channel {}".format(number, stream.channel))
            seen_tables.append((stream.channel, number))
        _check_stream(stream, "stream")


_BODIES: Dict[str, Rule] = {
    "status": record(Status), "stop": record(Stop), "bye": record(Bye), "register": record(Register),
    "start": record(Start, _check_start), "add_stream": record(AddStream), "add_table": record(AddTable),
    "read_table": record(ReadTable), "trace": record(Trace)}
