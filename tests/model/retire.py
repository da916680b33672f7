"""The end of a ticket in a table: skipped, counted, or retired.

The trainer stores DONE in a ticket that the table claimed.  A ticket that the table did not claim is dead and skipped,
or it is counted because another table claimed it.  In this case the worker writes a record, stores `finished` and then
DONE, and continues as with a claimed ticket.
"""

from typing import Iterator, List

from . import oracle, pump
from .explore import Move, Violation
from .plans import revoking
from .scenario import Scenario
from .state import DONE, PLANNED, RETIRED, SUBMITTED, TABLE_NAMES, TOUCHED, Part, Record, World, with_part, with_table
from .stores import clear_masks, locate, store_word


def passing(
    sc: Scenario, world: World, table: int, name: str, head: int, words: List[int], planned: List[int]
) -> Iterator[Move]:
    """Pass the first unfinished ticket, which is closed and not claimed: revoke from the newest plan, then skip or
    count it.
    """
    frame = world.ring[head]
    revokes = planned if words[head] == PLANNED or "revoke_everything" in sc.flaws else []
    if "skip_then_revoke" in sc.flaws:
        revokes = [head] if words[head] == PLANNED else []
    if revokes:
        yield revoking(sc, world, table, name, revokes[-1])
    elif not frame.trained or "skip_unfetched" in sc.flaws:
        if words[head] != SUBMITTED or "skip_submitted" in sc.flaws:
            yield Move("%s: skips %d" % (name, frame.ticket), skip, (sc, world, table, head))
    elif words[head] == TOUCHED and "leave_unfetched" not in sc.flaws:
        yield Move(
            "%s: writes a count-only record for %d" % (name, frame.ticket), write_counts, (sc, world, table, head)
        )


def skip(sc: Scenario, world: World, table: int, index: int) -> World:
    """Acknowledge a dead ticket without any effect."""
    frame = world.ring[index]
    if frame.claimed:
        raise Violation("ticket %d was trained, and table %s skips it" % (frame.ticket, TABLE_NAMES[table]))
    world = clear_masks(sc, world, table, index)
    return pump.give_back(sc, with_part(world, index, table, Part(RETIRED)))


def write_counts(sc: Scenario, world: World, table: int, index: int) -> World:
    """Write a record of absolute values without slots and rows; DONE follows."""
    frame = world.ring[index]
    part = frame.parts[table]
    values = []
    for number in part.entries:
        entry = world.tables[table].entries[number]
        if entry is None:
            raise Violation("frame %d holds entry %d, which has no name" % (frame.number, number))
        values.append((number, entry.times + 1, entry.has_row, entry.slot))
    record = Record(None, tuple(values))
    if "count_in_place" in sc.flaws:
        entries = list(world.tables[table].entries)
        oracle.assign(entries, None, record)
        return with_table(
            world, table, entries=tuple(entries), finished=frame.ticket, doing=("RETIRED", frame.ticket, frame.number)
        )
    first = "DONE" if "finished_after_done" in sc.flaws else "finished ="
    return with_table(
        with_part(world, index, table, part._replace(record=record)), table, doing=(first, frame.ticket, frame.number)
    )


def store_finished(sc: Scenario, world: World, table: int) -> World:
    """Store `finished`, a separate word, before DONE."""
    _, ticket, number = world.tables[table].doing or (None, 0, 0)
    doing = None if "finished_after_done" in sc.flaws else ("DONE", ticket, number)
    return with_table(world, table, finished=ticket, doing=doing)


def store_done(sc: Scenario, world: World, table: int) -> World:
    """Store DONE, after which a restarted worker assigns the count-only record."""
    _, ticket, number = world.tables[table].doing or (None, 0, 0)
    after = store_word(sc, world, table, DONE)
    return (
        with_table(after, table, doing=("finished =", ticket, number)) if "finished_after_done" in sc.flaws else after
    )


# ---------------------------------------------------------------- retire


