"""Base class of the checkpoint writers of all ranks."""
from typing import Callable, ContextManager, Iterable, Optional, Sequence, Union

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.contents import Block, KeyBlock, PartedBlock, Slice, TableSpec
from ascpipe.checkpoint.errors import NotSavedError
from ascpipe.checkpoint.paths import Place
from ascpipe.checkpoint.slice_tables import SliceTables

Progress = Callable[[int, int], None]  #: (bytes written, bytes needed) of the sparse part


class TablesWriter:
    """Base class of writers that write the tables of one slice into an open folder.

    Args:
        place: location of the checkpoint.
        part: the slice.
        progress: called after each block.
    """

    def __init__(self, place: Place, part: Slice, progress: Optional[Progress]) -> None:
        self._place = place
        self._slice = part
        self._progress = progress
        self._tables: Optional[SliceTables] = None
        self.prefix = place.prefix
        self.needed_bytes = self.written_bytes = 0

    def write_table(self, name: str, blocks: Iterable[Union[Block, PartedBlock]],
                    candidates: Iterable[KeyBlock] = (),
                    pool: Optional[np.ndarray] = None, deleted: Optional[np.ndarray] = None) -> None:
        """Write one table. Call the method once per table, in any order.

        Args:
            blocks: blocks with unique keys. The total number of keys is the spec's ``rows``. The writer does not keep
                the arrays.
            candidates: blocks of keys without a row. The total number of keys is the spec's ``candidates``.
            pool: float32[pool_rows, dim] if the initial rows are of kind 4, otherwise None.
            deleted: int64[deleted], the deleted keys, or None if there are none.

        Raises:
            ValueError: dtype, shape or number of keys differ from the spec.
            NotSavedError: a system call failed.
        """
        tables = self._begun()
        tables.check(name, has_pool=pool is not None)
        with self._failing():
            tables.write(self._folder(), name, blocks, candidates, pool, deleted)

    def _begin(self, tables: Sequence[TableSpec], *, delta: bool) -> None:
        self._tables = SliceTables(self._slice, tables, self._wrote, delta=delta)
        self.needed_bytes = self._tables.needed_bytes

    def _begun(self) -> SliceTables:
        if self._tables is None:
            raise ValueError("Checkpoint {}: call begin_tables first".format(self.prefix))
        return self._tables

    def _require_space(self, directory_fd: int) -> None:
        free = disk.free_bytes(directory_fd)
        if free < self.needed_bytes:
            raise self._failure("the disk has {} bytes left".format(free))

    def _wrote(self, count: int) -> None:
        self.written_bytes += count
        if self._progress is not None:
            self._progress(self.written_bytes, self.needed_bytes)

    def _folder(self) -> int:
        """Return the file descriptor of the slice's folder."""
        raise NotImplementedError

    def _failing(self) -> ContextManager[None]:
        """Return a context manager that converts each ``OSError`` in its block to ``NotSavedError``."""
        raise NotImplementedError

    def _failure(self, reason: str) -> NotSavedError:
        raise NotImplementedError
