"""State of the model: shared memory, the private memory of each process, and the oracle's notes.

Everything is a tuple, so a state can be a key of a dictionary; a move creates a new state.  A row is ``(key,
generation, updates)``: how often the key was created again after a cut, and how many steps have updated the row.

Frames have the words of the real shared memory.
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
    """Truth about one key.  An entry that was never counted and has no row is only a name."""

    key: int
    times: int
    has_row: bool
    slot: int


@quick
class Record(NamedTuple):
    """The plan of one (ticket, table).  Values are absolute, so assigning it is idempotent.

    Attributes:
        base: ticket on which the plan is based, None for a count-only record.
        values: (entry, count, has_row, slot) after the ticket.
        leaves: (slot, entry) of rows that move home.
        comes: (slot, entry, is it new) of rows that move to the device.
    """

    base: Optional[int]
    values: Tuple[Tuple[int, int, bool, int], ...]
    leaves: Tuple[Tuple[int, int], ...] = ()
    comes: Tuple[Tuple[int, int, bool], ...] = ()


@quick
class Part(NamedTuple):
    """The part of a frame for one table."""

    word: int
    entries: Tuple[int, ...] = ()
    record: Optional[Record] = None


@quick
class Frame(NamedTuple):
    """One batch in the training ring.  ``claimed`` (a bit per table) is the oracle's, ``trained`` is the real word."""

    ticket: int
    number: int
    closed: bool
    trained: bool
    claimed: int
    parts: Tuple[Part, ...]


@quick
class EvalFrame(NamedTuple):
    """One batch in the evaluation ring; an answer has (entry, slot) or None per key."""

    ticket: int
    closed: bool
    words: Tuple[int, ...]
    answers: Tuple[Optional[Tuple[Optional[Tuple[int, int]], ...]], ...]


@quick
class Cut(NamedTuple):
    """A change between two steps; ``entries`` are filled in at the commit.

    Attributes:
        hidden: a load: the worker has emptied the table, and its entries are not visible.
        granted, keyed, filled: a load: words of the worker and of the trainer.
        number: a load: number of valid entries.
        index: a load: key of each entry in the worker's private index.
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
    """Expected state of a table: per key (count, has row), per key (generation, updates or None), and the threshold."""

    counts: Tuple[Tuple[int, bool], ...]
    rows: Tuple[Tuple[int, Optional[int]], ...]
    threshold: int


@quick
class Table(NamedTuple):
    """A table: its shared arrays, the rows in both memories, and its worker.

    ``doing`` is the worker's program counter, and ``masks`` are its window masks; both are lost when it dies.
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
    """The pump; ``gone`` has a bit per ticket that was closed while it was parked."""

    ticket: int
    number: int
    gone: int = 0
    doing: Optional[Tuple[Any, ...]] = None


@quick
class KeyWorker(NamedTuple):
    """A key worker; ``dying``: killed but not reaped, so it may still execute a store."""

    generation: int
    doing: Optional[Tuple[Any, ...]] = None
    dying: bool = False


@quick
class Beside(NamedTuple):
    """The evaluation of a training step: per table its stage (beside.WANTED...), and locations of rows or the rows.

    ``due`` is the oracle's: the expected rows, once the step has claimed.
    """

    ticket: int
    stages: Tuple[int, ...]
    values: Tuple[Any, ...]
    due: Tuple[Any, ...] = ()


@quick
class Step(NamedTuple):
    """A training step of one thread; ``stages`` has a stage per table (trainer.WANTED...), 0 if nothing is left to do.

    With several ranks, ``told`` is its knowledge of the other ranks: asides.NOTHING, GO or BACK.
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
    """A reading run of one thread; ``ticket`` 0 reads the truth, another number an evaluation frame."""

    ticket: int
    todo: int  # bit per table
    closed: bool = False


@quick
class Budget(NamedTuple):
    """Number of optional events that are left."""

    kills: int
    key_kills: int
    reads: int
    cuts: int
    restarts: int  # of the iterator
    fails: int
    asides: int


@quick
class World(NamedTuple):
    """A complete state."""

    pump: Pump
    ring: Tuple[Frame, ...]  # oldest first
    claims: Tuple[int, ...]  # by position; the claim word is kept when the frame is freed
    key_workers: Tuple["KeyWorker", ...]
    supervisor: Optional[Tuple[Any, ...]]
    tables: Tuple[Table, ...]
    eval_ring: Tuple[EvalFrame, ...]
    eval_next: int  # next evaluation ticket
    fetch: int  # next ticket that tf.data returns
    eval_fetch: int
    threads: Tuple[Any, ...]  # None, Step, Evaluation, or loads.Filling: a cut
    lease: Tuple[Any, ...]  # per lock None, ("X", thread) or ("R", threads as bits)
    budget: Budget


def replaced(sequence: Tuple[Item, ...], index: int, item: Item) -> Tuple[Item, ...]:
    """Return ``sequence`` with another item at ``index``."""
    return sequence[:index] + (item,) + sequence[index + 1 :]


def with_table(world: World, table: int, **changes: Any) -> World:
    """Return ``world`` with some changed fields of a table."""
    return world._replace(tables=replaced(world.tables, table, world.tables[table]._replace(**changes)))


def with_part(world: World, index: int, table: int, part: Part, **frame_changes: Any) -> World:
    """Return ``world`` with a changed part of one table in the ``index``-th frame, and changed fields of the frame."""
    frame = world.ring[index]
    frame = frame._replace(parts=replaced(frame.parts, table, part), **frame_changes)
    return world._replace(ring=replaced(world.ring, index, frame))


def words_of(world: World, table: int) -> List[int]:
    """Return the state words of a table, oldest frame first."""
    return [frame.parts[table].word for frame in world.ring]
