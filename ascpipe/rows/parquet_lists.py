"""Function that counts the values in the lists of a Parquet column. The values are counted before pyarrow decodes the
lists.

The footer and the page headers contain only the number of values of a whole page. A single list could therefore contain
all values of a row group. The repetition levels in the pages contain the lengths of the lists.
"""
from ctypes import c_char_p, c_int, c_int64, c_void_p
from typing import Sequence

import numpy as np

from ascpipe.data import native
from ascpipe.rows.parquet_pages import RUNS, Page, Read

_LENGTH_BYTES = 4  #: size of the length field before the repetition levels of a page in the older format
_LZ4_BYTES = 8  #: size of the two length fields before the content of a page that Hadoop compressed


def values_of_largest_batch(read: Read, pages: Sequence[Page], compression: str, batch_lists: int) -> int:
    """Return the number of values in the largest batch of lists. An empty list counts as one value.

    Args:
        read: reads bytes of the file.
        pages: pages with values of a column of lists in one row group.
        compression: compression of the pages, as pyarrow names it in a footer.
        batch_lists: number of lists in each batch, except the last batch.

    Raises:
        ValueError: a page is damaged.
    """
    library = native.library()
    count = library.asc_rows_count_lists
    count.argtypes = (c_char_p, c_int64, c_int64, c_int64, c_void_p)
    count.restype = c_int
    batches = np.zeros(3, np.int64)
    for page in pages:
        levels = _levels(read, page, compression)
        if not count(levels, len(levels), page.values, batch_lists, batches.ctypes.data):
            raise ValueError("the repetition levels of a page are damaged")
    return int(batches[2])


def _levels(read: Read, page: Page, compression: str) -> bytes:
    if page.level_encoding != RUNS:
        raise ValueError("the repetition levels of a page have the unsupported encoding {}".format(page.level_encoding))
    if page.levels is not None:
        return _exactly(read(page.start, page.levels), page.levels)
    if compression == "UNCOMPRESSED":
        size = int.from_bytes(_exactly(read(page.start, _LENGTH_BYTES), _LENGTH_BYTES), "little")
        if size > page.packed - _LENGTH_BYTES:
            raise ValueError("the repetition levels of a page are damaged")
        return _exactly(read(page.start + _LENGTH_BYTES, size), size)
    content = _decompressed(_exactly(read(page.start, page.packed), page.packed), page.size, compression)
    size = int.from_bytes(_exactly(bytes(content[:_LENGTH_BYTES]), _LENGTH_BYTES), "little")
    return _exactly(bytes(content[_LENGTH_BYTES:_LENGTH_BYTES + size]), size)


def _decompressed(packed: bytes, size: int, compression: str) -> memoryview:
    import pyarrow

    codec = compression.lower()
    if codec == "lz4":
        codec = "lz4_raw"
        if int.from_bytes(packed[:_LZ4_BYTES], "big") == size << 32 | len(packed) - _LZ4_BYTES:
            packed = packed[_LZ4_BYTES:]
    return memoryview(pyarrow.decompress(packed, size, codec))


def _exactly(content: bytes, size: int) -> bytes:
    if len(content) != size:
        raise ValueError("a page ends too early")
    return content
