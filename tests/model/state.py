"""What the model remembers: shared memory, the private memory of each process, and the oracle's notes.

Everything is a tuple, so a state can be a key of a dictionary; an action builds a new one.  Rows are
abstract: ``(key, generation, updates)`` says whose row it is, how often the key was made anew (a cut can
throw it away) and how many steps have updated it.

The words of a frame are those of the real shared memory.
"""

from typing import Any, List, NamedTuple, Optional, Tuple, TypeVar

from ascpipe.layout.words import ANSWERED, ASKED, CLAIMED, DEDUPED, DONE, PLANNED, RETIRED, SUBMITTED, TOUCHED
from tests.model.explore import quick

__all__ = [
    "ANSWERED",
    "ASKED",
    "CLAIMED",
    "DEDUPED",
    "DONE",
    "PLANNED",
    "RETIRED",
    "SUBMITTED",
    "TOUCHED",
    "BUSY",
    "FREE",
    "NOWHERE",
    "TABLE_NAMES",
    "Beside",
    "Budget",
    "Cut",
    "Entry",
    "EvalFrame",
    "Evaluation",
    "Frame",
    "KeyWorker",
    "Oracle",
    "Part",
    "Pump",
    "Record",
    "Row",
    "Step",
    "Table",
    "World",
    "replaced",
    "with_part",
    "with_table",
    "words_of",
]

NOWHERE = -1  #: no slot
FREE = 0  #: claim word of a position that a key worker may take
BUSY = -1  #: claim word of a position that the pump is filling
TABLE_NAMES = "ABC"

Row = Tuple[int, int, int]  # key, generation, updates
Item = TypeVar("Item")


@quick
class Entry(NamedTuple):
    """Truth about one key; never counted and without a row it is only a name."""

    key: int
    times: int
    has_row: bool
    slot: int


@quick
class Record(NamedTuple):
    """The plan of one (ticket, table); absolute values, so assigning it twice is assigning it once.

    base: ticket it stands upon, None for a count-only record.
    values: (entry, count, has_row, slot) after the ticket.
    leaves: (slot, entry) of rows that go home.
    comes: (slot, entry, is it new) of rows that move in.
    """

    base: Optional[int]
    values: Tuple[Tuple[int, int, bool, int], ...]
    leaves: Tuple[Tuple[int, int], ...] = ()
    comes: Tuple[Tuple[int, int, bool], ...] = ()


@quick
class Part(NamedTuple):
    """What a frame holds for one table."""

    word: int
    entries: Tuple[int, ...] = ()
    record: Optional[Record] = None


@quick
class Frame(NamedTuple):
    """One batch in the train ring.  ``claimed`` (a bit per table) is the oracle's, ``trained`` is the real word."""

    ticket: int
    number: int
    closed: bool
    trained: bool
    claimed: int
    parts: Tuple[Part, ...]


@quick
class EvalFrame(NamedTuple):
    """One batch in the evaluation ring; an answer is (entry, slot) or None per key."""

    ticket: int
    closed: bool
    words: Tuple[int, ...]
    answers: Tuple[Optional[Tuple[Optional[Tuple[int, int]], ...]], ...]


@quick
class Cut(NamedTuple):
    """A change between two steps; ``entries`` are filled in when it is committed.

    The rest is a load's: hidden: the worker has emptied the table, and what stands there is not seen.
    granted, keyed, filled: words of the worker and of the trainer.  number: entries filled in.
    index: key of each entry as the worker has derived it, in memory of its own.
    """

    committed: bool
    kind: str
    argument: int
    entries: Tuple[int, ...] = ()
    hidden: bool = False
    granted: bool = False
    keyed: bool = False
    filled: bool = False
    number: int = 0
    index: Optional[Tuple[Optional[int], ...]] = None


@quick
class Oracle(NamedTuple):
    """What must be true of a table: per key (count, has row), per key (generation, updates or None), threshold."""

    counts: Tuple[Tuple[int, bool], ...]
    rows: Tuple[Tuple[int, Optional[int]], ...]
    threshold: int


