"""The control messages: what may be asked, and exact checks of every field.

request ``{"v": 1, "id": int, "verb": str, "body": map}``; reply ``{"v": 1, "id": int, "ok": true, "body": map}`` or
``{"v": 1, "id": int, "ok": false, "error": {"code": "E210", "text": str}}``.  Sizes and depth are codec's matter.
"""
import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Callable, Dict, List, Mapping, Set, Tuple, Type, Union

from ascpipe.control import codec
from ascpipe.errors import AscpipeError, MessageError, received
from ascpipe.layout.words import CHANNELS, TRAIN

VERSION = 1
TOKEN_BYTES = 16
MAX_STREAMS = 32
MAX_TABLES = 200

_INT64 = 2**63 - 1
_Rule = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Status:
    """What is going on?"""


@dataclass(frozen=True)
class Stop:
    """End the daemon, whatever it does."""


@dataclass(frozen=True)
class Bye:
    """The trainer is done."""


@dataclass(frozen=True)
class Register:
    """A trainer that has sent ``token`` over its lifeline wants this daemon.

    Attributes:
        pid: of the trainer.
        layout: ``layout.layout_hash()`` it was built with.
        version: of its ascpipe, for the error text.
        token: random bytes.
    """

    pid: int
    layout: int
    version: str
    token: bytes


@dataclass(frozen=True)
class Stream:
    """A ring that is wanted: its number, channel (0 train, 1 evaluation), and table numbers in ring order."""

    stream: int
    channel: int
    tables: Tuple[int, ...]


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
    """

    table: int
    name: str
    dim: int
    device_rows: int
    home_rows: int = 0
    row_floats: int = 0
    access_threshold: int = -1
    faae_coefficient: int = 1
    eviction_threshold: int = -1


@dataclass(frozen=True)
class Start:
    """Make the segments of these streams and tables, and set the workers to work."""

    streams: Tuple[Stream, ...]
    tables: Tuple[Table, ...]


@dataclass(frozen=True)
class AddStream:
    """Make one more ring while the session goes on."""

    stream: Stream


@dataclass(frozen=True)
class AddTable:
    """Make the segment of one more table while the session goes on, or another one of a table that nobody trained."""

    table: Table


Body = Union[Status, Stop, Bye, Register, Start, AddStream, AddTable]


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
    _check_table(table)
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


def parse_request(data: bytes) -> Request:
    """The request in ``data``.

    Raises:
        MessageError: anything that is not exactly a request; names the field.
    """
    fields = _fields(codec.unpack(data), "request", {
        "v": _int(VERSION, VERSION), "id": _int(0, _INT64), "verb": _text(32), "body": _is(dict)})
    if fields["verb"] not in _BODIES:
        raise MessageError("verb {!r} is none of {}".format(fields["verb"], ", ".join(sorted(_BODIES))))
    return Request(fields["id"], fields["verb"], _BODIES[fields["verb"]](fields["body"], "body"))


def parse_reply(data: bytes) -> Reply:
    """The reply in ``data``; its body is only known to be a map.

    Raises:
        MessageError
    """
    body = codec.unpack(data)
    rules = {"v": _int(VERSION, VERSION), "id": _int(0, _INT64), "ok": _is(bool)}
    if body.get("ok") is True:
        fields = _fields(body, "reply", {**rules, "body": _is(dict)})
        return Reply(fields["id"], fields["body"], None)
    fields = _fields(body, "reply", {**rules, "error": _is(dict)})
    error = _fields(fields["error"], "error", {"code": _text(8), "text": _text(codec.MAX_STRING_BYTES)})
    return Reply(fields["id"], {}, received(error["code"], error["text"]))


def _plain(value: Any) -> Any:
    """Tuples as lists, all the way down: the codec takes no other types."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _fields(value: Any, where: str, rules: Mapping[str, _Rule]) -> Dict[str, Any]:
    """Exactly the fields of ``rules``, each checked."""
    if type(value) is not dict:
        raise MessageError("{} is a {}, expected a map".format(where, type(value).__name__))
    if set(value) != set(rules):
        raise MessageError("{} has the fields {}, expected {}".format(
            where, ", ".join(sorted(value)) or "none", ", ".join(sorted(rules)) or "none"))
    return {name: rule(value[name], "{}.{}".format(where, name)) for name, rule in rules.items()}


