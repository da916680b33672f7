"""With several ranks a claim counts only when every rank has said that it has the batch (GO).

Until then the step may put its claims aside: each word goes from CLAIMED back to PLANNED, then the lease is given back,
and the tables are as if it had not claimed. The worker may revoke the plan then, and the step may claim it again, or
fail. It is marked TRAINED after GO, which comes when all tables that the step wants are claimed.
"""

from typing import Iterator

from . import lease, trainer
from .explore import Move, Violation
from .scenario import Scenario
from .state import CLAIMED, PLANNED, TABLE_NAMES, TOUCHED, Step, World, replaced, with_part, with_table

NOTHING, GO, BACK = range(3)  #: what a step knows of the other ranks; BACK: its claims are to be put aside


def moves(sc: Scenario, world: World, thread: int, index: int) -> Iterator[Move]:
    """What a step does about GO; ``index`` is of its frame in the ring."""
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
    """Whether a table at ``stage`` may go on: to a claim not while others are put back, beyond one after GO only."""
    if not sc.asides:
        return True
    return step.told == GO if stage >= trainer.OWNED else step.told == NOTHING


def tell(world: World, thread: int, told: int) -> World:
    """The step knows it from the headers of all ranks."""
    return world._replace(threads=replaced(world.threads, thread, world.threads[thread]._replace(told=told)))


def is_to(world: World, thread: int) -> World:
    """Another step goes first, or this one fails."""
    step: Step = world.threads[thread]
    stages = tuple(trainer.WANTED if stage == trainer.LOOKED else stage for stage in step.stages)
    world = world._replace(threads=replaced(world.threads, thread, step._replace(stages=stages, told=BACK)))
    return world._replace(budget=world.budget._replace(asides=world.budget.asides - 1))


def put_aside(sc: Scenario, world: World, thread: int, index: int, table: int) -> World:
    """CLAIMED -> PLANNED, by a store: the word is the step's.  The record is what it was."""
    frame = world.ring[index]
    part = frame.parts[table]
    if part.word != CLAIMED or part.record is None:
        raise Violation("the claim of %d is put aside over word %d" % (frame.ticket, part.word))
    word = TOUCHED if "aside_revokes" in sc.flaws else PLANNED
    world = with_part(world, index, table, part._replace(word=word), claimed=frame.claimed & ~(1 << table))
    return trainer.to_stage(world, thread, table, trainer.WANTED)


def give_back(world: World, thread: int) -> World:
    """Others may have the lease; then this step claims anew, or fails."""
    return tell(world._replace(lease=lease.given_back(world.lease, thread)), thread, NOTHING)


def claimed_early(sc: Scenario, world: World, index: int, table: int) -> World:
    """Only with a flaw: what must wait for GO, done with the claim."""
    frame = world.ring[index]
    if "aside_after_mark" in sc.flaws:
        world = with_part(world, index, table, frame.parts[table], trained=True)
    if "aside_after_finished" in sc.flaws:
        world = with_table(world, table, finished=frame.ticket)
    return world