@quick
class Table(NamedTuple):
    """A table: its shared arrays, the rows in both memories, and its worker.

    ``doing`` is the worker's program counter and ``masks`` its window masks; both die with it.
    """

    entries: Tuple[Optional[Entry], ...]
    slots: Tuple[int, ...]  # slot -> entry
    home: Tuple[Optional[Row], ...]  # by entry
    device: Tuple[Optional[Row], ...]  # by slot
    finished: int
    threshold: int
    cut: Optional[Cut]
    doing: Optional[Tuple[Any, ...]]
    masks: Tuple[int, ...]
    oracle: Oracle


@quick
class Pump(NamedTuple):
    """``gone`` has a bit per ticket that was closed while it was parked."""

    ticket: int
    number: int
    gone: int = 0
    doing: Optional[Tuple[Any, ...]] = None


@quick
class KeyWorker(NamedTuple):
    """A process that dedups; ``dying`` = killed but not reaped, it may still get a store out."""

    generation: int
    doing: Optional[Tuple[Any, ...]] = None
    dying: bool = False


@quick
class Beside(NamedTuple):
    """What a training step evaluates: per table one of beside.WANTED..., and where rows are or the rows.

    ``due`` is the oracle's: the rows that it must find, once the step has claimed.
    """

    ticket: int
    stages: Tuple[int, ...]
    values: Tuple[Any, ...]
    due: Tuple[Any, ...] = ()


@quick
class Step(NamedTuple):
    """A training step of one thread; ``stages`` has one of trainer.WANTED... per table, 0 = nothing to do.

    With several ranks, ``told`` is what it knows of them: one of asides.NOTHING, GO, BACK.
    """

    ticket: int
    stages: Tuple[int, ...]
    closed: bool
    updated: bool
    uses: Tuple[Tuple[int, int, int], ...] = ()  # table, key, slot
    beside: Optional[Beside] = None
    told: int = 0


@quick
class Evaluation(NamedTuple):
    """A run of one thread that reads: ``ticket`` 0 reads the truth itself, else an evaluation frame."""

    ticket: int
    todo: int  # bit per table
    closed: bool = False


@quick
class Budget(NamedTuple):
    """How many of the optional events are left."""

    kills: int
    key_kills: int
    reads: int
    cuts: int
    restarts: int  # of the iterator
    fails: int
    asides: int


@quick
class World(NamedTuple):
    """One state of everything."""

    pump: Pump
    ring: Tuple[Frame, ...]  # oldest first
    claims: Tuple[int, ...]  # by position; the claim word outlives the frame
    key_workers: Tuple["KeyWorker", ...]
    supervisor: Optional[Tuple[Any, ...]]
    tables: Tuple[Table, ...]
    eval_ring: Tuple[EvalFrame, ...]
    eval_next: int  # next evaluation ticket
    fetch: int  # next ticket tf.data hands out
    eval_fetch: int
    threads: Tuple[Any, ...]  # None, Step, Evaluation, or loads.Filling: a cut
    lease: Tuple[Any, ...]  # per lock None, ("X", thread) or ("R", threads as bits)
    budget: Budget


def replaced(sequence: Tuple[Item, ...], index: int, item: Item) -> Tuple[Item, ...]:
    """``sequence`` with another item at ``index``."""
    return sequence[:index] + (item,) + sequence[index + 1 :]


def with_table(world: World, table: int, **changes: Any) -> World:
    """``world`` with some fields of a table changed."""
    return world._replace(tables=replaced(world.tables, table, world.tables[table]._replace(**changes)))


def with_part(world: World, index: int, table: int, part: Part, **frame_changes: Any) -> World:
    """``world`` with the part of one table in the ``index``-th frame changed, and perhaps the frame itself."""
    frame = world.ring[index]
    frame = frame._replace(parts=replaced(frame.parts, table, part), **frame_changes)
    return world._replace(ring=replaced(world.ring, index, frame))


def words_of(world: World, table: int) -> List[int]:
    """State words of a table, oldest frame first."""
    return [frame.parts[table].word for frame in world.ring]
