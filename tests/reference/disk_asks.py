"""Plain-Python twins of ``ascpipe/kernels/disk_asks.py``, for a ``tier_memory.Tier``."""
from ascpipe.layout.words import REQUEST_ASKED, REQUEST_READ, REQUEST_TAKEN, REQUEST_WRITE


def take_request(request, home, reads, writes):
    if request.word == REQUEST_ASKED:
        request.word = REQUEST_TAKEN
        (reads if request.kind == REQUEST_READ else writes).append(home)


def take_asked(tier, room):
    """Take requests from the ring, and return the numbers of the reads and of the writes."""
    reads, writes = [], []
    numbers = tier.asks[tier.taken:tier.taken + room]
    for home in numbers:
        take_request(tier.requests[home], home, reads, writes)
    tier.taken += len(numbers)
    return reads, writes


def take_requests(requests):
    """Take all requests that are ASKED, and return the numbers of the reads and of the writes."""
    reads, writes = [], []
    for number, request in enumerate(requests):
        take_request(request, number, reads, writes)
    return reads, writes


def writes_are_in_flight(requests):
    """Return True if the disk worker may still write rows for some of the requests."""
    return any(request.kind == REQUEST_WRITE and request.word in (REQUEST_ASKED, REQUEST_TAKEN) for request in requests)


def repeat_requests(tier, begin, end, room):
    """Take requests again; return the numbers of the reads and of the writes, and the first number that was not
    examined.
    """
    reads, writes = [], []
    for home in range(begin, end):
        if room in (len(reads), len(writes)):
            return reads, writes, home
        request = tier.requests[home]
        if request.word == REQUEST_TAKEN:
            request.word = REQUEST_ASKED
        take_request(request, home, reads, writes)
    return reads, writes, end
