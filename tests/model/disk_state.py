"""State of the model of rows on disk: shared memory, private memory of each process, notes of the oracle.

There is one table.  The number of a key is also the number of its entry; a cut resets the entry.  A row is ``(key,
life, updates)``: ``life`` counts the evictions of the key, ``updates`` the steps that have updated the row since.
"""

from typing import Any, FrozenSet, NamedTuple, Optional, Tuple

from tests.model.explore import quick

NONE = -1  #: no device slot; no home row

READ, WRITE = "READ", "WRITE"  #: kinds of requests
ASKED, ARRIVED, FAILED = "ASKED", "DONE", "FAILED"  #: words of requests; an EMPTY request is None
TAKEN = "TAKEN"  #: word of a reader's request that a disk worker has taken, and may have died with
HOMES = -1  #: ``Operation.of`` of the table worker's requests

TOUCHED, PLANNED, CLAIMED, DONE = range(4)  #: words of frames in the window

TORN = "torn"  #: content of a disk slot after half of a write
HOME_ROW, DISK_SLOT = "home row", "disk slot"
DROP, RESET, LOAD = "drop", "reset", "load"  #: cuts

Row = Tuple[int, int, int]  # key, life, updates
Keys = Tuple[int, ...]


@quick
class Scenario(NamedTuple):
    """Sizes, events and flaws of a scenario.

    Attributes:
        batches: distinct keys of each ticket, from 1 on.
        begin: initial location of each key's row: "d"evice, "h"ome, disk "s"lot, "-" for none.
        device, homes, disk: number of device slots (0: steps use rows at home), home rows, disk slots.
        block: disk slots that are read and written together.
        window, plans: maximum number of frames, and of plans that are not claimed.
        ahead: maximum number of pinned frames after the next one to plan.
        threads: threads of the disk worker.
        kills, disk_kills, reader_kills: SIGKILLs of the table worker, the disk worker, the evaluating process.
        drops: number of tickets that may be closed without training.
        asides: how often a step with several ranks may put its claim aside.
        evals: keys of each evaluation.
        saves: number of saves in the background.
        cuts: DROP, RESET (which also invalidates entry numbers) or LOAD, and the keys whose rows are removed.  A load
            fills in as many rows as there are home rows, or with ``asks`` the rows of all its keys.
        fails, lost: number of writes that the disk refuses, and that it reports as done without doing them.
        asks: maximum number of requests that a reader has at a time; 0: a reader reads the disk in one move.
        interrupts: how often a reader may stop to wait for the disk worker, because of Ctrl-C or a timeout.
        turn: a step may hold the lease while it waits for its plan, because it has claimed another table.
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
    evals: Tuple[Keys, ...] = ()
    saves: int = 0
    cuts: Tuple[Tuple[str, Keys], ...] = ()
    fails: int = 0
    lost: int = 0
    asks: int = 0
    interrupts: int = 0
    turn: bool = False
    flaws: FrozenSet[str] = frozenset()


@quick
class Entry(NamedTuple):
    """Truth about one key.

    ``home`` is a home row, NONE, or ``at(disk slot)``; one store writes it with ``generation``.
    """

    slot: int
    home: int
    generation: int


@quick
class Request(NamedTuple):
    """Request of the table worker to the disk worker; each home row has one.  Only flaws use ``cancelled``."""

    kind: str
    key: int
    home: int
    slot: int
    generation: int
    word: str = ASKED
    cancelled: bool = False


@quick
class Record(NamedTuple):
    """A plan.

    Attributes:
        values: (key, slot, home) of the keys of the batch.
        outs: (slot, key, home) of rows that move home.
        comes: (slot, key, home, is it new) of rows that move to the device.
    """

    base: int
    values: Tuple[Tuple[int, int, int], ...]
    outs: Tuple[Tuple[int, int, int], ...]
    comes: Tuple[Tuple[int, int, int, bool], ...]


@quick
class Frame(NamedTuple):
    """A ticket of the window, touched and not retired."""

    ticket: int
    word: int = TOUCHED
    record: Optional[Record] = None


@quick
class Worker(NamedTuple):
    """Private memory of the table worker.

    Attributes:
        doing: stores that are left.
        pinned: the last pinned ticket, 0 for none.  Rows of pinned frames are fetched, and only pinned frames are
            planned.
        quarantined: (what, number, epoch in which it was freed).
        noted: only used by flaws.
    """

    doing: Tuple[Tuple[Any, ...], ...] = ()
    homes: FrozenSet[int] = frozenset()
    slots: FrozenSet[int] = frozenset()
    quarantined: FrozenSet[Tuple[str, int, int]] = frozenset()
    pinned: int = 0
    noted: FrozenSet[int] = frozenset()


@quick
class Asks(NamedTuple):
    """Requests of a reader, of which nothing but ``doing`` and ``count`` is private.

    Attributes:
        requests: None if there was none yet.
        rows: buffer, one row per request.
        asked: counter, which tells the disk worker to look at the requests.
        doing: stores that are left of a batch of requests.
        count: number of requests of the batch, 0 if there is none.
    """

    requests: Tuple[Optional[Request], ...] = ()
    rows: Tuple[Any, ...] = ()
    asked: int = 0
    doing: Tuple[Tuple[Any, ...], ...] = ()
    count: int = 0


@quick
class Operation(NamedTuple):
    """Work of a thread of the disk worker.

    Attributes:
        of: HOMES, or the reader of which ``request`` is a copy.
        stage: 0: it has read; 1: it has written, or copied the row home.
        rows: what it has read: a row or None, or the new slots of a block.
    """

    number: int
    request: Request
    stage: int
    rows: Any
    of: int = HOMES


@quick
class Scan(NamedTuple):
    """How far the disk worker is with the requests of readers: ``next`` is the request that it examines next, and
    ``found`` has the requests that it has taken, but not submitted.
    """

    reader: int
    next: int
    takes_over: bool
    found: Tuple[int, ...] = ()


@quick
class DiskWorker(NamedTuple):
    """The disk worker.

    Attributes:
        state: "on", "dying" or "gone".
        late: operations of a worker that should have ended.
        seen: counter of each reader.
        queue: operations for readers that no thread has begun.
    """

    state: str = "on"
    doing: Tuple[Operation, ...] = ()
    late: Tuple[Operation, ...] = ()
    seen: Tuple[int, int] = (0, 0)
    scan: Optional[Scan] = None
    queue: Tuple[Operation, ...] = ()


@quick
class Evaluation(NamedTuple):
    """A thread that evaluates.

    Attributes:
        where: entries of its keys when it was answered.
        due: the oracle's: rows of its keys when it was answered.
        done: number of rows on disk that it has got.
    """

    next: int = 0
    stage: str = "idle"
    epoch: int = 0
    where: Tuple[Entry, ...] = ()
    due: Tuple[Optional[Row], ...] = ()
    done: int = 0
    dying: bool = False


@quick
class Save(NamedTuple):
    """A save in the background.

    Attributes:
        due: row of each key when the save started, known to the oracle only.
        words: state of each key: "" not read, "read" (or there is nothing to read), "image": a step has stored an
            image.
        homes: locations of the rows when the save started.
        log: entries of evicted keys before their eviction, in shared memory.
        seen: only used by flaws.
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
    """State of the cuts between two steps; ``number`` is the index of the next cut, ``written`` the number of rows that
    a load has written to disk.
    """

    number: int = 0
    asked: bool = False
    committed: bool = False
    granted: bool = False
    filled: bool = False
    written: int = 0


