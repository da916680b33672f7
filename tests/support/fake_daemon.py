"""An in-process stand-in for the daemon: one thread plays key worker and table worker, naively.

It makes the segments by ``ascpipe.layout.structs`` and does what the protocol asks of workers, one thing after
another, with dictionaries: enough to test the ops of the trainer without processes and without numba kernels.
Every key is admitted, but those that a test has an expansion table reject.  On the device alone it stays; a table
with home rows has room for the keys of one batch at least, and keys that are not in the batch may have to go.
"""
import os
import socket
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ascpipe.layout import structs
from ascpipe.layout.words import (
    ANSWERED,
    ASKED,
    CLAIMED,
    DEDUPED,
    DONE,
    PLAN_DEVICE_SMALL,
    PLAN_HOST_FULL,
    PLAN_OK,
    PLAN_TABLE_FULL,
    PLANNED,
    RETIRED,
    SLOT_HOME,
    SLOT_NONE,
    TOUCHED,
    TRAIN,
)
from ascpipe.shm import segment
from ascpipe.shm.bell import ring_plain
from ascpipe.tf.running.native import NativePipeline
from ascpipe.tf.running.shapes import StreamShape, TableShape
from tests.support.fake_segments import FakeRing, FakeTable, Places

GENERATION = 1
STEP_S = 0.001
_FUTURE = 1 << 62


class Words(NamedTuple):
    """How a (frame, table) stands."""

    number: int
    word: int
    closed: bool
    trained: bool


