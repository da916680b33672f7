"""Format of the index file of a TensorFlow checkpoint (a *bundle*, format V2). The functions are pure.

The index is a table of sorted keys, in the format of LevelDB. The entry with the empty key is the header. The name of a
tensor is the key of its entry. A partitioned variable has an entry without bytes, which lists the slices, and an entry
for each slice under the key ``slice_key(...)``. TensorFlow's ``tensor_bundle.proto`` defines the field numbers.
"""
import struct
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

MAX_RANK = 254
_FOOTER_BYTES = 48
_MAGIC = 0xDB4775248B80FB57
_TRAILER = struct.Struct("<BI")  # compression and checksum after each block
_BLOCK_BYTES = 1 << 18  #: size at which a written block ends
_WHOLE = -1  #: length of a dimension that a slice contains completely

_ESCAPES = {0: b"\0\xff", 0xFF: b"\xff\0"}

Checksum = Callable[[bytes], int]  #: masked CRC-32C
Extent = Tuple[int, int]  #: start and length in one dimension; length -1 means the whole dimension
Slice = Tuple[Extent, ...]


class Entry(NamedTuple):
    """Index entry of a tensor, or of a slice of a tensor.

    Attributes:
        dtype: number of the type; 1 is float32.
        shape: shape of the tensor or slice.
        shard: number of the data file.
        offset: first byte in the data file.
        size: number of bytes.
        crc: masked CRC-32C of the bytes.
        slices: slices of a partitioned variable, which has no bytes itself.
    """

    dtype: int
    shape: Tuple[int, ...]
    shard: int = 0
    offset: int = 0
    size: int = 0
    crc: int = 0
    slices: Tuple[Slice, ...] = ()


def decoded_index(content: bytes, checksum: Checksum) -> Tuple[int, Dict[bytes, Entry]]:
    """Decode an index file. Return the number of data files, and a dict from key to entry.

    Raises:
        ValueError: the index is damaged, or has a format that this version does not read.
    """
    if len(content) < _FOOTER_BYTES or struct.unpack("<Q", content[-8:])[0] != _MAGIC:
        raise ValueError("it is not the index of a TensorFlow checkpoint of format V2")
    footer = content[-_FOOTER_BYTES:]
    _, place = _handle(footer, 0)
    handle, _ = _handle(footer, place)
    found: Dict[bytes, bytes] = {}
    for _, value in _items(_block(content, handle, checksum)):
        found.update(_items(_block(content, _handle(value, 0)[0], checksum)))
    header = dict(_fields(found.pop(b"", b"")))
    if header.get(2, 0) != 0:
        raise ValueError("its numbers are big-endian")
    shards = header.get(1, 0)
    if not isinstance(shards, int) or not 1 <= shards <= 99999:
        raise ValueError("its header has no valid number of data files")
    return shards, {key: _entry(value) for key, value in found.items()}


def encoded_index(shards: int, entries: Dict[bytes, Entry], checksum: Checksum) -> bytes:
    """Return the content of an index file."""
    header = _number(1, shards) + _text(3, _number(1, 1))
    written = bytearray()
    index: List[Tuple[bytes, bytes]] = []
    waiting: List[Tuple[bytes, bytes]] = []
    size = 0
    for key, value in [(b"", header), *((key, _encoded_entry(entries[key])) for key in sorted(entries))]:
        waiting.append((key, value))
        size += len(key) + len(value)
        if size >= _BLOCK_BYTES:
            index.append((key, _append(written, waiting, checksum)))
            waiting = []
            size = 0
    if waiting:
        index.append((waiting[-1][0], _append(written, waiting, checksum)))
    handles = _append(written, [], checksum) + _append(written, index, checksum)
    return bytes(written) + handles.ljust(_FOOTER_BYTES - 8, b"\0") + struct.pack("<Q", _MAGIC)


def name_of(key: bytes) -> str:
    """Return the name of the tensor whose key is ``key``. Bytes that are not valid UTF-8 are decoded to surrogates."""
    return key.decode("utf-8", "surrogateescape")


def key_of(name: str) -> bytes:
    """Return the key of the tensor ``name``. This function is the inverse of ``name_of``."""
    return name.encode("utf-8", "surrogateescape")


def slice_key(name: str, part: Slice) -> bytes:
    """Return the key of a slice of a partitioned variable. In TensorFlow's order, the keys of slices precede the keys
    of all tensors.
    """
    escaped = b"".join(_ESCAPES.get(byte, bytes([byte])) for byte in key_of(name))
    rank = bytes([1, len(part)]) if part else b"\0"
    return b"\0" + escaped + b"\0\1" + rank + b"".join(_ordered(number) for extent in part for number in extent)


def _ordered(number: int) -> bytes:
    """Encode a signed number as bytes that sort in numerical order."""
    size = 1
    while not -(1 << 7 * size - 1) <= number < 1 << 7 * size - 1:
        size += 1
    if size == 1:
        return bytes([(number & 0xFF) ^ 0x80])
    header = ((1 << size) - 1) << (16 - size)  # as many leading ones as there are bytes
    width = max(size, 2)
    encoded = bytearray(number.to_bytes(width, "big", signed=True))
    encoded[0] ^= header >> 8
    encoded[1] ^= header & 0xFF
    return bytes(encoded)


