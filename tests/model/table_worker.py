"""A table worker: its next action, touch, death and restart.

An action is divided into stores that other processes can see.  Between two stores the worker may be killed.  Its
program counter (``doing``) and its masks are then lost, and its stores to shared memory remain.  The stores of an
action must therefore be harmless until the last one publishes them.
"""

from typing import Iterator, List, Optional

from . import cuts, evaluation, loads, oracle, plans, retire
from .explore import Move, Violation
from .plans import may_plan, revoking
from .retire import passing, retiring
from .scenario import Scenario
from .state import (
    CLAIMED,
    DEDUPED,
    DONE,
    NOWHERE,
    PLANNED,
    RETIRED,
    TABLE_NAMES,
    TOUCHED,
    Entry,
    Part,
    World,
    replaced,
    with_part,
    with_table,
    words_of,
)
from .stores import collect, locate, mask_bit


def moves(sc: Scenario, world: World, table: int) -> Iterator[Move]:
    """Yield the moves of the worker of one table, and its death."""
    state = world.tables[table]
    name = "worker " + TABLE_NAMES[table]
    granted = state.cut is not None and state.cut.granted
    if world.budget.kills and (state.doing is not None or granted or PLANNED in words_of(world, table)):
        yield Move(
            "%s: SIGKILL%s" % (name, "" if state.doing is None else " in " + state.doing[0]),
            kill,
            (sc, world, table),
            True,
        )
    if "cut_request_read_late" in sc.flaws:
        yield from cuts.looks(sc, world, table, name)
        if state.doing == (cuts.LOOKED,):
            return
    if state.doing is None:
        if state.cut is not None and state.cut.committed:
            yield from cuts.moves(sc, world, table, name)
            if "load_touches" in sc.flaws and state.cut.granted:
                yield from _touches(sc, world, table, name)
        else:
            yield from _begins(sc, world, table, name)
    elif state.doing[0] in cuts.STEPS:
        yield from cuts.moves(sc, world, table, name)
    elif state.doing[0] == "restart":
        yield _restart(sc, world, table, name)
    elif state.doing[0] == "answers":
        yield Move("%s: ANSWERED %d" % (name, state.doing[1]), evaluation.publish_answer, (world, table))
    else:
        yield Move("%s: %s %d" % (name, state.doing[0], state.doing[1]), _CONTINUE[state.doing[0]], (sc, world, table))


def _begins(sc: Scenario, world: World, table: int, name: str) -> Iterator[Move]:
    """Yield the actions that an idle worker may begin, in any order, which includes every order of the real loop."""
    ring, words = world.ring, words_of(world, table)
    planned = [index for index, word in enumerate(words) if word == PLANNED]
    head = next((index for index, word in enumerate(words) if word != RETIRED), None)
    if head is not None and words[head] == DONE:
        yield from retiring(sc, world, table, name, head)
    elif head is not None and words[head] == CLAIMED and "claimed_is_trained" in sc.flaws:
        yield from retire.assigning(sc, world, table, name, head)
    elif head is not None and ring[head].closed and words[head] < CLAIMED:
        yield from passing(sc, world, table, name, head, words, planned)
    if "skip_then_revoke" in sc.flaws and planned:
        record = ring[planned[-1]].parts[table].record
        if record is not None and plans.stands_upon(world, table, planned[-1]) != record.base:
            yield revoking(sc, world, table, name, planned[-1])
    yield from _touches(sc, world, table, name)
    if world.eval_ring:
        yield from evaluation.worker_moves(sc, world, table, name)
    if world.tables[table].cut is not None:
        if planned and "cut_keeps_plans" not in sc.flaws:
            yield revoking(sc, world, table, name, planned[-1])
        else:
            yield from cuts.moves(sc, world, table, name)
    elif len(planned) < sc.plans:
        yield from may_plan(sc, world, table, name, words)


# ---------------------------------------------------------------- touch


