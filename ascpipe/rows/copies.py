"""Copies of checkpoints with changes in some tables."""
import uuid
from typing import Iterator, List, Optional

from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.checkpoint.contents import KeyBlock, PartedBlock, Position, TableSpec
from ascpipe.checkpoint.slice_writer import SliceWriter
from ascpipe.checkpoint.tables_writer import TablesWriter
from ascpipe.checkpoint.writer import CheckpointWriter
from ascpipe.rows.export import Progress
from ascpipe.rows.free_names import Name
from ascpipe.rows.newest import note_newest


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
        name = self.name_of(spec.name)
        return spec._replace(name=name, rows=rows, candidates=candidates, deleted=0,
                             column=spec.column if name == spec.name else None)

    def blocks(self, table: str, rank: int) -> Iterator[PartedBlock]:
        """Yield the rows of a table in a rank's slice."""
        return self.checkpoint.parted_blocks(table, rank, self.ranks)

    def candidates(self, table: str, rank: int) -> Iterator[KeyBlock]:
        """Yield the keys that have no row, for one table and one rank's slice."""
        return self.checkpoint.candidates(table, rank, self.ranks)

    def check_unchanged(self) -> None:
        """Raise an error if an input file has changed since it was opened. The class ``Checkpoint`` checks the files of
        the copied checkpoint.
        """

    def specs(self, rank: int) -> List[TableSpec]:
        """Return the specs of all tables in a rank's slice."""
        return [self.spec_of(one, rank) for one in self.checkpoint.tables.values()]

    def write(self, writer: TablesWriter, rank: int) -> None:
        """Write all tables in a rank's slice."""
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
        """Return the training position of each rank in the new checkpoint, in the order of the ranks."""
        return [one._replace(run_id=run_id, tables={self.name_of(name): at for name, at in one.tables.items()})
                for one in self.checkpoint.positions]


def written(copy: Copy, name: Name, kind: str, *, notes: bool) -> str:
    """Write the new checkpoint, and return its prefix.

    Args:
        kind: word for the way in which the checkpoint was created. The word becomes part of the run id.
        notes: whether to write TensorFlow's file ``checkpoint``, if the directory does not have this file. Without the
            file, a program that starts from ``tf.train.latest_checkpoint`` would silently start from step 0.
    """
    checkpoint = copy.checkpoint
    # Use a new run id, because this state differs from the live tables of the run that saved the checkpoint.
    positions = copy.positions("{}-{}".format(kind, uuid.uuid4().hex))
    with CheckpointWriter(*name, dense=checkpoint.dense_prefix is not None, ranks=copy.ranks) as writer:
        if checkpoint.dense_prefix is not None:
            writer.copy_dense_of(checkpoint.prefix)
        writer.begin_tables(copy.specs(0))
        copy.write(writer, 0)
        slices = [_slice(copy, name, writer.staging_name, rank, positions[rank]) for rank in range(1, copy.ranks)]
        copy.check_unchanged()
        prefix = writer.commit(positions[0], slices)
    if notes and checkpoint.dense_prefix is not None:
        note_newest(name)
    return prefix


def _slice(copy: Copy, name: Name, staging_name: str, rank: int, position: Position) -> str:
    with SliceWriter(*name, staging_name, rank, copy.ranks) as writer:
        writer.begin_tables(copy.specs(rank), delta=False)
        copy.write(writer, rank)
        return writer.finish(position)
