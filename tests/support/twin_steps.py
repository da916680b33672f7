"""The steps of a worker for one table, taken by a ``TwinTable``: by the kernels and by their twins, then compared."""
import math

import numpy as np

from ascpipe.kernels import batch_steps, plan, records, view, window
from ascpipe.kernels.asks import LACKS_NOTHING, LACKS_ROWS
from ascpipe.layout.words import PLAN_NO_MEMORY, PLAN_OK
from ascpipe.tables.records import Batch, Pending
from tests.reference import batch_steps as twins
from tests.reference import plan as plan_twins
from tests.reference import view as view_twins
from tests.reference import window as window_twins
from tests.support.twin_table import TwinTable, list_of, provide, view_of


def int32(values):
    return np.array(list(values), np.int32)


class Frame:
    """A frame of one table: what lies in shared memory of it."""

    def __init__(self, number, keys, times):
        n = self.n = len(keys)
        self.number, self.timestamp = number, number // 2 * times
        # With times 3, the batch needs the rows of some keys that do not occur in it.
        occurrences = [0 if times == 3 and key % 4 == 1 else 1 + (key + times) % 3 for key in keys]
        self.unique, self.occurrences = np.array(keys, np.int64), int32(occurrences)
        self.arrays = records.Record(*[np.full(n, -7, np.int64 if name == "counts" else np.int32)
                                       for name in records.Record._fields])
        self.pending = self.twin = None  # what stands upon the view, and the twin's

    def record(self, moves, outs):
        """The record, once it is known how many rows move."""
        a = self.arrays
        return records.Record(*a[:5], a.move_in[:moves], *[array[:outs] for array in a[6:]])


