"""What the writers of all ranks share: each writes the tables of its own slice."""
from typing import Callable, ContextManager, Iterable, Optional, Sequence, Union

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.contents import Block, KeyBlock, PartedBlock, Slice, TableSpec
from ascpipe.checkpoint.errors import NotSavedError
from ascpipe.checkpoint.paths import Place
from ascpipe.checkpoint.slice_tables import SliceTables

Progress = Callable[[int, int], None]  #: (bytes written, bytes needed), of the sparse part


class TablesWriter:
    """Writes the tables of one slice into a folder that a writer of checkpoints has opened.

    Args:
        place: of the checkpoint.
        part: whose tables.
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
        """Write one table, once, in any order of tables.

        Args:
            blocks: ``rows`` keys of its spec in all, each once; the arrays are not kept.
            candidates: ``candidates`` keys in all.
            pool: float32[pool_rows, dim] of initial rows of kind 4, else None.
            deleted: int64[deleted], the deleted keys; None: there are none.

        Raises:
            ValueError: dtype, shape or number of keys differ from the spec.
            NotSavedError: the disk refused.
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
            raise ValueError("checkpoint {}: begin_tables comes first".format(self.prefix))
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
        """The folder of the slice."""
        raise NotImplementedError

    def _failing(self) -> ContextManager[None]:
        """What the system says inside becomes a NotSavedError."""
        raise NotImplementedError

    def _failure(self, reason: str) -> NotSavedError:
        raise NotImplementedError
