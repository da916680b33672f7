"""Writer of the tables in one slice of a checkpoint."""
from typing import Callable, Dict, Iterable, Optional, Sequence, Union

import numpy as np

from ascpipe.checkpoint import checks
from ascpipe.checkpoint.contents import Block, KeyBlock, PartedBlock, Position, Slice, TableSpec
from ascpipe.checkpoint.folder_writer import TableFolders
from ascpipe.checkpoint.manifest import SavedFile, SliceContent
from ascpipe.checkpoint.table_folders import all_pieces


class SliceTables:
    """Writer of the tables of one slice.

    Args:
        part: the slice.
        tables: specs, with the counts of rows and candidates of this slice.
        delta: whether the checkpoint is a delta.
        wrote: called after each write with the number of bytes.

    Attributes:
        needed_bytes: size of all tables of the slice.

    Raises:
        ValueError: a spec is invalid.
    """

    def __init__(self, part: Slice, tables: Sequence[TableSpec], wrote: Callable[[int], None], *, delta: bool) -> None:
        checks.check_specs(tables, delta=delta)
        self._slice = part
        self._specs = {spec.name: spec for spec in tables}
        self._wrote = wrote
        self._saved: Dict[str, Dict[str, SavedFile]] = {}
        self.needed_bytes = sum(piece.file_bytes for spec in tables for piece in all_pieces(spec, part.rank))

    def write(self, directory_fd: int, name: str, blocks: Iterable[Union[Block, PartedBlock]],
              candidates: Iterable[KeyBlock], pool: Optional[np.ndarray], deleted: Optional[np.ndarray]) -> None:
        """Write one table. Call the method once per table. Arguments and errors are as in
        ``CheckpointWriter.write_table``.
        """
        spec = self._specs[name]
        rank = self._slice.rank
        with TableFolders(directory_fd, spec, self._slice) as folders:
            for block in blocks:
                self._wrote(folders.write_block(block))
            for candidate_block in candidates:
                self._wrote(folders.write_candidates(candidate_block))
            self._wrote(folders.write_deleted(np.empty(0, np.int64) if deleted is None else deleted))
            if pool is not None and rank == 0:
                self._wrote(folders.write_pool(pool))
            self._saved[name] = folders.finish()
            self._wrote(sum(len(piece.attribute) for piece in all_pieces(spec, rank)))

    def check(self, name: str, *, has_pool: bool) -> None:
        """Raise ``ValueError`` if the table is not in the slice, was already written, or lacks its pool of initial
        rows.
        """
        spec = self._specs.get(name)
        if spec is None or name in self._saved:
            raise ValueError("table {!r} {}".format(
                name, "is not a table of this save" if spec is None else "was written already"))
        if not has_pool and spec.initial is not None and spec.initial.pool_rows:
            raise ValueError("table {!r}: its pool of initial rows is missing".format(name))

    def content(self, position: Position) -> SliceContent:
        """Return the ``SliceContent``. Raise ``ValueError`` if a table is not written or the position is invalid."""
        missing = sorted(set(self._specs) - set(self._saved))
        if missing:
            raise ValueError("not yet written: table {}".format(", ".join(missing)))
        checks.check_position(position, self._specs)
        return SliceContent(tuple(self._specs.values()), self._saved, position)
