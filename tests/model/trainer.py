"""Training threads: fetch, claim, move rows, update, close, end; and requests for cuts.

A step has a stage per table.  A claim checks that the plan exists, its base is correct, earlier tickets are closed or
finished, and the lease is available.  It then tries the CAS and marks the frame TRAINED.  After the claim nothing
waits: rows are moved, `finished` is stored, then DONE.
"""

from typing import Iterator, List, Optional, Tuple

from . import asides, beside, evaluation, lease, loads, oracle, pump
from .explore import Move, Violation
from .scenario import BOTH, NO_TABLE, ONLY_A, ONLY_B, Scenario
from .state import (
    CLAIMED,
    DONE,
    PLANNED,
    TABLE_NAMES,
    Cut,
    Evaluation,
    Frame,
    Record,
    Step,
    World,
    replaced,
    with_part,
    with_table,
)

IDLE, WANTED, LOOKED, OWNED, MARKED, MOVED = range(6)  #: stages of a step with one table
_FETCHES = {NO_TABLE: "no table", ONLY_A: "A", ONLY_B: "B", BOTH: "A and B"}


def moves(sc: Scenario, world: World, thread: int) -> Iterator[Move]:
    """Yield the moves of one thread."""
    doing = world.threads[thread]
    if doing is None:
        yield from _begins(sc, world, thread)
        yield from evaluation.begins(sc, world, thread)
    elif isinstance(doing, Step):
        yield from _steps(sc, world, thread, doing)
    elif isinstance(doing, Evaluation):
        yield from evaluation.thread_moves(sc, world, thread)
    else:
        yield from loads.thread_moves(sc, world, thread)


# ---------------------------------------------------------------- between steps


def _begins(sc: Scenario, world: World, thread: int) -> Iterator[Move]:
    label = "thread %d: " % thread
    ticket = _next_ticket(sc, world)
    if ticket is not None:
        for kind in sc.kinds:
            yield Move(
                "%sgets ticket %d for %s" % (label, ticket, _FETCHES[kind]), fetch, (sc, world, thread, ticket, kind)
            )
            if kind != NO_TABLE and beside.of_next(sc, world) is not None:
                yield Move(
                    "%sgets ticket %d for %s, beside an evaluation" % (label, ticket, _FETCHES[kind]),
                    fetch_both,
                    (sc, world, thread, ticket, kind),
                )
    if world.budget.cuts:
        table, kind_of_cut, _ = sc.cuts[-world.budget.cuts]
        locks = world.lease if "cut_without_lease" in sc.flaws else lease.taken(sc, world, table, thread, shared=False)
        if locks is not None and world.tables[table].cut is None:
            yield Move(
                "%sasks for a cut of %s: %s" % (label, TABLE_NAMES[table], kind_of_cut),
                ask_cut,
                (sc, world, thread, locks),
                True,
            )
    if world.budget.restarts and world.fetch <= sc.last:
        for drops in sc.drops:
            if _first_parked(world) + drops <= sc.last + 1:
                yield Move(
                    "%sre-initialises the iterator, %d parked tickets go" % (label, drops),
                    reinitialise,
                    (sc, world, drops),
                    True,
                )


def _first_parked(world: World) -> int:
    ticket = world.pump.ticket
    return ticket + 1 if world.pump.doing is not None and world.pump.doing[0] == "publishes" else ticket


def _next_ticket(sc: Scenario, world: World) -> Optional[int]:
    """Return the next ticket of tf.data, if its batch is ready."""
    for frame in world.ring:
        if frame.ticket >= world.fetch and not frame.closed:
            return frame.ticket
    parked = max(world.fetch, world.pump.ticket)
    if sc.fetch_parked and parked <= sc.last and not world.pump.gone >> parked & 1:
        return parked
    return None


def fetch(sc: Scenario, world: World, thread: int, ticket: int, kind: int) -> World:
    """Begin a step.  A step without tables updates nothing."""
    stages = tuple(WANTED if kind >> table & 1 else IDLE for table in sc.tables)
    step = Step(ticket, stages, False, kind == NO_TABLE)
    return world._replace(fetch=ticket + 1, threads=replaced(world.threads, thread, step))


