"""Names points between the stores of a worker, where a test stops it to kill it.

``Board`` is shared memory: how often each point was reached, and at which ones a worker shall stop.  ``install`` puts
the points around the stores of the stages, in the process that calls it: a forked worker.
"""
import functools
import signal
from typing import Any, Callable, Dict, List, Optional

import numpy as np

from ascpipe.kernels import atomics, ring_scan
from ascpipe.kernels.asks import CONTINUE, LACKS_ENTRIES, LACKS_IMAGES
from ascpipe.kernels.next_action import PLAN, RETIRE, TOUCH
from ascpipe.layout import structs
from ascpipe.layout.words import CUT_EVICT, CUT_LOAD, CUT_RESET, CUT_THRESHOLD, EVAL, FREE, WORD_NAMES
from ascpipe.shm.bell import ring_plain
from ascpipe.shm.growing_part import GrowingPart
from ascpipe.shm.ring import RingView, TableView
from ascpipe.tables import loads, snapshot
from ascpipe.tables import table as table_module
from ascpipe.tables.records import Pending, Truth
from ascpipe.tables.table import Table
from ascpipe.workers import cuts, snapshots
from ascpipe.workers.eval_stage import EvalStage
from ascpipe.workers.train_stage import TrainStage
from tests.support import shared_steps, stepwise
from tests.support.replayed_table import ReplayedTable

POINTS = tuple("{}: {}".format(action, moment) for action, moments in (
    ("dedup", ("claimed", "arrays written", "before DEDUPED", "half DEDUPED", "after DEDUPED")),
    ("touch", ("before TOUCHED", "after TOUCHED")),
    ("growth of entries", ("memory is there", "header says so")),
    ("growth of home rows", ("memory is there", "header says so")),
    ("growth of the log", ("memory is there", "header says so")),
    ("plan", ("record made", "half of the fields", "before PLANNED", "after PLANNED")),
    ("revoke", ("before TOUCHED", "after TOUCHED")),
    ("retire", ("before assignment", "half assigned", "assigned", "before RETIRED", "after RETIRED")),
    ("images", ("half written", "before LOGGED", "after LOGGED", "no room")),
    ("skip", ("before RETIRED", "after RETIRED")),
    ("count-only", ("before finished", "after finished", "before DONE", "after DONE")),
    ("reset", ("committed", "half applied", "before DEDUPED", "after DEDUPED", "before APPLIED", "after APPLIED")),
    ("threshold", ("committed", "before APPLIED", "after APPLIED")),
    ("eviction", ("committed", "half applied", "before APPLIED", "after APPLIED")),
    ("load", ("memory is there", "committed", "half applied", "before DEDUPED", "after DEDUPED", "before GRANTED",
              "after GRANTED", "granted before")),
    ("take over", ("filled", "half taken over", "taken over", "before APPLIED", "after APPLIED")),
    ("restart", ("before TOUCHED", "after TOUCHED", "half assigned", "assigned", "rebuilt")),
    ("answer", ("before ANSWERED", "after ANSWERED")),
    ("release", ("before RETIRED", "after RETIRED")),
) for moment in moments)
NUMBERS = {name: number for number, name in enumerate(POINTS)}
OF_RESTART = [number for name, number in NUMBERS.items() if name.startswith("restart")]

#: what a worker does, as ``Board.doing`` has it
IDLE, ACTIONS = 0, ("nothing", "dedup", "touch", "plan", "revoke", "retire", "skip", "count-only", "reset",
                    "threshold", "eviction", "load", "take over", "restart", "answer", "release", "replay", "images")
_CUTS = {CUT_RESET: "reset", CUT_THRESHOLD: "threshold", CUT_EVICT: "eviction", CUT_LOAD: "load"}
_STEPS = {"assign": "retire", "store_retired": "retire", "leave": "retire", "plan": "plan", "store_planned": "plan",
          "touch": "touch", "store_touched": "touch"}
_LACKING = {LACKS_IMAGES: "retire", LACKS_ENTRIES: "touch"}
_STORES = {"cut_granted": "GRANTED", "cut_applied": "APPLIED", "snapshot_logged": "LOGGED"}
ARMED, TAKEN = 1, 2  #: see ``Board.armed``
_WORKERS = structs.MAX_KEY_WORKERS + structs.MAX_TABLE_WORKERS
_TEXT_BYTES = 1 << 14


