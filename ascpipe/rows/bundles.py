"""Reader and writer of checkpoints of TensorFlow's Saver (format V2). TensorFlow is not needed."""
import contextlib
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.contents import FLOAT_BYTES
from ascpipe.checkpoint.errors import DamagedCheckpointError, NoCheckpointError
from ascpipe.checkpoint.paths import place_of
from ascpipe.checkpoint.tree import open_place, why
from ascpipe.rows.bundle_format import Entry, Slice, decoded_index, encoded_index, key_of, name_of, slice_key
from ascpipe.rows.checksums import Crc, masked

FLOAT32 = 1  #: number of the type in an entry
_NOT_PLAIN = (7, 20, 21)  # string, resource, variant: the checksum covers more than the bytes of the file
_MAX_INDEX_BYTES = 1 << 30
_CHUNK_BYTES = 4 << 20


class Piece(NamedTuple):
    """Part of a tensor whose bytes are consecutive in a file.

    Attributes:
        entry: location of the bytes.
        start: first index in each dimension.
        shape: lengths in each dimension.
    """

    entry: Entry
    start: Tuple[int, ...]
    shape: Tuple[int, ...]


class Bundle:
    """Checkpoint of TensorFlow's Saver. The caller must close the object or use ``with``.

    Attributes:
        prefix: ``dir/base-step``, or the name that the program passed.
        tensors: entries of tensors by name. A partitioned variable has one entry, which lists its slices.

    Raises:
        NoCheckpointError: there is no such checkpoint.
        CheckpointPathError: the path is not allowed.
        DamagedCheckpointError: the index is damaged, or a data file is missing or too short.
    """

    def __init__(self, prefix: str) -> None:
        place = place_of(prefix)
        self.prefix = prefix
        self._fds: List[int] = []
        self._stem = place.stem
        with disk.closing(open_place(place)) as directory:
            name = self._stem + ".index"
            try:
                shards, self._entries = decoded_index(disk.read_file(directory, name, _MAX_INDEX_BYTES), masked)
                for number in range(shards):
                    name = "{}.data-{:05d}-of-{:05d}".format(self._stem, number, shards)
                    self._fds.append(disk.open_file(directory, name))
                self._stamps = [disk.stamp(fd) for fd in self._fds]
                name = self._stem + ".index"
                self._check_places()
            except FileNotFoundError as error:
                self.close()
                if name.endswith(".index"):
                    raise NoCheckpointError(prefix) from error
                raise self._damaged(name, "the file is missing") from error
            except (OSError, ValueError, TypeError, AttributeError) as error:
                self.close()
                raise self._damaged(name, why(error) if isinstance(error, OSError) else str(error)) from error
        self.tensors = {name_of(key): entry for key, entry in self._entries.items()
                        if not key.startswith(b"\0")}

    def keys_of(self, name: str) -> List[bytes]:
        """Return the key of a tensor, and the keys of its slices if the tensor is partitioned."""
        return [key_of(name), *(slice_key(name, part) for part in self.tensors[name].slices)]

    def entry(self, key: bytes) -> Entry:
        """Return the entry that the index contains for ``key``."""
        return self._entries[key]

    def pieces(self, name: str) -> List[Piece]:
        """Return the parts of a tensor. A tensor that is not partitioned has one part.

        Raises:
            DamagedCheckpointError: the entry of a slice is missing, or has another shape.
        """
        whole = self.tensors[name]
        if not whole.slices:
            return [Piece(whole, (0,) * len(whole.shape), whole.shape)]
        found = []
        for part in whole.slices:
            start, shape = _extents(part, whole.shape)
            entry = self._entries.get(slice_key(name, part))
            if entry is None or entry.shape != shape:
                raise self._damaged(self._stem + ".index", "a slice of {!r} is missing or has another shape".format(
                    name))
            found.append(Piece(entry, start, shape))
        return found

    def verify(self) -> None:
        """Check the slices of all tensors, and verify the checksums of the bytes. The checksums of string tensors are
        not verified.

        Raises:
            DamagedCheckpointError: a checksum is wrong, or a slice is missing.
        """
        for name in self.tensors:
            self.pieces(name)
        for key, entry in sorted(self._entries.items(), key=lambda item: item[1].offset):
            crc = Crc()
            for content in self.content(entry):
                crc.update(content)
            if entry.dtype not in _NOT_PLAIN and not entry.slices and crc.masked() != entry.crc:
                raise self._damaged(self._file(entry.shard), "the checksum of {!r} is wrong".format(
                    name_of(key)))

    def content(self, entry: Entry) -> Iterator[bytes]:
        """Yield the bytes of an entry in chunks.

        Raises:
            DamagedCheckpointError: the file cannot be read.
        """
        for start in range(0, entry.size, _CHUNK_BYTES):
            content = bytearray(min(_CHUNK_BYTES, entry.size - start))
            self._read(entry.shard, entry.offset + start, content)
            yield bytes(content)

    def rows(self, pieces: Sequence[Piece], first: int, count: int, width: int) -> np.ndarray:
        """Return consecutive rows of a tensor as float32[count, width].

        Args:
            pieces: parts of the tensor, which together contain each value once.
        """
        rows = np.empty((count, width), "<f4")
        for piece in pieces:
            start = piece.start[0]
            column, columns = (piece.start[1], piece.shape[1]) if len(piece.shape) > 1 else (0, 1)
            low = max(first, start)
            high = min(first + count, start + piece.shape[0])
            if low >= high or not columns:
                continue
            values = np.empty((high - low, columns), "<f4")
            self._read(piece.entry.shard, piece.entry.offset + (low - start) * columns * FLOAT_BYTES, values)
            rows[low - first:high - first, column:column + columns] = values
        return rows

    def check_unchanged(self) -> None:
        """Raise ``DamagedCheckpointError`` if a data file has changed since it was opened."""
        for number, (fd, stamp) in enumerate(zip(self._fds, self._stamps)):
            if disk.stamp(fd) != stamp:
                raise self._damaged(self._file(number), "it changed while it was read")

    def close(self) -> None:
        """Close the files."""
        while self._fds:
            disk.close(self._fds.pop())

    def __enter__(self) -> "Bundle":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def _check_places(self) -> None:
        for key, entry in self._entries.items():
            size = disk.stamp(self._fds[entry.shard]).size if entry.shard < len(self._fds) else -1
            if entry.offset + entry.size > size:
                raise ValueError("the bytes of {!r} are not in the data files".format(name_of(key)))
            if entry.dtype == FLOAT32 and not entry.slices and entry.size != FLOAT_BYTES * _elements(entry.shape):
                raise ValueError("{!r} has {} bytes and the shape {}".format(
                    name_of(key), entry.size, list(entry.shape)))

    def _read(self, shard: int, offset: int, out: object) -> None:
        try:
            disk.read_into(self._fds[shard], offset, out)
        except OSError as error:
            raise self._damaged(self._file(shard), why(error)) from error

    def _file(self, shard: int) -> str:
        return "{}.data-{:05d}-of-{:05d}".format(self._stem, shard, len(self._fds))

    def _damaged(self, file: str, reason: str) -> DamagedCheckpointError:
        return DamagedCheckpointError(self.prefix, file, reason)


