"""Makes a ring and tables in ordinary memory, as the supervisor does, and plays the pump."""
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ascpipe.kernels.atomics import exchange_i64
from ascpipe.layout import structs
from ascpipe.layout.ring_shape import PART_ARRAYS, frame_bytes, ring_shape
from ascpipe.layout.table_shape import asks_room, log_capacity, table_shape
from ascpipe.layout.words import DEDUPED, LOCAL, RETIRED, SUBMITTED, TRAIN, TRAINED
from ascpipe.shm.ring import RingView, TableView

Allocate = Callable[[int], np.ndarray]


def aligned(size: int) -> np.ndarray:
    """uint8[size], zeroed, on a cache line."""
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start:start + size]


def make_ring(tables: int, frames: int, arena_bytes: int, look_ahead: int = 32, plan_ahead: int = 2,
              channel: int = TRAIN, allocate: Allocate = aligned, rank_size: int = 1) -> RingView:
    """An empty ring as the supervisor makes it."""
    shape = ring_shape(tables, arena_bytes)
    memory = allocate(shape.total_bytes)
    header = memory[:structs.RING.itemsize].view(structs.RING)[0]
    for name, value in (("channel", channel), ("rank_size", rank_size),
                        ("frame_count", frames), ("table_count", tables),
                        ("look_ahead", look_ahead), ("plan_ahead", plan_ahead), ("arena_offset", shape.arena_offset),
                        ("arena_bytes", arena_bytes), ("frames_offset", shape.frames_offset),
                        ("tables_offset", shape.tables_offset)):
        header[name] = value
    ring = RingView(memory)
    ring.tables["table"] = np.arange(tables)
    return ring


def truth_of_table(view: TableView) -> Dict[int, Tuple[int, int, int, int]]:
    """key -> (count, timestamp, slot, home) of every key with trained state."""
    state = {}
    for entry in range(int(view.header["entries_used"])):
        known = view.entries[entry]
        if known["state"] == TRAINED:
            key, slot, home = (int(known[field]) for field in ("key", "slot", "home"))
            if key in state or (slot >= 0 and view.slot_entries[slot] != entry):
                raise AssertionError("key {} stands twice, or its slot {} is not its own".format(key, slot))
            state[key] = (int(known["count"]), int(known["timestamp"]), slot, home)
    return state


def make_table(device_rows: int, capacity: int, allocate: Allocate = aligned, home_rows: int = 0, row_floats: int = 0,
               disk_slots: int = 0, **fields: int) -> TableView:
    """An empty table as the supervisor makes it; ``fields`` are further ones of its header."""
    shape = table_shape(device_rows, capacity, home_rows, row_floats, disk_slots)
    memory = allocate(shape.total_bytes)
    header = memory[:structs.TABLE.itemsize].view(structs.TABLE)[0]
    defaults = {"access_threshold": -1, "counting": 1, "faae_coefficient": 1, "eviction_threshold": -1}
    for name, value in {
            "device_rows": device_rows, "entry_capacity": capacity, "home_capacity": home_rows,
            "row_floats": row_floats, "slots_offset": shape.slots_offset, "entries_offset": shape.entries_offset,
            "home_offset": shape.home_offset, "log_offset": shape.log_offset,
            "log_capacity": log_capacity(capacity), **defaults, **fields}.items():
        header[name] = value
    if disk_slots:
        header["disk_offset"] = shape.disk_offset
        disk = memory[shape.disk_offset:shape.disk_offset + structs.DISK_TABLE.itemsize].view(structs.DISK_TABLE)[0]
        for name, value in (("disk_slots", disk_slots), ("asks_room", asks_room(home_rows)), ("epoch", 1),
                            ("asks_offset", shape.asks_offset), ("requests_offset", shape.requests_offset),
                            ("reads_offset", shape.reads_offset), ("read_rows_offset", shape.read_rows_offset)):
            disk[name] = value
    table = TableView(memory)
    table.slot_entries[:] = -1
    return table


_TAIL = structs.RING.fields["tail"][1] // 8
FILLING = 0xFFFFFFFF  #: claim of a frame that the pump is filling


class Open(NamedTuple):
    """A submitted batch that the trainer knows."""

    ticket: int
    number: int
    keys: Tuple[Tuple[int, ...], ...]
    timestamp: int = 0


