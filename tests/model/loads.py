"""A load: the cut by which a table gets the content of a checkpoint, which the trainer writes into the table directly.

The worker commits, empties the table and *grants* it.  The trainer writes the entries and stores *keyed*, then writes
rows and the number of entries, and stores *filled*.  The worker takes them over and stores APPLIED.  Until then the
written entries are hidden (``entries_used`` is 0).  After *keyed* the worker may derive its index, which is private and
lost if it dies.  A trainer that fails also stores *filled*, with no entries.
"""

from typing import Iterator, List, Optional, Tuple

from . import lease
from .explore import Move, Violation
from .scenario import Scenario
from .state import NOWHERE, TABLE_NAMES, Cut, Entry, Row, World, replaced, with_table

AT_HOME, ON_DEVICE = "load", "load on device"  #: destination of the checkpoint's rows
KINDS = (AT_HOME, ON_DEVICE)
TIMES, UPDATES = 3, 5  #: count of every loaded key, updates of every loaded row
GRANTS, TAKES, REDOES = "grants it", "takes over what was filled in", "empties again"
DERIVES = "derives its index"
STEPS = (GRANTS, TAKES, REDOES)  #: program counters that only loads have
ENTRIES, KEYED, ROWS, NUMBER, FILLED, FAILED, RETURNS = range(7)  #: the next action of a thread that loads

Filling = Tuple[str, int, int, int]  # "cut", table, stage, entries written


def contents(sc: Scenario, argument: int) -> List[Tuple[int, bool]]:
    """Return (key, has it a row) of each entry of the checkpoint, entries with rows first, in an order that no table
    has.

    ``argument`` has a bit per key with a row, then a bit per key that is only counted.
    """
    keys = range(sc.keys - 1, -1, -1)
    return [(key, True) for key in keys if argument >> key & 1] + [
        (key, False) for key in keys if argument >> sc.keys + key & 1
    ]


# ---------------------------------------------------------------- the table worker's side


def is_next(sc: Scenario, cut: Cut) -> bool:
    """Return True once the table is granted and need not be emptied."""
    return cut.granted or ("load_grants_early" in sc.flaws and cut.kind in KINDS)


def worker_moves(sc: Scenario, world: World, table: int, what: str) -> Iterator[Move]:
    """Yield the moves of a committed load, for a worker and for its successor."""
    cut = world.tables[table].cut
    assert cut is not None
    if cut.filled:
        yield Move(what + TAKES, take_entries, (sc, world, table))
    elif cut.keyed and cut.index is None:
        yield Move(what + DERIVES, derive_index, (world, table))
    elif not cut.granted:  # only with a flaw; otherwise the trainer is next
        yield Move(what + GRANTS, grant, (sc, world, table))


def empty_entries(sc: Scenario, world: World, table: int) -> World:
    """Empty the entries, as a reset does.  Hidden entries are not changed, because the trainer may be writing them."""
    state = world.tables[table]
    cut = state.cut
    assert cut is not None
    hidden = cut.hidden and "load_empties_again" not in sc.flaws
    entries = state.entries if hidden else (None,) * sc.keys
    return with_table(world, table, entries=entries, cut=cut._replace(hidden=True))


def grant(sc: Scenario, world: World, table: int) -> World:
    """Grant entries and rows to the trainer.  No entries are filled in before the grant."""
    cut = world.tables[table].cut
    assert cut is not None
    number = cut.number if cut.granted and "load_counts_again" not in sc.flaws else 0
    early = "load_grants_early" in sc.flaws and not cut.granted
    return with_table(
        world, table, cut=cut._replace(granted=True, number=number), doing=(REDOES,) if early else None
    )


def derive_index(world: World, table: int) -> World:
    """Derive the index while rows are still being written.  It is not used before the end of the load."""
    state = world.tables[table]
    assert state.cut is not None
    return with_table(world, table, cut=state.cut._replace(index=_keys(state.entries)))