class BundleWriter:
    """Writer of a checkpoint for TensorFlow's Saver. The caller must close the object or use ``with``.

    There is one data file. The tensors of one lane must be written one after the other. Tensors of different lanes can
    be written at the same time.

    Args:
        directory: path of the directory.
        stem: name of the checkpoint.

    Raises:
        OSError: a file cannot be created.
    """

    def __init__(self, directory: str, stem: str) -> None:
        self._stem = stem
        self._entries: Dict[bytes, Entry] = {}
        self._opened = contextlib.ExitStack()
        self._fd = self._opened.enter_context(disk.closing(disk.open_directory(directory)))
        try:
            self._data = self._opened.enter_context(disk.closing(
                disk.create_file(self._fd, stem + ".data-00000-of-00001")))
        except BaseException:
            self.close()
            raise
        self._lanes = [_Lane(0)]

    def open_lanes(self, sizes: Sequence[int]) -> None:
        """Reserve the next bytes of the file for new lanes 1, 2 and so on. They replace all lanes except lane 0.

        All reserved bytes must be written. Afterwards, lane 0 follows the reserved bytes.
        """
        start = self._lanes[0].end
        ends = [start + sum(sizes[:number]) for number in range(len(sizes) + 1)]
        self._lanes = [_Lane(ends[-1]), *(_Lane(end) for end in ends[:-1])]

    def write(self, content: bytes, lane: int = 0) -> None:
        """Write the next bytes of a tensor."""
        one = self._lanes[lane]
        one.crc.update(content)
        disk.write_at(self._data, one.end, content)
        one.end += len(content)

    def end(self, key: bytes, like: Entry, lane: int = 0) -> None:
        """Finish the tensor ``key``. ``like`` is an entry with the type, shape and slices of the tensor."""
        one = self._lanes[lane]
        crc = like.crc if like.dtype in _NOT_PLAIN else one.crc.masked()
        self._entries[key] = like._replace(shard=0, offset=one.begin, size=one.end - one.begin, crc=crc)
        one.begin = one.end
        one.crc = Crc()

    def copy(self, bundle: Bundle, name: str) -> None:
        """Copy a tensor from another checkpoint."""
        for key in bundle.keys_of(name):
            entry = bundle.entry(key)
            for content in bundle.content(entry):
                self.write(content)
            self.end(key, entry)

    def alias(self, new: str, old: str) -> None:
        """Give a tensor a second name, unless the name is in use. The bytes are not copied."""
        entry = self._entries.get(key_of(old))
        if entry is None or key_of(new) in self._entries:
            return
        self._entries[key_of(new)] = entry
        for part in entry.slices:
            self._entries[slice_key(new, part)] = self._entries[slice_key(old, part)]

    @property
    def tensors(self) -> List[str]:
        """Return the names of the tensors that were finished, copied or aliased."""
        return [name_of(key) for key in self._entries if not key.startswith(b"\0")]

    def finish(self) -> str:
        """Write the index, and make all files durable. Return the name of the index file."""
        name = self._stem + ".index"
        disk.write_file(self._fd, name, encoded_index(1, self._entries, masked))
        disk.sync_all([self._data, self._fd])
        return name

    def close(self) -> None:
        """Close the files."""
        self._opened.close()

    def __enter__(self) -> "BundleWriter":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


class _Lane:
    def __init__(self, start: int) -> None:
        self.begin = self.end = start
        self.crc = Crc()


def _extents(part: Slice, shape: Sequence[int]) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
    """Return the start and the length of a slice in each dimension."""
    starts = tuple(start for start, _ in part)
    return starts, tuple(size if length < 0 else length for (_, length), size in zip(part, shape))


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def tiles(pieces: Sequence[Piece], shape: Sequence[int]) -> Optional[str]:
    """Return None if the pieces contain each value of a tensor exactly once, and an error message otherwise."""
    if sum(_elements(piece.shape) for piece in pieces) != _elements(shape):
        return "its slices do not have all {} values".format(_elements(shape))
    for piece in pieces:
        if any(start < 0 or start + length > size for start, length, size in zip(piece.start, piece.shape, shape)):
            return "a slice is outside of its shape {}".format(list(shape))
    for number, one in enumerate(pieces):
        for other in pieces[:number]:
            if all(max(a, c) < min(a + b, c + d) for a, b, c, d in zip(
                    one.start, one.shape, other.start, other.shape)):
                return "two slices have the same values"
    return None
