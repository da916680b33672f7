"""Lock-free reader of a table's keys. If the table worker changes the keys during a read, the read is repeated.

The reader uses system calls and never maps the segment. So reading a page without memory does not allocate memory, and
the reader cannot write. Values are checked before use, because any process of the session may write to this memory.

While a frame is DONE, its record may be partly assigned to the entries. While a cut is pending, entries may change.
``_consistent`` detects both cases. The location of a row outside the device is a single field.
"""
import functools
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, TypeVar

import numpy as np

from ascpipe.errors import WrongStateError
from ascpipe.layout import structs
from ascpipe.layout.ring_shape import ring_shape
from ascpipe.layout.words import DEDUPED, DONE, FREE, HOME_DISK, RETIRED, TOUCHED, TRAINED

Read = Callable[[int, int], bytes]  #: (offset, size) -> bytes of a segment; fewer bytes at its end
Found = TypeVar("Found")

PATIENCE_S = 5.0  #: maximum wait until the table does not change
_CHUNK = 1 << 16  # entries per read
_PAUSE_S = 5e-5  # seconds between attempts; a step may be short
_SAMPLE_PAUSE_S = 0.01
_SPARE = 16  # additional candidates for the most frequent keys, because some may be deleted


class Moment(NamedTuple):
    """Version of a table.

    Attributes:
        batch: ticket of the last retired batch, or 0.
        cut: number of the last cut.
    """

    batch: int
    cut: int


class KeyState(NamedTuple):
    """State of a key in a table.

    Attributes:
        key: the key.
        is_known: whether the key has trained state. If not, all later fields except ``as_of`` are 0 or None.
        occurrences: number of occurrences in trained batches, times ``faae_coefficient``.
        timestamp: timestamp of the last trained batch with this key, or 0.
        last: ticket of that batch, or 0 if the key was loaded from a checkpoint.
        slot, home, disk_slot: location of the row on the device, in host memory and on disk, or None.
        as_of: ticket of the table's last retired batch when the key was read.
    """

    key: int
    is_known: bool
    occurrences: int
    timestamp: int
    last: int
    slot: Optional[int]
    home: Optional[int]
    disk_slot: Optional[int]
    as_of: int


class Hottest(NamedTuple):
    """Most frequent keys, in descending order.

    Attributes:
        keys: (key, number of occurrences).
        batches: number of counted batches, or None if all trained batches were counted.
        occurrences: total number of occurrences of all keys.
    """

    keys: List[Tuple[int, int]]
    batches: Optional[int]
    occurrences: int


class PartKeys(NamedTuple):
    """Keys of a table in a frame.

    Attributes:
        number, ticket: number and ticket of the frame.
        word: word of the frame for the table.
        keys, occurrences: int64[n], int32[n].
    """

    number: int
    ticket: int
    word: int
    keys: np.ndarray
    occurrences: np.ndarray


class RingReader:
    """Reader of the training ring of a table.

    Args:
        read: function that reads the ring's segment.
        size: size of the segment in bytes.
        table_count, column: number of tables in the ring, and column of this table.
    """

    def __init__(self, read: Read, size: int, table_count: int, column: int) -> None:
        shape = ring_shape(table_count, 0)
        self._read = read
        self._size = size
        self._column = column
        self._frames = shape.frames_offset
        self._table = shape.tables_offset + column * structs.RING_TABLE.itemsize

    def words(self) -> np.ndarray:
        """Return the table's word in each frame, as uint32[MAX_FRAMES], in the order of the ring's positions."""
        return _record(self._read, self._table, structs.RING_TABLE)["words"]

    def parts(self, first: int, last: int) -> Iterator[PartKeys]:
        """Yield the table's part of each frame in which the table's word is in [``first``, ``last``]. Frames that are
        freed during the read are skipped.
        """
        header = _record(self._read, 0, structs.RING)
        head = int(header["head"])
        for number in range(head, min(int(header["tail"]), head + structs.MAX_FRAMES)):
            word = int(self.words()[number % structs.MAX_FRAMES])
            seen = self._part(number, word) if first <= word <= last else None
            if seen is not None and int(_record(self._read, 0, structs.RING)["head"]) <= number:
                yield seen

    def _part(self, number: int, word: int) -> Optional[PartKeys]:
        frame = _record(self._read, self._frames + number % structs.MAX_FRAMES * structs.FRAME.itemsize, structs.FRAME)
        begin = int(frame["offset"])
        if frame["number"] != number or not 0 <= begin < self._size:
            return None
        part = _record(self._read, begin + self._column * structs.PART.itemsize, structs.PART)
        count = int(part["unique_count"])
        keys, occurrences = (self._array(begin + int(part[name]), count, kind)
                             for name, kind in (("unique", np.int64), ("occurrences", np.int32)))
        ticket = int(frame["ticket"])
        return None if keys is None or occurrences is None else PartKeys(number, ticket, word, keys, occurrences)

    def _array(self, offset: int, count: int, kind: Any) -> Optional[np.ndarray]:
        size = count * np.dtype(kind).itemsize
        if not (0 <= count <= self._size and 0 <= offset <= self._size - size):
            return None
        found = self._read(offset, size)
        return np.frombuffer(found, kind) if len(found) == size else None


