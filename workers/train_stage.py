"""What a table worker does with the training stream of one table: the next action until there is none.

The decision is ``ascpipe.kernels.next_action``, the arithmetic ``ascpipe.tables.table``; here stand the
loads and stores of shared memory, and their order.  A worker may be killed between any two of them.
"""
from collections import deque
from typing import Callable, Deque, Dict, List, NamedTuple, Tuple

import numpy as np

from ascpipe.kernels import next_action
from ascpipe.shm import layout
from ascpipe.shm.atomics import compare_exchange_u32, exchange_u32, load_acquire_i64, store_release_i64
from ascpipe.shm.ring import PartView, Place, TableView
from ascpipe.tables.records import Batch, Record
from ascpipe.tables.table import Table
from ascpipe.words import DEDUPED, DONE, PLAN_OK, PLANNED, RETIRED, TOUCHED
from ascpipe.workers.cuts import Bells, Cuts
from ascpipe.workers.snapshots import Snapshots
from ascpipe.workers.stage import Stage
from ascpipe.workers.turns import Look

_SEQUENCE = (1 << 48) - 1  # the part of a ticket that is not the run
_MOST_INT32 = 2**31 - 1


class Pending(NamedTuple):
    """A frame whose record is not retired: planned, claimed or done."""

    number: int
    record: Record


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
        self._ring, self._column = place
        self._look = Look(self._ring, [self._column])
        self._pending: Deque[Pending] = deque()
        self._snapshots = Snapshots(view)
        self._cuts = Cuts(view, table, bells, self._snapshots, self._give_up_entries)
        self._touch_blocked = False
        self._actions: Dict[int, Callable[[int], None]] = {
            next_action.RETIRE: self._retire, next_action.REVOKE: self._revoke, next_action.SKIP: self._skip,
            next_action.COUNT_ONLY: self._count_only, next_action.TOUCH: self._touch, next_action.PLAN: self._plan,
        }
        if restart:
            self._restart()
        else:
            table.rebuild((), ())

    @property
    def is_loading(self) -> bool:
        """Whether the table is granted to the trainer, who fills it."""
        return self._cuts.is_loading

    def flags(self) -> Tuple[bool, bool, bool]:
        """What a look must know beforehand: FLAGS of ``ascpipe.kernels.next_action``."""
        # before the look: who asks for a cut has closed the step before it, and the look must see that
        return self._cuts.is_asked(), self._touch_blocked, self._cuts.is_loading

    def act(self) -> bool:
        """Carry out the next action; False if there is none, or it must wait."""
        if self.is_loading:
            return self._cuts.go_on_with_load()
        self._look.flags[0] = self.flags()
        return any(self.carry_out(action, number) for _, action, number in self._look.next_actions())

    def carry_out(self, action: int, number: int) -> bool:
        """Do what ``next_train_action`` said; False if it must wait.

        Args:
            action: not NOTHING.
            number: of its frame; means nothing to APPLY_CUT.
        """
        if action == next_action.RETIRE and not self._snapshots.keep(self._pending[0].record):
            return False
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
                self._touch_blocked = True  # until a retirement frees entries
                return
            self._table.touch_nothing(number)
        part["held"] = n if fits else 0
        self._store_word(number, TOUCHED)

    def _plan(self, number: int) -> None:
        # the view, upon which the plan stands, is the newest pending record's doing, whatever the words say now
        base = self._ticket(self._pending[-1].number) if self._pending else self._finished()
        part = self._ring.part(number, self._column)
        record = self._table.plan(self._batch(number, part), part["held"])
        part["base"], part["horizon"] = base, self._ticket(self._table.newest_touched)
        part["status"], part["need"], part["full"] = record.status, record.need, 1
        _publish_counts(part, record)
        self._pending.append(Pending(number, record))
        self._store_word(number, PLANNED)  # SYNC plan
        self._bells.trainer()

    def _revoke(self, number: int) -> None:
        if not compare_exchange_u32(self._ring.words, self._ring.word_index(self._column, number), PLANNED, TOUCHED):
            return  # the trainer was faster: it is claimed
        self._table.take_back(self._pending.pop().record)

    def _retire(self, number: int) -> None:
        part = self._ring.part(number, self._column)
        record = self._pending.popleft().record
        ticket = self._ticket(number)
        self._table.assign(record, ticket)
        self._table.forget(record)
        header = self._view.header
        if header["retired"] < ticket:  # for `ascpipe status` only: a kill right here counts the batch twice
            _count_batch(header, part)
        header["rows"], header["time"], header["retired"] = record.rows, record.time, ticket
        self._leave(number, part)

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
        self._touch_blocked = False

    def _count_only(self, number: int) -> None:
        part = self._ring.part(number, self._column)
        record = self._table.count_only(self._batch(number, part), part["held"])
        part["held"], part["full"] = len(record.held), 0
        _publish_counts(part, record)
        self._pending.append(Pending(number, record))
        store_release_i64(self._ring.longs, self._field("finished"), self._ticket(number))
        self._store_word(number, DONE)

    # ---- cuts

    def _apply_cut(self) -> None:
        self._touch_blocked = False
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
        window = []
        for i in range(count):
            if TOUCHED <= words[i] <= DONE:
                part = self._ring.part(head + i, self._column)
                window.append((head + i, part.array("entries", part["held"])))
                if words[i] > PLANNED:
                    self._pending.append(Pending(head + i, _published_record(head + i, part)))
                    # the one that may be assigned in part; it is not if it has to wait, for then there was no room
                    if words[i] == DONE and len(window) == 1 and self._snapshots.keep(self._pending[0].record):
                        self._table.assign(self._pending[0].record, self._ticket(head + i))
        self._table.rebuild(window, [pending.record for pending in self._pending])
        if self._cuts.is_committed():
            self._apply_cut()

    # ---- places in memory

    def _store_word(self, number: int, word: int) -> None:
        exchange_u32(self._ring.words, self._ring.word_index(self._column, number), word)

    def _ticket(self, number: int) -> int:
        return int(self._ring.frames[number % layout.MAX_FRAMES]["ticket"])

    def _batch(self, number: int, part: PartView) -> Batch:
        n = part["unique_count"]
        frame = self._ring.frames[number % layout.MAX_FRAMES]
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
    """The record of a claimed or finished frame, as an earlier worker published it."""
    fresh = part["fresh_count"]
    return Record(*_record_arrays(part, part["held"], fresh + part["load_count"], part["out_count"]), number, fresh,
                  PLAN_OK, 0, part["rows"], part["time"], part["admitted"])


def _record_arrays(part: PartView, keys: int, moves: int, outs: int) -> List[np.ndarray]:
    """In the order of RecordArrays."""
    counts = [("entries", keys), ("slots", keys), ("homes", keys), ("counts", keys), ("frequencies", keys),
              ("move_in", moves), ("out_slots", outs), ("out_entries", outs), ("out_homes", outs)]
    return [part.array(name, count) for name, count in counts]

