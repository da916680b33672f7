"""Import of rows from files into a new checkpoint."""
import os
import re
import uuid
from typing import Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.checkpoint.contents import KeyBlock, PartedBlock, Position, TableSpec
from ascpipe.checkpoint.errors import RowsNotImportedError, UnverifiedCheckpointError
from ascpipe.checkpoint.keys import belongs, places
from ascpipe.checkpoint.paths import Place, place_of
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.checkpoint.slice_writer import SliceWriter
from ascpipe.checkpoint.tables_writer import TablesWriter
from ascpipe.checkpoint.writer import CheckpointWriter
from ascpipe.errors import ArgumentError
from ascpipe.errors.base import shown
from ascpipe.rows.columns import COUNT, KEY, ROW, SLOT, TIMESTAMP
from ascpipe.rows.export import Progress, table_of
from ascpipe.rows.merging import KEEP, REPLACE, Plan, planned, threshold_of, time_of
from ascpipe.rows.opening import open_source
from ascpipe.rows.resizing import Fit
from ascpipe.rows.sources import Part, Source, checked_parts

_IMPORTED = "imported"  #: part of the default name of the new checkpoint
_MOST_NAMES = 1000


class Request(NamedTuple):
    """What to import.

    Attributes:
        into: ``dir/base-step`` of the checkpoint to start from. It is not changed.
        table: name of the table.
        source: path of the files.
        merge: ``keep`` or ``replace``: which row a key gets that the table already has.
        to: ``dir/base-step`` of the new checkpoint, or None for ``dir/base-imported-step``.
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
    """Write a new checkpoint, which has the content of another checkpoint and rows of files.

    Args:
        progress: called after each block of rows with (rows so far, all rows).

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
    place = _new_place(request)
    with open_checkpoint(request.into) as checkpoint:
        if not checkpoint.verified:
            raise UnverifiedCheckpointError(request.into)
        spec = table_of(checkpoint, request.table)
        with open_source(request.source, spec, Fit(request.pad, request.truncate)) as source:
            merge = _Merge(checkpoint, spec, source, planned(checkpoint, spec, source), request.merge, progress)
            try:
                prefix = _written(merge, place)
            except RowsNotImportedError:
                raise
            except ValueError:
                source.check_unchanged()  # the usual reason why the writer gets other rows than were announced
                raise
    matched = merge.plan.matched
    replaced = matched if request.merge == REPLACE else 0
    added = len(merge.plan.keys) - matched
    return Imported(prefix, spec.name, spec.rows + added, added, replaced, matched - replaced)


class _Merge:
    """Content of the new checkpoint.

    Args:
        checkpoint: the checkpoint to start from.
        spec: spec of the table.
        source: files with rows.
        plan: the keys.
        merge: KEEP or REPLACE.
        progress: called after each block of rows.

    Attributes:
        ranks: number of slices.
    """

    def __init__(self, checkpoint: Checkpoint, spec: TableSpec, source: Source, plan: Plan, merge: str,
                 progress: Optional[Progress]) -> None:
        self.checkpoint = checkpoint
        self.source = source
        self.plan = plan
        self.ranks = len(checkpoint.positions)
        self._spec = spec
        self._replaces = merge == REPLACE
        self._progress = progress
        self._done = 0
        self._total = sum(one.rows for one in checkpoint.tables.values()) + len(plan.keys)

    def specs(self, rank: int) -> List[TableSpec]:
        """Return the specs of a rank's slice."""
        return [self._spec_of(one, rank) for one in self.checkpoint.tables.values()]

    def _spec_of(self, spec: TableSpec, rank: int) -> TableSpec:
        rows, candidates = self.checkpoint.rows_of(spec.name, rank, self.ranks)
        if spec.name == self._spec.name:
            rows += self.plan.new(rank, self.ranks)
            candidates -= self.plan.no_longer_counted(rank, self.ranks)
            if spec.policies is not None:
                time = max(spec.policies.time, self.plan.latest)
                spec = spec._replace(policies=spec.policies._replace(time=time))
        return spec._replace(rows=rows, candidates=candidates, deleted=0)

    def write(self, writer: TablesWriter, rank: int) -> None:
        """Write all tables of a rank."""
        for name in self.checkpoint.tables:
            writer.write_table(name, self._told(self._blocks(name, rank)), self._candidates(name, rank),
                               self.checkpoint.pool(name))

    def _told(self, blocks: Iterator[PartedBlock]) -> Iterator[PartedBlock]:
        for block in blocks:
            yield block
            self._done += len(block.keys)
            if self._progress is not None:
                self._progress(min(self._done, self._total), self._total)

    def _blocks(self, name: str, rank: int) -> Iterator[PartedBlock]:
        is_mine = name == self._spec.name
        drops = is_mine and self._replaces and self.plan.there is not None
        for block in self.checkpoint.parted_blocks(name, rank, self.ranks):
            yield _chosen(block, ~self.plan.has(block.keys)) if drops else block
        if is_mine:
            for part in checked_parts(self.source, self._spec, [column for column in self.source.columns
                                                                if column != KEY]):
                yield self._block(part, rank)

    def _block(self, part: Part, rank: int) -> PartedBlock:
        """Return the rows of a part that belong to a rank and are imported."""
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

    def _candidates(self, name: str, rank: int) -> Iterator[KeyBlock]:
        for block in self.checkpoint.candidates(name, rank, self.ranks):
            if name == self._spec.name and self.plan.there is not None:
                left = ~self.plan.has(block.keys)
                block = KeyBlock(*(values[left] for values in block))
            yield block


