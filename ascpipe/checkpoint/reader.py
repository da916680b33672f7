"""Reading: a checkpoint is verified as a whole before its first row is given to anybody."""
from types import TracebackType
from typing import Dict, Iterator, Optional, Type

import numpy as np

from ascpipe.checkpoint.contents import Block, CandidateBlock, Position, TableSpec

BLOCK_ROWS = 1 << 16


class Checkpoint:
    """A checkpoint that was verified. Made by ``open_checkpoint``; close it, or use ``with``.

    Attributes:
        prefix: as it was opened.
        step: of its manifest; None: saved without one.
        tables: specs by name. Those of an unverified one lack ``initial`` and ``policies``.
        position: where training was; None of an unverified one.
        dense_prefix: what TensorFlow's Saver restores from; None if there is no dense part.
        verified: False: it has no manifest of ours, and sizes and key uniqueness is all that was checked.
    """

    prefix: str
    step: Optional[int]
    tables: Dict[str, TableSpec]
    position: Optional[Position]
    dense_prefix: Optional[str]
    verified: bool

    def blocks(self, table: str, rank: int = 0, ranks: int = 1, block_rows: int = BLOCK_ROWS) -> Iterator[Block]:
        """Keys with a row that belong to ``rank``: ``|key| % ranks == rank``; each key at exactly one rank.

        Of an unverified checkpoint, counts and timestamps are 0: a loader gives a key with a row the count that
        admits it.

        Args:
            block_rows: most keys of a block; blocks may be shorter, none is empty.

        Raises:
            KeyError: no such table.
            DamagedCheckpointError: the files have changed since they were verified.
        """
        raise NotImplementedError

    def candidates(self, table: str, rank: int = 0, ranks: int = 1,
                   block_rows: int = BLOCK_ROWS) -> Iterator[CandidateBlock]:
        """Keys that are counted and have no row, as ``blocks``."""
        raise NotImplementedError

    def row_count(self, table: str, rank: int = 0, ranks: int = 1) -> int:
        """How many keys ``blocks`` gives in all."""
        raise NotImplementedError

    def candidate_count(self, table: str, rank: int = 0, ranks: int = 1) -> int:
        """How many keys ``candidates`` gives in all."""
        raise NotImplementedError

    def pool(self, table: str) -> Optional[np.ndarray]:
        """float32[pool_rows, dim]: from what initial rows are picked; None for other kinds of initial rows."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back the descriptors. May be called twice."""
        raise NotImplementedError

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


def open_checkpoint(prefix: str, *, allow_unverified: bool = False) -> Checkpoint:
    """Verify a checkpoint: its records, the sizes and digests of all files, its keys and counts; then it can be read.

    Args:
        prefix: ``dir/base-step`` as ``CheckpointWriter.commit`` returns it and TensorFlow's Saver takes it.
        allow_unverified: also one without our manifest, such as Rec SDK's; so does ``ASCPIPE_ALLOW_UNVERIFIED=1``.

    Raises:
        CheckpointPathError: a path that we refuse.
        NoCheckpointError: there is none (also a FileNotFoundError).
        DamagedCheckpointError: it is not what was saved.
        UnverifiedCheckpointError: it has no manifest of ours, and that is not allowed.
    """
    raise NotImplementedError


def trained_batches(prefix: str) -> Dict[str, int]:
    """By the name of each stream, how many of its batches were trained: for ``dataset.skip(n)``.

    Reads and verifies the manifest only. Raises as ``open_checkpoint``.
    """
    raise NotImplementedError