class Home(NamedTuple):
    """Kind and rules of a table, beside its device rows.

    Attributes:
        rows: home rows, 0 = a table without.
        threshold, coefficient: of admission.
        floats: of a home row.
        disk: slots, 0 = no row goes to disk.
    """

    rows: int = 0
    threshold: int = -1
    coefficient: int = 1
    floats: int = 1
    disk: int = 0


class PlanError(Exception):
    """A plan that says why it is none."""

    def __init__(self, status: int, need: int) -> None:
        super().__init__(status, need)
        self.status, self.need = status, need


class SimRing:
    """The pump's end of one ring.

    Args:
        tables: how many tables it has.
        frames, arena_bytes, look_ahead, plan_ahead, channel, rank_size: of the ring.
    """

    def __init__(self, tables: int, frames: int, arena_bytes: int, look_ahead: int = 32, plan_ahead: int = 2,
                 channel: int = TRAIN, allocate: Allocate = aligned, rank_size: int = 1) -> None:
        self.ring = make_ring(tables, frames, arena_bytes, look_ahead, plan_ahead, channel, allocate, rank_size)
        self.next_ticket = 1
        self._last_word = DEDUPED if channel == LOCAL else RETIRED

    def submit(self, *keys: Sequence[int], timestamp: int = 0,
               weights: Sequence[Sequence[int]] = ()) -> Optional[Open]:
        """Put one batch into a frame; None if there is no room.  ``weights``: none, or those of each table's keys."""
        self.free_frames()
        header = self.ring.header
        need = frame_bytes(tuple((len(k), 1) for k in keys))
        start, size = int(header["arena_tail"]), int(header["arena_bytes"])
        if start % size + need > size:
            start += size - start % size
        if header["tail"] - header["head"] >= header["frame_count"] or start + need - header["arena_head"] > size:
            return None
        number = int(header["tail"])
        frame = self.frame(number)
        offset = int(header["arena_offset"]) + start % size
        frame["claim"] = FILLING
        frame["number"], frame["ticket"], frame["offset"], frame["length"] = number, self.next_ticket, offset, need
        frame["closed"] = frame["trained"] = 0
        frame["timestamp"] = timestamp
        place = len(keys) * structs.PART.itemsize
        for index, part_keys in enumerate(keys):
            part = self.ring.part(number, index)
            part.fields.fill(0)
            part["id_count"], part["spec_count"], part["specs"] = len(part_keys), 1, place
            place += structs.SPEC.itemsize
            for name, width in PART_ARRAYS:
                part[name] = place
                place += structs.align(width * len(part_keys))
            part.array("ids", len(part_keys))[:] = part_keys
            if weights:
                part["weights"] = part["counts"]
                part.array("weights", len(part_keys))[:] = weights[index]
            self.ring.store_word(number, index, SUBMITTED)
        frame["claim"] = 0
        header["arena_tail"] = start + need
        exchange_i64(self.ring.memory[:structs.RING.itemsize].view(np.int64), _TAIL, number + 1)
        self.next_ticket += 1
        return Open(int(frame["ticket"]), number, tuple(tuple(k) for k in keys), timestamp)

    def free_frames(self) -> None:
        """Give back the closed frames at the head that every table has acknowledged."""
        header = self.ring.header
        while header["head"] < header["tail"]:
            number = int(header["head"])
            if not self.frame(number)["closed"]:
                return
            if any(self.word(number, index) != self._last_word for index in range(self.ring.table_count)):
                return
            header["arena_head"] = self._arena_position(number + 1)
            header["head"] = number + 1

    def clear_claims(self, generation: int) -> None:
        """What the supervisor does after it has reaped a key worker."""
        claims, words = self.ring.frames["claim"], self.ring.tables["words"]
        for place in range(structs.MAX_FRAMES):
            if (words[:, place] == SUBMITTED).any() and claims[place] == generation:
                claims[place] = 0

    def frame(self, number: int) -> Any:
        return self.ring.frame(number)

    def word(self, number: int, index: int) -> int:
        return self.ring.word(number, index)

    def _arena_position(self, number: int) -> int:
        """Ever-growing position of a frame, or of the next one if it does not exist yet."""
        header = self.ring.header
        tail = int(header["arena_tail"])
        if number == header["tail"]:
            return tail
        here = int(self.frame(number)["offset"] - header["arena_offset"])
        return tail - (tail - here) % int(header["arena_bytes"])
