"""With several ranks, a claim is final only when every rank has the batch (GO).

Before GO the step may put its claims aside: each word goes back from CLAIMED to PLANNED, then the lease is released,
and the tables are as if the step had not claimed.  The worker may then revoke the plan, and the step may claim it again
or fail.  The frame is marked TRAINED after GO, which comes when all tables of the step are claimed.
"""

from typing import Iterator

from . import lease, trainer
from .explore import Move, Violation
from .scenario import Scenario
from .state import CLAIMED, PLANNED, TABLE_NAMES, TOUCHED, Step, World, replaced, with_part, with_table

NOTHING, GO, BACK = range(3)  #: what a step knows about the other ranks; BACK: its claims must be put aside


def moves(sc: Scenario, world: World, thread: int, index: int) -> Iterator[Move]:
    """Yield the moves of a step that concern GO; ``index`` is the index of its frame in the ring."""
    step: Step = world.threads[thread]
    label = "thread %d: " % thread
    owned = [table for table in sc.tables if step.stages[table] == trainer.OWNED]
    if step.told == BACK:
        for table in owned:
            what = "%sputs the claim of %d for %s aside" % (label, step.ticket, TABLE_NAMES[table])
            yield Move(what, put_aside, (sc, world, thread, index, table))
        if not owned:
            yield Move("%sgives the lease back" % label, give_back, (world, thread))
    elif step.told == NOTHING and owned:
        if all(stage in (trainer.IDLE, trainer.OWNED) for stage in step.stages):
            yield Move("%sknows that all ranks have %d" % (label, step.ticket), tell, (world, thread, GO))
        if world.budget.asides:
            yield Move("%sis to put %d aside" % (label, step.ticket), is_to, (world, thread), True)


def may_go_on(sc: Scenario, step: Step, stage: int) -> bool:
    """Return True if a table may leave ``stage``: if claimed, only after GO; otherwise, only if no claims are put
    aside.
    """
    if not sc.asides:
        return True
    return step.told == GO if stage >= trainer.OWNED else step.told == NOTHING


def tell(world: World, thread: int, told: int) -> World:
    """Set what the step has learned from the headers of all ranks."""
    return world._replace(threads=replaced(world.threads, thread, world.threads[thread]._replace(told=told)))


def is_to(world: World, thread: int) -> World:
    """Decide that the claims are put aside, because another step goes first or this step fails."""
    step: Step = world.threads[thread]
    stages = tuple(trainer.WANTED if stage == trainer.LOOKED else stage for stage in step.stages)
    world = world._replace(threads=replaced(world.threads, thread, step._replace(stages=stages, told=BACK)))
    return world._replace(budget=world.budget._replace(asides=world.budget.asides - 1))


def put_aside(sc: Scenario, world: World, thread: int, index: int, table: int) -> World:
    """Store PLANNED over CLAIMED.

    A plain store suffices, because the word belongs to the step.  The record is unchanged.
    """
    frame = world.ring[index]
    part = frame.parts[table]
    if part.word != CLAIMED or part.record is None:
        raise Violation("the claim of %d is put aside over word %d" % (frame.ticket, part.word))
    word = TOUCHED if "aside_revokes" in sc.flaws else PLANNED
    world = with_part(world, index, table, part._replace(word=word), claimed=frame.claimed & ~(1 << table))
    return trainer.to_stage(world, thread, table, trainer.WANTED)


def give_back(world: World, thread: int) -> World:
    """Release the lease.  Afterwards this step claims again or fails."""
    return tell(world._replace(lease=lease.given_back(world.lease, thread)), thread, NOTHING)


def claimed_early(sc: Scenario, world: World, index: int, table: int) -> World:
    """Apply effects at the claim that must wait for GO; only with a flaw."""
    frame = world.ring[index]
    if "aside_after_mark" in sc.flaws:
        world = with_part(world, index, table, frame.parts[table], trained=True)
    if "aside_after_finished" in sc.flaws:
        world = with_table(world, table, finished=frame.ticket)
    return world
