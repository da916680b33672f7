"""How many rows a block of a row file has: the arithmetic of ``tfops/src/disk/row_format.h``."""

PAGE = 4096  #: bytes that a disk writes at once
TRAILER_BYTES = 8  #: behind each row


def block_bytes(row_bytes: int) -> int:
    """Bytes of a block: 4 KiB, or for a longer row as many pages as it takes."""
    return -(-(row_bytes + TRAILER_BYTES) // PAGE) * PAGE


def slots_per_block(row_bytes: int) -> int:
    """Rows of a block."""
    return block_bytes(row_bytes) // (row_bytes + TRAILER_BYTES)
