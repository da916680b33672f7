"""What a table worker does with the training stream of one table alone: the rare, and what needs more memory.

The decision is ``ascpipe.kernels.next_action``, the arithmetic ``ascpipe.tables.table``; here stand the
loads and stores of shared memory, and their order.  A worker may be killed between any two of them.
What tables do together is in ``ascpipe.workers.turns``.
"""
from typing import Callable, Dict, List

import numpy as np

from ascpipe.kernels import next_action
from ascpipe.kernels.atomics import compare_exchange_u32, exchange_u32, load_acquire_i64, store_release_i64
from ascpipe.layout import structs
from ascpipe.layout.words import DEDUPED, DONE, PLAN_OK, PLANNED, RETIRED, TOUCHED
from ascpipe.shm.ring import PartView, Place, TableView
from ascpipe.tables import state
from ascpipe.tables.records import Batch, Record
from ascpipe.tables.table import Table
from ascpipe.workers.cuts import Bells, Cuts
from ascpipe.workers.snapshots import Snapshots
from ascpipe.workers.stage import Stage
from ascpipe.workers.turns import Turns

_SEQUENCE = (1 << 48) - 1  # the part of a ticket that is not the run
_MOST_INT32 = 2**31 - 1


class TrainStage(Stage):
    """One table in its training stream.

    Args:
        view: the table's segment.
        table: its keys and slots; not rebuilt yet.
        place: the table's column in the ring of the stream.
        bells: whom to wake.
        restart: an earlier worker served this table and died.
    """

    def __init__(self, view: TableView, table: Table, place: Place, bells: Bells, *, restart: bool) -> None:
        self._view, self._table, self._bells = view, table, bells
        self.state = table.state  #: int64[COLUMNS] of ``ascpipe.tables.state``
        self._ring, self._column = place
        self._turns = Turns(self._ring, [self._column], [self], bells)
        self._snapshots = Snapshots(view)
        self._cuts = Cuts(view, table, bells, self._snapshots, self._give_up_entries)
        self._actions: Dict[int, Callable[[int], None]] = {
            next_action.REVOKE: self._revoke, next_action.SKIP: self._skip, next_action.COUNT_ONLY: self._count_only,
            next_action.TOUCH: self._touch, next_action.PLAN: self._plan,
        }
        if restart:
            self._restart()
        else:
            table.rebuild((), ())

    def act(self) -> bool:
        """Carry out the next action; False if there is none, or it must wait."""
        return self._turns.act()

    def go_on_with_load(self) -> bool:
        """What can be done for a table that is granted to the trainer; False if he must write."""
        return self._cuts.go_on_with_load()

    def carry_out(self, action: int, number: int) -> bool:
        """Do what ``next_train_action`` said; False if it must wait.

        Args:
            action: not NOTHING.
            number: of its frame; means nothing to APPLY_CUT.
        """
        if action == next_action.RETIRE:
            return self._retire(number)
        if action == next_action.APPLY_CUT:
            if self._cuts.must_wait():
                return False
            self._apply_cut()
        else:
            self._actions[action](number)
        return True

    def is_readable(self) -> bool:
        """Is the truth the state after the last trained step?"""
        if self._cuts.is_loading:
            return False
        _, count, (words, closed, trained) = self._ring.look(self._column)
        return bool(next_action.is_readable(words, closed, trained, count))

    # ---- actions

    def _touch(self, number: int) -> None:
        part = self._ring.part(number, self._column)
        n = part["unique_count"]
        fits = self._table.touch(part.array("unique", n), number, part.array("entries", n))
        if not fits:
            if not self._is_first_unfinished(number):
                self.state[state.TOUCH_BLOCKED] = 1  # until a retirement frees entries
                return
            self._table.touch_nothing(number)
        part["held"] = n if fits else 0
        self._store_word(number, TOUCHED)

    def _plan(self, number: int) -> None:
        # the view, upon which the plan stands, is the newest pending record's doing, whatever the words say now
        pending = self._table.pending
        base = self._ticket(pending[-1]) if pending else self._finished()
        part = self._ring.part(number, self._column)
        record = self._table.plan(self._batch(number, part), part["held"])
        part["base"], part["horizon"] = base, self._ticket(self._table.newest_touched)
        part["status"], part["need"], part["full"] = record.status, record.need, 1
        _publish_counts(part, record)
        self._store_word(number, PLANNED)  # SYNC plan
        self._bells.trainer()

    def _revoke(self, number: int) -> None:
        if not compare_exchange_u32(self._ring.words, self._ring.word_index(self._column, number), PLANNED, TOUCHED):
            return  # the trainer was faster: it is claimed
        self._table.take_back(_published_record(number, self._ring.part(number, self._column)))

    def _retire(self, number: int) -> bool:
        part = self._ring.part(number, self._column)
        record = _published_record(number, part)
        if not self._may_assign(record):
            return False
        ticket = self._ticket(number)
        self._table.assign(record, ticket)
        self._table.forget(record)
        header = self._view.header
        if header["retired"] < ticket:  # for `ascpipe status` only: a kill right here counts the batch twice
            _count_batch(header, part)
        header["rows"], header["time"], header["retired"] = record.rows, record.time, ticket
        self._leave(number, part)
        return True

    def _may_assign(self, record: Record) -> bool:
        """See to it that a record may be assigned; False if that must wait for the end of a snapshot."""
        may_assign = self._snapshots.keep(record)
        self.state[state.HAS_IMAGES] = self._snapshots.is_dirty
        return may_assign

    def _skip(self, number: int) -> None:
        part = self._ring.part(number, self._column)
        if self._ring.words[self._ring.word_index(self._column, number)] != TOUCHED:
            part["held"] = 0
        self._leave(number, part)

    def _leave(self, number: int, part: PartView) -> None:
        """Acknowledge a frame, then let go of its entries; the frame may be reused from the first on."""
        held = part.array("entries", part["held"]).copy()
        self._store_word(number, RETIRED)
        self._bells.trainer()
        self._bells.pump()
        self._table.leave(held, number)
        self.state[state.TOUCH_BLOCKED] = 0

    def _count_only(self, number: int) -> None:
        part = self._ring.part(number, self._column)
        record = self._table.count_only(self._batch(number, part), part["held"])
        part["held"], part["full"] = len(record.held), 0
        _publish_counts(part, record)
        store_release_i64(self._ring.longs, self._field("finished"), self._ticket(number))
        self._store_word(number, DONE)

    # ---- cuts

    def _apply_cut(self) -> None:
        self.state[state.TOUCH_BLOCKED] = 0
        self._cuts.apply()

    def _give_up_entries(self) -> None:
        """Every frame is touched again."""
        head, count, (words, _, _) = self._ring.look(self._column)
        for i in range(count):
            if words[i] == TOUCHED:
                self._store_word(head + i, DEDUPED)

    # ---- restart

    def _restart(self) -> None:
        """Take over from a worker that was killed: trust the truth, the words and published records only."""
        head, count, (words, _, _) = self._ring.look(self._column)
        for i in range(count - 1, -1, -1):  # newest first, for they stand upon each other
            if words[i] == PLANNED:
                compare_exchange_u32(self._ring.words, self._ring.word_index(self._column, head + i), PLANNED, TOUCHED)
        head, count, (words, _, _) = self._ring.look(self._column)
        window, pending = [], []
        for i in range(count):
            if TOUCHED <= words[i] <= DONE:
                part = self._ring.part(head + i, self._column)
                window.append((head + i, part.array("entries", part["held"])))
                if words[i] > PLANNED:
                    pending.append(_published_record(head + i, part))
                    # the one that may be assigned in part; it is not if it has to wait, for then there was no room
                    if words[i] == DONE and len(window) == 1 and self._may_assign(pending[0]):
                        self._table.assign(pending[0], self._ticket(head + i))
        self._table.rebuild(window, pending)
        if self._cuts.is_committed():
            self._apply_cut()

    # ---- places in memory

    def _store_word(self, number: int, word: int) -> None:
        exchange_u32(self._ring.words, self._ring.word_index(self._column, number), word)

    def _ticket(self, number: int) -> int:
        return int(self._ring.frames[number % structs.MAX_FRAMES]["ticket"])

    def _batch(self, number: int, part: PartView) -> Batch:
        n = part["unique_count"]
        frame = self._ring.frames[number % structs.MAX_FRAMES]
        return Batch(*_record_arrays(part, n, n, n), number, min(int(frame["ticket"]) & _SEQUENCE, _MOST_INT32),
                     int(frame["timestamp"]), part.array("unique", n), part.array("occurrences", n))

    def _field(self, name: str) -> int:
        return self._ring.table_field_index(self._column, name)

    def _finished(self) -> int:
        return int(load_acquire_i64(self._ring.longs, self._field("finished")))

    def _is_first_unfinished(self, number: int) -> bool:
        head, count, (words, _, _) = self._ring.look(self._column)
        return bool((words[:number - head] == RETIRED).all())


