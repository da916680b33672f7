"""Questions of rank 0: saves and changes of tables, which all ranks receive, execute and answer.

Rank 0 sends the question (ASK), gets an answer from every other rank with a later header, and sends the result (END).
A rank answers a change or a save in the foreground before it sends any other header.  It answers a save in the
background when its part is written, possibly after other exchanges, so questions overlap.
"""

from typing import Iterator, List, Tuple

from .explore import Move, Violation
from .rank_scenarios import BACKGROUND, CHANGE, Ranks
from .rank_state import (
    COLLECT,
    COMPUTES,
    END,
    NO_BATCH,
    NOTHING,
    READY,
    Rank,
    Step,
    World,
    changed,
    headers_of,
    with_rank,
    with_step,
)
from .verdicts import ASK, BACKWARD, FORWARD, READ, Header

Asked = Tuple[int, str]  # number and subject of the question


def slot_of(rank: Rank) -> int:
    """Return the slot of the thread that writes rank 0's saves in the background."""
    return len(rank.steps) - 1


def owes(rank: Rank) -> bool:
    """Return True if a step has begun on all ranks: the next exchange must then be of its gradients."""
    return any(step is not None and step.phase in (COMPUTES, BACKWARD) for step in rank.steps)


def header_of(rank: Rank, step: Step, action: str) -> Tuple[str, int]:
    """Return the subject and the number of the question in a header of rank 0."""
    if step.phase == ASK:
        return action, rank.asked + 1
    return (step.phase, step.number) if step.phase in (COLLECT, END) else ("", 0)


def heard(rank: Rank, headers: List[Header]) -> Rank:
    """Store the answers that rank 0 received with an exchange."""
    news = {(number, other) for other, header in enumerate(headers) for number in header.answers}
    return rank._replace(heard=rank.heard | news) if news else rank


def has_answers(rank: Rank, number: int, ranks: int) -> bool:
    """Return True if all other ranks have answered a question."""
    return all((number, other) in rank.heard for other in range(1, ranks))


def take(rank: Rank, number: int, scenario: Ranks) -> Rank:
    """Remove the answers to a question from those that rank 0 has received."""
    kept = {(asked, other) for asked, other in rank.heard
            if (asked > number if "answers_dropped" in scenario.flaws else asked != number)}
    return rank._replace(heard=frozenset(kept))


def begin(rank: Rank, number: int, headers: List[Header], thread: int, scenario: Ranks) -> Rank:
    """Start a question on a rank.  Claims are put aside, even if they were not sent yet."""
    what, asked = headers[0].asks, (headers[0].number, headers[0].asks)
    if what == END:
        open_ = frozenset() if "end_closes_all" in scenario.flaws else rank.open - {headers[0].number}
        return rank._replace(open=open_, ends=rank.ends | {(headers[0].number, headers[0].exists)})
    if what == COLLECT:
        return rank
    if number == 0:
        rank = rank._replace(asked=asked[0])
        rank = changed(rank) if what == CHANGE else rank._replace(saves=rank.saves + (rank.tables,))
        if what != BACKGROUND:
            return with_step(rank, thread, Step(NO_BATCH, END if what == CHANGE else COLLECT, number=asked[0]))
        return with_step(rank, slot_of(rank), Step(NO_BATCH, COLLECT, number=asked[0]))
    for slot, step in enumerate(rank.steps):
        if step is not None and (step.phase == FORWARD or (step.phase == READ and what == CHANGE)):
            rank = with_step(rank, slot, step._replace(phase=READY))._replace(lease=NOTHING)
    return rank._replace(paused=asked, open=rank.open | {asked[0]})


def moves_of_others(world: World, number: int, name: str) -> Iterator[Move]:
    """Yield the moves of a rank other than rank 0 for questions."""
    rank = world.ranks[number]
    if rank.paused:
        asked, what = rank.paused
        after = changed(rank) if what == CHANGE else rank._replace(saves=rank.saves + (rank.tables,))
        after = after._replace(paused=())
        if what == BACKGROUND:
            after = after._replace(writes=after.writes | {asked})
        else:
            after = after._replace(answers=after.answers + (asked,))
        yield Move("%s: does its part of question %d (%s)" % (name, asked, what), with_rank, (world, number, after))
    for asked in sorted(rank.writes):
        after = rank._replace(writes=rank.writes - {asked}, answers=rank.answers + (asked,))
        yield Move("%s: has written its part of %d" % (name, asked), with_rank, (world, number, after))
        if world.hangs:
            hung = rank._replace(writes=rank.writes - {asked})
            yield Move("%s: never writes its part of %d" % (name, asked), with_rank,
                       (world._replace(hangs=world.hangs - 1), number, hung), True)


def may_collect(world: World, number: int) -> bool:
    """Return True if a new exchange can bring an answer.  The code polls at intervals, which would be a cycle here."""
    sent = [header for header in headers_of(world, world.ranks[0].exchanges) if header is not None]
    return any(number in said.answers for said in [*world.ranks[1:], *sent])


def require_all_ended(world: World) -> None:
    """Check that all questions of rank 0 have ended."""
    zero = world.ranks[0]
    wanted = frozenset((number, True) for number in range(1, zero.asked + 1))
    for number, rank in enumerate(world.ranks):
        if rank.ends != wanted:
            raise Violation("rank %d: of %d questions these have ended: %s" % (number, zero.asked, sorted(rank.ends)))
