"""The trainer's pump thread, which submits tickets and frees frames, both in order.

Without key workers, a batch gets its frame in one move.  With key workers, the moves are separate.  The pump fills a
position, then determines whether the ticket still needs the frame, because a parked ticket may have been closed.  It
then publishes the tail, and finally clears the claim word.  This order matters: a key worker that has read the previous
frame of the position may still try its CAS, which must fail while the new frame is being written.
"""

from typing import Iterator

from .explore import Move, Violation
from .scenario import Scenario
from .state import BUSY, DEDUPED, DONE, FREE, RETIRED, SUBMITTED, EvalFrame, Frame, Part, World, replaced


def reusable(sc: Scenario, frame: Frame) -> bool:
    """Return True if a frame may be reused: its ticket is closed and every table has stored RETIRED in it."""
    retired = all(part.word == RETIRED for part in frame.parts)
    if "reuse_dead" in sc.flaws and frame.closed and not frame.trained:
        return True
    if "reuse_when_done" in sc.flaws:
        return frame.closed and all(part.word >= DONE for part in frame.parts)
    return (frame.closed or "reuse_open" in sc.flaws) and retired


def give_back(sc: Scenario, world: World) -> World:
    """Free reusable frames at the head; called wherever a frame may have become reusable."""
    ring = world.ring
    while ring and reusable(sc, ring[0]):
        if ring[0].claimed and any(part.word != RETIRED for part in ring[0].parts):
            raise Violation("the frame of trained ticket %d is reused before every table retired it" % ring[0].ticket)
        ring = ring[1:]
    eval_ring = world.eval_ring
    while (
        eval_ring
        and eval_ring[0].closed
        and ("reuse_unacknowledged" in sc.flaws or all(word == RETIRED for word in eval_ring[0].words))
    ):
        eval_ring = eval_ring[1:]
    if ring is world.ring and eval_ring is world.eval_ring:
        return world
    return world._replace(ring=ring, eval_ring=eval_ring)


def moves(sc: Scenario, world: World) -> Iterator[Move]:
    """Yield the moves of the pump, for both rings."""
    pump = world.pump
    if pump.doing is not None:
        yield Move("pump: %s ticket %d" % (pump.doing[0], pump.doing[1]), _NEXT[pump.doing[0]], (sc, world))
    elif pump.ticket <= sc.last and pump.gone >> pump.ticket & 1:
        yield Move("pump: drops ticket %d, closed while parked" % pump.ticket, drop, (world,))
    elif pump.ticket <= sc.last and len(world.ring) < sc.frames:
        if sc.key_workers:
            yield Move("pump: fills a position for ticket %d" % pump.ticket, fill, (sc, world))
        else:
            yield Move("pump: submits ticket %d" % pump.ticket, submit, (sc, world))
    if world.eval_next <= len(sc.evals) and len(world.eval_ring) < sc.eval_frames:
        yield Move("pump: submits evaluation ticket %d" % world.eval_next, submit_evaluation, (sc, world))


def submit(sc: Scenario, world: World) -> World:
    """Submit a deduplicated batch in one move."""
    pump = world.pump
    frame = Frame(pump.ticket, pump.number, False, False, 0, (Part(DEDUPED),) * len(sc.batches))
    return world._replace(
        ring=world.ring + (frame,), pump=pump._replace(ticket=pump.ticket + 1, number=pump.number + 1)
    )


def submit_evaluation(sc: Scenario, world: World) -> World:
    """Submit an evaluation batch; the evaluation ring is modelled without key workers."""
    tables = len(sc.batches)
    frame = EvalFrame(world.eval_next, False, (DEDUPED,) * tables, (None,) * tables)
    return world._replace(eval_ring=world.eval_ring + (frame,), eval_next=world.eval_next + 1)


def drop(world: World) -> World:
    """Drop a ticket without using a frame number: frame numbers have no gaps."""
    pump = world.pump
    return world._replace(pump=pump._replace(ticket=pump.ticket + 1, gone=pump.gone & ~(1 << pump.ticket), doing=None))


def fill(sc: Scenario, world: World) -> World:
    """Write the claim word first, so that no worker takes the position, then the words and the ids."""
    pump = world.pump
    claim = FREE if "open_before_publish" in sc.flaws else BUSY
    return world._replace(
        claims=replaced(world.claims, pump.number % sc.positions, claim),
        pump=pump._replace(doing=("asks", pump.ticket)),
    )


def ask(sc: Scenario, world: World) -> World:
    """Change the ticket's state from parked to framed by a CAS, unless the ticket was closed before."""
    pump = world.pump
    if pump.gone >> pump.ticket & 1:
        return drop(world)
    return world._replace(pump=pump._replace(doing=("publishes", pump.ticket, False)))


def publish(sc: Scenario, world: World) -> World:
    """Advance the tail.  If the ticket was closed after the CAS, the frame is marked as closed."""
    pump = world.pump
    _, ticket, closed = pump.doing or (None, 0, False)
    frame = Frame(ticket, pump.number, closed, False, 0, (Part(SUBMITTED),) * len(sc.batches))
    doing = None if "open_before_publish" in sc.flaws else ("opens", ticket)
    return world._replace(
        ring=world.ring + (frame,), pump=pump._replace(ticket=ticket + 1, number=pump.number + 1, doing=doing)
    )


def open_claim(sc: Scenario, world: World) -> World:
    """Clear the claim word, so that key workers may take the frame."""
    pump = world.pump
    return world._replace(
        claims=replaced(world.claims, (pump.number - 1) % sc.positions, FREE), pump=pump._replace(doing=None)
    )


_NEXT = {"asks": ask, "publishes": publish, "opens": open_claim}


def close_parked(world: World, ticket: int) -> World:
    """Close a ticket without a published frame: in its state, or in its frame if it already has one."""
    pump = world.pump
    if pump.doing is not None and pump.doing[0] == "publishes" and pump.doing[1] == ticket:
        return world._replace(pump=pump._replace(doing=("publishes", ticket, True)))
    return world._replace(pump=pump._replace(gone=pump.gone | 1 << ticket))