def _touches(sc: Scenario, world: World, table: int, name: str) -> Iterator[Move]:
    """Touch the oldest frame that has no entries yet."""
    ring, words = world.ring, words_of(world, table)
    if DEDUPED in words:
        index = words.index(DEDUPED)
        if ring[index].trained or not ring[index].closed:
            yield Move("%s: finds entries for %d" % (name, ring[index].ticket), find_entries, (sc, world, table, index))


def find_entries(sc: Scenario, world: World, table: int, index: int) -> World:
    """Find or append an entry per key; a new entry is only a name.  The next move writes the frame."""
    frame = world.ring[index]
    entries: List[Optional[Entry]] = list(world.tables[table].entries)
    found: List[int] = []
    for key in oracle.batch(sc, table, frame.ticket):
        number = next((n for n, entry in enumerate(entries) if entry is not None and entry.key == key), None)
        if number is None:
            number = _append(sc, world, table, entries, found, key)
        found.append(number)
    return with_table(world, table, entries=tuple(entries), doing=("TOUCHED", frame.ticket, frame.number, tuple(found)))


def _append(sc: Scenario, world: World, table: int, entries: List[Optional[Entry]], found: List[int], key: int) -> int:
    for number, entry in enumerate(entries):
        early = "reuse_entry" in sc.flaws and entry is not None and not entry.times and not entry.has_row
        if entry is None or (early and number not in found):
            if not sc.flaws and any(number in frame.parts[table].entries for frame in world.ring):
                raise Violation("entry number %d is reused while a frame holds it" % number)
            entries[number] = Entry(key, 0, False, NOWHERE)
            return number
    raise Violation("no entry is left for key %d" % key)


def store_touched(sc: Scenario, world: World, table: int) -> World:
    """Write entry numbers into the frame and bits into the masks, and store TOUCHED."""
    world, index = locate(sc, world, table)
    if index is None:
        return world
    _, _, _, found = world.tables[table].doing or (None, 0, 0, ())
    masks = list(world.tables[table].masks)
    for number in found:
        masks[number] |= mask_bit(sc, world.ring[index])
    world = with_table(world, table, masks=tuple(masks), doing=None)
    return with_part(world, index, table, Part(TOUCHED, found))


# ---------------------------------------------------------------- death and restart


def kill(sc: Scenario, world: World, table: int) -> World:
    """Kill the worker, which loses its private memory.

    The new worker derives masks from frames and frees unused names.
    """
    masks = [0] * sc.keys
    ring = world.ring
    for index, frame in enumerate(ring):
        part = frame.parts[table]
        if part.word < PLANNED and part.record is not None:
            ring = replaced(ring, index, frame._replace(parts=replaced(frame.parts, table, part._replace(record=None))))
        if TOUCHED <= part.word < RETIRED:
            for number in part.entries:
                masks[number] |= mask_bit(sc, frame)
    world = world._replace(ring=ring, budget=world.budget._replace(kills=world.budget.kills - 1))
    doing, cut = loads.after_kill(sc, world.tables[table].cut)
    if PLANNED in words_of(world, table):
        doing = ("restart",)
    return collect(with_table(world, table, masks=tuple(masks), doing=doing, cut=cut), table)


def _restart(sc: Scenario, world: World, table: int, name: str) -> Move:
    """Revoke the plans of a dead worker, newest first, before any other action."""
    planned = [index for index, word in enumerate(words_of(world, table)) if word == PLANNED]
    if not planned:
        return Move("%s: has restarted" % name, end_restart, (world, table))
    return revoking(sc, world, table, name + " after its start", planned[-1])


def end_restart(world: World, table: int) -> World:
    """Resume normal work."""
    return with_table(world, table, doing=None)


_CONTINUE = {
    "TOUCHED": store_touched,
    "PLANNED": plans.store_planned,
    "fills in": plans.fill_late,
    "stores TOUCHED": plans.store_over_planned,
    "finished =": retire.store_finished,
    "DONE": retire.store_done,
    "assigns slots of": retire.assign_slots,
    "RETIRED": retire.store_retired,
    "assigns late": retire.assign_late,
}
