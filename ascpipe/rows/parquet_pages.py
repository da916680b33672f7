"""Checks of the page sizes in Parquet files. pyarrow decompresses a whole page at a time, and trusts the sizes in the
page header.

Page headers are encoded in Thrift's compact protocol. ``parquet.thrift`` defines the field numbers.
"""
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple, Union

from ascpipe.rows.bundle_format import varint

MAX_PAGE_BYTES = 1 << 28  #: maximum size of a page that is read, compressed and decompressed

_HEADER_BYTES = 1 << 13  #: bytes that are read to decode a header; the statistics of numbers are short
_DICTIONARY = 2  #: type of a page
_NEWER = 3  #: type of a page with values in the newer format
RUNS = 3  #: encoding of levels
_COUNTS = {0: 5, _DICTIONARY: 7, _NEWER: 8}  #: type of a page -> field of its struct with the number of values
_VALUE_BYTES = 4  #: minimum size of a value of a dictionary
_DEEPEST = 4

Fields = Dict[int, Union[int, "Fields"]]
Read = Callable[[int, int], bytes]  #: (first byte, number of bytes) -> bytes, fewer at the end of the file


class Chunk(NamedTuple):
    """Column chunk of a row group, as described by the footer.

    Attributes:
        start: first byte of the first page.
        values: number of values, including nulls.
    """

    start: int
    values: int


class Page(NamedTuple):
    """A page with values.

    Attributes:
        start: first byte after the header.
        packed: number of bytes after the header.
        size: number of bytes when the page is decompressed.
        values: number of values, with nulls.
        levels: number of bytes of the repetition levels, which are not compressed and at the start of the page. None if
            the page has the older format, in which the levels are compressed.
        level_encoding: encoding of the repetition levels; the newer format has only one encoding.
    """

    start: int
    packed: int
    size: int
    values: int
    levels: Optional[int]
    level_encoding: int


class LargePageError(ValueError):
    """A page is larger than ``MAX_PAGE_BYTES``."""


def checked_pages(read: Read, chunk: Chunk) -> List[Page]:
    """Check the headers of all pages of a column chunk, and return the pages that contain values.

    Raises:
        LargePageError: a page is too large.
        ValueError: a header is damaged, or the number of values in the pages differs from the footer.
    """
    found: List[Page] = []
    values = 0
    place = chunk.start
    while values < chunk.values:
        fields, length = _struct(read(place, _HEADER_BYTES), 0, 0)
        start = place + length
        packed = _number(fields, 3)
        place = start + packed
        kind = _number(fields, 1)
        size = _number(fields, 2)
        if max(size, packed) > MAX_PAGE_BYTES:
            raise LargePageError("a page has {} bytes, and {} bytes when it is decompressed; the maximum is {}. Write "
                                 "the file with smaller pages; 1 MiB is usual".format(packed, size, MAX_PAGE_BYTES))
        if kind not in _COUNTS:
            continue
        of_kind = fields.get(_COUNTS[kind])
        count = _number(of_kind, 1) if isinstance(of_kind, dict) else -1
        if not isinstance(of_kind, dict) or count < 0 or (kind == _DICTIONARY and count * _VALUE_BYTES > size):
            raise ValueError("the header of a page has an invalid number of values")
        if kind != _DICTIONARY:
            values += count
            is_newer = kind == _NEWER
            found.append(Page(start, packed, size, count, _number(of_kind, 6) if is_newer else None,
                              RUNS if is_newer else _number(of_kind, 4)))
    if values != chunk.values:
        raise ValueError("its pages have {} values, but the footer has {}".format(values, chunk.values))
    return found


def _struct(data: bytes, place: int, depth: int) -> Tuple["Fields", int]:
    """Decode a Thrift struct. Return the struct's integer fields and nested structs, and the position after the struct.
    """
    fields: Fields = {}
    field = 0
    while depth <= _DEEPEST and place < len(data):
        head = data[place]
        place += 1
        kind = head & 15
        if kind == 0:
            return fields, place
        if head >> 4:
            field += head >> 4
        else:
            number, place = varint(data, place)
            field = _signed(number)
        if kind in (4, 5, 6):
            number, place = varint(data, place)
            fields[field] = _signed(number)
        elif kind == 12:
            fields[field], place = _struct(data, place, depth + 1)
        elif kind == 8:
            size, place = varint(data, place)
            place += size
        elif kind in (1, 2, 3, 7):  # true, false, byte, double
            place += {3: 1, 7: 8}.get(kind, 0)
        else:
            break
    raise ValueError("the header of a page is damaged")


def _number(fields: "Fields", field: int) -> int:
    number = fields.get(field)
    if not isinstance(number, int) or not 0 <= number < 1 << 31:
        raise ValueError("the header of a page is damaged")
    return number


def _signed(number: int) -> int:
    """Decode a number in zigzag encoding."""
    return number >> 1 ^ -(number & 1)
