"""Saving the slice of a rank but 0, into the directory in which rank 0 writes its own."""
import contextlib
import os
from typing import Callable, Iterable, Iterator, Optional, Sequence, Union

import numpy as np

from ascpipe.checkpoint import disk, staging
from ascpipe.checkpoint.contents import Block, KeyBlock, PartedBlock, Position, Slice, TableSpec
from ascpipe.checkpoint.digests import digest_of
from ascpipe.checkpoint.errors import NotSavedError
from ascpipe.checkpoint.keys import check_rank
from ascpipe.checkpoint.manifest import encoded_slice
from ascpipe.checkpoint.paths import MARKER, place_of_save, slice_record
from ascpipe.checkpoint.slice_tables import SliceTables
from ascpipe.checkpoint.tree import why


class SliceWriter:
    """Writes the tables of one rank beside those of rank 0, whose ``commit`` makes all of them one checkpoint.

    ::

        with SliceWriter("dir", "model.ckpt", 100, staging, 1, 2) as writer:  # rank 0 says which directory
            writer.begin_tables(specs, delta=False)
            for spec in specs:
                writer.write_table(spec.name, blocks(spec), candidates(spec))
            digest = writer.finish(position)  # for ``CheckpointWriter.commit``

    One thread at a time. Any failure is a ``NotSavedError``; what was written is removed with that directory, by rank 0
    or by the next save.

    Args:
        directory, base, step: as rank 0 has them.
        staging_name: ``CheckpointWriter.staging_name`` of rank 0.
        rank, ranks: whose slice it is.
        progress: called after each block with (bytes written, bytes needed).

    Attributes:
        prefix: ``directory/base-step``.
        needed_bytes: of this slice.
        written_bytes: of these, so far.

    Raises:
        CheckpointPathError: a path or name that we refuse.
        ValueError: there is no such rank, or it is rank 0, or a name that is not one of such a directory.
    """

    def __init__(self, directory: str, base: str, step: Optional[int], staging_name: str, rank: int, ranks: int,
                 progress: Optional[Callable[[int, int], None]] = None) -> None:
        check_rank(rank, ranks)
        if rank == 0 or os.sep in staging_name or not staging_name.startswith(staging.PREFIX):
            raise ValueError("rank {} cannot write its slice into {!r}".format(rank, staging_name))
        self._place = place_of_save(directory, base, step)
        self._staging = staging_name
        self._slice = Slice(rank, ranks)
        self._delta = False
        self._progress = progress
        self._tables: Optional[SliceTables] = None
        self._fd: Optional[int] = None
        self.prefix = self._place.prefix
        self.needed_bytes = self.written_bytes = 0

    def __enter__(self) -> "SliceWriter":
        """Open the directory of rank 0.

        Raises:
            NotSavedError: it is not there, or not ours.
        """
        with contextlib.ExitStack() as undo, self._failing():
            with disk.closing(disk.open_directory(self._place.directory)) as directory_fd:
                fd = disk.open_directory(self._staging, directory_fd)
            undo.callback(disk.close, fd)
            if not disk.is_mine(fd) or not disk.is_there(fd, MARKER):
                raise self._failure("{} is not a directory of a save of this user".format(self._staging))
            undo.pop_all()
        self._fd = fd
        return self

    def begin_tables(self, tables: Sequence[TableSpec], *, delta: bool) -> None:
        """Say what will be written; as ``CheckpointWriter.begin_tables``."""
        self._tables = SliceTables(self._slice, tables, self._wrote, delta=delta)
        self._delta = delta
        self.needed_bytes = self._tables.needed_bytes
        with self._failing():
            free = disk.free_bytes(self._opened())
            if free < self.needed_bytes:
                raise self._failure("the disk has {} bytes left".format(free))

    def write_table(self, name: str, blocks: Iterable[Union[Block, PartedBlock]],
                    candidates: Iterable[KeyBlock] = (),
                    pool: Optional[np.ndarray] = None, deleted: Optional[np.ndarray] = None) -> None:
        """Write one table, once; as ``CheckpointWriter.write_table``. The pool is that of rank 0 and not written."""
        tables = self._begun()
        tables.check(name, has_pool=pool is not None)
        with self._failing():
            tables.write(self._opened(), name, blocks, candidates, pool, deleted)

    def finish(self, position: Position) -> str:
        """Make the slice and its record durable.

        Returns:
            The digest of the record, by which rank 0 knows it.

        Raises:
            ValueError: a table was not written, or the position makes no sense.
            NotSavedError: the disk refused.
        """
        content = self._begun().content(position)
        record = encoded_slice(content, self._slice.rank, self._slice.ranks, delta=self._delta)
        with self._failing():
            disk.write_file(self._opened(), slice_record(self._slice.rank), record)
            disk.sync(self._opened())
        return digest_of(record)

    def __exit__(self, *reason: object) -> None:
        if self._fd is not None:
            disk.close(self._fd)
            self._fd = None

    def _begun(self) -> SliceTables:
        if self._tables is None:
            raise ValueError("slice of {}: begin_tables comes first".format(self.prefix))
        return self._tables

    def _opened(self) -> int:
        if self._fd is None:
            raise ValueError("slice of {}: it is written inside `with`".format(self.prefix))
        return self._fd

    def _wrote(self, count: int) -> None:
        self.written_bytes += count
        if self._progress is not None:
            self._progress(self.written_bytes, self.needed_bytes)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """What the system says inside becomes a NotSavedError."""
        try:
            yield
        except OSError as error:
            raise self._failure(why(error)) from error

    def _failure(self, reason: str) -> NotSavedError:
        return NotSavedError(self.prefix, reason, self.written_bytes, self.needed_bytes,
                             "Rank 0 removes what was written. Earlier checkpoints were not touched.")