def _publish_counts(part: PartView, record: Record) -> None:
    part["fresh_count"], part["load_count"] = record.fresh, len(record.move_in) - record.fresh
    part["out_count"], part["admitted"] = len(record.out_slots), record.admitted
    part["rows"], part["time"] = record.rows, record.time


def _count_batch(header: np.ndarray, part: PartView) -> None:
    header["batches"] += 1
    header["ids"] += part["id_count"]
    if part["full"]:
        misses = part["fresh_count"] + part["load_count"]
        header["hits"] += part["admitted"] - misses
        header["misses"] += misses
        header["loads"] += part["load_count"]


def _published_record(number: int, part: PartView) -> Record:
    """The record of a planned, claimed or finished frame, as it was published; one that says why not has no keys."""
    fresh, is_made = part["fresh_count"], part["status"] == PLAN_OK or not part["full"]
    arrays = _record_arrays(part, part["held"] if is_made else 0, fresh + part["load_count"], part["out_count"])
    return Record(*arrays, number, fresh, PLAN_OK, 0, part["rows"], part["time"], part["admitted"])


def _record_arrays(part: PartView, keys: int, moves: int, outs: int) -> List[np.ndarray]:
    """In the order of RecordArrays."""
    counts = [("entries", keys), ("slots", keys), ("homes", keys), ("counts", keys), ("frequencies", keys),
              ("move_in", moves), ("out_slots", outs), ("out_entries", outs), ("out_homes", outs)]
    return [part.array(name, count) for name, count in counts]