def retiring(sc: Scenario, world: World, table: int, name: str, index: int) -> Iterator[Move]:
    ticket = world.ring[index].ticket
    if "retired_then_assign" in sc.flaws:
        yield Move("%s: RETIRED %d too early" % (name, ticket), retire_early, (sc, world, table, index))
    else:
        yield Move("%s: assigns entries of %d" % (name, ticket), assign_entries, (sc, world, table, index))


def assign_entries(sc: Scenario, world: World, table: int, index: int) -> World:
    """Assign the first part of the record; a restarted worker repeats it."""
    frame = world.ring[index]
    part = frame.parts[table]
    if part.record is None:
        raise Violation("ticket %d is DONE without a record" % frame.ticket)
    entries = list(world.tables[table].entries)
    before = list(entries)
    oracle.assign(entries, None, part.record)
    if "retire_adds" in sc.flaws:
        for number, _, _, _ in part.record.values:
            old, new = before[number], entries[number]
            if old is not None and new is not None:
                entries[number] = new._replace(times=old.times + (1 if number in part.entries else 0))
    return with_table(world, table, entries=tuple(entries), doing=("assigns slots of", frame.ticket, frame.number))


def assigning(sc: Scenario, world: World, table: int, name: str, index: int) -> Iterator[Move]:
    """Assign the record of a claimed frame to the entries; only with the flaw."""
    record, state = world.ring[index].parts[table].record, world.tables[table]
    entries, slots = list(state.entries), list(state.slots)
    if record is not None:
        oracle.assign(entries, slots, record)
    if tuple(entries) != state.entries:
        then = with_table(world, table, entries=tuple(entries), slots=tuple(slots))
        yield Move("%s: assigns %d, which is claimed" % (name, world.ring[index].ticket), as_is, (then,))


def as_is(world: World) -> World:
    """Return the state that was computed with the label of the move."""
    return world


def assign_slots(sc: Scenario, world: World, table: int) -> World:
    """Assign the second part of the record."""
    _, ticket, number = world.tables[table].doing or (None, 0, 0)
    world, index = locate(sc, world, table)
    slots = list(world.tables[table].slots)
    record = world.ring[index].parts[table].record if index is not None else None
    for slot, entry, _ in record.comes if record is not None else ():
        slots[slot] = entry
    return with_table(world, table, slots=tuple(slots), doing=("RETIRED", ticket, number))


def store_retired(sc: Scenario, world: World, table: int) -> World:
    """Store RETIRED: the ticket is part of the truth, and the oracle counts it."""
    world, index = locate(sc, world, table)
    return world if index is None else _publish_retired(sc, with_table(world, table, doing=None), table, index)


def _publish_retired(sc: Scenario, world: World, table: int, index: int) -> World:
    frame = world.ring[index]
    for earlier in world.ring[:index]:
        if earlier.parts[table].word != RETIRED:
            raise Violation("ticket %d is retired before %d" % (frame.ticket, earlier.ticket))
    notes = world.tables[table].oracle
    counts = oracle.counted(
        notes.counts, oracle.batch(sc, table, frame.ticket), bool(frame.claimed >> table & 1), notes.threshold
    )
    when = "RETIRED(%d) of %s" % (frame.ticket, TABLE_NAMES[table])
    world = with_table(world, table, oracle=notes._replace(counts=counts))
    oracle.check_truth(sc, world, table, when)
    world = clear_masks(sc, world, table, index)
    world = with_part(world, index, table, Part(RETIRED))
    oracle.check_rows(world, table, when)
    return pump.give_back(sc, world)


def retire_early(sc: Scenario, world: World, table: int, index: int) -> World:
    """Store RETIRED before the record is assigned; only with the flaw."""
    record = world.ring[index].parts[table].record
    ticket, number = world.ring[index].ticket, world.ring[index].number
    return _publish_retired(sc, with_table(world, table, doing=("assigns late", ticket, number, record)), table, index)


def assign_late(sc: Scenario, world: World, table: int) -> World:
    """Assign the record after RETIRED; only with the flaw."""
    state = world.tables[table]
    entries, slots = list(state.entries), list(state.slots)
    oracle.assign(entries, slots, (state.doing or ())[3])
    return with_table(world, table, entries=tuple(entries), slots=tuple(slots), doing=None)
