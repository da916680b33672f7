"""Classes that apply cuts: changes of a table between two trained steps. Each cut is applied once, even after a crash.

The trainer that requests a cut keeps the lease until the worker stores ``cut_applied``. A load has three phases. First,
the worker grants the empty table to the trainer. Then the trainer fills the table. Finally, the worker takes the table
back. While the table is granted, the worker only indexes its keys.
"""
from typing import Callable, Optional

from ascpipe.eviction_log import EVICTED, EvictionLog
from ascpipe.kernels.disk_asks import writes_are_in_flight
from ascpipe.layout.words import CUT_EVICT, CUT_LOAD, CUT_RESET, CUT_THRESHOLD, PLAN_OK
from ascpipe.shm.ring import TableView
from ascpipe.tables import loads
from ascpipe.tables.evictions import old_keys
from ascpipe.tables.table import Table
from ascpipe.workers.snapshots import Snapshots
from ascpipe.workers.stage import Bells, Stage, truth_of


class Cuts:
    """Handler of the cuts that the trainer requests for one table.

    Args:
        invalidate_entries: function that is called when entry numbers become invalid, so that frames must be
            touched again.
        log: log of the keys that evictions remove, or None.
    """

    def __init__(self, view: TableView, table: Table, bells: Bells, snapshots: Snapshots,
                 invalidate_entries: Callable[[], None], log: Optional[EvictionLog] = None) -> None:
        self._view = view
        self._table = table
        self._bells = bells
        self._give_up_entries = invalidate_entries
        self._snapshots = snapshots
        self._log = log
        self._load = view.load
        self._is_indexed = False  # whether the entries of the running load are indexed

    @property
    def is_loading(self) -> bool:
        """Return whether the table is granted to the trainer. Only ``advance_load`` may access a table that is granted.
        """
        return bool(self._table.planner["is_loading"])

    def is_asked(self) -> bool:
        """Return whether a cut is requested. The caller must read the states of frames after this call."""
        return self._load("cut_asked") > self._load("cut_applied")

    def is_committed(self) -> bool:
        """Return whether the requested cut is committed, possibly by an earlier worker."""
        return self._load("cut_committed") > self._load("cut_applied")

    def must_wait(self) -> bool:
        """Return whether the requested cut must wait, because the cut would change entries that a snapshot is copying.

        No snapshot begins between request and application, so a committed cut need not wait. A change of the
        threshold affects only the header, which the trainer has already copied.
        """
        return bool(self._view.header["cut_kind"] != CUT_THRESHOLD) and self._snapshots.is_on()

    def apply(self) -> None:
        """Commit and apply the requested cut. For a load, only grant the table to the trainer.

        All plans must be revoked and all trained frames retired, unless the cut is already committed.
        """
        header = self._view.header
        table = self._table
        asked = int(header["cut_asked"])
        kind = int(header["cut_kind"])
        if kind == CUT_LOAD and not self.is_committed():
            header["cut_status"] = loads.make_room(
                truth_of(self._view), int(header["cut_argument"]), int(header["cut_rows"]))
            if header["cut_status"] != PLAN_OK:
                self._store_applied()
                return
        header["cut_committed"] = asked
        if kind == CUT_LOAD:
            self._grant(asked)
            return
        if kind == CUT_RESET:
            table.reset()
            self._give_up_entries()
        elif kind == CUT_THRESHOLD:
            table.set_threshold(int(header["cut_argument"]))
        elif kind == CUT_EVICT:
            age = int(header["cut_argument"])
            if self._log is not None:  # before the eviction, so a kill may duplicate lines but not lose lines
                header["unlogged_evicted"] += self._log.write(
                    self._view.name, int(header["retired"]), EVICTED, old_keys(truth_of(self._view), age))
            header["evicted"] += table.evict(age)
        self._store_applied()

    def advance_load(self) -> bool:
        """Advance a load: grant the table to the trainer, index entries while the trainer writes rows, or take the
        table back.

        Returns:
            False if the load must wait for the trainer or the disk worker.
        """
        committed = self._load("cut_committed")
        room = int(self._view.header["cut_argument"])
        if self._load("cut_granted") < committed:
            return self._grant_when_idle(committed)
        if self._load("cut_filled") >= committed:  # SYNC cut-filled: load
            if self._rows_are_being_written():
                return False
            is_whole = loads.take_over(truth_of(self._view), room)
            self._table.rebuild((), (), is_indexed=self._is_indexed and is_whole)
            self._table.planner["is_loading"] = 0
            self._store_applied()
            return True
        if self._is_indexed or self._load("load_keyed") < committed:  # SYNC load-keyed: load
            return False
        self._table.index_entries(room)
        self._is_indexed = True
        return True

    def _grant(self, asked: int) -> None:
        self._table.planner["is_loading"] = 1
        self._is_indexed = False
        if self._load("cut_granted") == asked:
            return  # an earlier worker has granted the table to the trainer
        self._table.empty()
        self._give_up_entries()
        if self._table.tier is not None:
            self._table.rebuild((), ())
        self._grant_when_idle(asked)

    def _grant_when_idle(self, asked: int) -> bool:
        """Grant the empty table to the trainer. Return False while the disk worker processes requests for the table's
        rows.
        """
        if self._table.tier is not None and not self._table.tier.complete_requests():
            return False
        self._view.header["load_entries"] = loads.NOT_WRITTEN
        self._store("cut_granted", asked)  # SYNC cut-granted: store
        return True

    def _rows_are_being_written(self) -> bool:
        """Return whether the disk worker may still write rows of this load. The trainer does not wait for the disk
        worker if the load failed, for example after Ctrl-C. A row that is written late would replace a row that the
        table worker has sent to the same disk slot.
        """
        view = self._view
        return view.disk_table is not None and any(writes_are_in_flight(requests) for requests in view.reads)

    def _store_applied(self) -> None:
        header = self._view.header
        header["rows"] = self._table.rows
        header["time"] = self._table.time
        self._store("cut_applied", int(header["cut_asked"]))  # SYNC cut-applied: store

    def _store(self, field: str, asked: int) -> None:
        self._view.store(field, asked)
        self._bells.trainer()


class CutStage(Stage):
    """Stage that applies the cuts of a table without a training stream. These cuts never wait for frames.

    Args:
        table: table of the worker, which is not rebuilt yet.
    """

    def __init__(self, view: TableView, table: Table, bells: Bells) -> None:
        table.rebuild((), ())
        self._cuts = Cuts(view, table, bells, Snapshots(view), _nothing)
        if self._cuts.is_committed():
            self._cuts.apply()

    def act(self) -> bool:
        """Apply a requested cut or advance a load; see ``Stage.act``."""
        if self._cuts.is_loading:
            return self._cuts.advance_load()
        if not self._cuts.is_asked() or self._cuts.must_wait():
            return False
        self._cuts.apply()
        return True

    def is_readable(self) -> bool:
        """Return whether evaluations may read the trained state."""
        return not self._cuts.is_loading


def _nothing() -> None:
    """Do nothing. Without a training stream, no frame has entry numbers."""
