"""Table files: keys and embeddings of one table, for the lookup op of an exported SavedModel.

``row_table.h`` and ``table_file.h`` in ``tfops/src/core`` describe the layout. ``update_file.py`` also writes tables of
changes, which may delete keys.
"""
import contextlib
from typing import Callable, Iterator, List, NamedTuple, Sequence

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.checkpoint.contents import TableSpec
from ascpipe.checkpoint.digests import StreamDigest
from ascpipe.checkpoint.table_folders import Piece, count_pieces, float_pieces

SUFFIX = ".asctable"  #: suffix of a table file, after the table name

HEADER = np.dtype({
    "names": ["magic", "version", "bucket_bits", "dim", "key_count", "deleted"],
    "formats": ["S8", "<u4", "<u4", "<i8", "<i8", "<i8"], "offsets": [0, 8, 12, 16, 24, 32], "itemsize": 64})
ENTRY = np.dtype([("key", "<i8"), ("row", "<i8")])
MAGIC = b"ASCTABLE"
VERSION = 1

_SECTION = 64  # alignment of sections in bytes
_BUCKET_KEYS = 4  # maximum mean number of keys per bucket; these keys and their row numbers fill one cache line
_CHUNK = 1 << 16  # entries written at a time


class TableFile(NamedTuple):
    """Properties of a table file that was written.

    Attributes:
        rows: number of keys.
        seal: CRC-32 of the checksums of the content. The lookup op compares this value with the file.
    """

    rows: int
    seal: int


class Source(NamedTuple):
    """Content of a table that ``write_table`` writes to a file.

    Attributes:
        dim: floats of an embedding.
        blocks: function that is called with the number of parts, 0 or 1. It yields blocks of keys; with 1, each block
            also contains the embeddings. Each call yields the keys in the same order.
        deleted: int64[n], keys that an update deletes.
    """

    dim: int
    blocks: Callable[[int], Iterator[List[np.ndarray]]]
    deleted: np.ndarray = np.empty(0, np.int64)


def write_table_file(checkpoint: Checkpoint, table: str, directory_fd: int, name: str) -> TableFile:
    """Write a durable table file with the keys that evaluation lookups find, and with their embeddings.

    Keys below the access threshold of the checkpoint are omitted.

    Args:
        checkpoint: an open, verified checkpoint. A delta is merged with its ancestors.
        table: a table of the checkpoint.
        directory_fd: directory in which to create ``name``.

    Raises:
        DamagedCheckpointError: the checkpoint has changed since it was verified.
        OSError: a system call failed; the file is removed.
    """
    mode = 0o666  # the umask applies, as for other files of a SavedModel
    with disk.closing(disk.create_file(directory_fd, name, mode)) as fd:
        try:
            written = write_table(fd, source_of(checkpoint, checkpoint.tables[table]))
            disk.sync(fd)
        except BaseException:
            with contextlib.suppress(OSError):  # keep the first error
                disk.try_unlink(directory_fd, name)
            raise
    return written


def source_of(checkpoint: Checkpoint, spec: TableSpec) -> Source:
    """Return all rows of a table that evaluation lookups find."""
    return Source(spec.dim, lambda parts: shown_blocks(checkpoint, spec, parts=parts))


def shown_blocks(checkpoint: Checkpoint, spec: TableSpec, *, parts: int) -> Iterator[List[np.ndarray]]:
    """Yield blocks of keys and row parts. ``parts`` is the number of parts that are read from each row, starting with
    the embedding.

    Each call yields the keys in the same order. Keys below the access threshold are omitted.
    """
    threshold = -1 if spec.policies is None else spec.policies.access_threshold

    def pieces_of(saved: TableSpec) -> Sequence[Piece]:
        keys, counts, _ = count_pieces(saved)
        return [keys, *float_pieces(saved)[:parts], counts]

    for *values, counts in checkpoint.arrays(spec.name, pieces_of):
        shown = counts >= threshold
        yield values if shown.all() else [each[shown] for each in values]


class _Content:
    """Writer of the content of a table file. It also computes the checksums."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._digest = StreamDigest()

    def write(self, values: np.ndarray) -> None:
        content = memoryview(np.ascontiguousarray(values)).cast("B") if values.size else memoryview(b"")
        disk.write_all(self._fd, content)
        self._digest.update(content)

    def end_section(self) -> None:
        self.write(np.zeros(-self._digest.size % _SECTION, np.uint8))

    def write_sums(self) -> int:
        sums = self._digest.sums()
        digest = StreamDigest()
        digest.update(sums)
        seal = digest.sums()
        disk.write_all(self._fd, sums + seal)
        return int.from_bytes(seal, "little")


def write_table(fd: int, source: Source) -> TableFile:
    """Write a table at the current position of a file. The position must be a multiple of 64."""
    content = _Content(fd)
    keys = np.concatenate([np.empty(0, np.int64), *(keys for keys, in source.blocks(0)), source.deleted])
    rows = len(keys) - len(source.deleted)
    hashes = _hashes(keys)
    order = np.argsort(hashes)
    bits = max(0, (-(-len(keys) // _BUCKET_KEYS) - 1).bit_length())
    header = np.zeros((), HEADER)
    header["magic"] = MAGIC
    header["version"] = VERSION
    header["bucket_bits"] = bits
    header["dim"] = source.dim
    header["key_count"] = len(keys)
    header["deleted"] = len(source.deleted)
    content.write(header.reshape(1))
    content.write(_bucket_starts(hashes, bits))
    content.end_section()
    del hashes
    for start in range(0, len(keys), _CHUNK):
        places = order[start:start + _CHUNK]
        entries = np.empty(len(places), ENTRY)
        entries["row"] = np.where(places < rows, places, -1)
        entries["key"] = keys[places]
        content.write(entries)
    content.end_section()
    for _, embeddings in source.blocks(1):
        content.write(embeddings)
    return TableFile(rows, content.write_sums())


def _hashes(keys: np.ndarray) -> np.ndarray:
    """Return the hashes of keys as uint64[n]. The hash must match ``KeyHash`` of the C++ reader."""
    hashes = keys.astype(np.int64).view(np.uint64)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        hashes ^= hashes >> np.uint64(33)
        hashes *= np.uint64(factor)
    hashes ^= hashes >> np.uint64(33)
    return hashes


def _bucket_starts(hashes: np.ndarray, bits: int) -> np.ndarray:
    """Return the index of the first entry of each bucket, then the count of all entries, as int64[2^bits + 1]."""
    starts = np.zeros((1 << bits) + 1, np.int64)
    if bits == 0:
        starts[1] = len(hashes)
        return starts
    counts = np.bincount((hashes >> np.uint64(64 - bits)).view(np.int64), minlength=1 << bits)
    np.cumsum(counts, out=starts[1:])
    return starts
