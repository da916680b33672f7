"""CRC-32C of byte streams, masked as in TensorFlow's files."""
from ascpipe.data import native


def masked(content: bytes) -> int:
    """Return the masked CRC-32C of ``content``."""
    return native.masked(native.crc32c(content))


class Crc:
    """Incremental CRC-32C."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, content: bytes) -> None:
        """Add the next bytes."""
        self._value = native.crc32c(content, self._value)

    def masked(self) -> int:
        """Return the masked checksum of all bytes that were passed to ``update``."""
        return native.masked(self._value)
