"""Plain-Python parser and writer of tf.train.Example, for displaying and converting records.

The wire format is https://protobuf.dev/programming-guides/encoding. The fast parsers are in ``tfops/src/input``.
"""
import functools
import struct
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from ascpipe.errors import NotAnExampleError

Values = Union[List[int], List[float], List[bytes]]

_VARINT = 0  # wire types
_EIGHT_BYTES = 1
_DELIMITED = 2
_FOUR_BYTES = 5
_BYTES_LIST = 1
_FLOAT_LIST = 2
_INT64_LIST = 3
_WORD = 2 ** 64 - 1
_TYPES = {_BYTES_LIST: "string", _FLOAT_LIST: "float32", _INT64_LIST: "int64"}
_NUMBERS = {name: number for number, name in _TYPES.items()}


class FeatureValues(NamedTuple):
    """Values that one record contains for a feature.

    Attributes:
        type: ``"int64"``, ``"float32"``, ``"string"``, or None if the feature has no list.
        values: the values.
    """

    type: Optional[str]
    values: Values


def parse(data: bytes) -> Dict[str, FeatureValues]:
    """Return the features of a record. If a record contains the same feature twice, the last values are used, as in
    TensorFlow.

    Args:
        data: bytes of a tf.train.Example.

    Raises:
        NotAnExampleError: the bytes are not a tf.train.Example, or have unknown fields.
    """
    common = _common(data)
    if common is not None:
        return common
    try:
        found = {}
        for features in _messages(data, 1):
            for entry in _messages(features, 1):
                name, feature = _entry(entry)
                found[name.decode("utf-8", "surrogateescape")] = feature
        return found
    except ValueError as error:
        raise NotAnExampleError(len(data), str(error)) from error


def _common(data: bytes) -> Optional[Dict[str, FeatureValues]]:
    """Parse a record in the encoding of TensorFlow's writers. Return None for any other encoding."""
    found: Dict[str, FeatureValues] = {}
    try:
        at, end = _content(data, 0, 1)
        while at < end:
            at, entry_end = _content(data, at, 1)
            name_at, name_end = _content(data, at, 1)
            at, feature_end = _content(data, name_end, 2)
            kind = data[at] >> 3
            at, list_end = _content(data, at, kind)
            if not entry_end == feature_end == list_end:
                return None
            values = _common_values(data, at, list_end, kind)
            found[data[name_at:name_end].decode("utf-8", "surrogateescape")] = FeatureValues(_TYPES[kind], values)
            at = list_end
    except (LookupError, ValueError, struct.error):
        return None
    return found if at == end == len(data) else None


