"""Class ``Sliced``, which reads the slices of several ranks as one checkpoint."""
from typing import Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint.block_reader import Checkpoint, Kept, Pieces, Targets
from ascpipe.checkpoint.contents import Position, Slice
from ascpipe.checkpoint.keys import check_rank
from ascpipe.checkpoint.manifest import Manifest
from ascpipe.checkpoint.tree import Tree
from ascpipe.checkpoint.verify import Stamps


class Sliced(Checkpoint):
    """Checkpoint that consists of the slices of several ranks. A rank reads only its own
    slice if the number of ranks has not changed since the save.
    """

    def __init__(self, tree: Tree, manifest: Manifest, dense_prefix: Optional[str], stamps: Sequence[Stamps]) -> None:
        super().__init__(tree, manifest.step, manifest.tables, manifest.position, dense_prefix, stamps[0])
        self._parts = [
            Checkpoint(tree, manifest.step, content.tables, content.position, None, stamps[rank],
                       Slice(rank, len(stamps)))
            for rank, content in enumerate(manifest.slices)]
        self.positions: Tuple[Position, ...] = tuple(content.position for content in manifest.slices)

    def rows_of(self, table: str, rank: int = 0, ranks: int = 1) -> Tuple[int, int]:
        """Return the counts of the rank's keys with and without a row, as in ``Checkpoint``."""
        if ranks == len(self._parts):
            return self._parts[rank].rows_of(table)
        return super().rows_of(table, rank, ranks)

    def deleted(self, table: str) -> np.ndarray:
        """Return the deleted keys, as in ``Checkpoint``."""
        return np.concatenate([part.deleted(table) for part in self._parts])

    def pool(self, table: str) -> Optional[np.ndarray]:
        """Return the pool of initial rows from the slice of rank 0."""
        return self._parts[0].pool(table)

    def arrays(self, table: str, pieces_of: Pieces, rank: int = 0, ranks: int = 1, block_rows: Optional[int] = None,
               targets: Optional[Targets] = None, kept: Optional[Kept] = None) -> Iterator[List[np.ndarray]]:
        """Yield blocks of keys, as in ``Checkpoint``."""
        check_rank(rank, ranks)
        if ranks == len(self._parts):
            yield from self._parts[rank].arrays(table, pieces_of, block_rows=block_rows, targets=targets, kept=kept)
            return
        first = 0
        for part in self._parts:
            yield from part.arrays(table, pieces_of, rank, ranks, block_rows, _moved(targets, first), kept)
            first += pieces_of(part.tables[table])[0].rows


def _moved(targets: Optional[Targets], first: int) -> Optional[Targets]:
    """Return a function that calls ``targets`` with ``first`` added to the row number."""
    if targets is None:
        return None
    given = targets
    return lambda start, n: given(first + start, n)
