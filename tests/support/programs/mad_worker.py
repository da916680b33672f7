"""A worker that has gone mad writes anything anywhere into shared memory while the trainer trains."""
import contextlib
import re
import tempfile
import threading
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import tensorflow as tf

from ascpipe.errors import AscpipeError
from ascpipe.layout import structs
from ascpipe.layout.ring_shape import PART_ARRAYS, ring_shape
from ascpipe.shm.ring import RingView, TableView
from tests.support.programs.counted import Feed, is_table, segments, two_tiers
from tests.support.programs.scenarios import Background, main, started
from tests.support.programs.tiers import STEPS, Everything
from tests.support.tensorflows import use_tensorflow_1

use_tensorflow_1()

CODE = re.compile(r"\bE[1-9][0-9][0-9]\b")


def is_ring(memory: np.ndarray) -> bool:
    """Of a segment of the session, whether it is a ring."""
    header = memory[:structs.RING.itemsize].view(structs.RING)[0]
    shape = ring_shape(int(header["table_count"]), int(header["arena_bytes"]))
    return tuple(int(header[name]) for name in ("frames_offset", "tables_offset", "arena_offset")) == shape[:3]


class Ring:
    """Where the frames of a ring lay when the worker was still sane: it writes there whatever becomes of the header."""

    def __init__(self, memory: np.ndarray) -> None:
        self.ring = RingView(memory)
        self._begin, self._end = int(self.ring.header["arena_offset"]), len(memory)

    def fields(self) -> List[np.ndarray]:
        """One array of each field of the ring, its tables, and its frames with their parts and arrays."""
        ring = self.ring
        found = [ring.memory[:structs.RING.itemsize].view(structs.RING)[name] for name in structs.RING.names]
        found += [ring.tables[name].reshape(-1) for name in ring.tables.dtype.names]
        found += [ring.frames[name] for name in ring.frames.dtype.names]
        for offset in set(ring.frames["offset"].tolist()):
            if self._begin <= offset <= self._end - ring.table_count * structs.PART.itemsize:
                found += self._parts(offset)
        return [field for field in found if field.size]

    def _parts(self, offset: int) -> List[np.ndarray]:
        memory = self.ring.memory
        parts = memory[offset:offset + self.ring.table_count * structs.PART.itemsize].view(structs.PART)
        found = [parts[name] for name in structs.PART.names]
        for part in parts:
            count = int(part["id_count"])
            for name, size in PART_ARRAYS:
                begin = offset + int(part[name])
                if 0 < count < 1000 and self._begin <= begin <= self._end - size * count and begin % size == 0:
                    found.append(memory[begin:begin + size * count].view(np.int64 if size == 8 else np.int32))
        return found


class Table:
    """A table: its header, its entries and which of them its slots have, and what it asks of the disk."""

    def __init__(self, memory: np.ndarray) -> None:
        header = memory[:structs.TABLE.itemsize].view(structs.TABLE)
        table = TableView(memory)
        used = int(header["entries_used"])
        self._fields = [header[name] for name in structs.TABLE.names]
        self._fields += [table.entries[name][:used] for name in structs.ENTRY.names] + [table.slot_entries]
        disk = int(header["disk_offset"])
        if disk:
            words = memory[disk:disk + structs.DISK_TABLE.itemsize].view(structs.DISK_TABLE)
            self._fields += [words[name].reshape(-1) for name in structs.DISK_TABLE.names]
            for name, count in (("requests_offset", int(header["home_capacity"])), ("reads_offset", 100)):
                begin = int(words[name])
                requests = memory[begin:begin + count * structs.REQUEST.itemsize].view(structs.REQUEST)
                self._fields += [requests[field] for field in structs.REQUEST.names]

    def fields(self) -> List[np.ndarray]:
        """One array of each field."""
        return [field for field in self._fields if field.size]


