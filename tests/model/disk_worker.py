"""The disk worker in the model of rows on disk, and its supervisor.

The disk worker owns the row file and never reads entries or frames: it takes requests that are ASKED and stores DONE or
FAILED.  A block is used by one operation at a time, and a write first reads its block.  If the worker is killed, its
operations may still be executed by the kernel until the process is reaped, and a write may be torn.  The successor
repeats every request of the table worker that is ASKED, which stands for TAKEN too.  ``disk_asks.py`` has the requests
of readers.
"""

from typing import Any, Iterator, Tuple

from . import disk_asks
from .disk_state import (
    ARRIVED,
    ASKED,
    FAILED,
    HOMES,
    READ,
    TORN,
    DiskWorker,
    Operation,
    Request,
    Scenario,
    World,
    true_row,
)
from .explore import Move, Violation
from .state import replaced


def moves(sc: Scenario, world: World) -> Iterator[Move]:
    """Yield the moves of the threads, the death of the worker and the start of its successor."""
    disk = world.disk_worker
    dying = disk.state == "dying"
    for index, operation in enumerate(disk.doing):
        yield from _goes_on(sc, world, index, operation, dying)
    for index, operation in enumerate(disk.late):
        yield from _late(sc, world, index, operation)
    if disk.state == "on":
        busy = {operation.request.slot // sc.block for operation in disk.doing}
        taken = {operation.number for operation in disk.doing if operation.of == HOMES}
        yield from disk_asks.scan_moves(sc, world)
        for operation in disk.queue if len(disk.doing) < sc.threads else ():
            if operation.request.slot // sc.block not in busy or "two_writers_of_a_block" in sc.flaws:
                yield Move("disk worker: reads for %s" % _named(operation), _take_queued, (sc, world, operation))
        for number, request in enumerate(world.requests):
            if request is None or request.word != ASKED or number in taken or len(disk.doing) == sc.threads:
                continue
            if request.slot // sc.block not in busy or "two_writers_of_a_block" in sc.flaws:
                operation = Operation(number, request, 0, None)
                yield Move("disk worker: reads for %s" % _named(operation), _take, (sc, world, operation))
        if world.budget.disk_kills:
            yield Move("disk worker: SIGKILL", _kill, (world,), True)
    elif dying:
        yield Move("supervisor: reaps the disk worker", _reap, (sc, world))
        if "begins_before_reap" in sc.flaws:
            after = world._replace(disk_worker=disk_asks.first_scan(sc, world)._replace(late=disk.late + disk.doing))
            yield Move("supervisor: starts a disk worker", lambda: after, ())
    else:
        after = world._replace(disk_worker=disk_asks.first_scan(sc, world)._replace(late=disk.late))
        yield Move("supervisor: starts a disk worker", lambda: after, ())


def _named(operation: Operation) -> str:
    of = "" if operation.of == HOMES else " of " + disk_asks.NAMES[operation.of]
    request: Request = operation.request
    return "request %d%s, %s of key %d, disk slot %d" % (
        operation.number, of, request.kind, request.key, request.slot)


def _kill(world: World) -> World:
    budget = world.budget._replace(disk_kills=world.budget.disk_kills - 1)
    disk = world.disk_worker._replace(state="dying", seen=(0, 0), scan=None, queue=())
    return world._replace(disk_worker=disk, budget=budget)


def _reap(sc: Scenario, world: World) -> World:
    """Reap the worker.  Afterwards none of its operations is executed, except with the flaw."""
    disk = world.disk_worker
    late = disk.late + (disk.doing if "lands_after_reap" in sc.flaws else ())
    return world._replace(disk_worker=DiskWorker("gone", (), late))


def _take_queued(sc: Scenario, world: World, operation: Operation) -> World:
    queue = list(world.disk_worker.queue)
    queue.remove(operation)
    return _take(sc, world._replace(disk_worker=world.disk_worker._replace(queue=tuple(queue))), operation)


def _take(sc: Scenario, world: World, operation: Operation) -> World:
    """Start an operation: read the block, and the row to be written."""
    rows, request = None, operation.request
    if request.kind == READ:
        if is_row(world.disk[request.slot], request.key, request.generation):
            rows = world.disk[request.slot][0]
    else:
        row = world.homes[request.home] if operation.of == HOMES else disk_asks.row_to_write(world, operation)
        first = request.slot // sc.block * sc.block
        block = list(world.disk[first:first + sc.block])
        block[request.slot - first] = (row, request.generation)
        rows = tuple(block)
    doing = world.disk_worker.doing + (operation._replace(rows=rows),)
    return world._replace(disk_worker=world.disk_worker._replace(doing=doing))


def _goes_on(sc: Scenario, world: World, index: int, operation: Operation, dying: bool) -> Iterator[Move]:
    disk, request = world.disk_worker, operation.request
    name = "disk worker%s: " % (" (dying)" if dying else "")
    what = _named(operation)
    left = world._replace(disk_worker=disk._replace(doing=disk.doing[:index] + disk.doing[index + 1:]))
    if operation.stage:
        yield Move("%sDONE, %s" % (name, what), _store_word, (left, operation, ARRIVED), dying)
        return
    if request.kind == READ and operation.rows is None:
        yield Move("%sFAILED, %s" % (name, what), _store_word, (left, operation, FAILED), dying)
        return
    then = world._replace(disk_worker=disk._replace(doing=replaced(disk.doing, index, operation._replace(stage=1))))
    if request.kind == READ:
        yield Move("%scopies the row, %s" % (name, what), _lands, (sc, then, operation), dying)
        return
    yield Move("%swrites, %s" % (name, what), _lands, (sc, then, operation), dying)
    if dying:
        torn = left._replace(disk=replaced(world.disk, request.slot, TORN))
        yield Move("%shalf of it is written, %s" % (name, what), lambda: torn, (), True)
    if world.budget.lost:
        lost = then._replace(budget=world.budget._replace(lost=world.budget.lost - 1))
        yield Move("%sis told that it wrote, and did not, %s" % (name, what), lambda: lost, (), True)
    if world.budget.fails and not dying:
        fewer = left._replace(budget=world.budget._replace(fails=world.budget.fails - 1))
        yield Move("%sFAILED, %s" % (name, what), _store_word, (fewer, operation, FAILED), True)
        all_the_same = _lands(sc, fewer, operation)
        yield Move("%sFAILED and is written, %s" % (name, what), _store_word, (all_the_same, operation, FAILED), True)
    if "done_before_written" in sc.flaws:
        early = _store_word(then, operation, ARRIVED)
        early = early._replace(disk_worker=left.disk_worker._replace(late=disk.late + (operation,)))
        yield Move("%sDONE before it is written, %s" % (name, what), lambda: early, ())


def _late(sc: Scenario, world: World, index: int, operation: Operation) -> Iterator[Move]:
    """Execute an operation of a process that should have ended; only with flaws."""
    late = world.disk_worker.late
    without = world._replace(disk_worker=world.disk_worker._replace(late=late[:index] + late[index + 1:]))
    what = _named(operation)
    if operation.stage == 0 and operation.rows is not None:
        yield Move("late, of a dead disk worker: %s" % what, _lands, (sc, without, operation))
    yield Move("nothing comes of %s" % what, lambda: without, ())


def _lands(sc: Scenario, world: World, operation: Operation) -> World:
    request = operation.request
    if request.kind == READ and operation.of != HOMES:
        return disk_asks.row_read(world, operation)
    if request.kind == READ:
        return world._replace(homes=replaced(world.homes, request.home, operation.rows))
    first = request.slot // sc.block * sc.block
    disk: Tuple = world.disk[:first] + operation.rows + world.disk[first + sc.block:]
    return world._replace(disk=disk)


def _store_word(world: World, operation: Operation, word: str) -> World:
    if operation.of != HOMES:
        return disk_asks.store_word(world, operation, word)
    request = world.requests[operation.number]
    this = operation.request._replace(cancelled=False)
    if request is None or request._replace(word=ASKED, cancelled=False) != this:
        raise Violation("%s is stored in a request that is not this one any more" % word)
    return world._replace(requests=replaced(world.requests, operation.number, request._replace(word=word)))


def is_row(held: Any, key: int, generation: int) -> bool:
    """Return True if the trailer in a disk slot matches key and generation."""
    return held not in (None, TORN) and held[0] is not None and (held[0][0], held[1]) == (key, generation)


def check_disk(world: World, key: int, slot: int, generation: int) -> bool:
    """Return True if the row of a key is where its entry states, False if its trailer shows that the disk lost it."""
    held, due = world.disk[slot], true_row(world, key)
    if not is_row(held, key, generation):
        return False
    if held[0] != due:
        raise Violation("disk slot %d has %s for key %d, should be %s" % (slot, held[0], key, due))
    return True