def _common_values(data: bytes, at: int, end: int, kind: int) -> Values:
    values: List[Union[int, float, bytes]] = []
    if kind == _BYTES_LIST:
        while at < end:
            at, stop = _content(data, at, 1)
            values.append(data[at:stop])
            at = stop
    elif at < end:
        at, stop = _content(data, at, 1)
        if kind == _FLOAT_LIST and stop == end:
            return list(struct.unpack("<{}f".format((end - at) // 4), data[at:end]))
        while at < stop:
            one, at = _varint(data, at)
            values.append(_signed(one))
    if at != end:
        raise ValueError("another form")
    return values  # type: ignore[return-value]


def _content(data: bytes, at: int, number: int) -> Tuple[int, int]:
    """Return the begin and end offsets of a length-delimited field's content. The field must have the field number
    ``number``.
    """
    if data[at] != number << 3 | _DELIMITED:
        raise ValueError("another form")
    size = data[at + 1]
    at += 2
    if size >= 128:
        size, at = _varint(data, at - 1)
    return at, at + size


def serialized(values: Mapping[str, FeatureValues]) -> bytes:
    """Return a serialized tf.train.Example with the given features, in the given order."""
    entries = []
    for name, one in values.items():
        feature = b"" if one.type is None else _delimited(_NUMBERS[one.type], _list_of(one))
        entries.append(_delimited(1, _name_field(name) + _delimited(2, feature)))
    return _delimited(1, b"".join(entries))


def _list_of(one: FeatureValues) -> bytes:
    if one.type == _TYPES[_BYTES_LIST]:
        return b"".join([_delimited(1, value) for value in one.values])  # type: ignore[arg-type]
    if not one.values:
        return b""
    if one.type == _TYPES[_FLOAT_LIST]:
        return _delimited(1, struct.pack("<{}f".format(len(one.values)), *one.values))
    return _delimited(1, b"".join([_varint_of(value & _WORD) for value in one.values]))  # type: ignore[operator]


def _delimited(number: int, data: bytes) -> bytes:
    return _varint_of(number << 3 | _DELIMITED) + _varint_of(len(data)) + data


@functools.lru_cache(maxsize=10000)
def _name_field(name: str) -> bytes:
    return _delimited(1, name.encode("utf-8", "surrogateescape"))


@functools.lru_cache(maxsize=100000)
def _varint_of(number: int) -> bytes:
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _entry(data: bytes) -> Tuple[bytes, FeatureValues]:
    name = b""
    kind = None
    values: List[Union[int, float, bytes]] = []
    for number, wire_type, value in _fields(data):
        if wire_type != _DELIMITED or not isinstance(value, bytes) or number not in (1, 2):
            raise ValueError("an entry of the features has the field {}".format(number))
        if number == 1:
            name = value
            continue
        for list_kind, list_type, content in _fields(value):
            if list_type != _DELIMITED or not isinstance(content, bytes) or list_kind not in _TYPES:
                raise ValueError("a feature has the field {}".format(list_kind))
            if list_kind != kind:
                values = []
            kind = list_kind
            values.extend(_values(content, list_kind))
    return name, FeatureValues(None if kind is None else _TYPES[kind], values)  # type: ignore[arg-type]


def _values(data: bytes, kind: int) -> Iterator[Union[int, float, bytes]]:
    unpacked = {_BYTES_LIST: _DELIMITED, _FLOAT_LIST: _FOUR_BYTES, _INT64_LIST: _VARINT}[kind]
    for number, wire_type, value in _fields(data):
        if number != 1 or wire_type not in (unpacked, _DELIMITED):
            raise ValueError("a list of values has the field {} with the wire type {}".format(number, wire_type))
        if kind == _BYTES_LIST:
            yield value
        elif kind == _FLOAT_LIST:
            packed = value if isinstance(value, bytes) else b""
            if len(packed) % 4:
                raise ValueError("a list of floats has {} bytes".format(len(packed)))
            yield from (one for one, in struct.iter_unpack("<f", packed))
        elif isinstance(value, bytes):
            position = 0
            while position < len(value):
                one, position = _varint(value, position)
                yield _signed(one)
        else:
            yield _signed(int(value))


def _messages(data: bytes, number: int) -> Iterator[bytes]:
    """Yield the content of each occurrence of message field ``number``. ``data`` must not contain any other field."""
    for found, wire_type, value in _fields(data):
        if found != number or wire_type != _DELIMITED or not isinstance(value, bytes):
            raise ValueError("there is the field {} with the wire type {}".format(found, wire_type))
        yield value


def _fields(data: bytes) -> Iterator[Tuple[int, int, Union[int, bytes]]]:
    """Yield field number, wire type and value of each field. The value of a float field is returned as 4 bytes."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        wire_type = tag & 7
        if wire_type == _VARINT:
            number, position = _varint(data, position)
            yield tag >> 3, wire_type, number
            continue
        if wire_type == _DELIMITED:
            length, position = _varint(data, position)
        elif wire_type in (_FOUR_BYTES, _EIGHT_BYTES):
            length = 4 if wire_type == _FOUR_BYTES else 8
        else:
            raise ValueError("byte {} has the wire type {}".format(position - 1, wire_type))
        if length > len(data) - position:
            raise ValueError("a field of {} bytes has only {} bytes".format(length, len(data) - position))
        yield tag >> 3, wire_type, data[position:position + length]
        position += length


def _varint(data: bytes, position: int) -> Tuple[int, int]:
    """Decode the varint at a position. Return the number, and the position after the varint."""
    value = 0
    for shift in range(0, 70, 7):
        if position == len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128 and value < 1 << 64:
            return value, position
    raise ValueError("a number is incomplete or has more than 64 bits")


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