def fetch_both(sc: Scenario, world: World, thread: int, ticket: int, kind: int) -> World:
    """Begin a step that trains and evaluates."""
    step: Step = fetch(sc, world, thread, ticket, kind).threads[thread]
    step = step._replace(beside=beside.of_next(sc, world))
    return world._replace(
        fetch=ticket + 1, eval_fetch=world.eval_fetch + 1, threads=replaced(world.threads, thread, step)
    )


def ask_cut(sc: Scenario, world: World, thread: int, locks: Tuple[object, ...]) -> World:
    """Write the request, then its id."""
    table, kind, argument = sc.cuts[-world.budget.cuts]
    budget = world.budget._replace(cuts=world.budget.cuts - 1)
    doing = loads.begins(sc, table, kind, argument)
    world = world._replace(threads=replaced(world.threads, thread, doing), lease=locks, budget=budget)
    return with_table(world, table, cut=Cut(False, kind, argument))


def reinitialise(sc: Scenario, world: World, drops: int) -> World:
    """Close all tickets that tf.data held: tickets with a frame, and some that were still parked."""
    first = _first_parked(world)
    ring = tuple(frame._replace(closed=True) if frame.ticket >= world.fetch else frame for frame in world.ring)
    budget = world.budget._replace(restarts=world.budget.restarts - 1)
    world = world._replace(ring=ring, budget=budget)
    for ticket in range(world.pump.ticket, first + drops):
        if ticket >= world.fetch:
            world = pump.close_parked(world, ticket)
    return pump.give_back(sc, world._replace(fetch=max(world.fetch, first + drops)))


# ---------------------------------------------------------------- a step


def _steps(sc: Scenario, world: World, thread: int, step: Step) -> Iterator[Move]:
    label = "thread %d: " % thread
    index = next((i for i, frame in enumerate(world.ring) if frame.ticket == step.ticket), None)
    if any(step.stages):
        if index is not None:
            yield from beside.moves(sc, world, thread, _turn(sc, world, thread, index))
            if sc.asides:
                yield from asides.moves(sc, world, thread, index)
            for table in sc.tables:
                if step.stages[table] and asides.may_go_on(sc, step, step.stages[table]):
                    yield from _goes_on(sc, world, thread, index, table, label)
        if world.budget.fails and max(step.stages) <= LOOKED and step.told == asides.NOTHING:
            yield Move("%sstep %d fails" % (label, step.ticket), fail, (world, thread), True)
        return
    if not step.closed:
        yield Move("%scloses %d" % (label, step.ticket), close, (sc, world, thread))
    if not step.updated:
        yield Move("%supdates rows of %d" % (label, step.ticket), update, (world, thread))
    elif step.closed or "end_before_close" in sc.flaws:
        yield Move("%sends step %d" % (label, step.ticket), end, (sc, world, thread))


def _goes_on(sc: Scenario, world: World, thread: int, index: int, table: int, label: str) -> Iterator[Move]:
    step: Step = world.threads[thread]
    stage, name = step.stages[table], TABLE_NAMES[table]
    part = world.ring[index].parts[table]
    args = (sc, world, thread, index, table)
    if stage == WANTED:
        if not beside.may_claim(sc, step):
            return
        locks = _may_claim(sc, world, thread, index, table)
        if locks is None:
            return
        if sc.fine_claim or "trained_before_cas" in sc.flaws:
            yield Move("%slooks at plan %d of %s" % (label, step.ticket, name), look, args + (locks,))
        else:
            taking = take_plan if sc.asides else claim
            yield Move("%sclaims %d for %s" % (label, step.ticket, name), taking, args + (locks,))
    elif stage == LOOKED and part.word == PLANNED:
        yield Move("%sCAS to CLAIMED of %d for %s" % (label, step.ticket, name), compare_exchange, args)
    elif stage == LOOKED:
        yield Move("%sCAS of %d for %s fails" % (label, step.ticket, name), to_stage, (world, thread, table, WANTED))
    elif stage == OWNED:
        yield Move("%smarks %d TRAINED" % (label, step.ticket), mark, args)
    elif stage == MARKED:
        yield Move("%smoves rows of %d for %s, finished" % (label, step.ticket, name), move_rows, args)
    else:
        yield Move("%sDONE of %d for %s" % (label, step.ticket, name), store_done, args)


