"""State of the model of several ranks, and functions that change it."""

from typing import Any, FrozenSet, NamedTuple, Optional, Tuple

from tests.model.explore import quick

from .state import replaced
from .verdicts import Batch, Header

RUNS, STOPPED, GONE = "runs", "stopped", "gone"
READY, COMPUTES = "ready", "computes"  # phases of a step, beside the kinds of headers
COLLECT, END = "collect", "end"  # phases of a question that all ranks have received
NOTHING, IDLES = -1, -2
NO_BATCH = (NOTHING, 0, 0)

Event = Tuple[str, Batch]


@quick
class Step(NamedTuple):
    """The unfinished work of a thread.

    Attributes:
        batch: batch of a step.
        phase: READY, COMPUTES, COLLECT, END or the kind of the header that the thread sends.
        exists: whether the rank has the batch.
        number: number of the question of this thread.
    """

    batch: Batch
    phase: str
    exists: bool = True
    number: int = 0


@quick
class Rank(NamedTuple):
    """One rank.

    Attributes:
        at: per thread, the index of its action.
        steps: per thread.
        runs, made, taken: per stream, the run of its iterator, and how many of its batches were made and taken.
        keys: per stream and rank, (run, last ticket) whose keys have arrived.
        exchanges: number of finished exchanges.
        sender: thread whose header the current exchange has; NOTHING: none, IDLES: the rank is idle.
        turn: stream that comes next; NOTHING: any stream.
        lease: thread that holds the lease, or NOTHING.
        tables: events of the tables; changes: how many of these are changes.
        saves: tables at each save.
        poisoned: the tables must not be used.  torn: a step failed between its two exchanges; known to the oracle only.
        broken: the rank has abandoned an exchange.  ended: the engine has ended, so the rank cannot even report this.
        failed: number of failed steps and saves.  overs: number of steps that reached the end of the data.
        life: RUNS, STOPPED, GONE.  killed: whether the rank was killed.
        asked: rank 0: number of questions so far.
        heard: rank 0: (number, rank) of answers that were received and not taken.
        paused: other ranks: (number, subject) of the question that the rank executes now, or ().
        writes: other ranks: numbers of the saves in the background whose part is being written.
        answers: other ranks: numbers of the answers in the next header.
        open: other ranks: numbers of the questions whose end was not received.
        ends: (number, whether it succeeded) of the finished questions.
    """

    at: Tuple[int, ...]
    steps: Tuple[Optional[Step], ...]
    runs: Tuple[int, ...]
    made: Tuple[int, ...]
    taken: Tuple[int, ...]
    keys: Tuple[Tuple[Tuple[int, int], ...], ...]
    exchanges: int = 0
    sender: int = NOTHING
    turn: int = NOTHING
    lease: int = NOTHING
    tables: Tuple[Event, ...] = ()
    changes: int = 0
    saves: Tuple[Tuple[Event, ...], ...] = ()
    poisoned: bool = False
    torn: bool = False
    broken: bool = False
    ended: bool = False
    failed: int = 0
    overs: int = 0
    life: str = RUNS
    killed: bool = False
    asked: int = 0
    heard: FrozenSet[Tuple[int, int]] = frozenset()
    paused: Tuple[Any, ...] = ()
    writes: FrozenSet[int] = frozenset()
    answers: Tuple[int, ...] = ()
    open: FrozenSet[int] = frozenset()
    ends: FrozenSet[Tuple[int, bool]] = frozenset()


@quick
class World(NamedTuple):
    """All ranks; ``sent`` has the headers of exchange ``first`` and of later exchanges."""

    ranks: Tuple[Rank, ...]
    sent: Tuple[Tuple[Optional[Header], ...], ...]
    first: int
    kills: int
    stops: int
    impatience: int
    idles: int
    hangs: int


def with_rank(world: World, number: int, rank: Rank) -> World:
    return world._replace(ranks=replaced(world.ranks, number, rank))


def with_step(rank: Rank, thread: int, step: Step) -> Rank:
    return rank._replace(steps=replaced(rank.steps, thread, step))


def changed(rank: Rank) -> Rank:
    return rank._replace(tables=rank.tables + (("change", NO_BATCH),), changes=rank.changes + 1)


def goes_on(rank: Rank, thread: int) -> Rank:
    """Finish the thread's action and release its lease.  The thread of saves in the background has no actions."""
    at = replaced(rank.at, thread, rank.at[thread] + 1) if thread < len(rank.at) else rank.at
    return rank._replace(at=at, steps=replaced(rank.steps, thread, None),
                         lease=NOTHING if rank.lease == thread else rank.lease)


def headers_of(world: World, exchange: int) -> Tuple[Optional[Header], ...]:
    index = exchange - world.first
    return world.sent[index] if index < len(world.sent) else (None,) * len(world.ranks)


def with_header(world: World, number: int, header: Header) -> World:
    exchange = world.ranks[number].exchanges
    headers = replaced(headers_of(world, exchange), number, header)
    index = exchange - world.first
    return world._replace(sent=world.sent[:index] + (headers,) + world.sent[index + 1:])


def pruned(world: World) -> World:
    """Remove the headers that no rank reads any more."""
    needed = min([rank.exchanges for rank in world.ranks if rank.life == RUNS] or [world.first + len(world.sent)])
    return world._replace(sent=world.sent[needed - world.first:], first=needed)
