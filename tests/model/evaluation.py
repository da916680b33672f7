"""Readers of the truth: ``size()`` or a save, which wait for themselves, and evaluation frames.

An evaluation frame is in a separate ring.  A run that holds a share of the lease requests an answer (DEDUPED -> ASKED
by CAS), the table worker answers like a reader (ASKED -> ANSWERED), and the run copies the answer (DONE) and closes the
ticket.  The table worker acknowledges a closed frame by RETIRED; the table does not change.  A run of a session that
reads a checkpoint uses neither lease nor worker: it looks up its keys itself (DEDUPED -> DONE by CAS).

With several ranks, a run that has read all of its tables may be put aside, like a claim (see asides.py).  It releases
its share and then requests all answers again (DONE -> ASKED), because steps may have run in between.
"""

from typing import Iterator, List, Optional, Tuple

from . import lease, oracle, pump
from .explore import Move, Violation
from .scenario import Scenario
from .state import (
    ANSWERED,
    ASKED,
    DEDUPED,
    DONE,
    PLANNED,
    RETIRED,
    SUBMITTED,
    TABLE_NAMES,
    EvalFrame,
    Evaluation,
    World,
    replaced,
    with_table,
)


def _with_word(world: World, index: int, table: int, word: int) -> World:
    frame = world.eval_ring[index]
    return world._replace(
        eval_ring=replaced(world.eval_ring, index, frame._replace(words=replaced(frame.words, table, word)))
    )


# ---------------------------------------------------------------- the table worker's side


def worker_moves(sc: Scenario, world: World, table: int, name: str) -> Iterator[Move]:
    """Yield acknowledgements of closed frames, and answers."""
    for index, frame in enumerate(world.eval_ring):
        word = frame.words[table]
        if frame.closed and word != RETIRED:
            yield Move(
                "%s: RETIRED in evaluation frame %d" % (name, frame.ticket), acknowledge, (sc, world, table, index)
            )
        elif word == ASKED and ("answer_at_once" in sc.flaws or oracle.may_read(world, table)):
            yield Move("%s: resolves evaluation %d" % (name, frame.ticket), resolve, (sc, world, table, index))


def acknowledge(sc: Scenario, world: World, table: int, index: int) -> World:
    """Store RETIRED in a closed frame, so that its position can be reused."""
    frame = world.eval_ring[index]
    frame = frame._replace(words=replaced(frame.words, table, RETIRED), answers=replaced(frame.answers, table, None))
    return pump.give_back(sc, world._replace(eval_ring=replaced(world.eval_ring, index, frame)))


def resolve(sc: Scenario, world: World, table: int, index: int) -> World:
    """Compute entry and slot per key, None for a key without a row.  The next move stores ANSWERED."""
    ticket = world.eval_ring[index].ticket
    entries = (
        oracle.state_after(world, table, PLANNED)[0] if "answer_plans" in sc.flaws else world.tables[table].entries
    )
    where = {
        entry.key: (number, entry.slot) for number, entry in enumerate(entries) if entry is not None and entry.has_row
    }
    answer = tuple(where.get(key) for key in sc.evals[ticket - 1])
    return with_table(world, table, doing=("answers", ticket, ticket % sc.eval_frames, answer))


def publish_answer(world: World, table: int) -> World:
    """Write the answer to the position of the request, whichever frame is there now."""
    _, ticket, _, answer = world.tables[table].doing or (None, 0, 0, ())
    world = with_table(world, table, doing=None)
    for index, frame in enumerate(world.eval_ring):
        if frame.ticket == ticket:
            if frame.words[table] != ASKED:
                raise Violation("an answer is stored over word %d" % frame.words[table])
            frame = frame._replace(
                words=replaced(frame.words, table, ANSWERED), answers=replaced(frame.answers, table, answer)
            )
            return world._replace(eval_ring=replaced(world.eval_ring, index, frame))
    raise Violation("the answer to evaluation %d is written into a frame that was given away" % ticket)


# ---------------------------------------------------------------- the trainer's side


def begins(sc: Scenario, world: World, thread: int) -> Iterator[Move]:
    """Yield the moves of an idle thread: read the truth, or get the next evaluation ticket."""
    everything = (1 << len(sc.batches)) - 1
    if world.budget.reads:
        budget = world.budget._replace(reads=world.budget.reads - 1)
        yield Move(
            "thread %d: wants to read" % thread,
            _begin,
            (world._replace(budget=budget), thread, Evaluation(0, everything)),
            True,
        )
    for frame in world.eval_ring:
        if frame.ticket == world.eval_fetch:
            after = world._replace(eval_fetch=world.eval_fetch + 1)
            yield Move(
                "thread %d: gets evaluation ticket %d" % (thread, frame.ticket),
                _begin,
                (after, thread, Evaluation(frame.ticket, everything)),
            )


def _begin(world: World, thread: int, doing: Evaluation) -> World:
    return world._replace(threads=replaced(world.threads, thread, doing))