@quick
class Budget(NamedTuple):
    """Number of optional events that are left."""

    kills: int
    disk_kills: int
    reader_kills: int
    drops: int
    asides: int
    fails: int
    lost: int
    saves: int
    interrupts: int


@quick
class World(NamedTuple):
    """A complete state.  ``readers`` are the announced epochs of the evaluation and of the save, 0 for none."""

    entries: Tuple[Entry, ...]
    device: Tuple[Optional[Row], ...]
    homes: Tuple[Optional[Row], ...]
    disk: Tuple[Any, ...]  # None, TORN or (row, generation)
    requests: Tuple[Optional[Request], ...]
    frames: Tuple[Frame, ...]
    next: int  # ticket to touch
    finished: int
    gone: FrozenSet[int]  # closed tickets that will not be trained
    epoch: int
    readers: Tuple[int, int]
    lease: str  # "", "step", "cut", "share"
    worker: Optional[Worker]
    disk_worker: DiskWorker
    asks: Tuple[Asks, Asks]  # of evaluations; of saves and loads
    evaluation: Evaluation
    save: Optional[Save]
    cut: Cut
    rows: Tuple[Tuple[int, Optional[int]], ...]  # life and updates of each key, known to the oracle only
    budget: Budget
    ended: bool = False  # by an error, because a row cannot be read


def at(slot: int) -> int:
    """Return ``Entry.home`` for a disk slot, or the disk slot for such a value."""
    return -2 - slot


def batch(sc: Scenario, frame: Frame) -> Keys:
    """Return the keys of a frame."""
    return sc.batches[frame.ticket - 1]


def true_row(world: World, key: int) -> Optional[Row]:
    """Return the row of a key after the last trained step, according to the oracle."""
    life, updates = world.rows[key]
    return None if updates is None else (key, life, updates)


def view(world: World, low: int = PLANNED) -> Tuple[Entry, ...]:
    """Return the truth with the records of frames whose word is at least ``low``."""
    entries = list(world.entries)
    for frame in world.frames:
        if frame.word >= low and frame.record is not None:
            for _, key, _ in frame.record.outs:
                entries[key] = entries[key]._replace(slot=NONE)
            for key, slot, home in frame.record.values:
                entries[key] = entries[key]._replace(slot=slot, home=home)
    return tuple(entries)


def held(sc: Scenario, world: World) -> FrozenSet[int]:
    """Return the keys of pinned frames and of frames with a record, and the victims of records."""
    keys = set()
    for frame in world.frames:
        if frame.record is not None or frame.ticket <= world.worker.pinned:
            keys.update(batch(sc, frame))
        if frame.record is not None:
            keys.update(key for _, key, _ in frame.record.outs)
    return frozenset(keys)


def counts(sc: Scenario, world: World, request: Request) -> bool:
    """Return True if the entry is unchanged since the request; otherwise its result is not used."""
    entry = world.entries[request.key]
    if request.cancelled:
        return False
    if request.kind == READ:
        return (entry.home, entry.generation) == (at(request.slot), request.generation)
    raised = "generation_kept" not in sc.flaws
    return (entry.home, entry.generation) == (request.home, request.generation - raised)


def canonical(world: World) -> World:
    """Return the same state with the smallest epochs in the same order."""
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
