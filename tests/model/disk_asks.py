"""Requests of readers in the model of rows on disk: evaluations, saves and loads send requests to the disk worker.

Each reader has an array of requests, a buffer with one row per request, and a counter.  It fills the buffer (to write),
stores ASKED in each request, raises the counter, and waits until every request is DONE or FAILED.  The next batch uses
the same requests and the same buffer.  After an interrupt, a reader no longer waits for its requests.

When a counter has changed, the main thread of the disk worker takes the reader's requests that are ASKED.  It submits
them to its threads when it has examined all.  A new disk worker first takes requests that are ASKED or TAKEN.
"""

from typing import Any, Iterator, Tuple

from .disk_state import ASKED, FAILED, READ, TAKEN, WRITE, Asks, DiskWorker, Operation, Request, Scan, Scenario, World
from .explore import Move, Violation
from .state import replaced

NAMES = ("evaluations", "saves and loads")  #: by number of the reader


def is_idle(asks: Asks) -> bool:
    """Return True if the disk worker is done with all requests of a reader."""
    return all(request is None or request.word not in (ASKED, TAKEN) for request in asks.requests)


def writes_are_under_way(world: World) -> bool:
    """Return True if the disk worker may still write rows of a load."""
    return any(request is not None and request.kind == WRITE and request.word in (ASKED, TAKEN)
               for asks in world.asks for request in asks.requests)


# ---------------------------------------------------------------- the reader's side


def begins(sc: Scenario, world: World, reader: int, requests: Tuple[Request, ...],
           rows: Tuple[Any, ...] = ()) -> Iterator[Move]:
    """Yield the first move of a batch of requests, once the disk worker is done with all earlier ones.

    Args:
        requests: at most ``sc.asks``.  A request's number is its index in the batch, and also its ``home``.
        rows: rows to write, one per request.
    """
    asks = world.asks[reader]
    if not is_idle(asks) and not sc.flaws & {"next_user_does_not_wait", "waits_for_the_first"}:
        return
    fills = tuple(("fill", number, row) for number, row in enumerate(rows))
    words = tuple(("ask", number, request) for number, request in enumerate(requests))
    stores: Tuple[Tuple[Any, ...], ...] = (*fills, *words, ("raise", 0, None))
    if "asked_before_filled" in sc.flaws:
        stores = (*words, *fills, ("raise", 0, None))
    if "raised_before_asked" in sc.flaws:
        stores = (*fills, ("raise", 0, None), *words)
    begun = _with(world, reader, doing=stores, count=len(requests))
    label, after = _next(begun, reader)
    yield Move(label, lambda: after, ())


def goes_on(world: World, reader: int) -> Iterator[Move]:
    """Yield the next store of a batch that has begun."""
    label, after = _next(world, reader)
    yield Move(label, lambda: after, ())


def are_over(sc: Scenario, world: World, reader: int) -> bool:
    """Return True if the reader takes its batch as over."""
    asks = world.asks[reader]
    if "waits_for_the_first" in sc.flaws:
        return asks.requests[0].word not in (ASKED, TAKEN)
    return is_idle(asks)


def has_failed(sc: Scenario, world: World, reader: int) -> bool:
    """Return True if a request of a batch that is over has failed.

    Raises:
        Violation: a row cannot be read although the disk has lost none.
    """
    asks = world.asks[reader]
    for request in asks.requests[:asks.count]:
        if request.word == FAILED and request.kind == READ and world.budget.lost == sc.lost:
            raise Violation("the row of key %d cannot be read for %s" % (request.key, NAMES[reader]))
    return any(request.word == FAILED for request in asks.requests[:asks.count])


def leaves(world: World, reader: int) -> World:
    """Let the reader use its requests no more.  The disk worker may not be done with them."""
    asks = world.asks[reader]
    if asks.count and is_idle(asks) and asks.requests[0].kind == READ:
        world = _with(world, reader, rows=(None,) * len(asks.rows))
    return _with(world, reader, doing=(), count=0)


def _next(world: World, reader: int) -> Tuple[str, World]:
    asks = world.asks[reader]
    (what, number, value), doing = asks.doing[0], asks.doing[1:]
    if what == "fill":
        return ("%s: buffer row %d is %s" % (NAMES[reader], number, value),
                _with(world, reader, doing=doing, rows=replaced(asks.rows, number, value)))
    if what == "ask":
        return ("%s: ASKED %d, %s of key %d, disk slot %d" % (NAMES[reader], number, value.kind, value.key, value.slot),
                _with(world, reader, doing=doing, requests=replaced(asks.requests, number, value)))
    return "%s: counter is %d" % (NAMES[reader], asks.asked + 1), _with(
        world, reader, doing=doing, asked=asks.asked + 1)


