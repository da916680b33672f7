"""Import of rows from files into a new checkpoint."""
from typing import Iterator, NamedTuple, Optional

import numpy as np

from ascpipe.checkpoint.block_reader import Checkpoint, Kept
from ascpipe.checkpoint.contents import KeyBlock, PartedBlock, TableSpec
from ascpipe.checkpoint.errors import RowsNotImportedError, UnverifiedCheckpointError
from ascpipe.checkpoint.keys import belongs, places
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.errors import ArgumentError
from ascpipe.errors.base import shown
from ascpipe.rows.columns import COUNT, KEY, ROW, SLOT, TIMESTAMP
from ascpipe.rows.copies import Copy, written
from ascpipe.rows.export import Progress, table_of
from ascpipe.rows.free_names import new_name
from ascpipe.rows.merging import KEEP, REPLACE, Plan, planned, threshold_of, time_of
from ascpipe.rows.opening import open_source
from ascpipe.rows.resizing import Fit
from ascpipe.rows.sources import Part, Source, checked_parts

_IMPORTED = "imported"  #: part of the default name of the new checkpoint


class Request(NamedTuple):
    """Parameters of an import.

    Attributes:
        into: ``dir/base-step`` of the checkpoint to start from. It is not changed.
        table: name of the table.
        source: path of the files.
        merge: ``keep`` or ``replace``: which row is used for a key that the table already has.
        to: ``dir/base-step`` of the new checkpoint, or None for ``dir/base-imported-step``. If this directory has no
            file ``checkpoint``, the file is written.
        pad: True to append zeros to rows that are shorter than the rows of the table.
        truncate: True to drop the last floats of rows that are longer than the rows of the table.
    """

    into: str
    table: str
    source: str
    merge: str = REPLACE
    to: Optional[str] = None
    pad: bool = False
    truncate: bool = False


class Imported(NamedTuple):
    """Result of an import.

    Attributes:
        checkpoint: ``dir/base-step`` of the new checkpoint.
        table: name of the table.
        rows: number of rows of the table in the new checkpoint.
        added: rows of keys that the table did not have.
        replaced: rows that replaced rows of the table.
        kept: rows of the files that were not imported, because the table has their keys.
    """

    checkpoint: str
    table: str
    rows: int
    added: int
    replaced: int
    kept: int


def imported(request: Request, progress: Optional[Progress] = None) -> Imported:
    """Copy a checkpoint, and add the rows of files to one table of the copy.

    Args:
        progress: called after each block of rows with (rows written so far, total number of rows).

    Raises:
        ArgumentError: an argument is not allowed.
        RowsNotImportedError: the rows do not fit the table, or a value is invalid.
        DamagedRowsError: a file is damaged or cannot be read.
        ParquetMissingError: pyarrow is not installed.
        CheckpointError: the checkpoint is missing, damaged, unverified or does not have the table, or the new
            checkpoint cannot be written.
    """
    if request.merge not in (KEEP, REPLACE):
        raise ArgumentError("merge={} is not allowed. Nothing was read. Pass 'keep' or 'replace'".format(
            shown(request.merge)))
    name = new_name(request.into, request.to, _IMPORTED)
    with open_checkpoint(request.into) as checkpoint:
        if not checkpoint.verified:
            raise UnverifiedCheckpointError(request.into)
        spec = table_of(checkpoint, request.table)
        with open_source(request.source, spec, Fit(request.pad, request.truncate)) as source:
            merge = _Merge(checkpoint, spec, source, planned(checkpoint, spec, source), request.merge, progress)
            try:
                prefix = written(merge, name, "import", notes=request.to is not None)
            except RowsNotImportedError:
                raise
            except ValueError:
                source.check_unchanged()  # a changed file is the usual reason why the writer receives unexpected rows
                raise
    matched = merge.plan.matched
    replaced = matched if request.merge == REPLACE else 0
    added = len(merge.plan.keys) - matched
    return Imported(prefix, spec.name, spec.rows + added, added, replaced, matched - replaced)