def _keys(entries: Tuple[Optional[Entry], ...]) -> Tuple[Optional[int], ...]:
    return tuple(entry and entry.key for entry in entries)


def take_entries(sc: Scenario, world: World, table: int) -> World:
    """Apply the first store of the takeover.  Entries of a failed fill are freed before they can be seen."""
    state = world.tables[table]
    cut = state.cut
    assert cut is not None
    entries = tuple(
        entry if number < cut.number or "load_keeps_rest" in sc.flaws else None
        for number, entry in enumerate(state.entries)
    )
    derived = cut.index if cut.number or "load_keeps_index" in sc.flaws else None
    if derived not in (None, _keys(entries)):
        raise Violation("the index of what was loaded is %s, the entries are %s" % (derived, entries))
    return with_table(world, table, entries=entries, cut=cut._replace(hidden=False, index=None), doing=(TAKES,))


def take_slots(world: World, table: int) -> World:
    """Apply the second store: slots according to the entries."""
    state = world.tables[table]
    slots = [NOWHERE] * len(state.slots)
    for number, entry in enumerate(state.entries):
        if entry is not None and entry.slot != NOWHERE:
            slots[entry.slot] = number
    return with_table(world, table, slots=tuple(slots))


def after_kill(sc: Scenario, cut: Optional[Cut]) -> Tuple[Optional[Tuple[str, ...]], Optional[Cut]]:
    """Return program counter and cut of a successor, which are determined by the words of the request.

    Other values are flaws.
    """
    if cut is None or cut.kind not in KINDS or not cut.granted:
        return None, cut
    cut = cut._replace(index=None)
    if sc.flaws & {"load_empties_again", "load_counts_again"}:
        return (REDOES,), cut
    if "load_forgets_filled" in sc.flaws and cut.filled:
        return (REDOES,), cut._replace(hidden=False)
    return None, cut


# ---------------------------------------------------------------- the trainer's side


def thread_moves(sc: Scenario, world: World, thread: int) -> Iterator[Move]:
    """Yield the moves of a thread whose cut is not applied yet."""
    _, table, stage, done = doing = world.threads[thread]
    cut = world.tables[table].cut
    label = "thread %d: " % thread
    if cut is None:
        yield Move("%sreturns from the cut" % label, lease.end, (world, thread))
    elif not cut.granted or stage == RETURNS:
        return
    elif stage == ENTRIES:
        yield Move(
            "%swrites entry %d of %s" % (label, done, TABLE_NAMES[table]), write_entry, (sc, world, thread, doing)
        )
    elif stage == KEYED:
        yield Move("%ssays that the entries of %s are written" % (label, TABLE_NAMES[table]), say_keyed,
                   (sc, world, thread, doing))
    elif stage == ROWS:
        yield Move("%swrites rows of %s" % (label, TABLE_NAMES[table]), write_rows, (sc, world, thread, doing))
    elif stage == NUMBER:
        yield Move("%ssays how many there are" % label, write_number, (sc, world, thread, doing))
    else:
        yield Move("%ssays that %s is filled" % (label, TABLE_NAMES[table]), say_filled, (sc, world, thread, doing))
    if cut is not None and cut.granted and stage < NUMBER and world.budget.fails:
        yield Move("%sfails to fill %s" % (label, TABLE_NAMES[table]), fail, (world, thread, doing), True)


def _goes_to(world: World, thread: int, doing: Filling, stage: int, done: int = 0) -> World:
    return world._replace(threads=replaced(world.threads, thread, (doing[0], doing[1], stage, done)))


def _after_entries(sc: Scenario) -> int:
    return _after_keyed(sc) if "load_keyed_early" in sc.flaws else KEYED


def _after_keyed(sc: Scenario) -> int:
    return NUMBER if "load_filled_early" in sc.flaws else ROWS


