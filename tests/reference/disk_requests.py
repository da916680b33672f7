"""Plain-Python twins of ``ascpipe/kernels/disk_requests.py``, for a ``tier_memory.Tier``."""
from ascpipe.layout.words import HOME_DISK, REQUEST_ASKED, REQUEST_EMPTY, REQUEST_READ, REQUEST_WRITE

GENERATIONS = 2**16


def place_after(request):
    """Return (home, generation) of the entry after a WRITE is complete, or while a READ counts."""
    return HOME_DISK - request.slot, request.generation


def counts(request, home, entry):
    if request.kind == REQUEST_READ:
        return (entry.home, entry.generation) == place_after(request)
    return entry.home == home and (entry.generation + 1) % GENERATIONS == request.generation


def is_stored(request, entry):
    return request.kind == REQUEST_WRITE and (entry.home, entry.generation) == place_after(request)


def empty_request(tier, home):
    tier.requests[home].word = REQUEST_EMPTY


def room_for_asks(tier):
    return tier.room_for_asks


def tell(tier, home):
    tier.asks.append(home)


def ask(tier, key, entry, number, home, kind, slot):
    request = tier.requests[home]
    request.key, request.slot, request.entry, request.kind = key, slot, number, kind
    request.generation = (entry.generation + (kind == REQUEST_WRITE)) % GENERATIONS
    request.error, request.word = 0, REQUEST_ASKED
    tell(tier, home)
    tier.in_flight.append(home)