def _turn(sc: Scenario, world: World, thread: int, index: int) -> Optional[Tuple[object, ...]]:
    """Return the lease with this thread if the step can claim for some table, else None."""
    for table in sc.tables:
        if world.threads[thread].stages[table] == WANTED:
            locks = _may_claim(sc, world, thread, index, table)
            if locks is not None:
                return locks
    return None


def to_stage(world: World, thread: int, table: int, stage: int) -> World:
    """Set the step's stage of a table."""
    step: Step = world.threads[thread]
    return world._replace(
        threads=replaced(world.threads, thread, step._replace(stages=replaced(step.stages, table, stage)))
    )


def _may_claim(sc: Scenario, world: World, thread: int, index: int, table: int) -> Optional[Tuple[object, ...]]:
    """Return the lease with this thread if the claim can succeed, else None."""
    part = world.ring[index].parts[table]
    if part.word != PLANNED or part.record is None:
        return None
    if part.record.base != world.tables[table].finished and "ignore_base" not in sc.flaws:
        return None
    for earlier in world.ring[:index]:
        if not earlier.closed and earlier.parts[table].word < DONE:
            return None
    return lease.taken(sc, world, table, thread, shared=False)


def look(sc: Scenario, world: World, thread: int, index: int, table: int, locks: Tuple[object, ...]) -> World:
    """Check the claim.  The lease is kept from here on, whatever the result of the CAS is."""
    world = to_stage(world._replace(lease=locks), thread, table, LOOKED)
    if "trained_before_cas" not in sc.flaws:
        return world
    return with_part(world, index, table, world.ring[index].parts[table], trained=True)


def compare_exchange(sc: Scenario, world: World, thread: int, index: int, table: int) -> World:
    """Change PLANNED to CLAIMED, after which the worker cannot revoke the plan."""
    world = beside.claims(sc, world, thread)
    frame = world.ring[index]
    part = frame.parts[table]
    record, finished = part.record, world.tables[table].finished
    if record is not None and record.base != finished and "ignore_base" not in sc.flaws:
        raise Violation("claimed plan %d stands upon %s, finished is %d" % (frame.ticket, record.base, finished))
    world = with_part(world, index, table, part._replace(word=CLAIMED), claimed=frame.claimed | 1 << table)
    return to_stage(asides.claimed_early(sc, world, index, table), thread, table, OWNED)


def mark(sc: Scenario, world: World, thread: int, index: int, table: int) -> World:
    """Mark the frame TRAINED, always after the CAS."""
    world = with_part(world, index, table, world.ring[index].parts[table], trained=True)
    return to_stage(world, thread, table, MARKED)


def take_plan(sc: Scenario, world: World, thread: int, index: int, table: int, locks: Tuple[object, ...]) -> World:
    """Check and CAS in one move; the mark comes after GO."""
    return compare_exchange(sc, world._replace(lease=locks), thread, index, table)


def claim(sc: Scenario, world: World, thread: int, index: int, table: int, locks: Tuple[object, ...]) -> World:
    """Check, CAS and mark in one move."""
    world = compare_exchange(sc, world._replace(lease=locks), thread, index, table)
    return mark(sc, world, thread, index, table)


def move_rows(sc: Scenario, world: World, thread: int, index: int, table: int) -> World:
    """Move victims' rows home and missing rows in, initialize new rows, and store `finished`."""
    frame, state, step = world.ring[index], world.tables[table], world.threads[thread]
    record = _record(frame, table)
    home, device = list(state.home), list(state.device)
    for slot, number in record.leaves:
        home[number] = device[slot]
    rows = list(state.oracle.rows)
    counts = oracle.counts_after(sc, world, table, upto=frame.ticket)
    for key in oracle.batch(sc, table, frame.ticket):
        if counts[key][1] and rows[key][1] is None:
            rows[key] = (rows[key][0], 0)
    for slot, number, new in record.comes:
        key = _key(world, table, number)
        device[slot] = (key, rows[key][0], 0) if new else home[number]
    uses: List[Tuple[int, int, int]] = list(step.uses)
    entries = oracle.state_after(world, table, CLAIMED)[0]
    for number in frame.parts[table].entries:
        entry = entries[number]
        if entry is not None and entry.has_row:
            uses.append((table, entry.key, entry.slot))
    world = with_table(
        world,
        table,
        home=tuple(home),
        device=tuple(device),
        finished=frame.ticket,
        oracle=state.oracle._replace(rows=tuple(rows)),
    )
    step = step._replace(uses=tuple(sorted(uses)))
    return to_stage(world._replace(threads=replaced(world.threads, thread, step)), thread, table, MOVED)