def begins(sc: Scenario, table: int, kind: str, argument: int) -> Filling:
    """Return what a thread does after it has requested a cut."""
    stage = _after_entries(sc)
    if kind in KINDS and contents(sc, argument):
        stage = KEYED if "load_keyed_early" in sc.flaws else ENTRIES
    return "cut", table, stage, 0


def _entry(sc: Scenario, cut: Cut, number: int) -> Entry:
    key, has_row = contents(sc, cut.argument)[number]
    slot = number if cut.kind == ON_DEVICE and has_row and number < sc.slots else NOWHERE
    return Entry(key, TIMES, has_row, slot)


def write_entry(sc: Scenario, world: World, thread: int, doing: Filling) -> World:
    """Write an entry, which no process reads."""
    _, table, _, number = doing
    state = world.tables[table]
    assert state.cut is not None
    entries = replaced(state.entries, number, _entry(sc, state.cut, number))
    stage = ENTRIES if number + 1 < len(contents(sc, state.cut.argument)) else _after_entries(sc)
    return _goes_to(with_table(world, table, entries=entries), thread, doing, stage, number + 1)


def say_keyed(sc: Scenario, world: World, thread: int, doing: Filling) -> World:
    """Store *keyed*: the entries do not change any more, so the worker may read them."""
    _, table, _, done = doing
    state = world.tables[table]
    assert state.cut is not None
    early = "load_keyed_early" in sc.flaws and done < len(contents(sc, state.cut.argument))
    world = with_table(world, table, cut=state.cut._replace(keyed=True))
    return _goes_to(world, thread, doing, ENTRIES if early else _after_keyed(sc), done)


def write_rows(sc: Scenario, world: World, thread: int, doing: Filling) -> World:
    """Write rows to their slots or home."""
    table = doing[1]
    state = world.tables[table]
    home: List[Optional[Row]] = list(state.home)
    device: List[Optional[Row]] = list(state.device)
    assert state.cut is not None
    for number in range(len(contents(sc, state.cut.argument))):
        entry = _entry(sc, state.cut, number)
        row = (entry.key, state.oracle.rows[entry.key][0], UPDATES)
        if entry.slot != NOWHERE:
            device[entry.slot] = row
        elif entry.has_row:
            home[number] = row
    world = with_table(world, table, home=tuple(home), device=tuple(device))
    return _goes_to(world, thread, doing, RETURNS if "load_filled_early" in sc.flaws else NUMBER)


def write_number(sc: Scenario, world: World, thread: int, doing: Filling) -> World:
    """Write the number of entries."""
    cut = world.tables[doing[1]].cut
    assert cut is not None
    cut = cut._replace(number=len(contents(sc, cut.argument)))
    return _goes_to(with_table(world, doing[1], cut=cut), thread, doing, FILLED)


def say_filled(sc: Scenario, world: World, thread: int, doing: Filling) -> World:
    """Store *filled*: the table belongs to the worker again.  The oracle takes over the content of the checkpoint."""
    _, table, stage, _ = doing
    state = world.tables[table]
    assert state.cut is not None
    counts, rows = list(state.oracle.counts), list(state.oracle.rows)
    for key, has_row in contents(sc, state.cut.argument) if stage == FILLED else ():
        counts[key] = (TIMES, has_row)
        rows[key] = (rows[key][0], UPDATES if has_row else None)
    notes = state.oracle._replace(counts=tuple(counts), rows=tuple(rows))
    world = with_table(world, table, cut=state.cut._replace(filled=True), oracle=notes)
    late = "load_filled_early" in sc.flaws and stage == FILLED
    return _goes_to(world, thread, doing, ROWS if late else RETURNS)


def fail(world: World, thread: int, doing: Filling) -> World:
    """Fail to read the checkpoint; the table stays empty."""
    world = world._replace(budget=world.budget._replace(fails=world.budget.fails - 1))
    return _goes_to(world, thread, doing, FAILED)
