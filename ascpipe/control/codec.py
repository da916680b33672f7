"""Encodes control messages as msgpack maps, and enforces limits of size and depth against broken peers.

msgpack's own limits hold per object and count what a header *claims*; a short message of nested array
headers makes it allocate a lot.  So the bytes are scanned first: depth, claimed lengths against what is
there, and no extension types, before anything is built.
"""
import math
from typing import Any, Dict, List, Tuple

import msgpack

from ascpipe.errors import MessageError

MESSAGE_BYTES = 64 * 1024  #: a longer message is refused unread
MAX_DEPTH = 8
MAX_STRING_BYTES = 4096
MAX_BINARY_BYTES = 16384
MAX_ARRAY = 1024
MAX_MAP = 64

# Bytes that follow the first byte of fixed-size values: nil, false, true, float32/64, (u)int8 to 64.
_FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2,
          0xD2: 4, 0xD3: 8}
# (first byte -> bytes of the length that follows, the greatest length, items for each one, what it is)
_LENGTHS: Tuple[Tuple[Dict[int, int], int, int, str], ...] = (
    ({0xD9: 1, 0xDA: 2, 0xDB: 4}, MAX_STRING_BYTES, 0, "text"),
    ({0xC4: 1, 0xC5: 2, 0xC6: 4}, MAX_BINARY_BYTES, 0, "binary"),
    ({0xDC: 2, 0xDD: 4}, MAX_ARRAY, 1, "list"),
    ({0xDE: 2, 0xDF: 4}, MAX_MAP, 2, "map"),
)


def pack(body: Dict[str, Any]) -> bytes:
    """The bytes of a map.

    Raises:
        MessageError: it is longer than a receiver would take.
    """
    data = msgpack.packb(body, use_bin_type=True, strict_types=True)
    if len(data) > MESSAGE_BYTES:
        raise MessageError("it has {} bytes, at most {} are sent".format(len(data), MESSAGE_BYTES))
    return bytes(data)


def unpack(data: bytes) -> Dict[str, Any]:
    """The map in ``data``; whatever the bytes are, nothing but a map or a MessageError comes out.

    Raises:
        MessageError: too long, too deep, not msgpack, not one map, a type that no message has, a key twice.
    """
    if len(data) > MESSAGE_BYTES:
        raise MessageError("it has {} bytes, at most {} are read".format(len(data), MESSAGE_BYTES))
    _scan(data)
    try:
        body = msgpack.unpackb(
            data, raw=False, strict_map_key=True, max_str_len=MAX_STRING_BYTES, max_bin_len=MAX_BINARY_BYTES,
            max_array_len=MAX_ARRAY, max_map_len=MAX_MAP, max_ext_len=0, ext_hook=_refuse_extension,
            object_pairs_hook=_map_without_repeats)
    except (ValueError, msgpack.UnpackException, RecursionError, OverflowError) as error:
        raise MessageError("it is not msgpack as we send it ({})".format(error)) from error
    if not isinstance(body, dict):
        raise MessageError("it is a {}, expected a map".format(type(body).__name__))
    return body


def _refuse_extension(code: int, data: bytes) -> None:
    raise ValueError("extension type {}".format(code))


def _map_without_repeats(pairs: List[Tuple[Any, Any]]) -> Dict[str, Any]:
    body: Dict[str, Any] = {}
    for key, value in pairs:
        if not isinstance(key, str):
            raise ValueError("a key is a {}".format(type(key).__name__))
        if key in body:
            raise ValueError("key {!r} comes twice".format(key[:32]))
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("{!r} is not finite".format(key[:32]))
        body[key] = value
    return body


def _scan(data: bytes) -> None:
    """Walk over the headers without building anything."""
    size, position = len(data), 0
    open_items: List[int] = [1]  # items still to come, per level
    while open_items:
        if open_items[-1] == 0:
            open_items.pop()
            continue
        open_items[-1] -= 1
        if position >= size:
            raise MessageError("it ends in the middle")
        position, items = _header(data, position)
        if position > size or items > size - position:
            raise MessageError("it ends in the middle")
        if items >= 0:
            open_items.append(items)
            if len(open_items) > MAX_DEPTH + 1:
                raise MessageError("it is nested deeper than {}".format(MAX_DEPTH))
    if position != size:
        raise MessageError("{} bytes follow its end".format(size - position))


def _header(data: bytes, position: int) -> Tuple[int, int]:
    """Position after one value or container header, and the number of items inside (-1: no container)."""
    first = data[position]
    position += 1
    if first <= 0x7F or first >= 0xE0:
        return position, -1
    if first <= 0x8F:
        return position, 2 * (first & 0x0F)
    if first <= 0x9F:
        return position, first & 0x0F
    if first <= 0xBF:
        return position + (first & 0x1F), -1
    if first in _FIXED:
        return position + _FIXED[first], -1
    for table, limit, items_each, what in _LENGTHS:
        if first in table:
            end = position + table[first]
            length = int.from_bytes(data[position:end], "big")
            if end > len(data) or length > limit:
                raise MessageError("a {} of length {}, at most {} is read".format(what, length, limit))
            return (end, items_each * length) if items_each else (end + length, -1)
    raise MessageError("it has a value of type 0x{:02x}, which no message has".format(first))
