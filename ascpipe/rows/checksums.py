"""CRC-32C of byte streams, masked as in TensorFlow's files."""
import functools
from typing import List

from ascpipe.data import native

_POLYNOMIAL = 0x82F63B78
_MASK = 0xA282EAD8
_WORD = 0xFFFFFFFF


def masked(content: bytes) -> int:
    """Return the masked CRC-32C of bytes."""
    return int(native.library().asc_data_masked_crc(content, len(content)))


class Crc:
    """Incremental CRC-32C. The library has no incremental call, so the checksums of the parts are combined."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, content: bytes) -> None:
        """Add the next bytes."""
        rotated = (masked(content) - _MASK) & _WORD
        mine = (rotated << 15 | rotated >> 17) & _WORD
        self._value = _product(_zeros(len(content)), self._value) ^ mine if self._value else mine

    def masked(self) -> int:
        """Return the masked checksum of all bytes."""
        return ((self._value >> 15 | self._value << 17) + _MASK) & _WORD


@functools.lru_cache(maxsize=64)
def _zeros(count: int) -> List[int]:
    """Return the matrix over GF(2) that appends ``count`` zero bytes to a checksum."""
    power = [_POLYNOMIAL, *(1 << bit for bit in range(31))]  # one zero bit
    for _ in range(3):
        power = _square(power)
    result = [1 << bit for bit in range(32)]
    while count:
        if count & 1:
            result = [_product(power, column) for column in result]
        power = _square(power)
        count >>= 1
    return result


def _square(matrix: List[int]) -> List[int]:
    return [_product(matrix, column) for column in matrix]


def _product(matrix: List[int], vector: int) -> int:
    found = 0
    for column in matrix:
        if vector & 1:
            found ^= column
        vector >>= 1
    return found
