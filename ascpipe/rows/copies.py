"""New checkpoints with the content of another checkpoint, in which some tables are changed."""
import os
import re
import uuid
from typing import Iterator, List, NamedTuple, Optional, Tuple

from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.checkpoint.contents import KeyBlock, PartedBlock, Position, TableSpec
from ascpipe.checkpoint.paths import Place, place_of
from ascpipe.checkpoint.slice_writer import SliceWriter
from ascpipe.checkpoint.tables_writer import TablesWriter
from ascpipe.checkpoint.writer import CheckpointWriter
from ascpipe.errors import ArgumentError
from ascpipe.errors.base import shown
from ascpipe.rows.export import Progress

_MOST_NAMES = 1000


class Name(NamedTuple):
    """Name of a new checkpoint.

    Attributes:
        directory: directory of the checkpoint.
        base: name without the step.
        step: training step, or None.
    """

    directory: str
    base: str
    step: Optional[int]


class Copy:
    """Content of the new checkpoint. Subclasses change tables.

    Args:
        checkpoint: the checkpoint to start from.
        rows: number of rows that are written, for ``progress``.
        progress: called after each block of rows.

    Attributes:
        ranks: number of slices.
    """

    def __init__(self, checkpoint: Checkpoint, rows: int, progress: Optional[Progress]) -> None:
        self.checkpoint = checkpoint
        self.ranks = len(checkpoint.positions)
        self._progress = progress
        self._done = 0
        self._total = rows

    def name_of(self, table: str) -> str:
        """Return the name of a table in the new checkpoint."""
        return table

    def spec_of(self, spec: TableSpec, rank: int) -> TableSpec:
        """Return the spec of a table in a rank's slice of the new checkpoint."""
        rows, candidates = self.checkpoint.rows_of(spec.name, rank, self.ranks)
        return spec._replace(name=self.name_of(spec.name), rows=rows, candidates=candidates, deleted=0)

    def blocks(self, table: str, rank: int) -> Iterator[PartedBlock]:
        """Yield the rows of a table in a rank's slice."""
        return self.checkpoint.parted_blocks(table, rank, self.ranks)

    def candidates(self, table: str, rank: int) -> Iterator[KeyBlock]:
        """Yield the keys without a row of a table in a rank's slice."""
        return self.checkpoint.candidates(table, rank, self.ranks)

    def check_unchanged(self) -> None:
        """Raise an error if files that were read have changed meanwhile. The checkpoint checks its own files."""

    def specs(self, rank: int) -> List[TableSpec]:
        """Return the specs of a rank's slice."""
        return [self.spec_of(one, rank) for one in self.checkpoint.tables.values()]

    def write(self, writer: TablesWriter, rank: int) -> None:
        """Write all tables of a rank."""
        for name in self.checkpoint.tables:
            writer.write_table(self.name_of(name), self._counted(self.blocks(name, rank)), self.candidates(name, rank),
                               self.checkpoint.pool(name))

    def _counted(self, blocks: Iterator[PartedBlock]) -> Iterator[PartedBlock]:
        for block in blocks:
            yield block
            self._done += len(block.keys)
            if self._progress is not None:
                self._progress(min(self._done, self._total), self._total)

    def positions(self, run_id: str) -> List[Position]:
        """Return the training positions of the new checkpoint, by rank."""
        return [one._replace(run_id=run_id, tables={self.name_of(name): at for name, at in one.tables.items()})
                for one in self.checkpoint.positions]


def written(copy: Copy, name: Name, kind: str) -> str:
    """Write the new checkpoint, and return its prefix.

    Args:
        kind: how the checkpoint was created. It is a part of its run id.
    """
    checkpoint = copy.checkpoint
    # Another run id, because this is another state than the live tables of the run that saved the checkpoint.
    positions = copy.positions("{}-{}".format(kind, uuid.uuid4().hex))
    with CheckpointWriter(*name, dense=checkpoint.dense_prefix is not None, ranks=copy.ranks) as writer:
        if checkpoint.dense_prefix is not None:
            writer.copy_dense_of(checkpoint.prefix)
        writer.begin_tables(copy.specs(0))
        copy.write(writer, 0)
        slices = [_slice(copy, name, writer.staging_name, rank, positions[rank]) for rank in range(1, copy.ranks)]
        copy.check_unchanged()
        return writer.commit(positions[0], slices)


def _slice(copy: Copy, name: Name, staging_name: str, rank: int, position: Position) -> str:
    with SliceWriter(*name, staging_name, rank, copy.ranks) as writer:
        writer.begin_tables(copy.specs(rank), delta=False)
        copy.write(writer, rank)
        return writer.finish(position)


def new_name(source: str, to: Optional[str], word: str) -> Name:
    """Return the name of the new checkpoint, which must be free.

    Args:
        source: ``dir/base-step`` of the checkpoint to start from.
        to: ``dir/base-step`` of the new checkpoint, or None for ``dir/base-word-step``.
        word: the word in the default name.
    """
    if to is not None:
        place = place_of(to)
        if _is_taken(place):
            raise ArgumentError("to={} is the name of an existing checkpoint. Nothing was read or written. Pass "
                                "another name".format(shown(to)))
        return Name(place.directory, *_base_and_step(place.stem))
    place = place_of(source)
    stem, step = _base_and_step(place.stem)
    base = re.sub(r"-{}[0-9]*\Z".format(word), "", stem)
    for number in range(1, _MOST_NAMES):
        name = "{}-{}{}".format(base, word, "" if number == 1 else number)
        stem = name if step is None else "{}-{}".format(name, step)
        if not _is_taken(place_of(os.path.join(place.directory, stem))):
            return Name(place.directory, name, step)
    raise ArgumentError("{} has {} {} checkpoints. Nothing was read or written. Pass a name with to=".format(
        place.directory, _MOST_NAMES - 1, word))


def _is_taken(place: Place) -> bool:
    return any(os.path.lexists(os.path.join(place.directory, name)) for name in place.names)


def _base_and_step(stem: str) -> Tuple[str, Optional[int]]:
    found = re.match(r"(.*)-(0|[1-9][0-9]{0,17})\Z", stem, re.DOTALL)
    return (stem, None) if found is None else (found.group(1), int(found.group(2)))
