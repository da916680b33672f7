"""Segments of the in-process daemon of ``fake_daemon``: rings and tables by ``ascpipe.layout.structs``."""
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set

import numpy as np

from ascpipe.kernels import atomics
from ascpipe.layout import structs
from ascpipe.layout.ring_shape import PART_ARRAYS, ring_shape
from ascpipe.layout.table_shape import log_capacity, table_shape
from ascpipe.layout.words import CUT_EVICT, CUT_RESET, CUT_THRESHOLD
from ascpipe.shm import segment
from ascpipe.tf.running.shapes import StreamShape, TableShape

#: home rows that an expansion table gets at a time
CHUNK_ROWS = 8


class FakeRing:
    """Views of one ring segment; positions are frame numbers % MAX_FRAMES."""

    def __init__(self, stream: StreamShape, frames: int, arena_bytes: int, ring: Callable[[], None]) -> None:
        shape = ring_shape(len(stream.tables), arena_bytes)
        self.stream = stream
        self._ring = ring
        self.bytes = shape.total_bytes
        self.fd = segment.create(self.bytes, "test ring", use_memfd=True)
        self.memory = segment.map(self.fd, self.bytes)
        self.header = self.memory[:structs.RING.itemsize].view(structs.RING)[0]
        self.frames = self.memory[shape.frames_offset:shape.tables_offset].view(structs.FRAME)
        end = shape.tables_offset + len(stream.tables) * structs.RING_TABLE.itemsize
        self.tables = self.memory[shape.tables_offset:end].view(structs.RING_TABLE)
        for name, value in (("magic", structs.MAGIC), ("stream", stream.number), ("channel", stream.channel),
                            ("frame_count", frames), ("table_count", len(stream.tables)), ("look_ahead", 32),
                            ("plan_ahead", 2), ("arena_offset", shape.arena_offset), ("arena_bytes", arena_bytes),
                            ("frames_offset", shape.frames_offset), ("tables_offset", shape.tables_offset)):
            self.header[name] = value
        for index, table in enumerate(stream.tables):
            self.tables[index]["table"] = table
        self.header["version"] = structs.VERSION

    def numbers(self) -> range:
        return range(int(self.header["head"]), int(self.header["tail"]))

    def frame(self, number: int) -> Any:
        return self.frames[number % structs.MAX_FRAMES]

    def words(self, index: int) -> np.ndarray:
        return self.tables[index]["words"]

    def word(self, number: int, index: int) -> int:
        return int(self.words(index)[number % structs.MAX_FRAMES])

    def store(self, number: int, index: int, word: int) -> None:
        atomics.exchange_u32(self.words(index), number % structs.MAX_FRAMES, word)
        self._ring()

    def swap(self, number: int, index: int, expected: int, word: int) -> bool:
        return bool(atomics.compare_exchange_u32(self.words(index), number % structs.MAX_FRAMES, expected, word))

    def part(self, number: int, index: int) -> Any:
        at = int(self.frame(number)["offset"]) + index * structs.PART.itemsize
        return self.memory[at:at + structs.PART.itemsize].view(structs.PART)[0]

    def array(self, number: int, index: int, name: str, count: Optional[int] = None) -> np.ndarray:
        part = self.part(number, index)
        size = dict(PART_ARRAYS)[name]
        at = int(self.frame(number)["offset"]) + int(part[name])
        count = int(part["id_count"]) if count is None else count
        return self.memory[at:at + count * size].view("<i8" if size == 8 else "<i4")


class Places(NamedTuple):
    """Where the rows of keys are."""

    slots: Dict[int, int]
    homes: Dict[int, int]


class FakeTable:
    """One table: its segment, and what the naive worker knows of it."""

    def __init__(self, shape: TableShape) -> None:
        capacity = max(shape.device_rows, shape.home_rows) + 64
        places = table_shape(shape.device_rows, capacity, shape.home_rows, shape.row_floats)
        self.shape = shape
        self.bytes = places.total_bytes
        self.fd = segment.create(self.bytes, "test table", use_memfd=True)
        self.memory = segment.map(self.fd, self.bytes)
        self.header = self.memory[:structs.TABLE.itemsize].view(structs.TABLE)[0]
        for name, value in (("magic", structs.MAGIC), ("table", shape.number), ("dim", shape.dim),
                            ("device_rows", shape.device_rows), ("entry_capacity", capacity),
                            ("entries_offset", places.entries_offset), ("slots_offset", places.slots_offset),
                            ("home_offset", places.home_offset), ("home_capacity", shape.home_rows),
                            ("row_floats", shape.row_floats),
                            ("log_offset", places.log_offset), ("log_capacity", log_capacity(capacity)),
                            ("homes_ready", shape.home_rows if shape.device_rows else 0),
                            ("access_threshold", -1), ("counting", 1),
                            ("faae_coefficient", 1), ("eviction_threshold", -1)):
            self.header[name] = value
        self.header["version"] = structs.VERSION
        floats = self.memory[places.home_offset:places.home_offset + 4 * shape.home_rows * shape.row_floats]
        self.home = floats.view("<f4").reshape(shape.home_rows, shape.row_floats) if shape.home_rows else None
        self.rejected: Set[int] = set()  # keys that an expansion table does not admit
        self.truth = Places({}, {})
        self.counts: Dict[int, int] = {}
        self.times: Dict[int, int] = {}
        self.plans: Dict[int, Places] = {}  # by frame number: what will be the truth

    def grown(self, homes: Dict[int, int], keys: List[int]) -> Dict[int, int]:
        """``homes`` with one for each of ``keys``, lowest first; an expansion table gets memory for them."""
        taken = set(homes.values())
        homes = {**homes, **dict(zip(keys, (home for home in range(self.shape.home_rows) if home not in taken)))}
        if not self.shape.device_rows and homes:
            ready = -(-(max(homes.values()) + 1) // CHUNK_ROWS) * CHUNK_ROWS
            self.header["homes_ready"] = max(int(self.header["homes_ready"]), min(ready, self.shape.home_rows))
        return homes

    def publish_rows(self) -> None:
        self.header["rows"] = len(self.truth.homes if self.shape.home_rows else self.truth.slots)

    def cut(self) -> None:
        """Carry out the change that is asked for."""
        kind, argument = int(self.header["cut_kind"]), int(self.header["cut_argument"])
        if kind == CUT_THRESHOLD:
            self.header["counting"] = int(argument > 0)
            if argument > 0:
                self.header["access_threshold"] = argument
            return
        now = int(self.header["time"])
        gone = [key for key, time in self.times.items() if kind == CUT_RESET or now - time >= argument]
        for part in (self.truth.slots, self.truth.homes, self.counts, self.times):
            for key in gone:
                part.pop(key, None)
        if kind == CUT_EVICT:
            self.header["evicted"] += len(gone)
        self.publish_rows()