def _with(world: World, reader: int, **changes: Any) -> World:
    return world._replace(asks=replaced(world.asks, reader, world.asks[reader]._replace(**changes)))


# ---------------------------------------------------------------- the disk worker's side


def first_scan(sc: Scenario, world: World) -> DiskWorker:
    """Return the private memory of a disk worker that starts: it has seen no counter, and takes requests over."""
    scans = any(request is not None for asks in world.asks for request in asks.requests)
    return DiskWorker(scan=Scan(0, 0, True) if scans else None)


def scan_moves(sc: Scenario, world: World) -> Iterator[Move]:
    """Yield the move of the disk worker's main thread."""
    disk = world.disk_worker
    if disk.scan is not None:
        yield from _examines(sc, world, disk.scan)
        return
    for reader, asks in enumerate(world.asks):
        if asks.asked != disk.seen[reader]:
            seen = disk.seen if "counter_seen_late" in sc.flaws else replaced(disk.seen, reader, asks.asked)
            after = disk._replace(seen=seen, scan=Scan(reader, 0, False))
            yield Move("disk worker: sees counter %d of %s" % (asks.asked, NAMES[reader]),
                       lambda after=after: world._replace(disk_worker=after), ())


def _examines(sc: Scenario, world: World, scan: Scan) -> Iterator[Move]:
    disk, asks = world.disk_worker, world.asks[scan.reader]
    if scan.next == len(asks.requests):  # only with a flaw
        after = disk._replace(seen=replaced(disk.seen, scan.reader, asks.asked), scan=None)
        yield Move("disk worker: has done all up to counter %d" % asks.asked,
                   lambda: world._replace(disk_worker=after), ())
        return
    request = asks.requests[scan.next]
    repeats = (scan.takes_over and "taken_not_repeated" not in sc.flaws) or "taken_again" in sc.flaws
    found, then = scan.found, world
    label = "disk worker: nothing to do for %d of %s" % (scan.next, NAMES[scan.reader])
    if request is not None and (request.word == ASKED or (request.word == TAKEN and repeats)):
        found += (scan.next,)
        requests = replaced(asks.requests, scan.next, request._replace(word=TAKEN))
        then = _with(world, scan.reader, requests=requests)
        label = "disk worker: TAKEN %d of %s" % (scan.next, NAMES[scan.reader])
    yield Move(label, _submits, (sc, then, scan._replace(next=scan.next + 1, found=found)))


def _submits(sc: Scenario, world: World, scan: Scan) -> World:
    """Submit what was taken, once all requests of the reader were looked at."""
    disk, asks = world.disk_worker, world.asks[scan.reader]
    if scan.next < len(asks.requests):
        return world._replace(disk_worker=disk._replace(scan=scan))
    queue = disk.queue + tuple(Operation(number, asks.requests[number]._replace(word=ASKED), 0, None, scan.reader)
                               for number in scan.found)
    then = None
    if scan.takes_over and scan.reader + 1 < len(world.asks):
        then = Scan(scan.reader + 1, 0, True)
    elif not scan.takes_over and "counter_seen_late" in sc.flaws:
        then = scan._replace(found=())
    disk = disk._replace(queue=tuple(sorted(queue, key=lambda each: (each.of, each.number, each.request))), scan=then)
    return world._replace(disk_worker=disk)


def store_word(world: World, operation: Operation, word: str) -> World:
    """Store the end of an operation in the reader's request."""
    asks = world.asks[operation.of]
    request = asks.requests[operation.number]
    if request.word in (ASKED, TAKEN) and request._replace(word=ASKED) != operation.request:
        raise Violation("%s is stored in request %d of %s, which is another one by now: %s of key %d"
                        % (word, operation.number, NAMES[operation.of], request.kind, request.key))
    return _with(world, operation.of, requests=replaced(asks.requests, operation.number, request._replace(word=word)))


def row_to_write(world: World, operation: Operation) -> Any:
    """Return the row in the buffer that a WRITE writes.

    Raises:
        Violation: it is the row of another key.
    """
    row = world.asks[operation.of].rows[operation.number]
    if row is None or row[0] != operation.request.key:
        raise Violation("the disk worker writes %s to disk slot %d, as the row of key %d"
                        % (row, operation.request.slot, operation.request.key))
    return row


def row_read(world: World, operation: Operation) -> World:
    """Copy the row that a READ has read to the reader's buffer."""
    rows = replaced(world.asks[operation.of].rows, operation.number, operation.rows)
    return _with(world, operation.of, rows=rows)


def reads(number: int, key: int, slot: int, generation: int) -> Request:
    """Return a request to read a row into a row of the buffer."""
    return Request(READ, key, number, slot, generation)


def writes(number: int, key: int, slot: int, generation: int) -> Request:
    """Return a request to write a row of the buffer."""
    return Request(WRITE, key, number, slot, generation)