def _record(frame: Frame, table: int) -> Record:
    record = frame.parts[table].record
    if record is None:
        raise Violation("the claimed plan of %d is gone" % frame.ticket)
    return record


def _key(world: World, table: int, number: int) -> int:
    entry = world.tables[table].entries[number]
    if entry is None:
        raise Violation("a record moves the row of entry %d, which has no name" % number)
    return entry.key


def store_done(sc: Scenario, world: World, table_thread: int, index: int, table: int) -> World:
    """Store DONE: the frame belongs to the worker again, and the step has copied its outputs."""
    thread = table_thread
    frame = world.ring[index]
    if frame.parts[table].word != CLAIMED:
        raise Violation("DONE of %d is stored over word %d" % (frame.ticket, frame.parts[table].word))
    world = with_part(world, index, table, frame.parts[table]._replace(word=DONE))
    world = to_stage(world, thread, table, IDLE)
    when = "DONE(%d) of %s" % (frame.ticket, TABLE_NAMES[table])
    oracle.check_rows(world, table, when)
    said = oracle.counts_of(oracle.state_after(world, table, DONE)[0], sc.keys)
    due = oracle.counts_after(sc, world, table, upto=frame.ticket)
    if said != due:
        raise Violation("%s leads to %s, should be %s" % (when, said, due))
    return pump.give_back(sc, world)


def fail(world: World, thread: int) -> World:
    """Fail the step before it claims more; it is then closed and ended."""
    step: Step = world.threads[thread]
    budget = world.budget._replace(fails=world.budget.fails - 1)
    step = step._replace(stages=(IDLE,) * len(step.stages), updated=True)
    return world._replace(threads=replaced(world.threads, thread, step), budget=budget)


def close(sc: Scenario, world: World, thread: int) -> World:
    """Close the ticket, when its tensor is freed: mark its frame, or its state if it has no frame."""
    world = pump.give_back(sc, beside.close(world, thread))
    step: Step = world.threads[thread]
    world = world._replace(threads=replaced(world.threads, thread, step._replace(closed=True)))
    for index, frame in enumerate(world.ring):
        if frame.ticket == step.ticket:
            marked = replaced(world.ring, index, frame._replace(closed=True))
            return pump.give_back(sc, world._replace(ring=marked))
    if step.ticket < world.pump.ticket:
        raise Violation("the close of ticket %d marks a frame that was given away" % step.ticket)
    return pump.close_parked(world, step.ticket)


def update(world: World, thread: int) -> World:
    """Apply the optimizer once to every row that the step looked up."""
    step: Step = world.threads[thread]
    world = world._replace(threads=replaced(world.threads, thread, step._replace(updated=True, uses=())))
    for table, key, slot in step.uses:
        state = world.tables[table]
        row = state.device[slot]
        if row is None:
            raise Violation("a step updates slot %d of %s, which is empty" % (slot, TABLE_NAMES[table]))
        generation, updates = state.oracle.rows[key]
        rows = state.oracle.rows if updates is None else replaced(state.oracle.rows, key, (generation, updates + 1))
        device = replaced(state.device, slot, (row[0], row[1], row[2] + 1))
        world = with_table(world, table, device=device, oracle=state.oracle._replace(rows=rows))
    for table in sorted({table for table, _, _ in step.uses}):
        oracle.check_rows(world, table, "after the update of %d" % step.ticket)
    return world


def end(sc: Scenario, world: World, thread: int) -> World:
    """Destroy the step container: its tickets are closed first, then the lease is released."""
    return pump.give_back(sc, lease.end(world, thread))
