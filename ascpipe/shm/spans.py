"""Records what a worker did and when: a ring of spans, in a file that the worker maps and other processes read.

A span is written before the count that covers it, so a reader gets whole spans only; it skips those that are
overwritten while it reads.  Times are of the clock of TensorFlow's traces: nanoseconds since 1970.
"""
import io
import mmap
import os
from typing import Any, List, NamedTuple, Sequence, Tuple

import numpy as np

MAGIC = 0x534E5053  #: "SPNS"
AWAIT_ROWS = "await rows"  #: a plan waits for rows from disk
STAGES = {"key": ("deduplicate",), "table": ("touch", "plan", "retire", AWAIT_ROWS)}  #: what the workers of a kind do
_MOST_STAGES = 4

_HEADER = np.dtype({"names": ["magic", "capacity", "pid", "kind", "index", "count"],
                    "formats": ["<u4", "<u4", "<i4", "S8", "<i4", "<i8"], "offsets": [0, 4, 8, 16, 24, 64],
                    "itemsize": 128})
_SPAN = np.dtype([("start_ns", "<i8"), ("duration_ns", "<i8"), ("stream", "<i8"), ("last", "<i8", _MOST_STAGES),
                  ("batches", "<i8", _MOST_STAGES)])


class Span(NamedTuple):
    """A piece of work.

    Attributes:
        start_ns, duration_ns: nanoseconds since 1970, nanoseconds.
        stream: number of the stream of the batches.
        done: for each thing that was done (a name of ``STAGES``), how many batches, and the number of the last one.
    """

    start_ns: int
    duration_ns: int
    stream: int
    done: List[Tuple[str, int, int]]


class Recorded(NamedTuple):
    """The spans of one worker, oldest first.

    Attributes:
        kind, number: of the worker: "key" or "table", its number.
        pid: of its last process.
    """

    kind: str
    number: int
    pid: int
    spans: List[Span]


class SpanRing:
    """The file of spans of a worker, for the worker to write.

    Args:
        path: of the file; an existing one of the right size is continued, else it is made.
        capacity: spans that it holds.
        kind, index: of the worker.
    """

    def __init__(self, path: str, capacity: int, kind: str, index: int) -> None:
        size = _HEADER.itemsize + capacity * _SPAN.itemsize
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_size != size:
                os.ftruncate(fd, 0)
            os.posix_fallocate(fd, 0, size)
            memory = np.frombuffer(mmap.mmap(fd, size), np.uint8)
        finally:
            os.close(fd)
        self._header = memory[:_HEADER.itemsize].view(_HEADER)[0]
        self._spans = memory[_HEADER.itemsize:].view(_SPAN)
        self._header["capacity"] = capacity
        self._header["kind"] = kind.encode()
        self._header["index"] = index
        self._header["pid"] = os.getpid()
        self._header["magic"] = MAGIC

    def add(self, start_ns: int, duration_ns: int, stream: int, last: Sequence[int], batches: Sequence[int]) -> None:
        """Keep one more span; ``last`` and ``batches``: for each of the worker's stages, as in ``Span.done``."""
        count = int(self._header["count"])
        span = self._spans[count % len(self._spans)]
        span["start_ns"] = start_ns
        span["duration_ns"] = duration_ns
        span["stream"] = stream
        span["last"][:len(last)] = last
        span["batches"][:len(batches)] = batches
        self._header["count"] = count + 1


def read(path: str) -> Recorded:
    """Read the spans of a file, while its worker goes on.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is not one of ours.
    """
    header, spans = last_spans(path, _HEADER, _SPAN, magic=MAGIC)
    kind = bytes(header["kind"]).rstrip(b"\0").decode("ascii", "replace")
    names = STAGES.get(kind, ())
    return Recorded(kind, int(header["index"]), int(header["pid"]), [_span(span, names) for span in spans])


def last_spans(path: str, header_type: np.dtype, span_type: np.dtype, **ours: int) -> Tuple[Any, List[Any]]:
    """Read a file of spans while it is written: its header, and the last spans, whole ones only, oldest first.

    Args:
        path: of the file: a header and ``capacity`` spans, number n at n % capacity.
        header_type: of the header, which has ``capacity`` and ``count``.
        span_type: of a span.
        ours: fields of the header, and what they are in a file of ours.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is not one of ours.
    """
    with io.FileIO(path) as file:
        # Three system calls, in this order: spans below the first count are whole, and what the second count says is
        # written over is left out.  SYNC exchange-spans: load
        head = file.read(header_type.itemsize)
        data = file.readall()
        file.seek(header_type.fields["count"][1])
        newest = int.from_bytes(file.read(8), "little")
    if len(head) < header_type.itemsize:
        raise ValueError("{}: not a file of spans".format(path))
    header = np.frombuffer(head, header_type, 1)[0]
    capacity = int(header["capacity"])
    count = int(header["count"])
    if any(header[name] != value for name, value in ours.items()) or len(data) != capacity * span_type.itemsize:
        raise ValueError("{}: not a file of spans".format(path))
    spans = np.frombuffer(data, span_type)
    oldest = max(0, newest - capacity + 1)  # the one that may be written right now is left out
    return header, [spans[number % capacity] for number in range(oldest, count)]


def _span(written: Any, names: Sequence[str]) -> Span:
    done = [(name, int(batches), int(last)) for name, batches, last in zip(names, written["batches"], written["last"])
            if batches]
    return Span(int(written["start_ns"]), int(written["duration_ns"]), int(written["stream"]), done)
