"""Invariants.  The oracle processes trained tickets in order, independently of frames and plans.

It counts when a table stores RETIRED.  It records rows when a step has moved them in and when the step updates them.
"""

from typing import Dict, List, Optional, Sequence, Tuple

from .explore import Violation
from .scenario import Scenario
from .state import CLAIMED, DONE, NOWHERE, PLANNED, RETIRED, TABLE_NAMES, Entry, Frame, Record, Row, Step, Table, World

Counts = Tuple[Tuple[int, bool], ...]  # per key: count, has a row


def batch(sc: Scenario, table: int, ticket: int) -> Tuple[int, ...]:
    """Return the distinct keys of a ticket for a table."""
    return sc.batches[table][ticket - 1]


def counted(counts: Counts, keys: Sequence[int], full: bool, threshold: int) -> Counts:
    """Return the counts after one more trained ticket; only a claimed (full) ticket creates rows."""
    new = list(counts)
    for key in keys:
        count, has_row = new[key]
        new[key] = (count + 1, has_row or (full and count + 1 >= threshold))
    return tuple(new)


def counts_of(entries: Sequence[Optional[Entry]], keys: int) -> Counts:
    """Return the counts of the entries by key."""
    counts = [(0, False)] * keys
    for entry in entries:
        if entry is not None and (entry.times or entry.has_row):
            if counts[entry.key] != (0, False):
                raise Violation("key %d has two entries" % entry.key)
            counts[entry.key] = (entry.times, entry.has_row)
    return tuple(counts)


def assign(entries: List[Optional[Entry]], slots: Optional[List[int]], record: Record) -> None:
    """Write the record's values.  Idempotent."""
    for number, count, has_row, slot in record.values:
        entry = entries[number]
        if entry is None:
            raise Violation("a record holds entry %d, which has no name any more" % number)
        entries[number] = Entry(entry.key, count, has_row, slot)
    if slots is not None:
        for slot, number, _ in record.comes:
            slots[slot] = number


def state_after(world: World, table: int, low: int) -> Tuple[List[Optional[Entry]], List[int]]:
    """Return the truth with the records of all frames whose word is between ``low`` and DONE, in order."""
    state = world.tables[table]
    entries, slots = list(state.entries), list(state.slots)
    for frame in world.ring:
        part = frame.parts[table]
        if low <= part.word < RETIRED and part.record is not None:
            assign(entries, slots, part.record)
    return entries, slots


def _in_a_step(world: World, frame: Frame) -> bool:
    return any(isinstance(doing, Step) and doing.ticket == frame.ticket for doing in world.threads)


def counts_after(sc: Scenario, world: World, table: int, upto: Optional[int] = None) -> Counts:
    """Return the oracle's counts after the last finished step, or after ticket ``upto``, retired or not."""
    oracle = world.tables[table].oracle
    counts = oracle.counts
    for frame in world.ring:
        if upto is not None and frame.ticket > upto:
            break
        if not frame.claimed or frame.parts[table].word == RETIRED:
            continue
        full = bool(frame.claimed >> table & 1)
        if full or frame.closed or not _in_a_step(world, frame):
            counts = counted(counts, batch(sc, table, frame.ticket), full, oracle.threshold)
    return counts


def check_truth(sc: Scenario, world: World, table: int, when: str) -> None:
    """Check that the arrays in shared memory match the oracle and each other."""
    state = world.tables[table]
    said = counts_of(state.entries, sc.keys)
    if said != state.oracle.counts:
        raise Violation("%s: truth is %s, should be %s" % (when, said, state.oracle.counts))
    if state.threshold != state.oracle.threshold:
        raise Violation("%s: threshold %d, should be %d" % (when, state.threshold, state.oracle.threshold))
    for slot, number in enumerate(state.slots):
        entry = state.entries[number] if number != NOWHERE else None
        if number != NOWHERE and (entry is None or entry.slot != slot):
            raise Violation("%s: slot %d names entry %d, which is not there" % (when, slot, number))
    for number, entry in enumerate(state.entries):
        if entry is not None and entry.slot != NOWHERE and state.slots[entry.slot] != number:
            raise Violation("%s: entry %d says slot %d, which holds another" % (when, number, entry.slot))


def check_rows(world: World, table: int, when: str) -> None:
    """Check that each row is at the location given by claimed and finished tickets, and has the oracle's value."""
    state = world.tables[table]
    if state.cut is not None and state.cut.committed:
        return
    if any(frame.parts[table].word == CLAIMED for frame in world.ring):
        return  # rows are being moved
    compare_rows(state, state_after(world, table, DONE)[0], when)


def compare_rows(state: Table, entries: Sequence[Optional[Entry]], when: str) -> None:
    """Find each row through ``entries`` and compare it with the oracle's row."""
    where: Dict[int, int] = {entry.key: number for number, entry in enumerate(entries) if entry is not None}
    for key, (generation, updates) in enumerate(state.oracle.rows):
        if updates is None:
            continue
        entry = entries[where[key]] if key in where else None
        if entry is None or not entry.has_row:
            raise Violation("%s: the row of key %d is lost" % (when, key))
        value = row_at(state, where[key], entry.slot)
        if value != (key, generation, updates):
            raise Violation("%s: row of key %d is %s, should be %s" % (when, key, value, (key, generation, updates)))


def row_at(state: Table, number: int, slot: int) -> Optional[Row]:
    """Return the row of an entry, from its slot or from home."""
    return state.device[slot] if slot != NOWHERE else state.home[number]


def check_reader(sc: Scenario, world: World, table: int, planned: bool) -> None:
    """Check that a reader sees exactly the table after the last finished step."""
    state = world.tables[table]
    said, due = counts_of(state.entries, sc.keys), counts_after(sc, world, table)
    if said != due:
        raise Violation("a reader of %s sees %s, after the last step it is %s" % (TABLE_NAMES[table], said, due))
    compare_rows(state, state_after(world, table, PLANNED)[0] if planned else state.entries, "a reader")


def may_read(world: World, table: int) -> bool:
    """Return True if readers may read: every ticket that this table claimed or must count is RETIRED."""
    for frame in world.ring:
        word = frame.parts[table].word
        if word in (CLAIMED, DONE) or (frame.closed and frame.trained and word != RETIRED):
            return False
    return True