class Session:
    """The session segment: what the daemon says to all, the bells, and what disks do."""

    def __init__(self, memory: np.ndarray) -> None:
        self._fields = []
        for dtype, offset, count in (
                (structs.SESSION, 0, 1), (structs.BELL, structs.SESSION_BELLS_OFFSET, structs.BELLS),
                (structs.DISK, structs.SESSION_DISKS_OFFSET, structs.MAX_DISKS),
                (structs.EXCHANGES, structs.SESSION_EXCHANGES_OFFSET, 1),
                (structs.READING, structs.SESSION_READING_OFFSET, 1)):
            words = memory[offset:offset + count * dtype.itemsize].view(dtype)
            self._fields += [words[name] if dtype[name].kind != "S" else memory[offset:][text:text + 64]
                             for name, (_, text, *_) in dtype.fields.items()]

    def fields(self) -> List[np.ndarray]:
        """One array of each field."""
        return self._fields


def value(draw: np.random.RandomState, before: int) -> int:
    """Anything, often what is near to right or at a limit."""
    kinds = ([before + 1, before - 1, -before, before ^ 1 << int(draw.randint(63))],
             [0, 1, -1, -2, 2**31 - 1, 2**31, -2**31, 2**40, 2**62, -2**62, 2**63 - 1, -2**63],
             [int.from_bytes(draw.bytes(8), "little", signed=True)])
    kind = kinds[draw.randint(3)]
    return kind[draw.randint(len(kind))]


@contextlib.contextmanager
def gone_mad(seed: int, most: int, everywhere: bool) -> Iterator[Callable[[], int]]:
    """Up to ``most`` stores into rings, or ``everywhere``, at random moments; gives how many there were."""
    draw, over = np.random.RandomState(seed), threading.Event()
    memories = segments()
    mapped: List[Any] = [Ring(memory) for memory in memories if is_ring(memory)]
    if everywhere:
        mapped += [Table(memory) for memory in memories if is_table(memory)]
        mapped += [Session(memory) for memory in memories if len(memory) == structs.SESSION_BYTES]
    pause_s = float(draw.choice([0.0002, 0.002, 0.02]))
    stores = 0

    def write() -> None:
        nonlocal stores
        while stores < most and not over.is_set():
            fields = mapped[draw.randint(len(mapped))].fields()
            field = fields[draw.randint(len(fields))]
            at, kind = draw.randint(len(field)), field.dtype
            raw = value(draw, int(field[at])).to_bytes(9, "little", signed=True)[:kind.itemsize]
            field[at] = np.frombuffer(raw, kind)[0]
            stores += 1
            over.wait(float(draw.exponential(pause_s)))

    worker = Background(write)
    try:
        yield lambda: stores
    finally:
        over.set()
        worker.join().returned()


@contextlib.contextmanager
def training(kind: str) -> Iterator[Tuple[Callable[[int], Any], int]]:
    """A program that trains; a call that does a step, and how many there are."""
    if kind == "evaluated":
        tables = two_tiers()
        feed = Feed(tables, 1000, lambda data: data.prefetch(20))
        check = Feed(tables, 1000, lambda data: data.prefetch(5), seed=9, training=False)
        with started() as running:
            running.run([feed.iterator.initializer, check.iterator.initializer])
            yield lambda number: [running.run(one.fetches()) for one in (feed, check)], 150
        return
    with tempfile.TemporaryDirectory() as folder:
        everything = Everything(folder if kind != "tiers" else "")
        with started() as running:
            running.run(everything.iterator.initializer)
            yield lambda number: everything.step(running, number), STEPS


def mad_frames(kind: str, seed: str) -> Dict[str, Any]:
    """Train, at first with a sane worker, until the end or an error: its code, or its first line if it has none."""
    ended, done = "trained", int(np.random.RandomState(int(seed)).randint(2, 20))
    with training(kind) as (step, steps):
        for number in range(done):
            step(number)
        with gone_mad(int(seed), 300, kind == "everywhere") as stores:
            try:
                for number in range(done, steps):
                    step(number)
                    done = number
            except (tf.errors.OpError, AscpipeError, RuntimeError) as error:
                text = getattr(error, "message", "") or str(error)
                code = CODE.search(text)
                ended = code.group() if code else text.splitlines()[0][:300]
    return {"ended": ended, "steps": done, "stores": stores()}


if __name__ == "__main__":
    main({mad_frames.__name__: mad_frames})
