"""What the model of rows on disk remembers: shared memory, each process's private memory, the oracle's notes.

One table.  A key and its entry have the same number, for life; a cut makes the entry as good as new.  A row is
``(key, life, updates)``: how often the key was dropped before, and how many steps have updated the row since.
"""

from typing import Any, FrozenSet, NamedTuple, Optional, Tuple

from tests.model.explore import quick

NONE = -1  #: no device slot; no home row

READ, WRITE = "READ", "WRITE"  #: kinds of requests
ASKED, ARRIVED, FAILED = "ASKED", "DONE", "FAILED"  #: words of requests; an EMPTY one is None

TOUCHED, PLANNED, CLAIMED, DONE = range(4)  #: words of frames in the window

TORN = "torn"  #: what a disk slot holds after half of a write
HOME_ROW, DISK_SLOT = "home row", "disk slot"
DROP, RESET, LOAD = "drop", "reset", "load"  #: cuts

Row = Tuple[int, int, int]  # key, life, updates
Keys = Tuple[int, ...]


@quick
class Scenario(NamedTuple):
    """How much there is of what.

    Attributes:
        batches: distinct keys of each ticket from 1 on.
        begin: where the row of each key lies at the beginning: "d"evice, "h"ome, on disk "s", nowhere "-".
        device, homes, disk: device slots (0 = steps use rows at home), home rows, disk slots.
        block: disk slots that are read and written together.
        window, plans: frames, plans that are not claimed, at most.
        ahead: frames after the next one to plan that may be pinned.
        threads: of the disk worker.
        kills, disk_kills, reader_kills: SIGKILLs of table worker, disk worker, the process that evaluates.
        drops: tickets that may be closed and never trained.
        asides: how often a step of several ranks may put its claim aside.
        evals: keys that are evaluated, one after the other.
        saves: in the background.
        cuts: DROP, RESET (entry numbers are given up, too) or LOAD, and the keys whose rows go; a load fills in as many
            rows as there are home rows.
        fails, lost: writes that the disk refuses; writes that it says it did and did not.
        turn: a step may have the lease while it waits for its plan: it has claimed another table.
        flaws: errors to plant.
    """

    batches: Tuple[Keys, ...]
    begin: str
    device: int = 1
    homes: int = 2
    disk: int = 2
    block: int = 2
    window: int = 2
    plans: int = 1
    ahead: int = 1
    threads: int = 2
    kills: int = 0
    disk_kills: int = 0
    reader_kills: int = 0
    drops: int = 0
    asides: int = 0
    evals: Keys = ()
    saves: int = 0
    cuts: Tuple[Tuple[str, Keys], ...] = ()
    fails: int = 0
    lost: int = 0
    turn: bool = False
    flaws: FrozenSet[str] = frozenset()


@quick
class Entry(NamedTuple):
    """Truth about one key.  ``home``: a home row, NONE, or ``at(disk slot)``; one store has it and ``generation``."""

    slot: int
    home: int
    generation: int


@quick
class Request(NamedTuple):
    """Between table worker and disk worker; each home row has one.  ``cancelled`` is only used by flaws."""

    kind: str
    key: int
    home: int
    slot: int
    generation: int
    word: str = ASKED
    cancelled: bool = False


@quick
class Record(NamedTuple):
    """A plan.  values: (key, slot, home) of the batch; outs: (slot, key, home); comes: (slot, key, home, is it new)."""

    base: int
    values: Tuple[Tuple[int, int, int], ...]
    outs: Tuple[Tuple[int, int, int], ...]
    comes: Tuple[Tuple[int, int, int, bool], ...]


@quick
class Frame(NamedTuple):
    """A ticket of the window: touched, not retired."""

    ticket: int
    word: int = TOUCHED
    record: Optional[Record] = None


@quick
class Worker(NamedTuple):
    """What the table worker has for itself.

    pinned: the last ticket whose rows are fetched, 0 = none: a plan is made of pinned frames alone.
    quarantined: (what, number, epoch in which it was freed).
    """

    doing: Tuple[Tuple[Any, ...], ...] = ()
    homes: FrozenSet[int] = frozenset()
    slots: FrozenSet[int] = frozenset()
    quarantined: FrozenSet[Tuple[str, int, int]] = frozenset()
    pinned: int = 0
    noted: FrozenSet[int] = frozenset()  # only used by flaws


@quick
class Operation(NamedTuple):
    """What a thread of the disk worker does: 0 = it has read, 1 = it has written, or copied the row home.

    ``rows`` is what it has read: a row or None, or the slots of a block as they will be.
    """

    number: int
    request: Request
    stage: int
    rows: Any


@quick
class DiskWorker(NamedTuple):
    """``state`` is "on", "dying" or "gone"; ``late`` has operations of one that should be over."""

    state: str = "on"
    doing: Tuple[Operation, ...] = ()
    late: Tuple[Operation, ...] = ()


