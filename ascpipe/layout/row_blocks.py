"""Functions that compute the sizes of row files and blocks (``tfops/src/disk/row_format.h``)."""
from typing import TypeVar

import numpy as np

Numbers = TypeVar("Numbers", int, np.ndarray)

PAGE = 4096  #: atomic write unit of disks, in bytes
TRAILER_BYTES = 8  #: size of the trailer after each row
GROWTH_BYTES = 64 << 20  #: step by which a file grows; a smaller file immediately gets its full size


def block_bytes(row_bytes: int) -> int:
    """Return the size of a block in bytes: as many whole pages as one row with its trailer needs.

    If several rows fit in one page (4 KiB), they share a block of one page.
    """
    return -(-(row_bytes + TRAILER_BYTES) // PAGE) * PAGE


def slots_per_block(row_bytes: int) -> int:
    """Return the number of rows per block."""
    return block_bytes(row_bytes) // (row_bytes + TRAILER_BYTES)


def file_bytes(rows: int, row_bytes: int, files: int) -> int:
    """Return the maximum size of a row file in bytes, if ``rows`` rows are distributed among ``files`` files."""
    blocks = -(-rows // slots_per_block(row_bytes))
    bytes_used = -(-blocks // files) * block_bytes(row_bytes)
    step = growth_bytes(bytes_used)
    return -(-bytes_used // step) * step


def growth_bytes(file: int) -> int:
    """Return the number of bytes by which a file grows at a time. ``file`` is the maximum size of the file in bytes, at
    least 1.
    """
    return min(GROWTH_BYTES, file)


def file_of(blocks: Numbers, files: int) -> Numbers:
    """Return the number of the file that contains a block. Within the file, the number of the block is ``blocks //
    files``.
    """
    return blocks % files