class Steps:
    """A worker's steps, taken by a table and by its twin."""

    def __init__(self, kind, threshold, home_memory=math.inf, capacity=14, disk_slots=0):
        self.pair = TwinTable(*kind, capacity, threshold, 2, home_memory, disk_slots=disk_slots)
        self.frames, self.next, self.fixed = [], 60, set()  # positions in the ring begin anew at 64
        self.statuses = []

    def frames_in(self, *, planned):
        return [frame for frame in self.frames if (frame.pending is not None) == planned]

    def take(self, step, keys, times):
        getattr(self, step)(keys, times)
        self.pair.compare()

    def touch(self, keys, times):
        pair, frame = self.pair, Frame(self.next, keys, times)
        held = frame.arrays.held

        def step():
            lacks = batch_steps.touch(pair.planner, frame.number, frame.unique, held)
            expected, entries = twins.touch(pair.twin, frame.number, keys)
            assert lacks == expected
            assert entries is None or held.tolist() == entries
            return lacks

        if len(self.frames) < 6:
            if provide(pair, step, frame.n) == LACKS_NOTHING:
                self.frames.append(frame)
            else:
                before = pair.image()
                found = batch_steps.missing_entries(pair.planner, frame.unique)
                assert found == twins.missing_entries(pair.twin, keys)
                assert found[0] != PLAN_NO_MEMORY
                assert pair.image() == before
            self.next += 1

    def plan(self, *_):
        frames = self.frames_in(planned=False)
        if frames:
            self.plan_one(frames[0])

    def plan_one(self, frame):
        pair, drafted = self.pair, []
        pair.table._make_changes(2 * frame.n)

        def step():
            del drafted[:]
            return self._draft(frame, drafted)

        if provide(pair, step, frame.n) == LACKS_ROWS:
            return
        status, fresh, loads = drafted
        self.statuses.append(status)
        if status == PLAN_OK:
            self._complete(frame, fresh, loads)
        else:
            self._leave(frame)
        pair.planner["home_memory_exhausted"] = 0
        pair.provided()

    def _draft(self, frame, drafted):
        planner, twin, rules = self.pair.planner, self.pair.twin, batch_steps.rules_of(self.pair.planner, frame.number)
        assert rules == twins.rules_of(twin, frame.number)
        seen = view_of(planner)
        admitted, fresh, loads = plan.draft_record(
            planner, seen, rules, list_of(planner, frame.number)[:frame.n], frame.occurrences, frame.record(frame.n, 0))
        held = frame.arrays.held.tolist()
        rows, fresh_keys, load_keys, many = plan_twins.draft_record(
            [twin.view[entry] for entry in held], frame.occurrences.tolist(), *twins.rules_of(twin, frame.number))
        assert (admitted, fresh, loads) == (many, len(fresh_keys), len(load_keys))
        assert frame.arrays.move_in[:fresh + loads].tolist() == fresh_keys + load_keys
        status, need = batch_steps.fit(planner, admitted, fresh)
        assert (status, need) == twins.fit(twin, admitted, fresh)
        lacks = batch_steps.lacks_of(planner, fresh, loads) if status == PLAN_OK else LACKS_NOTHING
        assert lacks == (twins.lacks_of(twin, fresh, loads) if status == PLAN_OK else LACKS_NOTHING)
        if status != PLAN_OK or lacks != LACKS_NOTHING:
            view.undo_changes(planner, seen, frame.n)
        else:
            made = frame.twin = twins.Record(held)
            made.move_in = fresh_keys + load_keys
            made.slots, made.homes, made.counts, made.frequencies = (
                [row[i] for row in rows] for i in range(4))
            for entry, row in zip(held, rows):
                view_twins.keep_row(entry, twin.view, twin.changes)
                twin.view[entry] = (*twin.view[entry][:2], *row[2:])
        drafted += [status, fresh, loads]
        return lacks

    def _complete(self, frame, fresh, loads):
        planner, twin, record = self.pair.planner, self.pair.twin, frame.twin
        outs = batch_steps.complete(planner, frame.number, fresh, frame.record(fresh + loads, frame.n))
        assert outs == twins.complete(twin, frame.number, fresh, record)
        made = frame.record(fresh + loads, outs)
        rows, time = planner["rows"] + fresh, max(planner["time"], frame.timestamp)
        listed = list_of(planner, frame.number)
        view.apply_outs(planner, view_of(planner), listed[frame.n:], made.out_homes)
        record.out_homes = view_twins.apply_outs(record.out_entries, twin.view, twin.changes)
        assert [array.tolist() for array in made] == [
            *record.keys(), record.move_in, record.out_slots, record.out_entries, record.out_homes]
        view.apply_moves(made, listed[:frame.n], view_of(planner).rows)
        view_twins.apply_moves(record.move_in, record.held, record.slots, record.homes, twin.view)
        batch_steps.add_record(planner, frame.number, made, rows, time)
        twins.add_record(twin, frame.number, record, int(rows), int(time))
        frame.pending = Pending(frame.number, made, fresh, int(rows), int(time))
        self._pass_by(frame)

    def _pass_by(self, frame):
        window.mark_not_to_plan(self.pair.planner, frame.number)
        window_twins.mark_not_to_plan(self.pair.twin, frame.number)

    def again(self, *_):
        """A step that was taken already changes nothing."""
        before = self.pair.image()
        for frame in self.frames_in(planned=True):
            self._pass_by(frame)
        window.leave(self.pair.planner, self.next)
        window_twins.leave(self.pair.twin, self.next)
        assert self.pair.image() == before

    def assign(self, *_):
        frames = self.frames[:1]
        if not frames or frames[0].pending is None:
            return
        pair, (frame,), header = self.pair, frames, self.pair.header
        for _ in range(2):  # the second time changes nothing
            batch_steps.assign(pair.planner, frame.number, frame.pending.record, frame.number, frame.pending.time)
            twins.assign(pair.twin, frame.twin, frame.number, frame.pending.time)
        changes = len(frame.pending.record.held) + len(frame.pending.record.out_slots)
        batch_steps.forget(pair.planner, changes)
        twins.forget(pair.twin, changes)
        header["rows"], header["time"] = frame.pending.rows, frame.pending.time
        self._leave(frame)

    def _leave(self, frame):
        window.leave(self.pair.planner, frame.number)
        window_twins.leave(self.pair.twin, frame.number)
        self.frames.remove(frame)
        self.fixed.discard(frame.number)

    def skip(self, *_):
        if self.frames and self.frames[0].pending is None:
            self._leave(self.frames[0])

    def take_back(self, *_):
        frames = self.frames_in(planned=True)
        if frames and frames[-1].number not in self.fixed:
            frame = frames[-1]
            self.pair.table.take_back(frame.pending)
            twins.take_back(self.pair.twin, frame.number, frame.twin, frame.pending.fresh)
            frame.pending = frame.twin = None

    def count_only(self, *_):
        if not self.frames or self.frames_in(planned=True):
            return
        pair, frame = self.pair, self.frames[0]
        twin, held = pair.twin, frame.arrays.held.tolist()
        frame.pending = pair.table.count_only(Batch(frame.number, frame.number, frame.timestamp, frame.unique,
                                                    frame.occurrences, frame.record(0, 0)), frame.n)
        known, made = [twin.entries[entry] for entry in held], twins.Record(held)
        rows = plan_twins.draft_count_only(
            [entry.values()[:4] for entry in known], [entry.state for entry in known], frame.occurrences.tolist(),
            twin.threshold, twins.rules_of(twin, 0)[3])
        made.slots, made.homes, made.counts, made.frequencies = ([row[i] for row in rows] for i in range(4))
        frame.twin = made
        twins.put_on(twin, frame.number, made, twin.rows, max(twin.time, frame.timestamp))
        self._pass_by(frame)
        self.fixed.add(frame.number)

    def restart(self, *_):
        """A new worker: records that it finds stay, for it has taken back all others."""
        pending = self.frames_in(planned=True)
        self.pair.restart([(frame.number, frame.arrays.held) for frame in self.frames],
                          [frame.pending for frame in pending])
        self.pair.restart_twin([(frame.number, frame.arrays.held.tolist()) for frame in self.frames],
                               [(frame.number, frame.twin, *frame.pending[2:]) for frame in pending])
        self.fixed |= {frame.number for frame in pending}

    def rebuild(self, *_):
        """As after a cut."""
        if not self.frames_in(planned=True):
            self.pair.table.rebuild(None, ())
            self.pair.restart_twin([(frame.number, frame.arrays.held.tolist()) for frame in self.frames], [])

    def threshold(self, _, value):
        """Keys that have rows may be below it afterwards."""
        value *= 4
        if not self.frames_in(planned=True):
            self.pair.table.set_threshold(value)
            if self.pair.twin.threshold >= 0:
                self.pair.twin.threshold = value or self.pair.twin.threshold
                self.pair.twin.counting = value > 0
