"""Key workers and their supervisor.

A key worker searches for a frame with a SUBMITTED word and a free claim word, takes the claim word by CAS, deduplicates
table by table, and does not clear the claim.  A killed worker may still execute a last store until it is reaped.  Only
then does the supervisor clear its claims, and only in frames that still have a SUBMITTED word, because all other frames
may be reused concurrently.
"""

from typing import Iterator, Optional

from .explore import Move, Violation
from .scenario import Scenario
from .state import DEDUPED, FREE, SUBMITTED, TABLE_NAMES, Frame, KeyWorker, World, replaced, with_part


def moves(sc: Scenario, world: World) -> Iterator[Move]:
    """Yield the moves of all key workers and of the supervisor, and kills."""
    for index, worker in enumerate(world.key_workers):
        name = "key worker %d" % worker.generation
        if worker.doing is None:
            frame = _next_frame(sc, world)
            if frame is not None and not worker.dying:
                yield Move("%s: looks at frame %d" % (name, frame.number), look, (world, index, frame.number))
            continue
        step, number = worker.doing[:2]
        if step == "gone":
            continue
        if step == "looked":
            yield Move("%s: CAS on the claim of frame %d" % (name, number), take, (sc, world, index), worker.dying)
        else:
            table = TABLE_NAMES[worker.doing[2]]
            yield Move(
                "%s: DEDUPED in frame %d for %s" % (name, number, table), dedup, (sc, world, index), worker.dying
            )
        if world.budget.key_kills and not worker.dying and world.supervisor is None:
            yield Move("%s: SIGKILL" % name, kill, (sc, world, index), True)
    if world.supervisor is not None:
        yield _supervisor(sc, world)


def _position(sc: Scenario, number: int) -> int:
    return number % sc.positions


def _next_frame(sc: Scenario, world: World) -> Optional[Frame]:
    for frame in world.ring:
        if world.claims[_position(sc, frame.number)] == FREE and any(part.word == SUBMITTED for part in frame.parts):
            return frame
    return None


def _next_table(sc: Scenario, frame: Frame, start: int) -> Optional[int]:
    for table in range(start, len(frame.parts)):
        if frame.parts[table].word == SUBMITTED or "dedup_every_part" in sc.flaws:
            return table
    return None


def _with_worker(world: World, index: int, worker: KeyWorker) -> World:
    return world._replace(key_workers=replaced(world.key_workers, index, worker))


def look(world: World, index: int, number: int) -> World:
    """Read the claim word; the result may be outdated when the CAS is tried."""
    return _with_worker(world, index, world.key_workers[index]._replace(doing=("looked", number)))


def take(sc: Scenario, world: World, index: int) -> World:
    """Change the claim word from 0 to the worker's generation by CAS.  The frame is read after the CAS, not before."""
    worker = world.key_workers[index]
    position = _position(sc, (worker.doing or ())[1])
    if world.claims[position] != FREE:
        return _with_worker(world, index, worker._replace(doing=None))
    world = world._replace(claims=replaced(world.claims, position, worker.generation))
    frame = next((frame for frame in world.ring if _position(sc, frame.number) == position), None)
    if frame is None:
        raise Violation("key worker %d takes a position whose frame is not published" % worker.generation)
    return _goes_on(sc, world, index, frame, 0)


def _goes_on(sc: Scenario, world: World, index: int, frame: Frame, start: int) -> World:
    table = _next_table(sc, frame, start)
    doing = None if table is None else ("took", frame.number, table)
    return _with_worker(world, index, world.key_workers[index]._replace(doing=doing))


def dedup(sc: Scenario, world: World, index: int) -> World:
    """Write distinct keys and restore index of one table, and exchange its word."""
    _, number, table = world.key_workers[index].doing or (None, 0, 0)
    where = next((i for i, frame in enumerate(world.ring) if frame.number == number), None)
    if where is None:
        raise Violation("a key worker writes into frame %d, which was given away" % number)
    part = world.ring[where].parts[table]
    if part.word != SUBMITTED:
        raise Violation("a key worker stores DEDUPED over word %d of table %s" % (part.word, TABLE_NAMES[table]))
    world = with_part(world, where, table, part._replace(word=DEDUPED))
    return _goes_on(sc, world, index, world.ring[where], table + 1)


def kill(sc: Scenario, world: World, index: int) -> World:
    """Send SIGKILL; the supervisor notices it."""
    worker = world.key_workers[index]
    world = _with_worker(world, index, worker._replace(dying=True))
    first = "clears" if "clear_before_reap" in sc.flaws else "reaps"
    return world._replace(
        supervisor=(first, index, None), budget=world.budget._replace(key_kills=world.budget.key_kills - 1)
    )


def _supervisor(sc: Scenario, world: World) -> Move:
    step, index, position = world.supervisor or ("", 0, None)
    dead = world.key_workers[index]
    if step == "reaps":
        return Move("supervisor: reaps key worker %d" % dead.generation, reap, (world, index))
    if position is not None:
        return Move("supervisor: clears the claim of position %d" % position, clear, (world, index, position))
    for frame in world.ring:
        held = world.claims[_position(sc, frame.number)] == dead.generation
        if held and ("clear_finished" in sc.flaws or any(part.word == SUBMITTED for part in frame.parts)):
            position = _position(sc, frame.number)
            what = "supervisor: finds position %d claimed by %d" % (position, dead.generation)
            return Move(what, find, (world, index, position))
    return Move("supervisor: starts a key worker for %d" % dead.generation, respawn, (world, index))


def reap(world: World, index: int) -> World:
    """Reap the dead worker, which cannot write any more."""
    worker = world.key_workers[index]
    gone = worker._replace(doing=("gone", 0), dying=False)
    return _with_worker(world, index, gone)._replace(supervisor=("clears", index, None))


def find(world: World, index: int, position: int) -> World:
    """Read the word and the claim; the store is the next move."""
    return world._replace(supervisor=("clears", index, position))


def clear(world: World, index: int, position: int) -> World:
    """Clear the claim by a plain store; it must still be the dead worker's claim."""
    dead = world.key_workers[index].generation
    if world.claims[position] != dead:
        raise Violation("the supervisor clears claim %d, meaning %d" % (world.claims[position], dead))
    return world._replace(claims=replaced(world.claims, position, FREE), supervisor=("clears", index, None))


def respawn(world: World, index: int) -> World:
    """Start a worker with a new generation."""
    generation = 1 + max(worker.generation for worker in world.key_workers)
    return _with_worker(world, index, KeyWorker(generation))._replace(supervisor=None)
