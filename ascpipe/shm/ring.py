"""Ring segments and table segments as numpy views, for the workers.

A ring is a byte arena with up to ``MAX_FRAMES`` frames, numbered without gaps; the pump of the trainer
fills it, key and table workers work in the frames in place.  Nothing here waits or decides.
"""
from typing import List, NamedTuple, Tuple

import numpy as np
from numba import njit

from ascpipe.kernels.atomics import compare_exchange_u32, load_acquire_i64, load_acquire_u32
from ascpipe.layout import structs
from ascpipe.layout.words import DEDUPED, SUBMITTED
from ascpipe.shm.growth import Growth

_HEAD = structs.RING.fields["head"][1] // 8
_TAIL = structs.RING.fields["tail"][1] // 8
_CLOSED = structs.FRAME.fields["closed"][1] // 4
_TRAINED = structs.FRAME.fields["trained"][1] // 4
_CLAIM = structs.FRAME.fields["claim"][1] // 4
_WORDS = structs.RING_TABLE.fields["words"][1] // 4
_FRAME_WORDS = structs.FRAME.itemsize // 4
_FRAME_LONGS = structs.FRAME.itemsize // 8
_TICKET, _OFFSET = (structs.FRAME.fields[name][1] // 8 for name in ("ticket", "offset"))
_TABLE_WORDS = structs.RING_TABLE.itemsize // 4
_PART_LONGS = structs.PART.itemsize // 8
_ID_COUNT, _IDS, _UNIQUE, _RESTORE, _OCCURRENCES, _UNIQUE_COUNT = (structs.PART.fields[name][1] // 8 for name in (
    "id_count", "ids", "unique", "restore", "occurrences", "unique_count"))
