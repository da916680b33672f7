"""Encodes control messages as msgpack maps; decodes them by a reader of our own, within limits of size and depth.

The C unpacker of msgpack 1.0.5 never gives back what it had built when a text is not UTF-8 or a hook raises: a peer
that sends such messages takes the memory of the supervisor, for ever.  It also reserves what a header only claims.  So
it reads no message here.  The reader builds a value when all of its bytes are there, and what it has built goes with
the exception that refuses the message.
"""
import math
import struct
from typing import Any, Dict, List, Tuple

import msgpack

from ascpipe.errors import MessageError

MESSAGE_BYTES = 64 * 1024  #: a longer message is refused unread
MAX_DEPTH = 8
MAX_VALUES = 16384  #: keys count; bounds the time that a message takes
FEW_VALUES = 128  #: of a request that describes no streams and tables
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
# first byte -> (what it is, bytes of the length that follows, the greatest length)
_LENGTHS: Dict[int, Tuple[str, int, int]] = {first: (what, 1 << place, most) for begin, what, places, most in (
    (0xC4, _BINARY, (0, 1, 2), MAX_BINARY_BYTES), (0xD9, _TEXT, (0, 1, 2), MAX_STRING_BYTES),
    (0xDC, _LIST, (1, 2), MAX_ARRAY), (0xDE, _MAP, (1, 2), MAX_MAP)) for first, place in enumerate(places, begin)}


def pack(body: Dict[str, Any]) -> bytes:
    """The bytes of a map.

    Raises:
        MessageError: it is longer than a receiver would take.
    """
    data = msgpack.packb(body, use_bin_type=True, strict_types=True)
    if len(data) > MESSAGE_BYTES:
        raise MessageError("it has {} bytes, at most {} are sent".format(len(data), MESSAGE_BYTES))
    return bytes(data)


def unpack(data: bytes, most_values: int = MAX_VALUES) -> Dict[str, Any]:
    """The map in ``data``, of ``most_values``; whatever the bytes are, nothing but a map or a MessageError comes out.

    Raises:
        MessageError: too long, too deep, too many values, not msgpack, not one map, a type that no message has, a key
            twice, a key that is not text, a text that is not UTF-8, a number that is not finite.
    """
    if len(data) > MESSAGE_BYTES:
        raise MessageError("it has {} bytes, at most {} are read".format(len(data), MESSAGE_BYTES))
    reader = _Reader(data, most_values)
    body = reader.value(0)
    if reader.left():
        raise MessageError("{} bytes follow its end".format(reader.left()))
    if not isinstance(body, dict):
        raise MessageError("it is a {}, expected a map".format(type(body).__name__))
    return body


class _Reader:
    """Reads values from the front of ``data``; all of it raises ``MessageError`` and nothing else."""

    def __init__(self, data: bytes, most_values: int) -> None:
        self._data = data
        self._size = len(data)
        self._at = 0
        self._values = 1
        self._most_values = most_values

    def left(self) -> int:
        return self._size - self._at

    def value(self, depth: int) -> Any:
        """The next value, inside ``depth`` lists and maps."""
        if self._at == self._size:
            raise MessageError("it ends in the middle")
        first = self._data[self._at]
        self._at += 1
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
            raise MessageError("it has a value of type 0x{:02x}, which no message has".format(first))
        what, size, most = _LENGTHS[first]
        length = int.from_bytes(self._take(size), "big")
        if length > most:
            raise MessageError("a {} of length {}, at most {} is read".format(what, length, most))
        if what is _TEXT:
            return self._text(length)
        if what is _BINARY:
            return self._take(length)
        return self._list(length, depth + 1) if what is _LIST else self._map(length, depth + 1)

    def _take(self, size: int) -> bytes:
        begin, self._at = self._at, self._at + size
        if self._at > self._size:
            raise MessageError("it ends in the middle")
        return self._data[begin:self._at]

    def _enter(self, values: int, depth: int) -> None:
        """A list or map at ``depth`` begins, and claims to have ``values``: each takes a byte at least."""
        if depth > MAX_DEPTH:
            raise MessageError("it is nested deeper than {}".format(MAX_DEPTH))
        if values > self.left():
            raise MessageError("it ends in the middle")
        self._values += values
        if self._values > self._most_values:
            raise MessageError("it has {} values or more, at most {} are read".format(self._values, self._most_values))

    def _number(self, layout: struct.Struct) -> Any:
        (number,) = layout.unpack(self._take(layout.size))
        if isinstance(number, float) and not math.isfinite(number):
            raise MessageError("the number before byte {} is not finite".format(self._at))
        return number

    def _text(self, length: int) -> str:
        try:
            return self._take(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise MessageError("the text before byte {} is not UTF-8 ({})".format(self._at, error.reason)) from error

    def _list(self, length: int, depth: int) -> List[Any]:
        self._enter(length, depth)
        return [self.value(depth) for _ in range(length)]

    def _map(self, length: int, depth: int) -> Dict[str, Any]:
        self._enter(2 * length, depth)
        found: Dict[str, Any] = {}
        for _ in range(length):
            key = self.value(depth)
            if not isinstance(key, str):
                raise MessageError("a key is a {}, expected text".format(type(key).__name__))
            if key in found:
                raise MessageError("key {!r} comes twice".format(key[:32]))
            found[key] = self.value(depth)
        return found
