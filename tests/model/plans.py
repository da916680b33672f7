"""Plans: when a plan may be made, its content, and revokes.

A plan is a pure function of the truth and the records of earlier tickets; it uses no private state.
"""

import itertools
from typing import Iterator, List, Optional

from . import oracle
from .explore import Move, Violation
from .scenario import LOOK_AHEAD, Scenario
from .state import CLAIMED, DONE, NOWHERE, PLANNED, RETIRED, TOUCHED, Record, Step, World, with_part, with_table
from .stores import locate, store_word


def stands_upon(world: World, table: int, index: int) -> Optional[int]:
    """Return the base of a plan for this frame, or None if an earlier ticket must be finished first."""
    base = world.tables[table].finished
    for frame in world.ring[:index]:
        word = frame.parts[table].word
        if word in (CLAIMED, DONE) or (word == PLANNED and not frame.closed):
            base = frame.ticket
        elif word != RETIRED and (word == PLANNED or frame.trained or not frame.closed):
            return None
    return base


def may_plan(sc: Scenario, world: World, table: int, name: str, words: List[int]) -> Iterator[Move]:
    index = next((i for i, word in enumerate(words) if word == TOUCHED and not world.ring[i].closed), None)
    if index is None:
        return
    ticket = world.ring[index].ticket
    base = stands_upon(world, table, index)
    if base is None:
        return
    wanted = any(isinstance(doing, Step) and doing.ticket == ticket and doing.stages[table] for doing in world.threads)
    if sc.planning == LOOK_AHEAD and min(words) < TOUCHED and not wanted:
        return
    for record in possible_records(world, table, index, base):
        yield Move(
            "%s: writes a plan for %d upon %d" % (name, ticket, base), write_plan, (sc, world, table, index, record)
        )


def possible_records(world: World, table: int, index: int, base: int) -> Iterator[Record]:
    """Yield a record for each choice of victims."""
    entries, slots = oracle.state_after(world, table, PLANNED)
    after = {}
    wanted, new = [], set()
    for number in world.ring[index].parts[table].entries:
        entry = entries[number]
        if entry is None:
            raise Violation("frame %d holds entry %d, which has no name" % (world.ring[index].number, number))
        has_row = entry.has_row or entry.times + 1 >= world.tables[table].threshold
        if has_row:
            wanted.append(number)
        if has_row and not entry.has_row:
            new.add(number)
        after[number] = entry._replace(times=entry.times + 1, has_row=has_row)
    missing = [number for number in wanted if after[number].slot == NOWHERE]
    empty = [slot for slot, number in enumerate(slots) if number == NOWHERE]
    taken = [slot for slot, number in enumerate(slots) if number != NOWHERE and number not in wanted]
    for victims in itertools.combinations(taken, max(0, len(missing) - len(empty))):
        values = dict(after)
        for slot in victims:
            old = entries[slots[slot]] if slots[slot] not in values else values[slots[slot]]
            if old is None:
                raise Violation("slot %d names an entry that is gone" % slot)
            values[slots[slot]] = old._replace(slot=NOWHERE)
        comes = tuple((slot, number, number in new) for number, slot in zip(missing, empty + list(victims)))
        for slot, number, _ in comes:
            values[number] = values[number]._replace(slot=slot)
        yield Record(
            base,
            tuple((n, e.times, e.has_row, e.slot) for n, e in sorted(values.items())),
            tuple((slot, slots[slot]) for slot in victims),
            comes,
        )


def write_plan(sc: Scenario, world: World, table: int, index: int, record: Record) -> World:
    """Write the record into the frame; it is not read before PLANNED."""
    frame = world.ring[index]
    part = frame.parts[table]
    if "publish_then_fill" in sc.flaws:
        hollow = part._replace(word=PLANNED, record=Record(record.base, ()))
        return with_table(
            with_part(world, index, table, hollow), table, doing=("fills in", frame.ticket, frame.number, record)
        )
    return with_table(
        with_part(world, index, table, part._replace(record=record)),
        table,
        doing=("PLANNED", frame.ticket, frame.number),
    )


def store_planned(sc: Scenario, world: World, table: int) -> World:
    """Publish the plan by one release store."""
    if "base_looked_up_again" in sc.flaws:
        world = _with_new_base(sc, world, table)
    return store_word(sc, world, table, PLANNED)


def _with_new_base(sc: Scenario, world: World, table: int) -> World:
    """Read the base again from the frames; only with the flaw."""
    _, index = locate(sc, world, table)
    if index is None:
        return world
    base = world.tables[table].finished
    for frame in world.ring[:index]:
        word = frame.parts[table].word
        if word in (CLAIMED, DONE) or (word == PLANNED and not frame.closed):
            base = frame.ticket
    part = world.ring[index].parts[table]
    record = part.record and part.record._replace(base=base)
    return with_part(world, index, table, part._replace(record=record))


def fill_late(sc: Scenario, world: World, table: int) -> World:
    """Write the record after PLANNED; only with the flaw."""
    record = (world.tables[table].doing or ())[3]
    world, index = locate(sc, world, table)
    if index is None:
        return world
    world = with_table(world, table, doing=None)
    return with_part(world, index, table, world.ring[index].parts[table]._replace(record=record))


def revoking(sc: Scenario, world: World, table: int, name: str, index: int) -> Move:
    ticket = world.ring[index].ticket
    if "revoke_by_store" in sc.flaws:
        return Move("%s: sees PLANNED in %d" % (name, ticket), see_planned, (world, table, index))
    return Move("%s: revokes %d" % (name, ticket), revoke, (world, table, index))


def revoke(world: World, table: int, index: int) -> World:
    """Revoke by a CAS from PLANNED to TOUCHED, which competes with the trainer's CAS."""
    return with_part(world, index, table, world.ring[index].parts[table]._replace(word=TOUCHED, record=None))


def see_planned(world: World, table: int, index: int) -> World:
    """Read the word without a CAS; only with the flaw."""
    frame = world.ring[index]
    return with_table(world, table, doing=("stores TOUCHED", frame.ticket, frame.number, world.tables[table].doing))


def store_over_planned(sc: Scenario, world: World, table: int) -> World:
    """Store TOUCHED over any word; only with the flaw."""
    before = (world.tables[table].doing or ())[3]
    world, index = locate(sc, world, table)
    world = with_table(world, table, doing=before)
    return world if index is None else revoke(world, table, index)
