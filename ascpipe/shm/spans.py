"""Functions that write and read span files. A span file contains a ring of spans, which describe the work of one
worker. The worker maps the file, and other processes read the file.

A span is written before the count that includes it, so readers never read an incomplete span. A reader skips spans that
are overwritten during the read. Times are nanoseconds since 1970, like the times of TensorFlow's traces.
"""
import io
import mmap
import os
from typing import Any, List, NamedTuple, Sequence, Tuple

import numpy as np

MAGIC = 0x534E5053  #: "SPNS"
AWAIT_ROWS = "await rows"  #: a plan waits for rows from disk
STAGES = {"key": ("deduplicate",), "table": ("touch", "plan", "retire", AWAIT_ROWS)}  #: stages of workers by kind
_MOST_STAGES = 4

_HEADER = np.dtype({"names": ["magic", "capacity", "pid", "kind", "index", "count"],
                    "formats": ["<u4", "<u4", "<i4", "S8", "<i4", "<i8"], "offsets": [0, 4, 8, 16, 24, 64],
                    "itemsize": 128})
_SPAN = np.dtype([("start_ns", "<i8"), ("duration_ns", "<i8"), ("stream", "<i8"), ("last", "<i8", _MOST_STAGES),
                  ("batches", "<i8", _MOST_STAGES)])


class Span(NamedTuple):
    """Interval in which a worker handled batches of a stream, or in which a plan waited for rows.

    Attributes:
        start_ns, duration_ns: start in nanoseconds since 1970, and duration in nanoseconds.
        stream: stream number of the batches.
        done: name (see ``STAGES``), number of batches and number of the last batch of each performed stage.
    """

    start_ns: int
    duration_ns: int
    stream: int
    done: List[Tuple[str, int, int]]


class Recorded(NamedTuple):
    """Spans of one worker, oldest first. ``pid`` is the PID of the newest process of the worker."""

    kind: str
    number: int
    pid: int
    spans: List[Span]


class SpanRing:
    """Span file of a worker, opened for writing.

    Args:
        path: path of the file. An existing file of the correct size is continued. Otherwise, a new file is created.
        capacity: maximum number of spans.
        kind, index: kind and number of the worker.
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
        """Append a span. ``last`` and ``batches`` contain one item per stage of the worker."""
        count = int(self._header["count"])
        span = self._spans[count % len(self._spans)]
        span["start_ns"] = start_ns
        span["duration_ns"] = duration_ns
        span["stream"] = stream
        span["last"][:len(last)] = last
        span["batches"][:len(batches)] = batches
        self._header["count"] = count + 1


def read(path: str) -> Recorded:
    """Read the spans of a span file. The worker may write to the file during the read.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not a span file.
    """
    header, spans = last_spans(path, _HEADER, _SPAN, magic=MAGIC)
    kind = bytes(header["kind"]).rstrip(b"\0").decode("ascii", "replace")
    names = STAGES.get(kind, ())
    return Recorded(kind, int(header["index"]), int(header["pid"]), [_span(span, names) for span in spans])


def last_spans(path: str, header_type: np.dtype, span_type: np.dtype, **ours: int) -> Tuple[Any, List[Any]]:
    """Return the header of a span file, and the last complete spans, oldest first. Another process may write to
    the file during the read.

    Args:
        path: file with a header and ``capacity`` spans. Span n is at index n % capacity.
        header_type: dtype of the header, with the fields ``capacity`` and ``count``.
        span_type: dtype of a span.
        ours: required values of header fields.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not a file of such spans.
    """
    with io.FileIO(path) as file:
        # The order of the three system calls matters. Spans below the first count are complete. Spans that
        # were overwritten according to the second count are skipped. SYNC trainer-spans: load
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
    oldest = max(0, newest - capacity + 1)  # skip the span that the writer may be overwriting
    return header, [spans[number % capacity] for number in range(oldest, count)]


def _span(written: Any, names: Sequence[str]) -> Span:
    done = [(name, int(batches), int(last)) for name, batches, last in zip(names, written["batches"], written["last"])
            if batches]
    return Span(int(written["start_ns"]), int(written["duration_ns"]), int(written["stream"]), done)
