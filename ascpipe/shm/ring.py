"""Numpy views of ring segments and table segments, for the workers.

A ring is a byte arena with up to ``MAX_FRAMES`` frames, which are numbered without gaps. The trainer's pump
fills the frames. Key and table workers process them in place.
"""
from typing import Any, List, NamedTuple, Sequence

import numpy as np

from ascpipe.kernels import atomics
from ascpipe.kernels.records import IMAGE, TURN, Record
from ascpipe.kernels.ring_scan import look
from ascpipe.layout import structs
from ascpipe.layout.ring_shape import PART_ARRAYS
from ascpipe.shm.growing_part import GrowingPart

_LONG_ARRAYS = frozenset(field for field, size in PART_ARRAYS if size == 8)
_KEY_ARRAYS = ("entries", "slots", "homes", "counts", "frequencies")
_OUT_ARRAYS = ("out_slots", "out_entries", "out_homes")


class PartView:
    """Part of one table in one frame: the fields of the struct PART, and the arrays of the part.

    Args:
        longs, ints: ring segment as int64[] and as int32[].
        frame_offset: start of the frame in bytes.
        column: column of the table in the ring.
    """

    def __init__(self, longs: np.ndarray, ints: np.ndarray, frame_offset: int, column: int) -> None:
        start = (frame_offset + column * structs.PART.itemsize) // 8
        self._fields = longs[start:start + _PART_LONGS]  # by number: access to a numpy record is three times slower
        self._longs = longs
        self._ints = ints
        self._frame = frame_offset

    @property
    def fields(self) -> Any:
        """Return the struct PART of the part, for kernels."""
        return self._fields.view(structs.PART)[0]

    def __getitem__(self, field: str) -> int:
        return int(self._fields[_PART_FIELDS[field]])

    def __setitem__(self, field: str, value: int) -> None:
        self._fields[_PART_FIELDS[field]] = value

    def array(self, field: str, count: int) -> np.ndarray:
        """Return the first ``count`` items of the array ``field``. The items of ids, unique and counts are int64; all
        other items are int32.
        """
        start = self._frame + self[field]
        if field in _LONG_ARRAYS:
            return self._longs[start // 8:start // 8 + count]
        return self._ints[start // 4:start // 4 + count]

    def record(self, keys: int, moves: int, outs: int) -> Record:
        """Return the part's record, which has ``keys`` keys, ``moves`` swap-ins and ``outs`` victims."""
        counts = [(name, keys) for name in _KEY_ARRAYS] + [("move_in", moves)] + [(name, outs) for name in _OUT_ARRAYS]
        return Record(*[self.array(name, count) for name, count in counts])


class Look(NamedTuple):
    """States of a ring's frames for one table. The arrays are valid until the next call of ``look`` for this ring.

    Attributes:
        turn: TURN, for kernels.
        head: number of the oldest frame.
        words: int64[frames], word of each frame, oldest first.
        closed: int64[frames], nonzero if the frame can no longer be trained.
        trained: int64[frames], nonzero if a step has claimed the plan of a table.
    """

    turn: Any
    head: int
    words: np.ndarray
    closed: np.ndarray
    trained: np.ndarray


class RingView:
    """Mapped ring segment.

    Args:
        memory: uint8[bytes of the segment], writable.

    Attributes:
        header: RING, whose fields are readable by name.
        frames: FRAME[MAX_FRAMES].
        tables: RING_TABLE[table_count].
    """

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory
        self._longs = memory.view(np.int64)
        self._ints = memory.view(np.int32)
        self.header: Any = memory[:structs.RING.itemsize].view(structs.RING)[0]
        frames = int(self.header["frames_offset"])
        tables = int(self.header["tables_offset"])
        self.table_count = int(self.header["table_count"])
        self.frames = memory[frames:frames + structs.MAX_FRAMES * structs.FRAME.itemsize].view(structs.FRAME)
        self.tables = memory[tables:tables + self.table_count * structs.RING_TABLE.itemsize].view(structs.RING_TABLE)
        self._words: List[np.ndarray] = list(self.tables["words"])
        self._finished = self.tables["finished"]
        self._turn: Any = np.zeros(1, TURN)[0]

    @property
    def stream(self) -> int:
        return int(self.header["stream"])

    @property
    def channel(self) -> int:
        return int(self.header["channel"])

    def is_empty(self) -> bool:
        """Return True if the ring has no frames."""
        return bool(atomics.load_acquire_i64(self._longs, _TAIL) == atomics.load_acquire_i64(self._longs, _HEAD))

    def look(self, column: int) -> Look:
        """Read the states of all frames of the ring for the table in a column of the ring."""
        turn = self._turn
        look(self.memory, column, turn)
        count = int(turn["count"])
        return Look(turn, int(turn["head"]), turn["words"][:count], turn["closed"][:count], turn["trained"][:count])

    def frame(self, number: int) -> Any:
        """Return the struct FRAME of the frame with the number ``number``."""
        return self.frames[number % structs.MAX_FRAMES]

    def part(self, number: int, column: int) -> PartView:
        """Return a table's part of a frame."""
        return PartView(self._longs, self._ints, int(self.frame(number)["offset"]), column)

    def word(self, number: int, column: int) -> int:
        """Return the word in which a frame stores the state of a table."""
        return int(atomics.load_acquire_u32(self._words[column], number % structs.MAX_FRAMES))

    def store_word(self, number: int, column: int, word: int) -> None:
        """Store the word that contains the state of a table in a frame, with a full fence."""
        atomics.exchange_u32(self._words[column], number % structs.MAX_FRAMES, word)

    def replace_word(self, number: int, column: int, expected: int, word: int) -> bool:
        """Replace the word of a table in a frame if the word equals ``expected``. Return whether the word was replaced.
        """
        return bool(atomics.compare_exchange_u32(self._words[column], number % structs.MAX_FRAMES, expected, word))

    def finished(self, column: int) -> int:
        """Return the last ticket that a table has finished."""
        return int(atomics.load_acquire_i64(self._finished, column))

    def store_finished(self, column: int, ticket: int) -> None:
        """Store the last ticket that a table has finished. After this call, the caller must store the word of the table
        in the frame.
        """
        atomics.store_release_i64(self._finished, column, ticket)


class TableInRing(NamedTuple):
    """Ring of a stream, and column of a table in this ring."""

    ring: RingView
    column: int


class TableView:
    """Mapped table segment. The arrays for rows on disk exist only if the table may store rows on disk.

    Args:
        memory: uint8[bytes of the segment], writable.
        fd: descriptor of the segment, or -1 if the whole segment has memory.
        name: name of the table.
        directories: directories of the row files.

    Attributes:
        header: TABLE, whose fields are readable and writable by name.
        header_at: address of the header.
        disk_table: DISK_TABLE, whose fields are readable and writable by name, or None if no rows are on disk.
        asks: int32[asks room].
        requests: REQUEST[home capacity], of which ``header["homes_ready"]`` have memory, or None if no rows are on
            disk.
        reads: REQUEST[DISK_READERS, DISK_READS].
        read_rows: float32[DISK_READERS, DISK_READS, row floats].
        entries: ENTRY[capacity], of which ``header["entries_ready"]`` have memory.
        slot_entries: int32[device rows]; entry of each slot, or -1.
        homes: float32[home capacity, row floats], of which ``header["homes_ready"]`` have memory.
        log: IMAGE[log capacity], of which ``header["snapshot_log_ready"]`` have memory.
    """

    def __init__(self, memory: np.ndarray, fd: int = -1, name: str = "", directories: Sequence[str] = ()) -> None:
        self.memory = memory
        self.name = name
        self.directories = directories
        self.header: Any = memory[:structs.TABLE.itemsize].view(structs.TABLE)[0]
        self.header_at = int(memory.ctypes.data)
        self._longs = memory[:structs.TABLE.itemsize].view(np.int64)
        header = self.header
        entry = structs.ENTRY.itemsize
        capacity, home_capacity, floats = (
            int(header[name]) for name in ("entry_capacity", "home_capacity", "row_floats"))
        start, slots, homes = (int(header[name]) for name in ("entries_offset", "slots_offset", "home_offset"))
        self.entries = memory[start:start + capacity * entry].view(structs.ENTRY)
        self.slot_entries = memory[slots:slots + 4 * int(header["device_rows"])].view("<i4")
        self.homes = memory[homes:homes + 4 * home_capacity * floats].view("<f4").reshape(home_capacity, floats)
        disk = int(header["disk_offset"])
        self.disk_table: Any = memory[disk:disk + structs.DISK_TABLE.itemsize].view(structs.DISK_TABLE)[0] \
            if disk else None
        self.requests: Any = None
        if disk:
            asks = int(self.disk_table["asks_offset"])
            requests = int(self.disk_table["requests_offset"])
            self.asks = memory[asks:asks + 4 * int(self.disk_table["asks_room"])].view("<i4")
            self.requests = memory[requests:requests + home_capacity * structs.REQUEST.itemsize].view(structs.REQUEST)
            self._reads_asked = memory[disk:disk + structs.DISK_TABLE.itemsize].view(structs.DISK_TABLE)[
                "reads_asked"][0]
            reads = int(self.disk_table["reads_offset"])
            rows = int(self.disk_table["read_rows_offset"])
            self.reads = memory[reads:rows].view(structs.REQUEST).reshape(structs.DISK_READERS, structs.DISK_READS)
            self.read_rows = memory[rows:rows + 4 * self.reads.size * floats].view("<f4").reshape(
                *self.reads.shape, floats)
        images = int(header["log_capacity"])
        log = int(header["log_offset"])
        self.log = memory[log:log + images * IMAGE.itemsize].view(IMAGE)
        self._growing_entries = GrowingPart(fd, start, entry, capacity)
        self._growing_log = GrowingPart(fd, log, IMAGE.itemsize, images)
        self._growing_homes = GrowingPart(fd, homes, 4 * floats, home_capacity)
        self._growing_requests = GrowingPart(
            fd, self.disk_table["requests_offset"] if self.disk_table is not None else 0,
            structs.REQUEST.itemsize, home_capacity)

    def load(self, field: str) -> int:
        """Load a header field with acquire order, because another process stores the field."""
        return int(atomics.load_acquire_i64(self._longs, _TABLE_LONGS[field]))

    def store(self, field: str, value: int) -> None:
        """Store a header field with a full fence, because another process loads the field."""
        atomics.exchange_i64(self._longs, _TABLE_LONGS[field], value)

    def reads_asked(self, reader: int) -> int:
        """Return how often a reader has requested rows from disk."""
        return int(atomics.load_acquire_i64(self._reads_asked, reader))

    def ready_entries(self, count: int) -> bool:
        """Allocate memory for ``count`` entries. Return False if memory is exhausted."""
        return self._ready(self._growing_entries, "entries_ready", count)

    def ready_homes(self, count: int) -> bool:
        """Allocate memory for ``count`` home rows and their requests. Return False if memory is exhausted."""
        if self.disk_table is None:
            return self._ready(self._growing_homes, "homes_ready", count)
        before = int(self.header["homes_ready"])
        ready = self._growing_requests.ready(before, self._growing_homes.ready(before, count))
        if ready > before:
            self.header["homes_ready"] = ready
        return ready >= count

    def ready_log(self, count: int) -> bool:
        """Allocate memory for ``count`` images in the log. Return False if memory is exhausted."""
        return self._ready(self._growing_log, "snapshot_log_ready", count)

    def _ready(self, part: GrowingPart, field: str, count: int) -> bool:
        ready = part.ready(int(self.header[field]), count)
        if ready < count:
            return False
        if ready > self.header[field]:
            self.header[field] = ready  # stored only after the memory was allocated
        return True


_HEAD, _TAIL = (structs.RING.fields[name][1] // 8 for name in ("head", "tail"))
_PART_FIELDS = {name: field[1] // 8 for name, field in structs.PART.fields.items()}
_PART_LONGS = structs.PART.itemsize // 8
_TABLE_LONGS = {name: field[1] // 8 for name, field in structs.TABLE.fields.items()}
