"""Functions that create and read the file in which a trainer records its exchanges with other ranks.

The daemon creates and removes the file. The trainer writes the spans (``tfops/src/peers/span_ring.cc``). Times are
nanoseconds since 1970, like the times of TensorFlow's traces.
"""
import os
from typing import List, NamedTuple, Optional, Tuple

import numpy as np

from ascpipe.layout import structs
from ascpipe.layout.words import EXCHANGE_KINDS
from ascpipe.shm.spans import last_spans


class ExchangeSpan(NamedTuple):
    """Finished exchange.

    Attributes:
        start_ns, duration_ns: start in nanoseconds since 1970, and duration in nanoseconds.
        kind: kind that this rank announced, a value of ``EXCHANGE_KINDS``.
        sequence: number of the exchange, which is equal on all ranks.
        stream, ticket: stream of the batch, and number of the batch in the iterator. Both are 0 if the exchange belongs
            to no batch.
        bytes_sent, bytes_received: number of bytes sent to and received from other ranks.
        waited_us: part of the duration until the last rank joined, in microseconds.
        last: rank that joined last, or None if it is unknown. It is unknown in the first exchange and while a
            rank is idle.
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
    """Newest recorded exchanges of a trainer. The oldest exchange is first."""

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
    """Read the recorded exchanges, even while the trainer records. Return None if the trainer has recorded nothing yet.

    Raises:
        FileNotFoundError: there is no such file.
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
