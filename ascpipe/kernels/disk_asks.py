"""Kernels that take requests of table workers and readers for the disk worker, or find writes in flight.

The plain-Python version is ``tests/reference/disk_asks.py``.
"""
import numpy as np

from ascpipe.kernels.atomics import exchange, load_acquire
from ascpipe.kernels.door import entry, inner
from ascpipe.layout.words import REQUEST_ASKED, REQUEST_READ, REQUEST_TAKEN, REQUEST_WRITE


@inner("int64(Request, int64, int64, int64[::1], int64[::1])")
def take_request(request, home, counts, reads, writes):
    """Take a request if the state of the request is ASKED.

    Args:
        request: REQUEST.
        home: number of the request.
        counts: number of taken reads in the lower half, and of taken writes in the upper half.
        reads, writes: int64[n] each. One of them receives the number of the request.

    Returns:
        The new ``counts``.
    """
    if load_acquire(request, "word", 0) == REQUEST_ASKED:  # SYNC request: load
        exchange(request, "word", 0, np.uint32(REQUEST_TAKEN))
        if request["kind"] == REQUEST_READ:
            reads[counts & 0xFFFFFFFF] = home
            counts += 1
        else:
            writes[counts >> 32] = home
            counts += np.int64(1) << 32
    return counts


@entry("UniTuple(int64, 2)(DiskTable, int32[::1], Request[::1], int64[::1], int64[::1])")
def take_asked(table, asks, requests, out_reads, out_writes):
    """Take the requests whose numbers are in the ring ``asks``, but at most as many as fit into the output arrays.

    Args:
        table: DISK_TABLE. ``taken`` is increased.
        asks: ring of numbers, int32[a power of two].
        requests: REQUEST[home rows]. Taken requests become TAKEN.
        out_reads, out_writes: int64[n] each. They receive numbers of requests.

    Returns:
        (number of rows to read, number of rows to write).
    """
    counts = np.int64(0)
    taken = table["taken"]
    asked = load_acquire(table, "asked", 0)  # SYNC asked: load
    until = min(asked, taken + np.int64(out_reads.shape[0]))
    for position in range(taken, until):
        home = asks[np.uint64(position) & np.uint64(asks.shape[0] - 1)]
        counts = take_request(requests[home], home, counts, out_reads, out_writes)
    exchange(table, "taken", 0, until)  # SYNC taken: store
    return counts & 0xFFFFFFFF, counts >> 32


@entry("UniTuple(int64, 2)(Request[::1], int64[::1], int64[::1])")
def take_requests(requests, out_reads, out_writes):
    """Take all requests whose state is ASKED. Requests that this disk worker has already taken are not taken again.

    Args:
        requests: REQUEST[n]. Taken requests become TAKEN.
        out_reads, out_writes: int64[at least n] each. They receive numbers of requests.

    Returns:
        (number of rows to read, number of rows to write).
    """
    counts = np.int64(0)
    for number in range(requests.shape[0]):
        counts = take_request(requests[number], number, counts, out_reads, out_writes)
    return counts & 0xFFFFFFFF, counts >> 32


@entry("boolean(Request[::1])")
def writes_are_in_flight(requests):
    """Return True if the disk worker may still write rows for some of ``requests``, REQUEST[n]."""
    for number in range(requests.shape[0]):
        word = load_acquire(requests[number], "word", 0)  # SYNC request-done: load
        if requests[number]["kind"] == REQUEST_WRITE and (word == REQUEST_ASKED or word == REQUEST_TAKEN):
            return True
    return False


@entry("UniTuple(int64, 3)(Request[::1], int64, int64, int64[::1], int64[::1])")
def repeat_requests(requests, begin, end, out_reads, out_writes):
    """Take the requests that a dead disk worker has not finished, including requests that the dead worker had taken.

    Args:
        requests: REQUEST[home rows].
        begin, end: range of the numbers to examine.
        out_reads, out_writes: int64[n] each. They receive numbers of requests.

    Returns:
        (number of rows to read, number of rows to write, first number that was not examined).
    """
    counts = np.int64(0)
    for home in range(begin, end):
        if counts & 0xFFFFFFFF == out_reads.shape[0] or counts >> 32 == out_writes.shape[0]:
            return counts & 0xFFFFFFFF, counts >> 32, home
        request = requests[home]
        if load_acquire(request, "word", 0) == REQUEST_TAKEN:
            exchange(request, "word", 0, np.uint32(REQUEST_ASKED))
        counts = take_request(request, home, counts, out_reads, out_writes)
    return counts & 0xFFFFFFFF, counts >> 32, end
