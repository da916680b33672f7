"""What the model of several ranks remembers, and how a state becomes another one."""

from typing import Any, FrozenSet, NamedTuple, Optional, Tuple

from tests.model.explore import quick

from .state import replaced
from .verdicts import Batch, Header

RUNS, STOPPED, GONE = "runs", "stopped", "gone"
READY, COMPUTES = "ready", "computes"  # phases of a step, beside the kinds of headers
COLLECT, END = "collect", "end"  # phases of a question that all ranks have heard
NOTHING, IDLES = -1, -2
NO_BATCH = (NOTHING, 0, 0)

Event = Tuple[str, Batch]


@quick
class Step(NamedTuple):
    """What a thread is in the middle of.

    Attributes:
        batch: of a step.
        phase: READY, COMPUTES, COLLECT, END or the kind of the header that the thread sends.
        exists: whether the rank has the batch.
        number: of the question that the thread asks.
    """

    batch: Batch
    phase: str
    exists: bool = True
    number: int = 0


@quick
class Rank(NamedTuple):
    """One rank.

    Attributes:
        at: per thread, its action.
        steps: per thread.
        runs, made, taken: per stream: the run of its iterator, batches of it that were made, and that were taken.
        keys: per stream and rank (run, last ticket) whose keys are here.
        exchanges: how many are concluded.
        sender: thread whose header the current exchange has, NOTHING = it has none, IDLES = that it is idle.
        turn: stream that comes next, NOTHING = any.
        lease: thread that has it, or NOTHING.
        tables: what they have gone through; changes: how many of that are changes.
        saves: tables at each save.
        poisoned: the tables must not be used.  torn: a step failed between its two exchanges; only the oracle knows.
        broken: it has given up an exchange.  ended: the engine has ended, so it cannot even say so.
        failed: steps and saves that failed.  overs: steps that met the end of the data.
        life: RUNS, STOPPED, GONE.  killed: how it went.
        asked: rank 0: how many questions it has asked.
        heard: rank 0: (number, rank) of the answers that have come and were not taken.
        paused: another rank: the question that it has heard and does now, (number, what), or ().
        writes: another rank: numbers of the saves in the background whose part it writes.
        answers: another rank: numbers of the answers that go with its next header.
        open: another rank: numbers of the questions that it has heard and whose end it has not.
        ends: (number, whether it succeeded) of the questions that have ended.
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
    """All ranks; ``sent`` has the headers of exchange ``first`` and of those after it."""

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
    """The thread's action is over; it gives the lease back. The thread of saves in the background has no actions."""
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
    """Without the headers that no rank will look at any more."""
    needed = min([rank.exchanges for rank in world.ranks if rank.life == RUNS] or [world.first + len(world.sent)])
    return world._replace(sent=world.sent[needed - world.first:], first=needed)
