"""File in which a trainer with several ranks records its exchanges with other ranks.

The daemon creates and removes the file; the trainer writes the spans (``tfops/src/peers/span_ring.cc``). Times use the
clock of TensorFlow's traces: nanoseconds since 1970.
"""
import os
from typing import List, NamedTuple, Optional, Tuple

import numpy as np

from ascpipe.layout import structs
from ascpipe.layout.words import EXCHANGE_KINDS
from ascpipe.shm.spans import last_spans


class ExchangeSpan(NamedTuple):
    """A finished exchange.

    Attributes:
        start_ns, duration_ns: nanoseconds since 1970, nanoseconds.
        kind: what this rank announced, a value of ``EXCHANGE_KINDS``.
        sequence: number of the exchange, the same on all ranks.
        stream, ticket: stream of the batch, and its number in the iterator; 0 without a batch.
        bytes_sent, bytes_received: to and from other ranks.
        waited_us: part of the duration until the last rank joined, in microseconds.
        last: that rank, or None if unknown, as in the first exchange and while a rank is idle.
    """

    start_ns: int
    duration_ns: int
    kind: str
    sequence: int
    stream: int
    ticket: int
    bytes_sent: int
    bytes_received: int
    waited_us: int
    last: Optional[int]


class RecordedExchanges(NamedTuple):
    """The newest recorded exchanges of a trainer, oldest first."""

    rank: int
    pid: int
    spans: List[ExchangeSpan]


def create(path: str, capacity: int, pid: int) -> Tuple[int, int]:
    """Create the file for ``capacity`` spans of trainer ``pid``.

    Returns:
        The descriptor, which the caller owns, and the size in bytes.

    Raises:
        OSError: the file exists, or the disk is full.
    """
    size = structs.EXCHANGE_SPANS.itemsize + capacity * structs.EXCHANGE_SPAN.itemsize
    header = np.zeros((), structs.EXCHANGE_SPANS)
    header["version"] = structs.VERSION
    header["magic"] = structs.MAGIC
    header["capacity"] = capacity
    header["pid"] = pid
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, size)
        os.pwrite(fd, header.tobytes(), 0)
    except BaseException:
        os.close(fd)
        raise
    return fd, size


def read(path: str) -> Optional[RecordedExchanges]:
    """Read the exchanges while the trainer records them. Return None if it has not started.

    Raises:
        FileNotFoundError
        ValueError: the file is not a file of exchange spans.
    """
    header, spans = last_spans(path, structs.EXCHANGE_SPANS, structs.EXCHANGE_SPAN,
                               version=structs.VERSION, magic=structs.MAGIC)
    if not header["ranks"]:
        return None
    return RecordedExchanges(int(header["rank"]), int(header["pid"]), [_span(span) for span in spans])


def _span(written: np.void) -> ExchangeSpan:
    fields = {name: int(written[name]) for name in structs.EXCHANGE_SPAN.names}
    kind = EXCHANGE_KINDS.get(fields.pop("kind"), "?")
    last = fields.pop("last")
    return ExchangeSpan(kind=kind, last=None if last < 0 else last, **fields)
