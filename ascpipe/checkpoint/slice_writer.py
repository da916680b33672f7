"""Class ``SliceWriter``, which writes the slice of a rank other than rank 0."""
import contextlib
import os
from typing import Iterator, Optional, Sequence

from ascpipe.checkpoint import disk, staging
from ascpipe.checkpoint.contents import Position, Slice, TableSpec
from ascpipe.checkpoint.digests import digest_of
from ascpipe.checkpoint.errors import NotSavedError
from ascpipe.checkpoint.keys import check_rank
from ascpipe.checkpoint.manifest import encoded_slice
from ascpipe.checkpoint.paths import MARKER, place_of_save, slice_record
from ascpipe.checkpoint.tables_writer import Progress, TablesWriter
from ascpipe.checkpoint.tree import why


class SliceWriter(TablesWriter):
    """Writer of one rank's slice, in the temporary directory that rank 0 creates.

    ``CheckpointWriter.commit`` of rank 0 publishes all slices.

    ::

        with SliceWriter("dir", "model.ckpt", 100, staging, 1, 2) as writer:  # rank 0 sends staging
            writer.begin_tables(specs, delta=False)
            for spec in specs:
                writer.write_table(spec.name, blocks(spec), candidates(spec))
            digest = writer.finish(position)  # for ``CheckpointWriter.commit``

    Only one thread may use a writer at a time. A failed system call raises ``NotSavedError``; rank 0 or the next save
    then removes the whole directory.

    Args:
        directory, base, step: the arguments of rank 0.
        staging_name: ``CheckpointWriter.staging_name`` of rank 0.
        rank, ranks: number of this rank, and number of ranks.
        progress: called after each block with (bytes written, bytes needed).

    Attributes:
        prefix: ``directory/base-step``.
        needed_bytes: size of this slice.
        written_bytes: bytes written so far.

    Raises:
        CheckpointPathError: a path or name is not allowed.
        ValueError: the rank is 0 or does not exist, or ``staging_name`` is invalid.
    """

    def __init__(self, directory: str, base: str, step: Optional[int], staging_name: str, rank: int, ranks: int,
                 progress: Optional[Progress] = None) -> None:
        check_rank(rank, ranks)
        if rank == 0 or os.sep in staging_name or not staging_name.startswith(staging.PREFIX):
            raise ValueError("rank {} cannot write its slice into {!r}".format(rank, staging_name))
        super().__init__(place_of_save(directory, base, step), Slice(rank, ranks), progress)
        self._staging = staging_name
        self._delta = False
        self._fd: Optional[int] = None

    def __enter__(self) -> "SliceWriter":
        """Open the temporary directory of rank 0.

        Raises:
            NotSavedError: the directory is missing or was not created by ascpipe.
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
        """Set the tables to write. ``delta`` is true if rank 0 passed a ``parent`` to its writer."""
        self._begin(tables, delta=delta)
        self._delta = delta
        with self._failing():
            self._require_space(self._folder())

    def finish(self, position: Position) -> str:
        """Make the slice and its record durable.

        Returns:
            The digest of the record, which rank 0 checks.

        Raises:
            ValueError: a table was not written, or the position is invalid.
            NotSavedError: a system call failed.
        """
        content = self._begun().content(position)
        record = encoded_slice(content, self._slice.rank, self._slice.ranks, delta=self._delta)
        with self._failing():
            disk.write_file(self._folder(), slice_record(self._slice.rank), record)
            disk.sync(self._folder())
        return digest_of(record)

    def __exit__(self, *reason: object) -> None:
        if self._fd is not None:
            disk.close(self._fd)
            self._fd = None

    def _folder(self) -> int:
        if self._fd is None:
            raise ValueError("slice of {}: write it inside `with`".format(self.prefix))
        return self._fd

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Context manager that converts each ``OSError`` in its block to ``NotSavedError``."""
        try:
            yield
        except OSError as error:
            raise self._failure(why(error)) from error

    def _failure(self, reason: str) -> NotSavedError:
        return NotSavedError(self.prefix, reason, self.written_bytes, self.needed_bytes,
                             "Rank 0 removes the partial checkpoint. Earlier checkpoints are unchanged.")