_FINISHED, _WANTED = (structs.RING_TABLE.fields[name][1] // 8 for name in ("finished", "wanted"))
_PLACES = structs.MAX_FRAMES


@njit("UniTuple(int64, 2)(int64[::1], uint32[::1], int64, int64, int64[::1], int64[::1], int64[::1])", cache=True)
def read_frames(longs: np.ndarray, words: np.ndarray, frames_at: int, words_at: int, out_words: np.ndarray,
                out_closed: np.ndarray, out_trained: np.ndarray) -> Tuple[int, int]:
    """Take a consistent look at all frames of a ring, for one table.

    Args:
        longs, words: int64, uint32 views of the ring segment.
        frames_at: index of the first FRAME in ``words``.
        words_at: index of the table's state words in ``words``.
        out_words, out_closed, out_trained: int64[MAX_FRAMES]; receive the states, oldest frame first.

    Returns:
        (number of the oldest frame, how many frames there are).
    """
    while True:
        # the tail first: the ring may move on in between, and the other way round would see too many frames
        tail = load_acquire_i64(longs, _TAIL)
        head = load_acquire_i64(longs, _HEAD)
        count = min(tail - head, _PLACES)
        for i in range(count):
            place = (head + i) % _PLACES
            frame = frames_at + place * _FRAME_WORDS
            # closed before the others: once a ticket is closed, nobody claims it and `trained` is final
            out_closed[i] = load_acquire_u32(words, frame + _CLOSED)
            out_words[i] = load_acquire_u32(words, words_at + place)
            out_trained[i] = load_acquire_u32(words, frame + _TRAINED)
        # the pump moves the head before it fills a place anew, so an unmoved head proves the look
        if count >= 0 and load_acquire_i64(longs, _HEAD) == head:
            return head, count


@njit("void(int64[::1], uint32[::1], int64, int64[::1], int64[:, :, ::1], int64[::1], int64[::1], int64[::1])",
      cache=True)
def read_tables(longs: np.ndarray, words: np.ndarray, frames_at: int, tables_at: np.ndarray, out_states: np.ndarray,
                out_heads: np.ndarray, out_counts: np.ndarray, out_wanted: np.ndarray) -> None:
    """Take a consistent look at all frames of a ring for each of some tables.

    Args:
        longs, words: int64, uint32 views of the ring segment.
        frames_at: index of the first FRAME in ``longs``.
        tables_at: int64[tables]; index of each table's RING_TABLE in ``longs``.
        out_states: int64[tables, 3, MAX_FRAMES]; receive what ``read_frames`` gives: words, closed, trained.
        out_heads, out_counts: int64[tables]; receive the number of the oldest frame, and how many frames there are.
        out_wanted: int64[tables]; receive which of these frames a claim of the table waits for, or -1.
    """
    for table in range(tables_at.shape[0]):
        at = tables_at[table]
        head, count = read_frames(longs, words, 2 * frames_at, 2 * at + _WORDS, out_states[table, 0],
                                  out_states[table, 1], out_states[table, 2])
        out_heads[table], out_counts[table], out_wanted[table] = head, count, -1
        wanted = load_acquire_i64(longs, at + _WANTED)
        if wanted > load_acquire_i64(longs, at + _FINISHED):
            for i in range(count):
                if longs[frames_at + (head + i) % _PLACES * _FRAME_LONGS + _TICKET] == wanted:
                    out_wanted[table] = i


@njit("int64(int64[::1], uint32[::1], int64, uint32)", cache=True)
def claim_frame(longs: np.ndarray, words: np.ndarray, frames_at: int, generation: int) -> int:
    """Claim the oldest frame that no key worker has claimed.

    The pump clears the claim last, so whoever has claimed a frame finds it complete.

    Args:
        longs, words: int64, uint32 views of the ring segment.
        frames_at: index of the first FRAME in ``words``.
        generation: of the key worker.

    Returns:
        The frame's number, or -1 if there is none.
    """
    tail = load_acquire_i64(longs, _TAIL)
    for number in range(load_acquire_i64(longs, _HEAD), tail):
        claim = frames_at + (number % _PLACES) * _FRAME_WORDS + _CLAIM
        if load_acquire_u32(words, claim) == 0 and compare_exchange_u32(words, claim, np.uint32(0), generation):
            return number
    return -1


@njit("UniTuple(int64, 2)(int64[::1], uint32[::1], int64, int64, int64, int64[::1], int64[:, ::1])", cache=True)
def submitted_parts(longs: np.ndarray, words: np.ndarray, frames_at: int, tables_at: int, number: int,
                    out_tables: np.ndarray, out_parts: np.ndarray) -> Tuple[int, int]:
    """Find the parts of a frame that wait for a key worker.

    Args:
        longs, words: int64, uint32 views of the ring segment.
        frames_at, tables_at: index of the first FRAME, and of the first RING_TABLE, in ``words``.
        number: of the frame.
        out_tables: int64[tables of the ring]; receives the columns of their tables.
        out_parts: int64[tables of the ring, PART_COLUMNS]; receives what ``ascpipe.kernels.unique.dedup_parts`` takes.

    Returns:
        (how many there are, ids of the largest).
    """
    count = largest = 0
    place = number % _PLACES
    offset = longs[frames_at // 2 + place * _FRAME_LONGS + _OFFSET]
    for table in range(out_tables.shape[0]):
        if load_acquire_u32(words, tables_at + table * _TABLE_WORDS + _WORDS + place) != SUBMITTED:
            continue
        part = offset // 8 + table * _PART_LONGS
        out_tables[count] = table
        out_parts[count, 0] = longs[part + _ID_COUNT]
        out_parts[count, 1] = (offset + longs[part + _IDS]) // 8
        out_parts[count, 2] = (offset + longs[part + _UNIQUE]) // 8
        out_parts[count, 3] = (offset + longs[part + _RESTORE]) // 4
        out_parts[count, 4] = (offset + longs[part + _OCCURRENCES]) // 4
        largest = max(largest, longs[part + _ID_COUNT])
        count += 1
    return count, largest


@njit("void(int64[::1], uint32[::1], int64, int64, int64, int64[::1], int64[:, ::1])", cache=True)
def publish_deduped(longs: np.ndarray, words: np.ndarray, frames_at: int, tables_at: int, number: int,
                    tables: np.ndarray, parts: np.ndarray) -> None:
    """Say how many distinct keys some parts of a frame have, and that they are DEDUPED, by a full fence.

    Args:
        longs, words, frames_at, tables_at, number: as those of ``submitted_parts``.
        tables, parts: its outputs, as far as they were written, after ``dedup_parts``.
    """
    place = number % _PLACES
    offset = longs[frames_at // 2 + place * _FRAME_LONGS + _OFFSET]
    for row in range(tables.shape[0]):
        longs[offset // 8 + tables[row] * _PART_LONGS + _UNIQUE_COUNT] = parts[row, 5]
    for row in range(tables.shape[0]):
        compare_exchange_u32(words, tables_at + tables[row] * _TABLE_WORDS + _WORDS + place, np.uint32(SUBMITTED),
                             np.uint32(DEDUPED))


class PartView:
    """The part of one table in one frame: the fields of PART and the arrays behind it."""

    def __init__(self, longs: np.ndarray, words: np.ndarray, frame_offset: int, table_index: int) -> None:
        start = frame_offset + table_index * structs.PART.itemsize
        self.fields = longs[start // 8:(start + structs.PART.itemsize) // 8]
        self._longs, self._words, self._frame = longs, words, frame_offset

    def __getitem__(self, field: str) -> int:
        return int(self.fields[_PART_INDEX[field]])

    def __setitem__(self, field: str, value: int) -> None:
        self.fields[_PART_INDEX[field]] = value

    def array(self, field: str, count: int) -> np.ndarray:
        """The first ``count`` cells of a part's array: int64 for ids, unique, counts; else int32."""
        start = self._frame + int(self.fields[_PART_INDEX[field]])
        if field in _LONG_ARRAYS:
            return self._longs[start // 8:start // 8 + count]
        return self._words[start // 4:start // 4 + count]


_PART_INDEX = {field: place[1] // 8 for field, place in structs.PART.fields.items()}
_LONG_ARRAYS = frozenset(field for field, size in structs.PART_ARRAYS if size == 8)


class RingView:
    """A mapped ring segment.

    Attributes:
        header: the RING fields, readable by name.
        frames: FRAME[MAX_FRAMES].
        tables: RING_TABLE[table_count].
        longs, words, ints: the whole segment as int64, uint32, int32.
        frames_at, tables_at: index of the first FRAME, and of the first RING_TABLE, in ``words``.
    """

    def __init__(self, memory: np.ndarray) -> None:
        """Args: memory: uint8[bytes of the segment], writable."""
        self.header = memory[:structs.RING.itemsize].view(structs.RING)[0]
        frames, tables = int(self.header["frames_offset"]), int(self.header["tables_offset"])
        count = int(self.header["table_count"])
        self.frames = memory[frames:frames + _PLACES * structs.FRAME.itemsize].view(structs.FRAME)
        self.tables = memory[tables:tables + count * structs.RING_TABLE.itemsize].view(structs.RING_TABLE)
        self.longs, self.words, self.ints = memory.view("<i8"), memory.view("<u4"), memory.view("<i4")
        self.frames_at = frames // 4
        self.tables_at = tables // 4
        self._states = [np.zeros(_PLACES, np.int64) for _ in range(3)]

    @property
    def stream(self) -> int:
        return int(self.header["stream"])

    @property
    def channel(self) -> int:
        return int(self.header["channel"])

    @property
    def table_count(self) -> int:
        return len(self.tables)

    def word_index(self, table_index: int, number: int) -> int:
        """Index in ``words`` of the state word of frame ``number`` for a table."""
        return self._words_at(table_index) + number % _PLACES

    def table_field_index(self, table_index: int, field: str) -> int:
        """Index in ``longs`` of a field of the table's RING_TABLE."""
        return self.table_index(table_index) + structs.RING_TABLE.fields[field][1] // 8

    def table_index(self, table_index: int) -> int:
        """Index in ``longs`` of the table's RING_TABLE."""
        return (self.tables_at * 4 + table_index * structs.RING_TABLE.itemsize) // 8

    def is_empty(self) -> bool:
        """Whether the ring has no frame."""
        return bool(load_acquire_i64(self.longs, _TAIL) == load_acquire_i64(self.longs, _HEAD))

    def claim_index(self, number: int) -> int:
        """Index in ``words`` of the key workers' claim of frame ``number``."""
        return self.frames_at + (number % _PLACES) * _FRAME_WORDS + _CLAIM

    def look(self, table_index: int) -> Tuple[int, int, List[np.ndarray]]:
        """(oldest frame number, frame count, [words, closed, trained]) for one table.

        The arrays are int64[MAX_FRAMES], valid until the next look at this ring.
        """
        head, count = read_frames(self.longs, self.words, self.frames_at, self._words_at(table_index), *self._states)
        return head, count, self._states

    def part(self, number: int, table_index: int) -> PartView:
        """The part of a table in frame ``number``."""
        return PartView(self.longs, self.ints, int(self.frames[number % _PLACES]["offset"]), table_index)

    def _words_at(self, table_index: int) -> int:
        return self.tables_at + table_index * _TABLE_WORDS + _WORDS


class Place(NamedTuple):
    """Where a table stands in a stream: its column in the stream's ring."""

    ring: RingView
    column: int


class TableView:
    """A mapped table segment.

    Attributes:
        header: the TABLE fields, readable and writable by name.
        longs: the whole segment as int64.
        entries, entries32: the entries as int64[capacity, 6] and int32[capacity, 12]; of these
            ``header["entries_ready"]`` have memory.
        slot_entries: int32[device rows]; entry of each slot, -1 = empty.
        homes: float32[home capacity, row floats]; of these ``header["homes_ready"]`` have memory.
        log: int64[log capacity, 7], an IMAGE each; of these ``header["snapshot_log_ready"]`` have memory.
    """

    def __init__(self, memory: np.ndarray, fd: int = -1) -> None:
        """Args: memory: uint8[bytes of the segment], writable.  fd: its descriptor, or -1 if all of it is there."""
        self.header = memory[:structs.TABLE.itemsize].view(structs.TABLE)[0]
        self.longs = memory.view("<i8")
        header, entry = self.header, structs.ENTRY.itemsize
        capacity, home_capacity, floats = (
            int(header[name]) for name in ("entry_capacity", "home_capacity", "row_floats"))
        start, slots, homes = (int(header[name]) for name in ("entries_offset", "slots_offset", "home_offset"))
        entries = memory[start:start + capacity * entry]
        self.entries = entries.view("<i8").reshape(capacity, entry // 8)
        self.entries32 = entries.view("<i4").reshape(capacity, entry // 4)
        self.slot_entries = memory[slots:slots + 4 * int(header["device_rows"])].view("<i4")
        self.homes = memory[homes:homes + 4 * home_capacity * floats].view("<f4").reshape(home_capacity, floats)
        images, image, log = int(header["log_capacity"]), structs.IMAGE.itemsize, int(header["log_offset"])
        self.log = memory[log:log + images * image].view("<i8").reshape(images, image // 8)
        self._entries_growth = Growth(fd, start, entry, capacity)
        self._log_growth = Growth(fd, log, image, images)
        self._homes_growth = Growth(fd, homes, 4 * floats, home_capacity)

    def ready_entries(self, count: int) -> bool:
        """See to it that ``count`` entries, and some more, have memory; False if there is none."""
        return self._ready(self._entries_growth, "entries_ready", count)

    def ready_homes(self, count: int) -> bool:
        """See to it that ``count`` home rows, and some more, have memory; False if there is none."""
        return self._ready(self._homes_growth, "homes_ready", count)

    def ready_log(self, count: int) -> bool:
        """See to it that ``count`` images, and some more, have memory in the log; False if there is none."""
        return self._ready(self._log_growth, "snapshot_log_ready", count)

    def _ready(self, growth: Growth, field: str, count: int) -> bool:
        ready = growth.ready(int(self.header[field]), count)
        if ready < count:
            return False
        if ready > self.header[field]:
            self.header[field] = ready  # after the memory is there
        return True
