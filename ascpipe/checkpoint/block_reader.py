"""Class ``Checkpoint``, an open checkpoint that is read in blocks. Each rank reads only its own keys."""
import contextlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import zip_longest
from typing import Callable, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint import disk, table_folders
from ascpipe.checkpoint.contents import (
    FLOAT_BYTES,
    WHOLE,
    Block,
    KeyBlock,
    Link,
    PartedBlock,
    Position,
    Slice,
    TableSpec,
)
from ascpipe.checkpoint.keys import belongs, check_rank
from ascpipe.checkpoint.memory_room import memory_for
from ascpipe.checkpoint.table_folders import Piece, candidate_pieces, count_pieces, row_pieces
from ascpipe.checkpoint.tree import Tree
from ascpipe.checkpoint.verify import Stamps, read_all

Pieces = Callable[[TableSpec], Sequence[Piece]]  #: function that returns pieces of a table, first the piece of the keys
#: function of the index of the first row and the number of rows; for each part of the rows, it returns the array to
#: read into, or None to let the reader allocate the array
Targets = Callable[[int, int], Sequence[Optional[np.ndarray]]]
#: function that selects the keys of a block to yield: int64[n] -> bool[n]; it is called once per block, in the order of
#: the blocks, possibly in another thread
Kept = Callable[[np.ndarray], np.ndarray]

_BLOCK_BYTES = 4 << 20  #: small enough that most of a block stays in the CPU cache until the block is used
_MAX_BLOCK_ROWS = 1 << 17