def thread_moves(sc: Scenario, world: World, thread: int) -> Iterator[Move]:
    """Yield the moves of a thread that evaluates or reads."""
    doing: Evaluation = world.threads[thread]
    label = "thread %d" % thread
    if not doing.todo:
        if _has_read(world, doing) and world.budget.asides:
            yield Move("%s: puts evaluation %d aside" % (label, doing.ticket), put_aside, (sc, world, thread), True)
        if doing.ticket and not doing.closed:
            yield Move("%s: closes evaluation ticket %d" % (label, doing.ticket), close, (sc, world, thread))
        else:
            yield Move("%s: ends its reading" % label, lease.end, (world, thread))
        return
    index = next((i for i, frame in enumerate(world.eval_ring) if frame.ticket == doing.ticket), None)
    for table in sc.tables:
        if not doing.todo >> table & 1:
            continue
        if index is not None and doing.ticket in sc.copies:
            yield from _copy_moves(sc, world, thread, table, index)
            continue
        locks = lease.taken(sc, world, table, thread, shared=True)
        if locks is None:
            continue
        if locks != world.lease:
            yield Move("%s: takes a share of the lease" % label, lease.take, (world, locks))
        elif index is not None:
            yield from _ring_moves(sc, world, thread, table, index)
        elif "answer_at_once" in sc.flaws or oracle.may_read(world, table):
            yield Move("%s: reads the truth of %s" % (label, TABLE_NAMES[table]), read, (sc, world, thread, table))
    if world.budget.fails and doing.ticket:
        yield Move("%s: evaluation of %d fails" % (label, doing.ticket), fail, (world, thread), True)


def _ring_moves(sc: Scenario, world: World, thread: int, table: int, index: int) -> Iterator[Move]:
    frame = world.eval_ring[index]
    what = "thread %d: %%s evaluation %d of %s" % (thread, frame.ticket, TABLE_NAMES[table])
    if frame.words[table] == DEDUPED:
        yield Move(what % "asks for", _with_word, (world, index, table, ASKED))
    elif frame.words[table] == DONE and "aside_keeps_answer" not in sc.flaws:  # the evaluation was put aside
        yield Move(what % "asks again for", _with_word, (world, index, table, ASKED))
    elif frame.words[table] in (ANSWERED, DONE):
        yield Move(what % "copies", copy_answer, (sc, world, thread, table, index))


def _copy_moves(sc: Scenario, world: World, thread: int, table: int, index: int) -> Iterator[Move]:
    """Yield reads of a checkpoint's rows, which belong to the trainer and need neither lease nor worker."""
    frame = world.eval_ring[index]
    what = "thread %d: %%s evaluation %d of %s" % (thread, frame.ticket, TABLE_NAMES[table])
    if "copy_asks" in sc.flaws and frame.words[table] == DEDUPED:
        yield Move(what % "asks for", _with_word, (world, index, table, ASKED))
    elif frame.words[table] != SUBMITTED:
        yield Move(what % "reads a checkpoint in", read_copy, (sc, world, thread, table, index))


def read_copy(sc: Scenario, world: World, thread: int, table: int, index: int) -> World:
    """Store DONE by a CAS from DEDUPED, which succeeds whatever other processes do."""
    word = world.eval_ring[index].words[table]
    if word != DEDUPED and "copy_asks" not in sc.flaws:
        raise Violation("a copy is read in a frame whose word is %d" % word)
    return _did(_with_word(world, index, table, DONE), thread, table)


def copy_answer(sc: Scenario, world: World, thread: int, table: int, index: int) -> World:
    """Read rows from the device and from home, and store DONE: the frame is no longer needed."""
    frame: EvalFrame = world.eval_ring[index]
    state = world.tables[table]
    oracle.check_reader(sc, world, table, planned=False)
    found: List[Optional[Tuple[int, int, int]]] = []
    for at in frame.answers[table] or ():
        found.append(oracle.row_at(state, *at) if at is not None else None)
    due = [
        (key,) + state.oracle.rows[key] if state.oracle.rows[key][1] is not None else None
        for key in sc.evals[frame.ticket - 1]
    ]
    if found != due:
        raise Violation("evaluation of %s finds rows %s, should be %s" % (TABLE_NAMES[table], found, due))
    return _did(_with_word(world, index, table, DONE), thread, table)


def read(sc: Scenario, world: World, thread: int, table: int) -> World:
    """Read the whole truth."""
    oracle.check_reader(sc, world, table, planned="read_plans" in sc.flaws)
    return _did(world, thread, table)


def _did(world: World, thread: int, table: int) -> World:
    doing: Evaluation = world.threads[thread]
    return world._replace(threads=replaced(world.threads, thread, doing._replace(todo=doing.todo & ~(1 << table))))


def _has_read(world: World, doing: Evaluation) -> bool:
    """Return True if an evaluation that has not failed waits for the other ranks."""
    frames = [frame for frame in world.eval_ring if frame.ticket == doing.ticket and not frame.closed]
    return bool(frames) and all(word == DONE for word in frames[0].words)


def put_aside(sc: Scenario, world: World, thread: int) -> World:
    """Release the lease for steps of other threads.  Rows of a checkpoint need not be read again."""
    doing: Evaluation = world.threads[thread]
    todo = 0 if doing.ticket in sc.copies else (1 << len(sc.batches)) - 1
    world = world._replace(threads=replaced(world.threads, thread, doing._replace(todo=todo)))
    world = world._replace(budget=world.budget._replace(asides=world.budget.asides - 1))
    return world._replace(lease=lease.given_back(world.lease, thread))


def fail(world: World, thread: int) -> World:
    """Cancel the evaluation, possibly while the worker answers."""
    doing: Evaluation = world.threads[thread]
    budget = world.budget._replace(fails=world.budget.fails - 1)
    return world._replace(threads=replaced(world.threads, thread, doing._replace(todo=0)), budget=budget)


def close(sc: Scenario, world: World, thread: int) -> World:
    """Close the ticket: the last reference to its tensor is released."""
    doing: Evaluation = world.threads[thread]
    ring = tuple(frame._replace(closed=True) if frame.ticket == doing.ticket else frame for frame in world.eval_ring)
    after = world._replace(eval_ring=ring, threads=replaced(world.threads, thread, doing._replace(closed=True)))
    return pump.give_back(sc, after)
