"""Class ``TableFolders``, which writes the folders of a table block by block."""
from typing import Dict, Iterable, List, Sequence, Union

import numpy as np

from ascpipe.checkpoint import disk, table_folders
from ascpipe.checkpoint.contents import WHOLE, Block, KeyBlock, PartedBlock, Slice, TableSpec, columns
from ascpipe.checkpoint.digests import StreamDigest
from ascpipe.checkpoint.manifest import SavedFile
from ascpipe.checkpoint.table_folders import Piece

_CHUNK_BYTES = 1 << 18  #: bytes copied, checksummed and written at a time


class _Folder:
    """Writer of one rank's files in one folder of a table: a data file and a shape file."""

    def __init__(self, table_fd: int, piece: Piece, part: Slice) -> None:
        self.piece = piece
        self._slice = part
        self._digest = StreamDigest()
        self._begun = 0  # bytes whose write-back has started
        self._fds = [_made(table_fd, piece.folder, part)]
        try:
            self._data = self._create(part.data)
        except BaseException:
            self.close()
            raise

    def write(self, values: np.ndarray) -> None:
        """Write the next rows. ``values`` has the dtype of the piece, and may be a view of columns of a wider array."""
        rows = max(1, _CHUNK_BYTES // self.piece.row_bytes)
        for start in range(0, len(values), rows):  # a chunk stays in the CPU cache
            # Always copy, so that the checksum matches the written data even if table rows change concurrently.
            content = memoryview(np.array(values[start:start + rows], self.piece.dtype, order="C")).cast("B")
            self._digest.update(content)
            disk.write_all(self._data, content)
        disk.begin_sync(self._data, self._begun, self._digest.size)
        self._begun = self._digest.size

    def finish(self) -> SavedFile:
        """Write the shape file. Return the size and digest of the data file."""
        disk.write_all(self._create(self._slice.attribute), self.piece.attribute)
        return SavedFile(self._digest.size, self._digest.hexdigest())

    @property
    def fds(self) -> Sequence[int]:
        """Return the descriptors of the directory and its files, for ``disk.sync_all``."""
        return self._fds

    def close(self) -> None:
        """Close the descriptors."""
        for fd in self._fds:
            disk.close(fd)

    def _create(self, name: str) -> int:
        self._fds.append(disk.create_file(self._fds[0], name))
        return self._fds[-1]


class TableFolders:
    """Writer of one table of a slice. Each folder of the table gets one data file. Close the object after use, or use a
    ``with`` statement.
    """

    def __init__(self, directory_fd: int, spec: TableSpec, part: Slice = WHOLE) -> None:
        self._spec = spec
        self._slice = part
        self._folders: List[_Folder] = []
        self._fd = _made(directory_fd, spec.name, part)
        try:
            self._rows = self._open(table_folders.row_pieces(spec))
            self._candidates = self._open(table_folders.candidate_pieces(spec))
            self._deleted = self._open(table_folders.deleted_pieces(spec))
            self._pool = self._open(table_folders.pool_pieces(spec) if part.rank == 0 else ())
        except BaseException:
            self.close()
            raise
        self._row_count = self._candidate_count = 0

    def write_block(self, block: Union[Block, PartedBlock]) -> int:
        """Write keys with their rows. Return the number of bytes written. Raise ``ValueError`` if the block does not
        match the spec.
        """
        spec = self._spec
        n = len(block.keys)
        parts = block.parts if isinstance(block, PartedBlock) else (block.rows,)
        missing = spec.row_floats - sum(part.shape[-1] for part in parts)
        for part in parts:
            _check(spec, "rows", part, np.dtype(np.float32), (n, part.shape[-1] + missing))
        _check_keys(spec, block)
        self._row_count += n
        _check_room(spec, "rows", self._row_count, spec.rows)
        rows = []
        start = 0
        for piece in table_folders.float_pieces(spec):
            rows.append(columns(parts, start, piece.width))
            start += piece.width
        return _write(self._rows, [block.keys, *rows, block.counts, block.timestamps])

    def write_candidates(self, block: KeyBlock) -> int:
        """Write keys without rows. Return the number of bytes written. Raise ``ValueError`` if the block does not match
        the spec.
        """
        _check_keys(self._spec, block)
        self._candidate_count += len(block.keys)
        _check_room(self._spec, "candidates", self._candidate_count, self._spec.candidates)
        return _write(self._candidates, block)

    def write_deleted(self, keys: np.ndarray) -> int:
        """Write the deleted keys. Return the number of bytes written. Raise ``ValueError`` if the number of keys
        differs from the spec.
        """
        _check(self._spec, "deleted keys", keys, np.dtype(np.int64), (self._spec.deleted,))
        return _write(self._deleted, [keys]) if self._deleted else 0

    def write_pool(self, pool: np.ndarray) -> int:
        """Write the pool of initial rows. Return the number of bytes written. Raise ``ValueError`` if the pool does not
        match the spec.
        """
        if not self._pool:
            raise ValueError("table {!r}: it has a pool, but its initial rows are not of kind 4".format(
                self._spec.name))
        piece = self._pool[0].piece
        _check(self._spec, "pool", pool, np.dtype(np.float32), (piece.rows, piece.width))
        return _write(self._pool, [pool])

    def finish(self) -> Dict[str, SavedFile]:
        """Write the shape files and make all files durable. Return a dict from each folder to the size and the digest
        of the folder's data file.

        Raises:
            ValueError: there are fewer keys than in the spec.
        """
        spec = self._spec
        for what, there, wanted in (("rows", self._row_count, spec.rows),
                                    ("candidates", self._candidate_count, spec.candidates)):
            if there != wanted:
                raise ValueError("table {!r}: {} {} were written, but its spec has {}".format(
                    spec.name, there, what, wanted))
        saved = {folder.piece.folder: folder.finish() for folder in self._folders}
        disk.sync_all([self._fd, *(fd for folder in self._folders for fd in folder.fds)])
        return saved

    def close(self) -> None:
        """Close the descriptors."""
        for folder in self._folders:
            folder.close()
        disk.close(self._fd)

    def __enter__(self) -> "TableFolders":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def _open(self, pieces: Iterable[Piece]) -> List[_Folder]:
        opened = []
        for piece in pieces:
            opened.append(_Folder(self._fd, piece, self._slice))
            self._folders.append(opened[-1])
        return opened


def _made(directory_fd: int, name: str, part: Slice) -> int:
    """Create a directory and return its descriptor. With several ranks, another rank may already have created the
    directory.
    """
    if part.ranks > 1:
        return disk.make_or_open_directory(directory_fd, name)
    return disk.make_directory(directory_fd, name)


def _write(folders: Sequence[_Folder], arrays: Sequence[np.ndarray]) -> int:
    for folder, values in zip(folders, arrays):
        folder.write(values)
    return sum(values.nbytes for values in arrays)


def _check_keys(spec: TableSpec, block: Union[Block, PartedBlock, KeyBlock]) -> None:
    shape = (len(block.keys),)
    for name in KeyBlock._fields:
        _check(spec, name, getattr(block, name), np.dtype(np.int64), shape)
    if (block.counts < 0).any() or (block.timestamps < 0).any():
        raise ValueError("table {!r}: a count or timestamp is below 0".format(spec.name))


def _check(spec: TableSpec, what: str, values: np.ndarray, dtype: np.dtype, shape: Sequence[int]) -> None:
    if values.dtype != dtype or values.shape != tuple(shape):
        raise ValueError("table {!r}: {} are {}{}, expected {}{}".format(
            spec.name, what, values.dtype, list(values.shape), dtype, list(shape)))


def _check_room(spec: TableSpec, what: str, there: int, limit: int) -> None:
    if there > limit:
        raise ValueError("table {!r}: there are more {} than the {} in its spec".format(spec.name, what, limit))
