"""Stage of one table of a training stream. The stage provides memory for batches, and performs rare actions.

``ascpipe.workers.ring_scheduler`` performs frequent actions. This module performs cuts, revocations of plans, skips,
count-only batches and the restart after a killed worker. A worker may be killed between any two stores to shared
memory, so the order of stores matters.
"""
from typing import Callable, Dict, Optional

from ascpipe.eviction_log import EvictionLog
from ascpipe.kernels import next_action
from ascpipe.kernels.asks import LACKS_DISK, LACKS_HOMES, LACKS_IMAGES
from ascpipe.layout import ticket
from ascpipe.layout.words import DEDUPED, DONE, PLAN_OK, PLANNED, RETIRED, TOUCHED
from ascpipe.shm.ring import PartView, TableInRing, TableView
from ascpipe.tables.records import Batch, Pending
from ascpipe.tables.table import Table
from ascpipe.workers.cuts import Cuts
from ascpipe.workers.snapshots import Snapshots
from ascpipe.workers.stage import Bells

_MOST_INT32 = 2**31 - 1

# Results of ``provide``.
PROVIDED = 0  #: the action must be repeated
ACTED = 1  #: another action was performed instead
WAITS = 2  #: the action must wait


class TrainStage:
    """Stage of one table in its training stream.

    Args:
        table: table of the worker, which is not rebuilt yet.
        restart: whether an earlier worker has served the table.
        log: log of the keys that evictions remove, or None.
    """

    def __init__(self, view: TableView, table: Table, at: TableInRing, bells: Bells, *, restart: bool,
                 log: Optional[EvictionLog] = None) -> None:
        self._view = view
        self._table = table
        self._bells = bells
        self.planner_at = table.planner_at  #: address of PLANNER of the table
        self._ring, self._column = at
        self._snapshots = Snapshots(view)
        self._cuts = Cuts(view, table, bells, self._snapshots, self._give_up_entries, log)
        self._actions: Dict[int, Callable[[int], None]] = {
            next_action.REVOKE: self._revoke, next_action.SKIP: self._skip, next_action.COUNT_ONLY: self._count_only,
        }
        if restart:
            self._restart()
        else:
            table.rebuild((), ())

    def advance_load(self) -> bool:
        """Advance a load. Return False if the load must wait."""
        return self._cuts.advance_load()

    def carry_out(self, action: int, number: int) -> bool:
        """Perform a rare action. Return False if the action must wait.

        Args:
            action: REVOKE, SKIP, COUNT_ONLY or APPLY_CUT of ``ascpipe.kernels.next_action``.
            number: frame number, which is ignored for APPLY_CUT.
        """
        if action == next_action.APPLY_CUT:
            if self._cuts.must_wait():
                return False
            self._apply_cut()
        else:
            self._actions[action](number)
        return True

    def provide(self, lacks: int, number: int) -> int:
        """Provide the resource that the touch, the plan or the assignment of a frame lacks.

        Args:
            lacks: LACKS_* of ``ascpipe.kernels.asks``.
            number: frame number.

        Returns:
            PROVIDED, ACTED or WAITS.

        Raises:
            WorkerError: a row on disk cannot be read, or no row can be written.
        """
        if lacks == LACKS_HOMES:
            self._table.provide(lacks, 0)
            return PROVIDED
        if lacks == LACKS_DISK and self._table.tier is not None:
            raise self._table.tier.error(self._view.name, self._view.directories)
        part = self._ring.part(number, self._column)
        if lacks == LACKS_IMAGES:
            if not self._may_assign(_published(number, part)):
                return WAITS
            self._table.planner["images_saved_for"] = number
            return PROVIDED
        if self._table.provide(lacks, part["unique_count"]):
            return PROVIDED
        self._touch_without_entries(number, part)
        return ACTED

    def is_readable(self) -> bool:
        """Return whether shared memory contains the state of the table after the last trained step."""
        return not self._cuts.is_loading and bool(next_action.is_readable(self._ring.look(self._column).turn))

    # ---- actions

    def _touch_without_entries(self, number: int, part: PartView) -> None:
        """Block the touch until a retirement frees entries.

        If all earlier frames are retired, touch the frame without entries. The plan then reports the reason for
        the failure.
        """
        if not self._is_first_unfinished(number):
            self._table.planner["touch_blocked"] = 1
            return
        self._table.touch_nothing(number)
        part["held"] = 0
        self._ring.store_word(number, self._column, TOUCHED)

    def _revoke(self, number: int) -> None:
        if not self._ring.replace_word(number, self._column, PLANNED, TOUCHED):
            return  # the trainer has claimed the plan
        self._table.take_back(_published(number, self._ring.part(number, self._column)))

    def _may_assign(self, done: Pending) -> bool:
        """Store images for an assignment. Return False if the assignment must wait for the end of a snapshot."""
        may_assign = self._snapshots.keep(done.record)
        self._table.planner["has_images"] = self._snapshots.is_dirty
        return may_assign

    def _skip(self, number: int) -> None:
        part = self._ring.part(number, self._column)
        if self._ring.word(number, self._column) != TOUCHED:
            part["held"] = 0
        self._ring.store_word(number, self._column, RETIRED)  # SYNC retired: store
        self._bells.trainer()
        self._bells.pump()
        self._table.leave(number)
        self._table.planner["touch_blocked"] = 0

    def _count_only(self, number: int) -> None:
        part = self._ring.part(number, self._column)
        counted = self._table.count_only(self._batch(number, part), part["held"])
        part["held"] = len(counted.record.held)
        part["full"] = 0
        for field in ("fresh_count", "load_count", "out_count", "admitted"):
            part[field] = 0
        part["rows"] = counted.rows
        part["time"] = counted.time
        self._ring.store_finished(self._column, self._ticket(number))
        self._ring.store_word(number, self._column, DONE)  # SYNC plan-done: store

    # ---- cuts

    def _apply_cut(self) -> None:
        self._table.planner["touch_blocked"] = 0
        self._cuts.apply()

    def _give_up_entries(self) -> None:
        seen = self._ring.look(self._column)
        for number, word in enumerate(seen.words.tolist(), seen.head):
            if word == TOUCHED:
                self._ring.store_word(number, self._column, DEDUPED)  # SYNC deduplicated: store

    # ---- restart

    def _restart(self) -> None:
        """Take over from a killed worker. Only the trained state in shared memory, words of frames and published
        records are trusted."""
        ring = self._ring
        column = self._column
        seen = ring.look(column)
        for number, word in reversed(list(enumerate(seen.words.tolist(), seen.head))):  # plans depend on earlier plans
            if word == PLANNED:
                ring.replace_word(number, column, PLANNED, TOUCHED)
        seen = ring.look(column)
        window = []
        pending = []
        for number, word in enumerate(seen.words.tolist(), seen.head):
            if TOUCHED <= word <= DONE:
                part = ring.part(number, column)
                window.append((number, part.array("entries", part["held"])))
                if word >= PLANNED:  # the word is PLANNED if the trainer has undone a claim since the revocation
                    pending.append(_published(number, part))
                    # The oldest frame may be partly assigned. If the frame must wait for a snapshot, no part
                    # was assigned.
                    if word == DONE and len(window) == 1 and self._may_assign(pending[0]):
                        self._table.assign(pending[0], self._ticket(number))
        self._table.rebuild(window, pending)
        if self._cuts.is_committed():
            self._apply_cut()

    # ---- content of frames

    def _ticket(self, number: int) -> int:
        return int(self._ring.frame(number)["ticket"])

    def _batch(self, number: int, part: PartView) -> Batch:
        n = part["unique_count"]
        frame = self._ring.frame(number)
        return Batch(number, min(ticket.sequence_of(int(frame["ticket"])), _MOST_INT32), int(frame["timestamp"]),
                     part.array("unique", n), part.array("occurrences", n), part.record(n, 0, 0))

    def _is_first_unfinished(self, number: int) -> bool:
        seen = self._ring.look(self._column)
        return bool((seen.words[:number - seen.head] == RETIRED).all())


def _published(number: int, part: PartView) -> Pending:
    """Return the published record of a frame. The record has no keys if the plan failed."""
    fresh = part["fresh_count"]
    is_made = part["status"] == PLAN_OK or not part["full"]
    record = part.record(part["held"] if is_made else 0, fresh + part["load_count"], part["out_count"])
    return Pending(number, record, fresh, part["rows"], part["time"])
