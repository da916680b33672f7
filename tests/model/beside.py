"""A training step that also evaluates: the evaluation reads the state before the step.

The step first waits for its turn: it takes the exclusive lease as soon as it can claim.  Then it requests an answer
like an evaluation, gets the answer, and reads the rows in a later move.  It claims only after all rows are read.
"""

from typing import Iterator, List, Optional, Tuple

from . import lease, oracle
from .explore import Move, Violation
from .scenario import Scenario
from .state import ANSWERED, ASKED, DEDUPED, DONE, TABLE_NAMES, Beside, EvalFrame, Row, Step, World, replaced

WANTED, TOLD, READ = range(1, 4)  #: stage of each table: no answer, answer copied, rows read


def of_next(sc: Scenario, world: World) -> Optional[Beside]:
    """Return the next evaluation ticket if a training step may fetch it."""
    ticket = world.eval_fetch
    if ticket in sc.beside and any(frame.ticket == ticket for frame in world.eval_ring):
        return Beside(ticket, (WANTED,) * len(sc.batches), (None,) * len(sc.batches))
    return None


def may_claim(sc: Scenario, step: Step) -> bool:
    """Return True if all evaluation rows are read."""
    least = TOLD if "claim_before_lookup" in sc.flaws else READ
    return step.beside is None or min(step.beside.stages) >= least


def moves(sc: Scenario, world: World, thread: int, turn: Optional[Tuple[object, ...]]) -> Iterator[Move]:
    """Yield the moves of a step before its claim; ``turn`` is the lease with this step in it, if the step can claim
    now.
    """
    step: Step = world.threads[thread]
    label = "thread %d: " % thread
    if step.beside is None:
        return
    if "evaluation_shares" in sc.flaws:
        yield from _shares(sc, world, thread, label)
    elif turn is not None and turn != world.lease:
        yield Move("%stakes its turn to train %d" % (label, step.ticket), lease.take, (world, turn))
    frame = next(frame for frame in world.eval_ring if frame.ticket == step.beside.ticket)
    for table in sc.tables:
        what = "%s%%s evaluation %d of %s" % (label, frame.ticket, TABLE_NAMES[table])
        if step.beside.stages[table] == WANTED and _holds(world, thread):
            if frame.words[table] == DEDUPED:
                yield Move(what % "asks for", _with_word, (world, frame, table, ASKED))
            elif frame.words[table] == ANSWERED:
                yield Move(what % "learns where the rows are of", take_answer, (sc, world, thread, table))
        elif step.beside.stages[table] == TOLD:
            yield Move(what % "looks up", look_up, (sc, world, thread, table))


def _shares(sc: Scenario, world: World, thread: int, label: str) -> Iterator[Move]:
    """Take a share of the lease for reading, and release it before the claim; only with the flaw."""
    step: Step = world.threads[thread]
    if not may_claim(sc, step):
        locks = lease.taken(sc, world, 0, thread, shared=True)
        if locks is not None and locks != world.lease:
            yield Move("%stakes a share of the lease" % label, lease.take, (world, locks))
    elif lease.given_back(world.lease, thread) != world.lease and ("X", thread) not in world.lease:
        yield Move("%sgives its share up" % label, lease.take, (world, lease.given_back(world.lease, thread)))


def _holds(world: World, thread: int) -> bool:
    held = world.lease[0]
    return held is not None and (held == ("X", thread) or (held[0] == "R" and bool(held[1] >> thread & 1)))


def _with_word(world: World, frame: EvalFrame, table: int, word: int) -> World:
    index = world.eval_ring.index(frame)
    frame = frame._replace(words=replaced(frame.words, table, word))
    return world._replace(eval_ring=replaced(world.eval_ring, index, frame))


def take_answer(sc: Scenario, world: World, thread: int, table: int) -> World:
    """Copy the answer and store DONE: the frame is no longer needed, although no row has been read yet."""
    oracle.check_reader(sc, world, table, planned=False)
    beside = world.threads[thread].beside
    frame = next(frame for frame in world.eval_ring if frame.ticket == beside.ticket)
    told = beside._replace(
        stages=replaced(beside.stages, table, TOLD), values=replaced(beside.values, table, frame.answers[table])
    )
    return _with_beside(_with_word(world, frame, table, DONE), thread, told)


def look_up(sc: Scenario, world: World, thread: int, table: int) -> World:
    """Read the rows at the locations of the answer."""
    beside = world.threads[thread].beside
    state = world.tables[table]
    rows = tuple(None if at is None else oracle.row_at(state, *at) for at in beside.values[table] or ())
    read = beside._replace(stages=replaced(beside.stages, table, READ), values=replaced(beside.values, table, rows))
    if beside.due:
        _compare(table, rows, beside.due[table])
    return _with_beside(world, thread, read)


def claims(sc: Scenario, world: World, thread: int) -> World:
    """Record the expected rows when the step starts to change tables, and compare the rows that are already read."""
    beside = world.threads[thread].beside
    if beside is None or beside.due:
        return world
    due = tuple(_due(sc, world, table, beside.ticket) for table in sc.tables)
    for table in sc.tables:
        if beside.stages[table] == READ:
            _compare(table, beside.values[table], due[table])
    return _with_beside(world, thread, beside._replace(due=due))


def _due(sc: Scenario, world: World, table: int, ticket: int) -> Tuple[Optional[Row], ...]:
    rows = world.tables[table].oracle.rows
    found: List[Optional[Row]] = []
    for key in sc.evals[ticket - 1]:
        generation, updates = rows[key]
        found.append(None if updates is None else (key, generation, updates))
    return tuple(found)


def _compare(table: int, found: object, due: object) -> None:
    if found != due:
        raise Violation(
            "a step that trains reads rows %s of %s, before it they are %s" % (found, TABLE_NAMES[table], due)
        )


def close(world: World, thread: int) -> World:
    """Close the evaluation ticket together with the step's ticket."""
    step: Step = world.threads[thread]
    if step.beside is None:
        return world
    ring = tuple(
        frame._replace(closed=True) if frame.ticket == step.beside.ticket else frame for frame in world.eval_ring
    )
    return _with_beside(world._replace(eval_ring=ring), thread, None)


def _with_beside(world: World, thread: int, beside: Optional[Beside]) -> World:
    return world._replace(threads=replaced(world.threads, thread, world.threads[thread]._replace(beside=beside)))
