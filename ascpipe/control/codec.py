"""Encoder and decoder of control messages, which are msgpack maps.

ascpipe has its own decoder, which limits size and depth. The C unpacker of msgpack 1.0.5 leaks memory if a string is
not UTF-8 or a hook raises, so a peer could exhaust the supervisor's memory. The unpacker also reserves the size that a
header claims. This decoder creates a value only when all bytes of the value are present.
"""
import math
import struct
from typing import Any, Dict, List, Tuple

import msgpack

from ascpipe.errors import MessageError

MESSAGE_BYTES = 64 * 1024  #: longer messages are rejected without decoding
MAX_DEPTH = 8
MAX_VALUES = 16384  #: maximum number of values, including keys; the limit bounds the time to decode a message
MAX_VALUES_SHORT = 128  #: maximum number of values in a request without streams and tables
MAX_STRING_BYTES = 4096
MAX_BINARY_BYTES = 16384
MAX_ARRAY = 1024
MAX_MAP = 64

_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {first: struct.Struct(">" + code) for first, code in zip(
    (0xCA, 0xCB, 0xCC, 0xCD, 0xCE, 0xCF, 0xD0, 0xD1, 0xD2, 0xD3), "fdBHIQbhiq")}
_TEXT = "text"
_BINARY = "binary"
_LIST = "list"
_MAP = "map"
# first byte -> (type, bytes of the length field, maximum length)
_LENGTHS: Dict[int, Tuple[str, int, int]] = {first: (what, 1 << place, most) for begin, what, places, most in (
    (0xC4, _BINARY, (0, 1, 2), MAX_BINARY_BYTES), (0xD9, _TEXT, (0, 1, 2), MAX_STRING_BYTES),
    (0xDC, _LIST, (1, 2), MAX_ARRAY), (0xDE, _MAP, (1, 2), MAX_MAP)) for first, place in enumerate(places, begin)}


def pack(body: Dict[str, Any]) -> bytes:
    """Encode a map.

    Raises:
        MessageError: the message is too long.
    """
    data = msgpack.packb(body, use_bin_type=True, strict_types=True)
    if len(data) > MESSAGE_BYTES:
        raise MessageError("it has {} bytes; at most {} can be sent".format(len(data), MESSAGE_BYTES))
    return bytes(data)


def unpack(data: bytes, most_values: int = MAX_VALUES) -> Dict[str, Any]:
    """Decode a msgpack map with at most ``most_values`` values.

    Raises:
        MessageError: ``data`` is not one valid map within the limits. Duplicate keys, keys that are not strings,
            invalid UTF-8, non-finite numbers and other msgpack types are invalid.
    """
    if len(data) > MESSAGE_BYTES:
        raise MessageError("it has {} bytes; at most {} are accepted".format(len(data), MESSAGE_BYTES))
    reader = _Reader(data, most_values)
    body = reader.value(0)
    if reader.left():
        raise MessageError("{} bytes follow its end".format(reader.left()))
    if not isinstance(body, dict):
        raise MessageError("it is a {}, expected a map".format(type(body).__name__))
    return body


class _Reader:
    """Decoder of the values in ``data``. It raises only ``MessageError``."""

    def __init__(self, data: bytes, most_values: int) -> None:
        self._data = data
        self._size = len(data)
        self._at = 0
        self._values = 1
        self._most_values = most_values

    def left(self) -> int:
        return self._size - self._at

    def value(self, depth: int) -> Any:
        """Decode the next value. ``depth`` is the number of lists and maps that contain the value."""
        at = self._at
        if at == self._size:
            raise MessageError("it is truncated")
        first = self._data[at]
        self._at = at + 1
        if first <= 0x7F:
            return first
        if 0xA0 <= first <= 0xBF:
            return self._text(first & 0x1F)
        if first >= 0xE0:
            return first - 0x100
        if first <= 0x8F:
            return self._map(first & 0x0F, depth + 1)
        if first <= 0x9F:
            return self._list(first & 0x0F, depth + 1)
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _NUMBERS:
            return self._number(_NUMBERS[first])
        if first not in _LENGTHS:
            raise MessageError("it has a value of the unknown type 0x{:02x}".format(first))
        what, size, most = _LENGTHS[first]
        length = int.from_bytes(self._take(size), "big")
        if length > most:
            raise MessageError("a {} has length {}; at most {} is accepted".format(what, length, most))
        if what is _TEXT:
            return self._text(length)
        if what is _BINARY:
            return self._take(length)
        return self._list(length, depth + 1) if what is _LIST else self._map(length, depth + 1)

    def _take(self, size: int) -> bytes:
        begin, self._at = self._at, self._at + size
        if self._at > self._size:
            raise MessageError("it is truncated")
        return self._data[begin:self._at]

    def _enter(self, values: int, depth: int) -> None:
        """At the start of a list or map, check the nesting depth and the number of values. Each value takes at least
        one byte.
        """
        if depth > MAX_DEPTH:
            raise MessageError("it is nested deeper than {}".format(MAX_DEPTH))
        if values > self.left():
            raise MessageError("it is truncated")
        self._values += values
        if self._values > self._most_values:
            raise MessageError("it has {} values or more; at most {} are "
                               "accepted".format(self._values, self._most_values))

    def _number(self, layout: struct.Struct) -> Any:
        (number,) = layout.unpack(self._take(layout.size))
        if isinstance(number, float) and not math.isfinite(number):
            raise MessageError("the number before byte {} is not finite".format(self._at))
        return number

    def _text(self, length: int) -> str:
        # Most values of a status are text, so this method does not call ``_take``.
        begin = self._at
        self._at = end = begin + length
        if end > self._size:
            raise MessageError("it is truncated")
        try:
            return self._data[begin:end].decode()
        except UnicodeDecodeError as error:
            raise MessageError("the text before byte {} is not UTF-8 ({})".format(self._at, error.reason)) from error

    def _list(self, length: int, depth: int) -> List[Any]:
        self._enter(length, depth)
        return [self.value(depth) for _ in range(length)]

    def _map(self, length: int, depth: int) -> Dict[str, Any]:
        self._enter(2 * length, depth)
        found: Dict[str, Any] = {}
        value = self.value
        for _ in range(length):
            key = value(depth)
            if not isinstance(key, str):
                raise MessageError("a key is a {}, expected text".format(type(key).__name__))
            if key in found:
                raise MessageError("key {!r} comes twice".format(key[:32]))
            found[key] = value(depth)
        return found