class Board:
    """What the workers and their killer tell each other.

    Args:
        memory: uint8[Board.BYTES], shared, zeroed.

    Attributes:
        hits: int64[points]; how often a worker came by.
        wanted: int64[points]; how many workers shall still be killed there.  Only their killer changes it.
        armed: int64[1]; 1 = the next worker at a wanted point stops, and sets it to TAKEN + itself, which stands
            until it is killed, wherever it is by then: so there never are two on their way.
        spare: int64[1]; how many workers are let go before that.
        stopped: int64[1]; 1 + the point where the worker that took the stop stands; 0 = it is not there yet.
        leaving: int64[1]; 1 = workers check themselves and exit.
        doing: int64[workers]; index into ACTIONS.
    """

    BYTES = 8 * (2 * len(POINTS) + 4 + _WORKERS) + _TEXT_BYTES

    def __init__(self, memory: np.ndarray) -> None:
        longs, at = memory[:self.BYTES - _TEXT_BYTES].view(np.int64), 0
        for name, count in (("hits", len(POINTS)), ("wanted", len(POINTS)), ("armed", 1), ("spare", 1), ("stopped", 1),
                            ("leaving", 1), ("doing", _WORKERS)):
            setattr(self, name, longs[at:at + count])
            at += count
        self._armed_words = self.armed.view(np.uint32)
        self._text = memory[self.BYTES - _TEXT_BYTES:]

    # ---- workers

    def must_stop(self, point: int, worker: int) -> bool:
        """Whether the worker that is at a point shall stop there; then no other one does until it is killed."""
        self.hits[point] += 1
        if self.armed[0] != ARMED or not self.wanted[point]:
            return False
        if self.spare[0] > 0:
            self.spare[0] -= 1
            return False
        if not atomics.compare_exchange_u32(self._armed_words, 0, ARMED, TAKEN + worker):
            return False
        if not self.wanted[point]:  # another one was killed here since we looked
            self.armed[0] = ARMED
            return False
        return True

    # ---- their killer

    def arm(self, spare: int) -> None:
        """Let the next worker but ``spare`` ones stop, unless one is on its way or stands there."""
        self.spare[0] = spare
        if not self.armed[0]:  # else a worker may be about to take it: what it writes must stay
            self.armed[0] = ARMED

    def disarm(self) -> bool:
        """Let no worker stop from now on; False if one is on its way or stands there: it must be killed first."""
        atomics.compare_exchange_u32(self._armed_words, 0, ARMED, 0)
        return not self.armed[0]

    def stands(self) -> Optional[int]:
        """The worker that stands at a point, if one does."""
        return int(self.armed[0]) - TAKEN if self.stopped[0] else None

    def was_killed(self, worker: int) -> str:
        """Where the worker was that has just been reaped: its point if it stood at one, which is counted, or ""."""
        self.doing[worker] = IDLE
        if self.armed[0] != TAKEN + worker:
            return ""
        point = int(self.stopped[0]) - 1
        self.stopped[0] = self.armed[0] = 0
        if point < 0:  # it was on its way
            return ""
        self.wanted[point] = max(0, self.wanted[point] - 1)
        return POINTS[point]

    def fail(self, text: str) -> None:
        """Leave a traceback for the process that reaps this one."""
        data = text.encode()[-_TEXT_BYTES:]
        self._text[:len(data)] = np.frombuffer(data, np.uint8)

    def failure(self) -> str:
        return bytes(self._text).rstrip(b"\0").decode(errors="replace")