def _handle(data: bytes, place: int) -> Tuple[Tuple[int, int], int]:
    """Decode the handle of a block at ``place``. Return (offset, size) of the block, and the position after the handle.
    """
    offset, place = varint(data, place)
    size, place = varint(data, place)
    return (offset, size), place


def _block(content: bytes, handle: Tuple[int, int], checksum: Checksum) -> bytes:
    offset, size = handle
    if offset + size + _TRAILER.size > len(content):
        raise ValueError("it is truncated")
    compression, crc = _TRAILER.unpack_from(content, offset + size)
    if checksum(content[offset:offset + size + 1]) != crc:
        raise ValueError("the checksum of a block is wrong")
    if compression != 0:
        raise ValueError("its blocks are compressed")
    return content[offset:offset + size]


def _items(block: bytes) -> Iterator[Tuple[bytes, bytes]]:
    """Yield the keys and values of a block."""
    if len(block) < 4:
        raise ValueError("a block is too short")
    end = len(block) - 4 * (1 + struct.unpack("<I", block[-4:])[0])
    place = 0
    key = b""
    while place < end:
        shared, place = varint(block, place)
        own, place = varint(block, place)
        size, place = varint(block, place)
        if shared > len(key) or place + own + size > end:
            raise ValueError("a block has invalid lengths")
        key = key[:shared] + block[place:place + own]
        yield key, block[place + own:place + own + size]
        place += own + size


def _append(written: bytearray, items: Sequence[Tuple[bytes, bytes]], checksum: Checksum) -> bytes:
    """Append a block to ``written``, and return the encoded handle of the block. Each key is stored in full, without a
    shared prefix.
    """
    block = bytearray()
    restarts = []
    for key, value in items:
        restarts.append(len(block))
        block += b"\0" + _encoded_varint(len(key)) + _encoded_varint(len(value)) + key + value
    restarts = restarts or [0]
    block += struct.pack("<{}I".format(len(restarts) + 1), *restarts, len(restarts))
    handle = _encoded_varint(len(written)) + _encoded_varint(len(block))
    written += block + _TRAILER.pack(0, checksum(bytes(block) + b"\0"))
    return handle


def _entry(content: bytes) -> Entry:
    found: Dict[int, int] = {}
    shape: Tuple[int, ...] = ()
    slices: List[Slice] = []
    for field, value in _fields(content):
        if field == 2:
            shape = tuple(_signed(dict(_fields(_bytes(dim))).get(1, 0)) for kind, dim in _fields(_bytes(value))
                          if kind == 2)
        elif field == 7:
            slices.append(tuple(_extent(dict(_fields(_bytes(one)))) for _, one in _fields(_bytes(value))))
        elif isinstance(value, int):
            found[field] = value
    offset = found.get(4, 0)
    size = found.get(5, 0)
    if len(shape) > MAX_RANK or min(shape, default=0) < 0 or max(offset, size) >= 1 << 62:
        raise ValueError("an entry has an invalid shape or size")
    return Entry(found.get(1, 0), shape, found.get(3, 0), offset, size, found.get(6, 0), tuple(slices))


def _extent(fields: Dict[int, Union[int, bytes]]) -> Extent:
    length = fields.get(2)
    return _signed(fields.get(1, 0)), _WHOLE if length is None else _signed(length)


def _encoded_entry(entry: Entry) -> bytes:
    shape = b"".join(_text(2, _number(1, size)) for size in entry.shape)
    slices = b"".join(_text(7, b"".join(_text(1, _encoded_extent(*extent)) for extent in part))
                      for part in entry.slices)
    return (_number(1, entry.dtype) + _text(2, shape) + _number(3, entry.shard) + _number(4, entry.offset)
            + _number(5, entry.size) + b"\x35" + struct.pack("<I", entry.crc) + slices)


def _encoded_extent(start: int, length: int) -> bytes:
    whole = b"" if length == _WHOLE else b"\x10" + _encoded_varint(length)
    return _number(1, start) + whole


def _number(field: int, value: int) -> bytes:
    return bytes([field << 3]) + _encoded_varint(value) if value else b""


def _text(field: int, content: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _encoded_varint(len(content)) + content


def _fields(message: bytes) -> Iterator[Tuple[int, Union[int, bytes]]]:
    """Yield (field number, value) for each field of a protocol buffer."""
    place = 0
    while place < len(message):
        tag, place = varint(message, place)
        kind = tag & 7
        if kind == 0:
            number, place = varint(message, place)
            yield tag >> 3, number
            continue
        size = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            size, place = varint(message, place)
        if size is None or place + size > len(message):
            raise ValueError("an entry is not a valid protocol buffer")
        value = message[place:place + size]
        place += size
        yield tag >> 3, value if kind == 2 else int.from_bytes(value, "little")


def _bytes(value: Union[int, bytes]) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("an entry is not a valid protocol buffer")
    return value


def _signed(value: Optional[Union[int, bytes]]) -> int:
    if not isinstance(value, int):
        raise ValueError("an entry is not a valid protocol buffer")
    return value - (1 << 64) if value >= 1 << 63 else value


def varint(data: bytes, place: int) -> Tuple[int, int]:
    """Decode the varint at ``place``. Return the value of the varint, and the position after the varint.

    Raises:
        ValueError: the number is truncated or too long.
    """
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            break
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
    raise ValueError("a number is truncated or too long")


def _encoded_varint(number: int) -> bytes:
    encoded = bytearray()
    number &= (1 << 64) - 1  # two's complement of negative numbers
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