class FakeDaemon:
    """Context manager: segments, the naive workers' thread, and the trainer's pipeline over them.

    Args:
        tables: shapes of the tables.
        streams: shapes of the streams.
        frames, arena_bytes: size of every ring.
        wait_timeout_s: of the trainer.
        run: number of the run.

    Attributes:
        paused: while set, the workers do nothing.
        before_planned: called with ring, frame number and index before a plan is published.
    """

    def __init__(self, tables: Sequence[TableShape], streams: Sequence[StreamShape], *, frames: int = 64,
                 arena_bytes: int = 1 << 17, wait_timeout_s: float = 20.0, run: int = 3) -> None:
        self.session_fd = segment.create(structs.SESSION_BYTES, "test session", use_memfd=True)
        self.session = segment.map(self.session_fd, structs.SESSION_BYTES)
        self.session_header = self.session[:structs.SESSION.itemsize].view(structs.SESSION)[0]
        self.session_header["magic"], self.session_header["run"] = structs.MAGIC, run
        self.session_header["version"] = structs.VERSION
        end = structs.SESSION_BELLS_OFFSET + structs.BELLS * structs.BELL.itemsize
        self.bells = self.session[structs.SESSION_BELLS_OFFSET:end].view(structs.BELL)
        self.tables = {shape.number: FakeTable(shape) for shape in tables}
        self.rings = [FakeRing(stream, frames, arena_bytes, self._ring) for stream in streams]
        self.lifeline, self.trainer_end = socket.socketpair()
        self.paused = threading.Event()
        self.before_planned: Callable[[FakeRing, int, int], None] = lambda ring, number, index: None
        self._resting = threading.Event()
        self._stop = threading.Event()
        self.error: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, name="fake daemon", daemon=True)
        self.pipeline = NativePipeline(run, self.session_fd, self.trainer_end.fileno(), 20, wait_timeout_s)
        try:
            for table in self.tables.values():
                self.pipeline.add_table(table.shape, (table.fd, table.bytes))
            for ring in self.rings:
                self.pipeline.add_stream(ring.stream, (ring.fd, ring.bytes))
            self.pipeline.start()
        except BaseException:
            self.pipeline.stop()
            raise

    def __enter__(self) -> "FakeDaemon":
        self._thread.start()
        return self

    def __exit__(self, *unused: Any) -> None:
        self._stop.set()
        self._thread.join()
        self.pipeline.stop()
        late = int(self.bells[structs.BELL_TRAINER]["late"]), int(self.bells[structs.BELL_PUMP]["late"])
        self.lifeline.close()
        self.trainer_end.close()
        for fd in [self.session_fd] + [t.fd for t in self.tables.values()] + [ring.fd for ring in self.rings]:
            os.close(fd)
        if self.error is not None:
            raise self.error
        if late != (0, 0):
            raise AssertionError("lost wake-ups of (trainer, pump): {}".format(late))

    def pause(self) -> None:
        """Let the workers rest; returns when they do."""
        self._resting.clear()
        self.paused.set()
        self._resting.wait(10.0)

    def fail(self, code: int, text: str) -> None:
        """What the supervisor does when the session cannot go on."""
        self.session_header["failure_text"] = text.encode()
        self.session_header["failure_bytes"] = len(text.encode())
        self.session_header["failed"] = code
        self._ring()

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if self.paused.is_set():
                    self._resting.set()
                elif self.step():
                    continue
                self._stop.wait(STEP_S)
        except BaseException as error:  # noqa: BLE001  (raised again by the main thread)
            self.error = error

    def _ring(self) -> None:
        for bell in (structs.BELL_TRAINER, structs.BELL_PUMP):
            ring_plain(self.session, bell)

    def step(self) -> bool:
        """One round of both workers; True if they did anything."""
        any_done = False
        for ring in self.rings:
            any_done = self._deduplicate(ring) or any_done
            for index, number in enumerate(ring.stream.tables):
                table = self.tables[number]
                work = self._train if ring.stream.channel == TRAIN else self._evaluate
                any_done = work(ring, index, table) or any_done
        return any_done

    def _deduplicate(self, ring: FakeRing) -> bool:
        done = False
        for number in ring.numbers():
            frame = ring.frame(number)
            if frame["claim"] != 0:
                continue
            frame["claim"] = GENERATION
            for index in range(len(ring.stream.tables)):
                ids = ring.array(number, index, "ids")
                order: Dict[int, int] = {}
                ring.array(number, index, "restore")[:] = [order.setdefault(int(key), len(order)) for key in ids]
                ring.array(number, index, "unique", len(order))[:] = list(order)
                ring.part(number, index)["unique_count"] = len(order)
                ring.store(number, index, DEDUPED)
            done = True
        return done

    def _look(self, ring: FakeRing, index: int) -> List[Words]:
        return [Words(number, ring.word(number, index), bool(ring.frame(number)["closed"]),
                      bool(ring.frame(number)["trained"])) for number in ring.numbers()]

    # ---- training

    def _train(self, ring: FakeRing, index: int, table: FakeTable) -> bool:
        frames = self._look(ring, index)
        planned = [frame for frame in frames if frame.word == PLANNED]
        head = next((frame for frame in frames if frame.word != RETIRED), None)
        if head is not None and head.word == DONE:
            self._retire(ring, index, table, head)
            return True
        if head is not None and head.closed and DEDUPED <= head.word < CLAIMED:
            if head.word == PLANNED:
                return self._revoke(ring, index, table, planned[-1])
            if head.trained:
                ring.tables[index]["finished"] = ring.frame(head.number)["ticket"]
                ring.part(head.number, index)["full"] = 0
                ring.store(head.number, index, DONE)
            else:
                ring.store(head.number, index, RETIRED)
            return True
        if table.header["cut_asked"] != table.header["cut_applied"]:
            if planned:
                return self._revoke(ring, index, table, planned[-1])
            if not self.readers_may_read(frames):
                return False
            table.cut()
            table.header["cut_committed"] = table.header["cut_asked"]
            table.header["cut_applied"] = table.header["cut_asked"]
            self._ring()
            return True
        return len(planned) < 2 and self._plan(ring, index, table, frames)

    @staticmethod
    def readers_may_read(frames: Sequence[Words]) -> bool:
        return not any(frame.word in (CLAIMED, DONE)
                       or (frame.word < CLAIMED and frame.closed and frame.trained) for frame in frames)

    def _plan(self, ring: FakeRing, index: int, table: FakeTable, frames: Sequence[Words]) -> bool:
        base = int(ring.tables[index]["finished"])
        places = table.truth
        for frame in frames:
            if frame.word in (DEDUPED, TOUCHED) and not frame.closed:
                return self._write_plan(ring, index, table, (frame.number, base, places))
            if frame.word in (PLANNED, CLAIMED, DONE):
                if frame.word == PLANNED and frame.closed:
                    return False
                places = table.plans.get(frame.number, places)
                base = int(ring.frame(frame.number)["ticket"])
            elif frame.word != RETIRED and not (frame.closed and not frame.trained):
                return False
        return False

    def _write_plan(self, ring: FakeRing, index: int, table: FakeTable, where: Tuple[int, int, Places]) -> bool:
        number, base, before = where
        part = ring.part(number, index)
        unique = [int(key) for key in ring.array(number, index, "unique", int(part["unique_count"]))]
        for name in ("fresh_count", "load_count", "out_count"):
            part[name] = 0
        part["base"], part["full"], part["horizon"] = base, 1, ring.frame(number)["ticket"]
        part["status"], part["need"] = self._need(table, before, unique)
        table.plans[number] = before
        if part["status"] == PLAN_OK:
            place = self._place if table.shape.device_rows else self._expand
            table.plans[number] = place(ring, number, index, table, before, unique)
        part["rows"] = len(table.plans[number].homes if table.shape.home_rows else table.plans[number].slots)
        self.before_planned(ring, number, index)
        ring.store(number, index, PLANNED)
        return True

    @staticmethod
    def _need(table: FakeTable, before: Places, unique: List[int]) -> Tuple[int, int]:
        """Status of the plan, and how much of what is short is needed."""
        shape = table.shape
        if not shape.home_rows:
            rows = len({*before.slots, *unique})
            return (PLAN_TABLE_FULL if rows > shape.device_rows else PLAN_OK), rows
        if len(unique) > shape.device_rows > 0:
            return PLAN_DEVICE_SMALL, len(unique)
        rows = len({*before.homes, *unique} - table.rejected)
        return (PLAN_HOST_FULL if rows > shape.home_rows else PLAN_OK), rows

    @staticmethod
    def _expand(ring: FakeRing, number: int, index: int, table: FakeTable, before: Places,
                unique: List[int]) -> Places:
        """Write the homes, and which of them begin: nothing is on the device."""
        new = [key for key in unique if key not in before.homes and key not in table.rejected]
        homes = table.grown(before.homes, new)
        ring.part(number, index)["fresh_count"] = len(new)
        for name, values in (("slots", [-1] * len(unique)), ("homes", [homes.get(key, -1) for key in unique]),
                             ("move_in", [unique.index(key) for key in new])):
            ring.array(number, index, name, len(values))[:] = values
        return Places({}, homes)

    @staticmethod
    def _place(ring: FakeRing, number: int, index: int, table: FakeTable, before: Places,
               unique: List[int]) -> Places:
        """Write slots and moves; keys that are not in the batch make room, the lowest slot first."""
        shape, slots, homes = table.shape, dict(before.slots), before.homes
        missing = [key for key in unique if key not in slots]
        used = set(slots.values())
        free = [slot for slot in range(shape.device_rows) if slot not in used]
        others = sorted((slot, key) for key, slot in slots.items() if key not in unique)
        out = others[:max(0, len(missing) - len(free))]
        for slot, key in out:
            del slots[key]
            free.append(slot)
        slots.update(zip(missing, free))
        if shape.home_rows:
            new = [key for key in missing if key not in homes]
            homes = table.grown(homes, new)
        else:
            new = missing
        loads = [key for key in missing if key not in new]
        part = ring.part(number, index)
        part["fresh_count"], part["load_count"], part["out_count"] = len(new), len(loads), len(out)
        for name, values in (("slots", [slots[key] for key in unique]),
                             ("homes", [homes.get(key, -1) for key in unique]),
                             ("move_in", [unique.index(key) for key in new + loads]),
                             ("out_slots", [slot for slot, _ in out]),
                             ("out_homes", [homes[key] for _, key in out])):
            ring.array(number, index, name, len(values))[:] = values
        return Places(slots, homes)

    @staticmethod
    def _revoke(ring: FakeRing, index: int, table: FakeTable, frame: Words) -> bool:
        if not ring.swap(frame.number, index, PLANNED, TOUCHED):
            return True  # the trainer was faster: look again
        table.plans.pop(frame.number, None)
        return True

    @staticmethod
    def _retire(ring: FakeRing, index: int, table: FakeTable, frame: Words) -> None:
        part = ring.part(frame.number, index)
        unique = ring.array(frame.number, index, "unique", int(part["unique_count"]))
        for key in unique.tolist():
            table.counts[key] = table.counts.get(key, 0) + 1
        if part["full"] == 1:
            table.truth = table.plans.pop(frame.number)
        table.header["time"] = max(int(table.header["time"]), int(ring.frame(frame.number)["timestamp"]))
        table.times.update(dict.fromkeys(unique.tolist(), int(table.header["time"])))
        table.publish_rows()
        table.header["retired"] = ring.frame(frame.number)["ticket"]
        ring.store(frame.number, index, RETIRED)

    # ---- evaluation

    def _evaluate(self, ring: FakeRing, index: int, table: FakeTable) -> bool:
        done = False
        for frame in self._look(ring, index):
            if frame.word == ASKED and self._may_answer(table):
                part = ring.part(frame.number, index)
                unique = ring.array(frame.number, index, "unique", int(part["unique_count"]))
                out = ring.array(frame.number, index, "slots", int(part["unique_count"]))
                out[:] = [self._resolve(table, int(key)) for key in unique]
                ring.store(frame.number, index, ANSWERED)
                done = True
            elif frame.closed and frame.word in (DEDUPED, ANSWERED, DONE):
                ring.store(frame.number, index, RETIRED)
                done = True
        return done

    @staticmethod
    def _resolve(table: FakeTable, key: int) -> int:
        if key in table.truth.slots:
            return table.truth.slots[key]
        return SLOT_HOME - table.truth.homes[key] if key in table.truth.homes else SLOT_NONE

    def _may_answer(self, table: FakeTable) -> bool:
        for ring in self.rings:
            if ring.stream.channel == TRAIN and table.shape.number in ring.stream.tables:
                return self.readers_may_read(self._look(ring, ring.stream.tables.index(table.shape.number)))
        return True