class _Merge(Copy):
    """Content of the new checkpoint.

    Args:
        checkpoint: the checkpoint to start from.
        spec: spec of the table.
        source: files with rows.
        plan: the keys.
        merge: KEEP or REPLACE.
        progress: called after each block of rows.
    """

    def __init__(self, checkpoint: Checkpoint, spec: TableSpec, source: Source, plan: Plan, merge: str,
                 progress: Optional[Progress]) -> None:
        super().__init__(checkpoint, sum(one.rows for one in checkpoint.tables.values()) + len(plan.keys), progress)
        self._source = source
        self.plan = plan
        self._spec = spec
        self._replaces = merge == REPLACE

    def check_unchanged(self) -> None:
        """Raise ``DamagedRowsError`` if a file with rows to import has changed since it was opened."""
        self._source.check_unchanged()

    def spec_of(self, spec: TableSpec, rank: int) -> TableSpec:
        """Return the spec of a table in a rank's slice of the new checkpoint."""
        spec = super().spec_of(spec, rank)
        if spec.name != self._spec.name:
            return spec
        if spec.policies is not None:
            time = max(spec.policies.time, self.plan.latest)
            spec = spec._replace(policies=spec.policies._replace(time=time))
        return spec._replace(rows=spec.rows + self.plan.new(rank, self.ranks),
                             candidates=spec.candidates - self.plan.no_longer_counted(rank, self.ranks))

    def blocks(self, table: str, rank: int) -> Iterator[PartedBlock]:
        """Yield the rows of a table in a rank's slice."""
        is_mine = table == self._spec.name
        drops = is_mine and self._replaces
        yield from self.checkpoint.parted_blocks(table, rank, self.ranks, kept=self._left(rank) if drops else None)
        if is_mine:
            for part in checked_parts(self._source, self._spec, [column for column in self._source.columns
                                                                if column != KEY]):
                yield self._block(part, rank)

    def _left(self, rank: int) -> Kept:
        """Return a function that selects the rows of the table that the import keeps."""
        replaced = self.plan.rows[rank]
        done = 0

        def left(keys: np.ndarray) -> np.ndarray:
            nonlocal done
            first = done
            done += len(keys)
            return ~replaced[first:done]

        return left

    def _block(self, part: Part, rank: int) -> PartedBlock:
        """Return the rows of ``part`` to import into a rank's slice."""
        count = len(part.keys)
        there = self.plan.there
        place = np.empty(0, np.int64)
        if there is not None and not (self._replaces and COUNT in part.values and TIMESTAMP in part.values):
            place = places(self.plan.keys, part.keys)[0]
        counts = part.values.get(COUNT)
        if counts is None:
            counts = np.full(count, threshold_of(self._spec)) if there is None else there.counts[place]
        times = part.values.get(TIMESTAMP)
        if times is None:
            times = np.full(count, time_of(self._spec)) if there is None else there.timestamps[place]
        slots = [part.values[SLOT + slot.name] if SLOT + slot.name in part.values else
                 np.full((count, slot.width), slot.initial or 0.0, np.float32) for slot in self._spec.slots]
        block = PartedBlock(part.keys, (part.values[ROW], *slots), counts, times)
        if there is not None and not self._replaces:
            return _chosen(block, ~there.has_row[place] & belongs(part.keys, rank, self.ranks))
        return block if self.ranks == 1 else _chosen(block, belongs(part.keys, rank, self.ranks))

    def candidates(self, table: str, rank: int) -> Iterator[KeyBlock]:
        """Yield the keys that have no row, for one table and one rank's slice."""
        for block in super().candidates(table, rank):
            if table == self._spec.name and self.plan.there is not None:
                left = ~self.plan.has(block.keys)
                block = KeyBlock(*(values[left] for values in block))
            yield block


def _chosen(block: PartedBlock, rows: np.ndarray) -> PartedBlock:
    if rows.all():
        return block
    return PartedBlock(block.keys[rows], tuple(part[rows] for part in block.parts), block.counts[rows],
                       block.timestamps[rows])