def _chosen(block: PartedBlock, rows: np.ndarray) -> PartedBlock:
    if rows.all():
        return block
    return PartedBlock(block.keys[rows], tuple(part[rows] for part in block.parts), block.counts[rows],
                       block.timestamps[rows])


def _written(merge: _Merge, place: "_NewPlace") -> str:
    """Write the new checkpoint, and return its prefix."""
    checkpoint = merge.checkpoint
    directory, base, step = place
    # Another run id, because this is another state than the live tables of the run that saved the checkpoint.
    positions = [one._replace(run_id="import-" + uuid.uuid4().hex) for one in checkpoint.positions]
    with CheckpointWriter(directory, base, step, dense=checkpoint.dense_prefix is not None,
                          ranks=merge.ranks) as writer:
        if checkpoint.dense_prefix is not None:
            writer.copy_dense_of(checkpoint.prefix)
        writer.begin_tables(merge.specs(0))
        merge.write(writer, 0)
        slices = [_slice(merge, place, writer.staging_name, rank, positions[rank]) for rank in range(1, merge.ranks)]
        merge.source.check_unchanged()
        return writer.commit(positions[0], slices)


def _slice(merge: _Merge, place: "_NewPlace", staging_name: str, rank: int, position: Position) -> str:
    with SliceWriter(*place, staging_name, rank, merge.ranks) as writer:
        writer.begin_tables(merge.specs(rank), delta=False)
        merge.write(writer, rank)
        return writer.finish(position)


_NewPlace = Tuple[str, str, Optional[int]]  #: directory, base and step of the new checkpoint


def _new_place(request: Request) -> _NewPlace:
    """Return the location of the new checkpoint, which must be free."""
    if request.to is not None:
        place = place_of(request.to)
        if _is_taken(place):
            raise ArgumentError("to={} is the name of an existing checkpoint. Nothing was read or written. Pass "
                                "another name".format(shown(request.to)))
        return (place.directory, *_base_and_step(place.stem))
    place = place_of(request.into)
    stem, step = _base_and_step(place.stem)
    base = re.sub(r"-{}[0-9]*\Z".format(_IMPORTED), "", stem)
    for number in range(1, _MOST_NAMES):
        name = "{}-{}{}".format(base, _IMPORTED, "" if number == 1 else number)
        stem = name if step is None else "{}-{}".format(name, step)
        if not _is_taken(place_of(os.path.join(place.directory, stem))):
            return place.directory, name, step
    raise ArgumentError("{} has {} imported checkpoints. Nothing was read or written. Pass a name with to=".format(
        place.directory, _MOST_NAMES - 1))


def _is_taken(place: Place) -> bool:
    return any(os.path.lexists(os.path.join(place.directory, name)) for name in place.names)


def _base_and_step(stem: str) -> Tuple[str, Optional[int]]:
    found = re.match(r"(.*)-(0|[1-9][0-9]{0,17})\Z", stem, re.DOTALL)
    return (stem, None) if found is None else (found.group(1), int(found.group(2)))
