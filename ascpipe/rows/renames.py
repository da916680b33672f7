"""Copies of checkpoints with new names for some tables."""
from typing import List, Mapping, NamedTuple, Optional

from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.checkpoint.errors import UnverifiedCheckpointError
from ascpipe.checkpoint.paths import TABLE_NAME, TAKEN_NAMES
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.errors import ArgumentError
from ascpipe.errors.base import shown
from ascpipe.rows.copies import Copy, written
from ascpipe.rows.export import Progress, table_of
from ascpipe.rows.free_names import new_name


class Renamed(NamedTuple):
    """Result of a renaming.

    Attributes:
        checkpoint: ``dir/base-step`` of the new checkpoint.
        tables: old name -> new name.
    """

    checkpoint: str
    tables: Mapping[str, str]


def renamed(prefix: str, names: Mapping[str, str], to: Optional[str] = None,
            progress: Optional[Progress] = None) -> Renamed:
    """Copy a checkpoint to a new full checkpoint, and rename tables in the copy. Two tables may swap their names.

    Args:
        prefix: ``dir/base-step`` of the checkpoint to start from. It is not changed.
        names: old name -> new name.
        to: ``dir/base-step`` of the new checkpoint, or None for ``dir/base-renamed-step``. If this directory has no
            file ``checkpoint``, the file is written.
        progress: called after each block of rows.

    Raises:
        ArgumentError: a name is not allowed, or two tables would have the same name.
        CheckpointError: the checkpoint is missing, damaged, unverified or does not have a table, or the new checkpoint
            cannot be written.
    """
    name = new_name(prefix, to, "renamed")
    with open_checkpoint(prefix) as checkpoint:
        if not checkpoint.verified:
            raise UnverifiedCheckpointError(prefix)
        for old in names:
            table_of(checkpoint, old)
        _check([names.get(table, table) for table in checkpoint.tables])
        copy = _RenamedTables(checkpoint, names, progress)
        return Renamed(written(copy, name, "rename", notes=to is not None), dict(names))


class _RenamedTables(Copy):
    def __init__(self, checkpoint: Checkpoint, names: Mapping[str, str], progress: Optional[Progress]) -> None:
        super().__init__(checkpoint, sum(one.rows for one in checkpoint.tables.values()), progress)
        self._names = names

    def name_of(self, table: str) -> str:
        """Return the name of a table in the new checkpoint."""
        return self._names.get(table, table)


def _check(names: List[str]) -> None:
    for name in names:
        if not TABLE_NAME.match(name) or name in TAKEN_NAMES:
            raise ArgumentError("{} cannot be the name of a table. Nothing was written. Use 1 to 100 letters, digits "
                                "and underscores".format(shown(name)))
        if names.count(name) > 1:
            raise ArgumentError("Two tables would have the name {}. Nothing was written. Rename the other table, "
                                "too".format(shown(name)))