class Checkpoint:
    """Open checkpoint, returned by ``open_checkpoint``. Close the object after use, or use a ``with`` statement.

    Attributes:
        prefix: the argument of ``open_checkpoint``.
        step: training step in the manifest, or None if the checkpoint was saved without a step.
        tables: specs by name. In an unverified checkpoint, ``initial``, ``policies`` and the slots' ``initial`` are
            None.
        position: training position of rank 0, or None if the checkpoint is unverified.
        positions: training position of each rank that saved the checkpoint; empty if the checkpoint is unverified.
        dense_prefix: prefix for TensorFlow's Saver, or None if there is no dense part.
        link: the ``parent`` argument for a delta of this checkpoint, or None if this checkpoint is unverified.
        verified: False if there is no ascpipe manifest. Then only file sizes and the uniqueness of keys were checked.
    """

    def __init__(self, tree: Tree, step: Optional[int], tables: Sequence[TableSpec], position: Optional[Position],
                 dense_prefix: Optional[str], stamps: Stamps, part: Slice = WHOLE) -> None:
        self._slice = part
        self._tree = tree
        self._stamps = stamps
        self._closed = False
        self.prefix = tree.place.prefix
        self.step = step
        self.tables = {spec.name: spec for spec in tables}
        self.position = position
        self.positions: Tuple[Position, ...] = () if position is None else (position,)
        self.dense_prefix = dense_prefix
        self.link: Optional[Link] = None
        self.verified = position is not None

    def blocks(self, table: str, rank: int = 0, ranks: int = 1, block_rows: Optional[int] = None) -> Iterator[Block]:
        """Yield the keys of ``rank`` that have a row, with their rows. A key belongs to rank ``|key| % ranks``.

        Counts and timestamps of an unverified checkpoint are 0; a loader sets the count of a key with a row to the
        access threshold. Blocks are yielded in file order. The caller owns the arrays.

        Args:
            block_rows: maximum number of keys per block; None means about 4 MiB. A block is never empty.

        Raises:
            KeyError: there is no such table.
            ValueError: there is no such rank.
            DamagedCheckpointError: the files have changed since they were verified.
        """
        for block in self.parted_blocks(table, rank, ranks, block_rows):
            yield block.joined()

    def parted_blocks(self, table: str, rank: int = 0, ranks: int = 1, block_rows: Optional[int] = None,
                      kept: Optional[Kept] = None) -> Iterator[PartedBlock]:
        """Yield the same blocks as ``blocks``, with the embedding and each optimizer slot in separate arrays.

        Args:
            kept: function that selects the keys to yield.
        """
        for keys, *parts, counts, timestamps in self.arrays(table, row_pieces, rank, ranks, block_rows, kept=kept):
            yield PartedBlock(keys, tuple(parts), counts, timestamps)

    def keys_with_rows(self, table: str, rank: int = 0, ranks: int = 1) -> Iterator[KeyBlock]:
        """Yield the keys that have a row, in the order of ``blocks``, without reading the rows."""
        for keys, counts, timestamps in self.arrays(table, count_pieces, rank, ranks):
            yield KeyBlock(keys, counts, timestamps)

    def row_parts(self, table: str, targets: Targets, rank: int = 0,
                  ranks: int = 1) -> Iterator[Sequence[np.ndarray]]:
        """Yield blocks of rows, in the order of ``keys_with_rows``. A block has one array for the embedding and one for
        each optimizer slot.

        The blocks may be smaller or larger than the blocks of ``keys_with_rows``.

        Args:
            targets: function that returns contiguous float32[n, width] arrays to read into. The reader may yield other
                arrays. While the caller uses a block, the reader may already fill the arrays of the next block.
        """
        for _, *parts in self.arrays(table, lambda spec: row_pieces(spec)[:-2], rank, ranks,
                                     targets=lambda start, n: [None, *targets(start, n)]):
            yield parts

    def candidates(self, table: str, rank: int = 0, ranks: int = 1,
                   block_rows: Optional[int] = None) -> Iterator[KeyBlock]:
        """Yield the keys that have a count but no row. Blocks are yielded in file order."""
        for keys, counts, timestamps in self.arrays(table, candidate_pieces, rank, ranks, block_rows):
            yield KeyBlock(keys, counts, timestamps)

    def counts(self, table: str, rank: int = 0, ranks: int = 1) -> Iterator[KeyBlock]:
        """Yield all keys of the rank, with or without a row, and their counts and timestamps."""
        yield from self.keys_with_rows(table, rank, ranks)
        yield from self.candidates(table, rank, ranks)

    def rows_of(self, table: str, rank: int = 0, ranks: int = 1) -> Tuple[int, int]:
        """Count the keys of the rank. Return the count of keys with a row and the count of keys without a row."""
        if ranks == 1:
            return self.tables[table].rows, self.tables[table].candidates
        rows, candidates = (
            sum(len(keys) for keys, *_ in self.arrays(table, pieces_of, rank, ranks))
            for pieces_of in (lambda spec: count_pieces(spec)[:1], lambda spec: candidate_pieces(spec)[:1]))
        return rows, candidates

    def deleted(self, table: str) -> np.ndarray:
        """Return the keys that a delta deletes from its parent, as int64[n]. n is 0 for a full checkpoint."""
        found = self._whole(table, table_folders.deleted_pieces)
        return np.empty(0, np.int64) if found is None else found

    def pool(self, table: str) -> Optional[np.ndarray]:
        """Return the pool of initial rows as float32[pool_rows, dim], or None if the table has no pool."""
        return self._whole(table, table_folders.pool_pieces)

    def close(self) -> None:
        """Close all files of the checkpoint. Further calls do nothing."""
        if not self._closed:
            self._closed = True
            self._tree.close()

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def _whole(self, table: str, pieces_of: Pieces) -> Optional[np.ndarray]:
        """Return the content of the first piece from ``pieces_of``, or None if ``pieces_of`` returns no piece."""
        for piece in pieces_of(self.tables[table]):
            with self._unchanged(table, piece):
                return read_all(self._tree, table, piece, self._slice)
        return None

    def arrays(self, table: str, pieces_of: Pieces, rank: int = 0, ranks: int = 1, block_rows: Optional[int] = None,
               targets: Optional[Targets] = None, kept: Optional[Kept] = None) -> Iterator[List[np.ndarray]]:
        """Yield each block of the rank's keys as a list with one array per piece. See ``blocks`` for the order.

        Args:
            targets: as in ``row_parts``, but with one array or None per piece.
            kept: function that selects the keys to yield. If it selects no key of a block, only the keys are read.
        """
        check_rank(rank, ranks)
        pieces = pieces_of(self.tables[table])
        step = block_rows or _rows_of_block(pieces)
        starts = range(0, pieces[0].rows, step)
        with contextlib.ExitStack() as opened:
            fds = [opened.enter_context(self._unchanged(table, piece)) for piece in pieces]

            def read(start: int) -> List[np.ndarray]:
                n = min(step, pieces[0].rows - start)
                keys = _read(fds[0], pieces[0], start, n, None)
                chosen = _chosen(keys, rank, ranks, kept)
                if chosen is not None and not chosen.any():
                    return []
                wanted = targets(start, n)[1:] if targets is not None and chosen is None else ()
                found = [keys, *(_read(fd, piece, start, n, target)
                                 for fd, piece, target in zip_longest(fds[1:], pieces[1:], wanted))]
                return found if chosen is None else [values[chosen] for values in found]

            # Read the next block while the caller processes this block.
            thread = opened.enter_context(ThreadPoolExecutor(1)) if len(starts) > 1 else None
            ahead: Optional[Future[List[np.ndarray]]] = None
            for start in starts:
                with memory_for(self.prefix, "blocks of table {!r}".format(table),
                                2 * step * sum(piece.row_bytes for piece in pieces)):
                    arrays = read(start) if ahead is None else ahead.result()
                    if thread is not None and start + step < pieces[0].rows:
                        ahead = thread.submit(read, start + step)
                if arrays:
                    yield arrays

    @contextlib.contextmanager
    def _unchanged(self, table: str, piece: Piece) -> Iterator[Optional[int]]:
        """Yield a file descriptor of a piece's data file, or None if an unverified checkpoint lacks the file.

        Raise ``DamagedCheckpointError`` if the file has changed since it was verified.
        """
        stamp = self._stamps.get((table, piece.folder))
        if stamp is None and self.verified:
            raise ValueError("checkpoint {}: {} of table {!r} was not verified".format(
                self.prefix, piece.folder, table))
        if stamp is None:
            yield None
            return
        names = (table, piece.folder, self._slice.data)
        with self._tree.file(names) as fd:
            if disk.stamp(fd) != stamp:
                raise self._tree.damaged(os.path.join(*names), "it has changed since it was verified")
            yield fd


def _rows_of_block(pieces: Sequence[Piece]) -> int:
    row_bytes = sum(piece.row_bytes for piece in pieces)
    return max(1, min(_MAX_BLOCK_ROWS, _BLOCK_BYTES // max(row_bytes, FLOAT_BYTES)))


def _chosen(keys: np.ndarray, rank: int, ranks: int, kept: Optional[Kept]) -> Optional[np.ndarray]:
    """Return a mask bool[n] of the keys to yield, or None to yield all keys."""
    mine = None if ranks == 1 else belongs(keys, rank, ranks)
    if kept is None:
        return mine
    if mine is None:
        chosen = kept(keys)
    else:
        chosen = mine.copy()
        chosen[mine] = kept(keys[mine])
    return None if chosen.all() else chosen


def _read(fd: Optional[int], piece: Piece, start: int, n: int, target: Optional[np.ndarray]) -> np.ndarray:
    shape: Tuple[int, ...] = (n, piece.width) if piece.width else (n,)
    if fd is None:
        return np.zeros(shape, piece.dtype)
    values = np.empty(shape, piece.dtype) if target is None else target
    disk.read_into(fd, start * piece.row_bytes, values)
    return values
