"""Where rows lie in row files: in blocks, as ``tfops/src/disk/row_format.h`` has it, which are dealt among files."""
from typing import TypeVar

import numpy as np

Numbers = TypeVar("Numbers", int, np.ndarray)

PAGE = 4096  #: bytes that a disk writes at once
TRAILER_BYTES = 8  #: behind each row
GROWTH_BYTES = 64 << 20  #: a file grows by so much, or at once to what its rows can take


def block_bytes(row_bytes: int) -> int:
    """Bytes of a block: 4 KiB, or for a longer row as many pages as it takes."""
    return -(-(row_bytes + TRAILER_BYTES) // PAGE) * PAGE


def slots_per_block(row_bytes: int) -> int:
    """Rows of a block."""
    return block_bytes(row_bytes) // (row_bytes + TRAILER_BYTES)


def file_bytes(rows: int, row_bytes: int, files: int) -> int:
    """Bytes that each of a number of files may grow to, for all rows together."""
    blocks = -(-rows // slots_per_block(row_bytes))
    bytes_used = -(-blocks // files) * block_bytes(row_bytes)
    step = growth_bytes(bytes_used)
    return -(-bytes_used // step) * step


def growth_bytes(file: int) -> int:
    """Bytes by which a file grows that may come to ``file`` bytes, at least 1."""
    return min(GROWTH_BYTES, file)


def file_of(blocks: Numbers, files: int) -> Numbers:
    """Which of a table's files a block lies in; there it is block ``blocks // files``."""
    return blocks % files