def _is(kind: type) -> _Rule:
    def check(value: Any, where: str) -> Any:
        if type(value) is not kind:  # exact: a bool is no int
            raise MessageError("{} is a {}, expected {}".format(where, type(value).__name__, kind.__name__))
        return value

    return check


def _int(low: int, high: int) -> _Rule:
    def check(value: Any, where: str) -> int:
        number = _is(int)(value, where)
        if not low <= number <= high:
            raise MessageError("{} is {}, allowed are {} to {}".format(where, number, low, high))
        return int(number)

    return check


def _text(longest: int) -> _Rule:
    def check(value: Any, where: str) -> str:
        text = str(_is(str)(value, where))
        if not 0 < len(text) <= longest:
            raise MessageError("{} has {} characters, allowed are 1 to {}".format(where, len(text), longest))
        return text

    return check


def _printable(longest: int) -> _Rule:
    def check(value: Any, where: str) -> str:
        text = str(_text(longest)(value, where))
        if not text.isprintable():
            raise MessageError("{} is {!r}: control characters are not allowed".format(where, text))
        return text

    return check


def _bytes(size: int) -> _Rule:
    def check(value: Any, where: str) -> bytes:
        data = bytes(_is(bytes)(value, where))
        if len(data) != size:
            raise MessageError("{} has {} bytes, expected {}".format(where, len(data), size))
        return data

    return check


def _tuple(rule: _Rule, longest: int) -> _Rule:
    def check(value: Any, where: str) -> Tuple[Any, ...]:
        items = _is(list)(value, where)
        if not 0 < len(items) <= longest:
            raise MessageError("{} has {} items, allowed are 1 to {}".format(where, len(items), longest))
        return tuple(rule(item, "{}[{}]".format(where, i)) for i, item in enumerate(items))

    return check


def _record(kind: Type[Any], rules: Mapping[str, _Rule]) -> _Rule:
    def check(value: Any, where: str) -> Any:
        return kind(**_fields(value, where, rules))

    return check


def _start(value: Any, where: str) -> Start:
    start: Start = _record(Start, {"streams": _tuple(_STREAM, MAX_STREAMS), "tables": _tuple(_TABLE, MAX_TABLES)})(
        value, where)
    if [table.table for table in start.tables] != list(range(len(start.tables))):
        raise MessageError("{}.tables are not numbered 0, 1, 2, ...".format(where))
    for table in start.tables:
        _check_table(table)
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
            if (stream.channel, number) in seen_tables:
                raise MessageError("table {} is in two streams of channel {}".format(number, stream.channel))
            seen_tables.append((stream.channel, number))
    return start


def _check_table(table: Table) -> None:
    if max(table.device_rows, table.home_rows) == 0 or (table.home_rows > 0 and table.row_floats < table.dim):
        raise MessageError("table {} has {} rows on the device and {} home rows of {} floats (dim {})".format(
            table.table, table.device_rows, table.home_rows, table.row_floats, table.dim))


def _stream(value: Any, where: str) -> Stream:
    stream: Stream = _STREAM(value, where)
    if len(set(stream.tables)) < len(stream.tables):
        raise MessageError("{} {} has a table twice".format(where, stream.stream))
    return stream


_STREAM = _record(Stream, {
    "stream": _int(0, 2**31 - 1), "channel": _int(0, CHANNELS - 1),
    "tables": _tuple(_int(0, MAX_TABLES - 1), MAX_TABLES)})
_TABLE = _record(Table, {
    "table": _int(0, MAX_TABLES - 1), "name": _printable(255), "dim": _int(1, 1 << 20),
    "device_rows": _int(0, 2**31 - 1), "home_rows": _int(0, 2**31 - 3), "row_floats": _int(0, 1 << 24),
    "access_threshold": _int(-1, 2**31 - 1), "faae_coefficient": _int(1, 2**31 - 1),
    "eviction_threshold": _int(-1, 2**31 - 1)})
_BODIES: Dict[str, _Rule] = {
    "status": _record(Status, {}), "stop": _record(Stop, {}), "bye": _record(Bye, {}),
    "register": _record(Register, {
        "pid": _int(1, 2**31 - 1), "layout": _int(0, _INT64), "version": _printable(64),
        "token": _bytes(TOKEN_BYTES)}),
    "start": _start, "add_stream": _record(AddStream, {"stream": _stream}),
    "add_table": _record(AddTable, {"table": _TABLE}),
}