class Pauses:
    """The points of one worker.

    Args:
        board: shared with the killer.
        session: the session segment, for the bell of the killer.
        worker: its index on the board.
    """

    def __init__(self, board: Board, session: np.ndarray, worker: int) -> None:
        self._board, self._session, self._worker = board, session, worker
        self._actions: List[str] = ["nothing"]

    def at(self, moment: str, half_way: Callable[[], Any] = lambda: None) -> None:
        """The worker is at a point of its action; ``half_way`` is done first if it stops here for good."""
        self.at_point("{}: {}".format(self._actions[-1], moment), half_way)

    def at_point(self, name: str, half_way: Callable[[], Any] = lambda: None) -> None:
        point = NUMBERS[name]
        if self._board.must_stop(point, self._worker):
            half_way()
            self._board.stopped[0] = 1 + point
            ring_plain(self._session, structs.BELL_TRAINER)
            while True:
                signal.pause()

    def action(self) -> str:
        return self._actions[-1]

    def during(self, owner: Any, method: str, name: Any) -> None:
        """Let a method be an action; ``name`` is what it is called, or makes that out of the arguments."""
        function = getattr(owner, method)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._actions.append(name if isinstance(name, str) else name(*args))
            self._board.doing[self._worker] = ACTIONS.index(self._actions[-1])
            try:
                return function(*args, **kwargs)
            finally:
                self._actions.pop()
                self._board.doing[self._worker] = ACTIONS.index(self._actions[-1])

        setattr(owner, method, call)

    def around(self, owner: Any, name: str, before: Callable[..., Any] = lambda *args: None,
               after: Callable[..., Any] = lambda *args: None) -> None:
        """Call ``before`` with the arguments by place, and ``after`` with the result too, whenever it is called."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            before(*args)
            result = function(*args, **options)
            after(*args, result)
            return result

        setattr(owner, name, call)


def install(board: Board, session: np.ndarray, worker: int) -> Pauses:
    """Put the points around the stores of the stages that are made afterwards in this process."""
    pauses = Pauses(board, session, worker)
    for method, action in (("_revoke", "revoke"), ("_skip", "skip"), ("_count_only", "count-only"),
                           ("_restart", "restart")):
        pauses.during(TrainStage, method, action)
    pauses.during(TrainStage, "provide", lambda stage, lacks, number: _LACKING.get(lacks, "plan"))
    pauses.during(TrainStage, "_apply_cut", lambda stage, *_: _CUTS[int(stage._view.header["cut_kind"])])
    pauses.during(cuts.Cuts, "advance_load", "take over")
    pauses.during(snapshots.Snapshots, "keep", "images")
    pauses.during(EvalStage, "_answer", "answer")
    pauses.during(ReplayedTable, "_expected", "replay")
    _around_words(pauses)
    _around_records(pauses)
    _around_shared_steps(pauses)
    _around_images(pauses)
    _around_cuts(pauses)
    _around_loads(pauses)
    _around_growth(pauses)
    for step, action in _STEPS.items():  # last, as the points are in it
        pauses.during(stepwise.TABLE, step, action)
    return pauses


def _around_words(pauses: Pauses) -> None:
    """Before and after each store of a word that others wait for."""

    def stores(owner: Any, name: str, said: Callable[..., str]) -> None:
        pauses.around(owner, name, lambda *args: pauses.at("before " + said(*args)),
                      lambda *args: pauses.at("after " + said(*args[:-1])))

    def of_stage(when: str, ring: RingView, word: int) -> None:
        said = "{} {}".format(when, WORD_NAMES[word])
        if ring.channel == EVAL and pauses.action() != "answer":
            pauses.at_point("release: " + said)
        else:
            pauses.at(said)

    pauses.around(RingView, "store_word", lambda ring, number, column, word: of_stage("before", ring, word),
                  lambda ring, number, column, word, _: of_stage("after", ring, word))
    stores(RingView, "replace_word", lambda ring, number, column, expected, word: WORD_NAMES[word])
    stores(RingView, "store_finished", lambda *_: "finished")
    stores(TableView, "store", lambda view, field, value: _STORES[field])
    for step, action, word in (("store_retired", RETIRE, "RETIRED"), ("store_planned", PLAN, "PLANNED"),
                               ("store_touched", TOUCH, "TOUCHED")):
        _around_stores(pauses, step, action, word)
    _around_frames(pauses)


def _around_stores(pauses: Pauses, step: str, action: int, word: str) -> None:
    """Before and after the words of tables that took the same step together, if there are any."""
    take = getattr(stepwise.TABLE, step)

    def call(memory: np.ndarray, turns: np.ndarray, *rest: Any) -> int:
        at = pauses.at if shared_steps.has_done(turns, action) else lambda moment: None
        at("before " + word)
        asks: int = take(memory, turns, *rest)
        at("after " + word)
        return asks

    setattr(stepwise.TABLE, step, call)


def _around_frames(pauses: Pauses) -> None:
    """While a key worker has a frame."""

    def publish_half(memory: np.ndarray, claims: Any, columns: np.ndarray, counts: np.ndarray, *_: Any) -> None:
        half = int(claims["parts"]) // 2
        ring_scan.publish_deduped(memory, claims["number"], columns[:half], counts[:half])

    def before(*args: Any) -> None:
        pauses.at_point("dedup: before DEDUPED")
        pauses.at_point("dedup: half DEDUPED", lambda: publish_half(*args))

    pauses.around(stepwise.KEY, "dedup", lambda *_: pauses.at_point("dedup: claimed"),
                  lambda *args: pauses.at_point("dedup: arrays written") if args[-1] == CONTINUE else None)
    pauses.around(stepwise.KEY, "publish", before, lambda *_: pauses.at_point("dedup: after DEDUPED"))
    pauses.during(stepwise.KEY, "dedup", "dedup")
    pauses.during(stepwise.KEY, "publish", "dedup")


def _around_records(pauses: Pauses) -> None:
    """While a worker that begins assigns a record again, and derives what is private."""
    assign = Table.assign

    def before(table: Table, done: Pending, ticket: int) -> None:
        record, keys = done.record, len(done.record.held) // 2
        half = record._replace(
            held=record.held[:keys], move_in=record.move_in[record.move_in < keys],
            out_slots=record.out_slots[:(len(record.out_slots) + 1) // 2])
        pauses.at("half assigned", lambda: assign(table, done._replace(record=half), ticket))

    pauses.around(Table, "assign", before, lambda *_: pauses.at("assigned"))

    def rebuilt(*_: Any) -> None:
        if pauses.action() == "restart":
            pauses.at("rebuilt")

    pauses.around(Table, "rebuild", after=rebuilt)


def _around_shared_steps(pauses: Pauses) -> None:
    """While tables make, publish and assign their records together."""

    def before(memory: np.ndarray, turns: np.ndarray, *_: Any) -> None:
        if shared_steps.is_due(turns, RETIRE):
            pauses.at("before assignment")
            pauses.at("half assigned", lambda: shared_steps.assign_halves(memory, turns))

    def planned(memory: np.ndarray, turns: np.ndarray, *_: Any) -> None:
        if shared_steps.has_done(turns, PLAN):
            pauses.at("half of the fields", lambda: shared_steps.spoil_late_fields(memory, turns))
            pauses.at("record made")

    pauses.around(stepwise.TABLE, "assign", before,
                  lambda *args: pauses.at("assigned") if shared_steps.has_done(args[1], RETIRE) else None)
    pauses.around(stepwise.TABLE, "plan", after=planned)


def _around_images(pauses: Pauses) -> None:
    """While images of a record's entries are kept for a snapshot."""
    keep = snapshot.keep_images
    pauses.around(snapshot, "keep_images", lambda changed, *rest: pauses.at(
        "half written", lambda: keep(changed[:(len(changed) + 1) // 2], *rest)))
    pauses.around(snapshot.Images, "append", after=lambda images, record, copied, end: pauses.at("no room")
                  if end == snapshot.NO_ROOM else None)


def _around_cuts(pauses: Pauses) -> None:
    """Between the commitment of a cut and its application; "half applied" is with some entries of the first half."""

    def empty_half(table: Table) -> None:
        used = int(table._header["entries_used"])
        table._truth.entries["state"][:used // 2] = FREE

    def committed(*_: Any) -> None:
        pauses.at("committed")

    def empty(table: Table) -> None:
        committed()
        pauses.at("half applied", lambda: empty_half(table))

    pauses.around(Table, "empty", empty)
    pauses.around(Table, "set_threshold", committed)
    pauses.around(Table, "evict", committed)
    evict = table_module.evict_entries
    pauses.around(table_module, "evict_entries",
                  lambda used, *rest: pauses.at("half applied", lambda: evict(used // 2, *rest)))


def _around_loads(pauses: Pauses) -> None:
    """Around the grant of an emptied table, and while what was written into it is taken over."""
    pauses.around(loads, "make_room", after=lambda *_: pauses.at("memory is there"))
    pauses.around(cuts.Cuts, "_grant", lambda cut, asked: pauses.at("granted before")
                  if cut._load("cut_granted") == asked else None)

    def half(truth: Truth, room: int) -> None:
        truth.slot_entries[:] = -1
        truth.header["time"] = truth.header["load_time"]
        truth.header["access_threshold"] = truth.header["load_threshold"]

    def before(truth: Truth, room: int) -> None:
        pauses.at("filled")
        pauses.at("half taken over", lambda: half(truth, room))

    pauses.around(loads, "take_over", before, lambda *_: pauses.at("taken over"))


def _around_growth(pauses: Pauses) -> None:
    """Between the memory of new entries or home rows and the header that says that it is there."""
    kinds: Dict[str, str] = {"entries_ready": "growth of entries", "homes_ready": "growth of home rows",
                             "snapshot_log_ready": "growth of the log"}
    sizes = {structs.ENTRY.itemsize: kinds["entries_ready"], structs.IMAGE.itemsize: kinds["snapshot_log_ready"]}

    def grown(part: GrowingPart, ready: int, wanted: int, result: int) -> None:
        if result > ready:
            pauses.at_point("{}: memory is there".format(sizes.get(part._item_bytes, kinds["homes_ready"])))

    pauses.around(GrowingPart, "ready", after=grown)
    ready = TableView._ready

    def call(view: TableView, part: GrowingPart, field: str, count: int) -> bool:
        before = int(view.header[field])
        result = ready(view, part, field, count)
        if view.header[field] > before:
            pauses.at_point("{}: header says so".format(kinds[field]))
        return result

    TableView._ready = call  # type: ignore[assignment]