class TableReader:
    """Reader of one table in a process other than the table worker.

    Args:
        name: name of the table, for error messages.
        read: function that reads the table's segment.
        entries_offset, capacity: offset and maximum number of the entries.
        rings: training ring of the table, or no ring.
    """

    def __init__(self, name: str, read: Read, entries_offset: int, capacity: int, rings: Sequence[RingReader]) -> None:
        self._name = name
        self._read = read
        self._entries = entries_offset
        self._capacity = capacity
        self._rings = rings

    @property
    def has_counts(self) -> bool:
        """Return whether the table currently counts occurrences."""
        return bool(self._header()["counting"] != 0 or self.access_threshold < 0)

    @property
    def access_threshold(self) -> int:
        """Return how often a key must occur before it gets a row, or -1 if admission is off."""
        return int(self._header()["access_threshold"])

    def look(self, keys: Sequence[int], patience_s: float = PATIENCE_S) -> List[KeyState]:
        """Return the state of each key.

        Raises:
            WrongStateError: the table changed during each attempt within ``patience_s``.
        """
        deadline = time.monotonic() + patience_s
        seen: Dict[int, KeyState] = {}
        while len(seen) < len(set(keys)):
            wanted = [key for key in dict.fromkeys(keys) if key not in seen]
            for one in self._look_once(wanted, deadline):
                seen[one.key] = one
            self._require_time(deadline, len(seen) < len(set(keys)))
        return [seen[key] for key in keys]

    def pins(self, keys: Sequence[int]) -> Dict[int, List[int]]:
        """For each key, return the tickets of the unfinished batches that hold the key's entry, oldest first."""
        found: Dict[int, List[int]] = {key: [] for key in keys}
        wanted = np.array(list(found), np.int64)
        for ring in self._rings:
            for part in ring.parts(TOUCHED, DONE):
                for key in part.keys[np.isin(part.keys, wanted)].tolist():
                    found[key].append(part.ticket)
        return found

    def hottest(self, count: int, patience_s: float = PATIENCE_S) -> Hottest:
        """Return the keys with the most occurrences in trained batches.

        Raises:
            WrongStateError: see ``look``.
        """
        deadline = time.monotonic() + patience_s
        while True:
            cut = self._moment(deadline).cut
            numbers, occurrences = self._largest(count + _SPARE)
            # the worker may have changed the counts during the read, so read these counts again
            entries = [self._wait_for(functools.partial(self._entry, number), deadline) for number in numbers]
            if all(moment.cut == cut for _, moment in entries):
                found = [(int(entry["key"]), int(entry["count"])) for entry, _ in entries if entry["state"] == TRAINED]
                return Hottest(sorted(found, key=lambda one: (-one[1], one[0]))[:count], None, occurrences)
            self._require_time(deadline, True)

    def sample(self, count: int, seconds: float) -> Hottest:
        """For ``seconds`` seconds, count the keys of all batches in the rings. Return the most frequent keys."""
        end = time.monotonic() + seconds
        seen: Set[Tuple[int, int]] = set()
        parts: List[PartKeys] = []
        while True:
            for index, ring in enumerate(self._rings):
                for part in ring.parts(DEDUPED, RETIRED):
                    if (index, part.number) not in seen:
                        seen.add((index, part.number))
                        parts.append(part)
            left_s = end - time.monotonic()
            if left_s <= 0:
                break
            time.sleep(min(_SAMPLE_PAUSE_S, left_s))
        if not parts:
            return Hottest([], 0, 0)
        keys, which = np.unique(np.concatenate([part.keys for part in parts]), return_inverse=True)
        counts = np.bincount(which, np.concatenate([part.occurrences for part in parts])).astype(np.int64)
        order = np.lexsort((keys, -counts))[:count]
        return Hottest(list(zip(keys[order].tolist(), counts[order].tolist())), len(parts), int(counts.sum()))

    # ---- one look

    def _look_once(self, keys: Sequence[int], deadline: float) -> Iterator[KeyState]:
        """Try once to read the state of each key. Yield the states that were read, or nothing if a cut was applied."""
        begun = self._moment(deadline)
        numbers = self._numbers_of(keys)
        found = [(key, self._wait_for(functools.partial(self._entry, numbers[key]), deadline) if key in numbers
                  else None) for key in keys]
        if self._moment(deadline).cut != begun.cut:
            return
        for key, read in found:
            if read is None:
                yield _unknown(key, begun.batch)  # a key that was trained before `begun.batch` would have an entry
            elif read[0]["key"] == key and read[0]["state"] != FREE:
                yield _seen(*read)  # otherwise, the entry was freed or reused, so try again

    def _numbers_of(self, keys: Sequence[int]) -> Dict[int, int]:
        wanted = np.array(keys, np.int64)
        found: Dict[int, int] = {}
        for first, entries in self._chunks():
            at = np.flatnonzero((entries["state"] != FREE) & np.isin(entries["key"], wanted))
            found.update(zip(entries["key"][at].tolist(), (first + at).tolist()))
        return found

    def _largest(self, count: int) -> Tuple[List[int], int]:
        """Return the numbers of the entries with the largest counts, and the sum of the counts of all entries."""
        found = np.zeros((0, 2), np.int64)  # numbers and counts of entries
        occurrences = 0
        for first, entries in self._chunks():
            at = np.flatnonzero(entries["state"] == TRAINED)
            occurrences += int(entries["count"][at].sum(dtype=np.int64))
            found = np.append(found, np.stack([first + at, entries["count"][at]], 1), 0)
            if len(found) > count:
                found = found[np.argpartition(found[:, 1], len(found) - count)[-count:]]
        return [int(number) for number in found[:, 0]], occurrences

    def _chunks(self) -> Iterator[Tuple[int, np.ndarray]]:
        """Yield all entries that were ever used, in blocks: (number of the first entry, ENTRY[n])."""
        used = min(max(0, int(self._header()["entries_used"])), self._capacity)
        size = structs.ENTRY.itemsize
        for first in range(0, used, _CHUNK):
            data = self._read(self._entries + first * size, min(_CHUNK, used - first) * size)
            yield first, np.frombuffer(data, structs.ENTRY, len(data) // size)

    def _entry(self, number: int) -> Any:
        return _record(self._read, self._entries + number * structs.ENTRY.itemsize, structs.ENTRY)

    def _header(self) -> Any:
        return _record(self._read, 0, structs.TABLE)

    # ---- moments

    def _moment(self, deadline: float) -> Moment:
        return self._wait_for(lambda: None, deadline)[1]

    def _wait_for(self, read: Callable[[], Found], deadline: float) -> Tuple[Found, Moment]:
        while True:
            found = self._consistent(read)
            if found is not None:
                return found
            self._require_time(deadline, True)
            time.sleep(_PAUSE_S)

    def _require_time(self, deadline: float, is_needed: bool) -> None:
        if is_needed and time.monotonic() > deadline:
            raise WrongStateError(
                "look at table {!r}".format(self._name), "serving", "it changed during each attempt. Try again; if a "
                "process is stuck, `ascpipe status` shows it")

    def _consistent(self, read: Callable[[], Found]) -> Optional[Tuple[Found, Moment]]:
        """Call ``read``, and return the result. Return None if a record or cut may have been applied during the call.

        The order of the checks matters, because a worker first assigns the record, then stores ``retired``,
        then the word.
        """
        before = self._stamp()
        if before is None or self._may_be_assigning():
            return None
        found = read()
        if self._may_be_assigning() or self._stamp() != before:
            return None
        return found, before

    def _may_be_assigning(self) -> bool:
        return any((ring.words() == DONE).any() for ring in self._rings)

    def _stamp(self) -> Optional[Moment]:
        header = self._header()
        if header["cut_asked"] != header["cut_applied"]:
            return None
        return Moment(int(header["retired"]), int(header["cut_applied"]))


def _unknown(key: int, as_of: int) -> KeyState:
    return KeyState(key, False, 0, 0, 0, None, None, None, as_of)


def _seen(entry: Any, moment: Moment) -> KeyState:
    if entry["state"] != TRAINED:
        return _unknown(int(entry["key"]), moment.batch)
    slot = int(entry["slot"])
    home = int(entry["home"])
    return KeyState(int(entry["key"]), True, int(entry["count"]), int(entry["timestamp"]), int(entry["last"]),
                   slot if slot >= 0 else None, home if home >= 0 else None,
                   HOME_DISK - home if home <= HOME_DISK else None, moment.batch)


def _record(read: Read, offset: int, struct: np.dtype) -> Any:
    """Read a struct at an offset of a segment. Return zeros if the struct extends beyond the end of the segment."""
    data = read(offset, struct.itemsize)
    return np.frombuffer(data if len(data) == struct.itemsize else bytes(struct.itemsize), struct)[0]
