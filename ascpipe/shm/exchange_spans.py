"""The file in which a trainer of several ranks records its exchanges with the others.

The daemon makes it and hands its descriptor to the trainer, which writes (``tfops/src/peers/span_ring.cc``); it is
removed with the daemon's other files.  Times are of the clock of TensorFlow's traces: nanoseconds since 1970.
"""
import os
from typing import List, NamedTuple, Optional, Tuple

import numpy as np

from ascpipe.layout import structs
from ascpipe.layout.words import EXCHANGE_KINDS
from ascpipe.shm.spans import last_spans


class ExchangeSpan(NamedTuple):
    """An exchange that is over.

    Attributes:
        start_ns, duration_ns: nanoseconds since 1970, nanoseconds.
        kind: what this rank said in it, of ``EXCHANGE_KINDS``.
        sequence: its number, the same on all ranks.
        stream, ticket: of its batch, by its number in the iterator; 0 where it has none.
        bytes_sent, bytes_received: to and from other ranks.
        waited_us: of the duration, until the last rank began it.
        last: that rank; None where it is not known: in the first exchange, and while a rank is idle.
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
    """The exchanges of a rank, oldest first.

    Attributes:
        rank, pid: of the trainer.
        spans: the last ones.
    """

    rank: int
    pid: int
    spans: List[ExchangeSpan]


def create(path: str, capacity: int, pid: int) -> Tuple[int, int]:
    """Make the file, which must not be there.

    Args:
        path: of it.
        capacity: spans that it holds.
        pid: of the trainer.

    Returns:
        Its descriptor, which is the caller's, and its bytes.

    Raises:
        OSError: it is there, or the disk is full.
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
    """Read the exchanges of a file, while the trainer goes on; None: it has not begun.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is not one of ours.
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
