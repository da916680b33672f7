"""Cuts: changes of a table exactly between two trained steps.

The trainer requests a cut while it holds the lease.  The table worker then revokes the plans, waits like a reader,
commits (after which a restarted worker repeats the request), applies the change and stores APPLIED.  In a load the
trainer writes in between; see loads.py.
"""

from typing import Iterator, List, Optional, Tuple

from . import loads, oracle
from .explore import Move
from .scenario import Scenario
from .state import CLAIMED, DEDUPED, DONE, NOWHERE, PLANNED, TOUCHED, Entry, Part, World, replaced, with_table, words_of
from .stores import collect

CLEARS, GIVES_UP, APPLIED, LOOKED = "clears slots", "gives touches up", "stores APPLIED", "has looked"
STEPS = (CLEARS, GIVES_UP, APPLIED) + loads.STEPS  #: program counters that belong to a cut
EMPTYING = ("reset",) + loads.KINDS  #: kinds that invalidate entry numbers


def moves(sc: Scenario, world: World, table: int, name: str) -> Iterator[Move]:
    """Yield the next move of a cut that is requested or committed."""
    state = world.tables[table]
    if state.cut is None:
        return
    what = "%s: the %s: " % (name, state.cut.kind)
    if not state.cut.committed and "cut_request_read_late" in sc.flaws:
        return  # see looks
    if not state.cut.committed:
        if _may_commit(sc, world, table):
            yield Move(what + "commits", commit, (sc, world, table))
            if state.cut.kind in loads.KINDS:
                yield Move(what + "refused, there is no memory", applied, (sc, world, table))
    elif state.doing is None and loads.is_next(sc, state.cut):
        yield from loads.worker_moves(sc, world, table, what)
    elif state.doing is None or state.doing[0] == loads.REDOES:
        yield Move(what + "changes entries", change_entries, (sc, world, table))
    elif state.doing[0] == CLEARS:
        yield Move(what + CLEARS, clear_slots, (world, table))
    elif state.doing[0] == GIVES_UP:
        yield Move(what + GIVES_UP, give_touches_up, (sc, world, table))
    elif state.doing[0] == loads.GRANTS:
        yield Move(what + loads.GRANTS, loads.grant, (sc, world, table))
    elif state.doing[0] == loads.TAKES:
        yield Move(what + "takes slots over", _take_slots, (world, table))
    else:
        yield Move(what + APPLIED, applied, (sc, world, table))


def looks(sc: Scenario, world: World, table: int, name: str) -> Iterator[Move]:
    """Decide by observations that are older than the request; only with the flaw."""
    state = world.tables[table]
    if state.doing is None and PLANNED not in words_of(world, table) and _may_commit(sc, world, table):
        yield Move("%s: sees that nothing is pending" % name, with_doing, (world, table, (LOOKED,)))
    elif state.doing == (LOOKED,) and state.cut is not None:
        yield Move("%s: sees the request and commits" % name, commit, (sc, with_doing(world, table, None), table))
    elif state.doing == (LOOKED,):
        yield Move("%s: sees no request" % name, with_doing, (world, table, None))


def with_doing(world: World, table: int, doing: Optional[Tuple[str, ...]]) -> World:
    """Set the worker's program counter."""
    return with_table(world, table, doing=doing)


def _may_commit(sc: Scenario, world: World, table: int) -> bool:
    if "cut_waits_for_done_only" in sc.flaws:
        return not any(word in (CLAIMED, DONE) for word in words_of(world, table))
    return oracle.may_read(world, table)


def _hit_keys(sc: Scenario, kind: str, argument: int) -> Tuple[int, ...]:
    if kind == "threshold":
        return ()
    return (argument,) if kind == "evict" else tuple(range(sc.keys))


def commit(sc: Scenario, world: World, table: int) -> World:
    """Commit the cut.  It now happens whichever process dies, so the oracle applies it here."""
    state = world.tables[table]
    assert state.cut is not None
    kind, argument = state.cut.kind, state.cut.argument
    oracle.check_reader(sc, world, table, planned=False)
    counts, rows = list(state.oracle.counts), list(state.oracle.rows)
    keys = _hit_keys(sc, kind, argument)
    for key in keys:
        generation, updates = rows[key]
        counts[key] = (0, False)
        rows[key] = (generation + (updates is not None), None)
    hit = tuple(number for number, entry in enumerate(state.entries) if entry is not None and entry.key in keys)
    threshold = argument if kind == "threshold" else state.oracle.threshold
    notes = state.oracle._replace(counts=tuple(counts), rows=tuple(rows), threshold=threshold)
    return with_table(world, table, cut=state.cut._replace(committed=True, entries=hit), oracle=notes)


def change_entries(sc: Scenario, world: World, table: int) -> World:
    """Apply the first store; a restarted worker begins with it, unless a load was granted."""
    state = world.tables[table]
    assert state.cut is not None
    if state.cut.kind == "threshold":
        return with_table(world, table, threshold=state.cut.argument, doing=(CLEARS,))
    if state.cut.kind == "evict":  # the entries remain as names, because frames may hold their numbers
        entries: List[Optional[Entry]] = list(state.entries)
        for number in state.cut.entries:
            entry = entries[number]
            entries[number] = entry and Entry(entry.key, 0, False, NOWHERE)
        return with_table(world, table, entries=tuple(entries), doing=(CLEARS,))
    return with_table(loads.empty_entries(sc, world, table), table, doing=(CLEARS,))


def give_touches_up(sc: Scenario, world: World, table: int) -> World:
    """Touch frames again, because their entry numbers are no longer valid."""
    state = world.tables[table]
    assert state.cut is not None
    world = with_table(world, table, doing=(APPLIED if state.cut.kind == "reset" else loads.GRANTS,))
    if sc.flaws & {"reset_keeps_touch", "load_keeps_touch"}:
        return world
    ring = tuple(
        frame._replace(parts=replaced(frame.parts, table, Part(DEDUPED)))
        if frame.parts[table].word == TOUCHED
        else frame
        for frame in world.ring
    )
    return with_table(world._replace(ring=ring), table, masks=(0,) * sc.keys)


def clear_slots(world: World, table: int) -> World:
    """Apply the second store: slots of removed entries are empty."""
    state = world.tables[table]
    assert state.cut is not None
    kind, hit = state.cut.kind, state.cut.entries
    slots = tuple(
        NOWHERE if kind in EMPTYING or (kind == "evict" and number in hit) else number for number in state.slots
    )
    return with_table(world, table, slots=slots, doing=(GIVES_UP if kind in EMPTYING else APPLIED,))


def _take_slots(world: World, table: int) -> World:
    return with_table(loads.take_slots(world, table), table, doing=(APPLIED,))


def applied(sc: Scenario, world: World, table: int) -> World:
    """End the cut, so that the trainer continues."""
    world = collect(with_table(world, table, cut=None, doing=None), table)
    oracle.check_truth(sc, world, table, "after the cut")
    oracle.check_rows(world, table, "after the cut")
    return world
