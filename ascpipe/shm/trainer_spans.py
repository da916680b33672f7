"""Functions that create and read the files in which a trainer records spans. The exchange file contains spans of
exchanges with other ranks. The reading file contains spans of batches that ``asc.data.read`` reads.

The daemon creates and removes the files. The trainer writes the spans (``tfops/src/core/span_ring.h``). Times are
nanoseconds since 1970, like the times of TensorFlow's traces.
"""
import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from ascpipe.layout import structs
from ascpipe.layout.words import EXCHANGE_KINDS
from ascpipe.shm.spans import last_spans


class ExchangeSpan(NamedTuple):
    """Finished exchange with the other ranks.

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
    """Exchanges that a trainer has recorded recently, in ascending order of time."""

    rank: int
    pid: int
    spans: List[ExchangeSpan]


class ReadingSpan(NamedTuple):
    """Batch that a thread of the trainer has read and parsed.

    Attributes:
        start_ns: time at which the thread began to read, in nanoseconds since 1970.
        read_us, parse_us: durations of reading and parsing, in microseconds. They follow each other.
        full_us: time before ``start_ns`` in which the thread waited because ``read_ahead`` batches were read.
        batch, epoch: number of the batch in the iterator, counted from 1, and of its epoch, counted from 0.
        records: number of records in the batch, or 0 if the batch is an error.
        source: number of the dataset in the trainer.
        thread: thread id.
    """

    start_ns: int
    read_us: int
    parse_us: int
    full_us: int
    batch: int
    epoch: int
    records: int
    source: int
    thread: int


class RecordedReading(NamedTuple):
    """Batches that a trainer has read recently, in ascending order of time."""

    rank: int
    pid: int
    spans: List[ReadingSpan]


def create(path: str, span: np.dtype, capacity: int, pid: int) -> Tuple[int, int]:
    """Create a file for ``capacity`` spans of the trainer with PID ``pid``. ``span`` is EXCHANGE_SPAN or READING_SPAN.

    Returns:
        The descriptor, which the caller owns, and the size in bytes.

    Raises:
        OSError: the file exists, or the disk is full.
    """
    size = structs.TRAINER_SPANS.itemsize + capacity * span.itemsize
    header = np.zeros((), structs.TRAINER_SPANS)
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


def read_exchanges(path: str) -> Optional[RecordedExchanges]:
    """Read the recorded exchanges. The trainer may record exchanges during the read. Return None if no exchange has
    been recorded yet.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not a file of exchange spans.
    """
    header, spans = _read(path, structs.EXCHANGE_SPAN)
    if not header["ranks"]:
        return None
    return RecordedExchanges(int(header["rank"]), int(header["pid"]), [_exchange(span) for span in spans])


def read_reading(path: str) -> Optional[RecordedReading]:
    """Read the recorded batches of training data. Results and errors have the same meaning as in ``read_exchanges``."""
    header, spans = _read(path, structs.READING_SPAN)
    if not header["ranks"]:
        return None
    return RecordedReading(int(header["rank"]), int(header["pid"]), [
        ReadingSpan(**_fields(span, structs.READING_SPAN)) for span in spans])


def _read(path: str, span: np.dtype) -> Tuple[Any, List[Any]]:
    return last_spans(path, structs.TRAINER_SPANS, span, version=structs.VERSION, magic=structs.MAGIC)


def _exchange(written: np.void) -> ExchangeSpan:
    fields = _fields(written, structs.EXCHANGE_SPAN)
    kind = EXCHANGE_KINDS.get(fields.pop("kind"), "?")
    last = fields.pop("last")
    return ExchangeSpan(kind=kind, last=None if last < 0 else last, **fields)


def _fields(written: np.void, span: np.dtype) -> Dict[str, int]:
    return {name: int(written[name]) for name in span.names}