@quick
class Evaluation(NamedTuple):
    """A thread that evaluates.  due: the row of the key at the answer, which only the oracle knows."""

    next: int = 0
    stage: str = "idle"
    epoch: int = 0
    where: Optional[Entry] = None
    due: Optional[Row] = None
    dying: bool = False


@quick
class Save(NamedTuple):
    """A save in the background: per key its row when the save began (the oracle's), and what has become of it.

    words: "" = not read, "read" also if it needs none, "image" = a step has kept it.
    homes: where the rows lay when the save began.
    log: entries as they were when their keys were dropped, in shared memory; ``seen`` is only used by flaws.
    """

    due: Tuple[Optional[Row], ...]
    words: Tuple[str, ...]
    homes: Tuple[int, ...]
    key: int = 0
    where: Optional[Entry] = None
    row: Any = None
    log: Tuple[Tuple[int, Entry], ...] = ()
    seen: Tuple[Tuple[int, Entry], ...] = ()


@quick
class Cut(NamedTuple):
    """``number`` of the next one; between two steps."""

    number: int = 0
    asked: bool = False
    committed: bool = False
    granted: bool = False
    filled: bool = False


@quick
class Budget(NamedTuple):
    """What is left of optional events."""

    kills: int
    disk_kills: int
    reader_kills: int
    drops: int
    asides: int
    fails: int
    lost: int
    saves: int


@quick
class World(NamedTuple):
    """One state of everything.  readers: announced epochs of the evaluation and of the save, 0 = none."""

    entries: Tuple[Entry, ...]
    device: Tuple[Optional[Row], ...]
    homes: Tuple[Optional[Row], ...]
    disk: Tuple[Any, ...]  # None, TORN or (row, generation)
    requests: Tuple[Optional[Request], ...]
    frames: Tuple[Frame, ...]
    next: int  # ticket to touch
    finished: int
    gone: FrozenSet[int]  # tickets that were closed and will not be trained
    epoch: int
    readers: Tuple[int, int]
    lease: str  # "", "step", "cut", "share"
    worker: Optional[Worker]
    disk_worker: DiskWorker
    evaluation: Evaluation
    save: Optional[Save]
    cut: Cut
    rows: Tuple[Tuple[int, Optional[int]], ...]  # the oracle's: life and updates of each key
    budget: Budget
    ended: bool = False  # by an error: a row cannot be read


def at(slot: int) -> int:
    """``Entry.home`` of a row in a disk slot; also the slot of such a number."""
    return -2 - slot


def batch(sc: Scenario, frame: Frame) -> Keys:
    """Keys of a frame."""
    return sc.batches[frame.ticket - 1]


def true_row(world: World, key: int) -> Optional[Row]:
    """The row of a key after the last trained step, as the oracle knows it."""
    life, updates = world.rows[key]
    return None if updates is None else (key, life, updates)


def view(world: World, low: int = PLANNED) -> Tuple[Entry, ...]:
    """The truth, with the records of frames from word ``low`` on."""
    entries = list(world.entries)
    for frame in world.frames:
        if frame.word >= low and frame.record is not None:
            for _, key, _ in frame.record.outs:
                entries[key] = entries[key]._replace(slot=NONE)
            for key, slot, home in frame.record.values:
                entries[key] = entries[key]._replace(slot=slot, home=home)
    return tuple(entries)


def held(sc: Scenario, world: World) -> FrozenSet[int]:
    """Keys of pinned frames and of those that have a record, and victims of records."""
    keys = set()
    for frame in world.frames:
        if frame.record is not None or frame.ticket <= world.worker.pinned:
            keys.update(batch(sc, frame))
        if frame.record is not None:
            keys.update(key for _, key, _ in frame.record.outs)
    return frozenset(keys)


def counts(sc: Scenario, world: World, request: Request) -> bool:
    """True if the entry still says what it said when this was asked: else it is of no use any more."""
    entry = world.entries[request.key]
    if request.cancelled:
        return False
    if request.kind == READ:
        return (entry.home, entry.generation) == (at(request.slot), request.generation)
    raised = "generation_kept" not in sc.flaws
    return (entry.home, entry.generation) == (request.home, request.generation - raised)


def canonical(world: World) -> World:
    """The same state with the smallest epochs that are in the same order."""
    quarantined = world.worker.quarantined if world.worker is not None else frozenset()
    epochs = {world.epoch, world.evaluation.epoch, *world.readers} | {epoch for _, _, epoch in quarantined} | {0}
    if len(epochs) == world.epoch + 1:
        return world
    rank = {epoch: number for number, epoch in enumerate(sorted(epochs))}
    if quarantined:
        moved = frozenset((what, number, rank[epoch]) for what, number, epoch in quarantined)
        world = world._replace(worker=world.worker._replace(quarantined=moved))
    return world._replace(epoch=rank[world.epoch], readers=tuple(rank[epoch] for epoch in world.readers),
                          evaluation=world.evaluation._replace(epoch=rank[world.evaluation.epoch]))
