"""Saving: one directory is written aside, made durable, and renamed; that rename is the commit of both parts."""
from types import TracebackType
from typing import Callable, Iterable, Optional, Sequence, Type

import numpy as np

from ascpipe.checkpoint.contents import Block, CandidateBlock, Position, TableSpec

Progress = Callable[[int, int], None]  #: (bytes written, bytes needed), of the sparse part


class CheckpointWriter:
    """Writes one checkpoint; leaving the ``with`` without a commit removes everything that was written.

    ::

        with CheckpointWriter("dir", "model.ckpt", 100, specs, progress) as writer:
            for spec in specs:
                writer.write_table(spec.name, blocks(spec), candidates(spec))
            saver.save(session, writer.dense_prefix, write_state=False)  # TensorFlow's, without a step of its own
            prefix = writer.commit(position)  # "dir/model.ckpt-100"

    One thread. Any failure is a ``NotSavedError``: earlier checkpoints are as they were.

    Attributes:
        prefix: ``directory/base-step``, how the checkpoint is named to everybody.
        dense_prefix: where TensorFlow shall write its part: ``<dense_prefix>.index``, ``.data-*`` and ``.meta``.
        needed_bytes: of the sparse part.
        written_bytes: of the sparse part, so far.
    """

    prefix: str
    dense_prefix: str
    needed_bytes: int
    written_bytes: int

    def __init__(self, directory: str, base: str, step: Optional[int], tables: Sequence[TableSpec],
                 progress: Optional[Progress] = None, *, dense: bool = True) -> None:
        """Check names, specs and free space; makes the directory if it is not there.

        Args:
            step: of the save, 0 or more; None: the name gets no suffix.
            tables: of all tables, with the number of their rows and candidates.
            progress: called after each block.
            dense: False: there is no dense part.

        Raises:
            CheckpointPathError: a path or name that we refuse.
            ValueError: a spec that makes no sense.
            NotSavedError: too little space, no permission, or the place is taken by something that is not ours.
        """
        raise NotImplementedError

    def write_table(self, name: str, blocks: Iterable[Block], candidates: Iterable[CandidateBlock] = (),
                    pool: Optional[np.ndarray] = None) -> None:
        """Write one table, once, in any order of tables.

        Args:
            blocks: ``rows`` keys of its spec in all, each once; the arrays are not kept.
            candidates: ``candidates`` keys in all.
            pool: float32[pool_rows, dim] of initial rows of kind 4, else None.

        Raises:
            ValueError: another dtype, shape or number of keys than the spec says.
            NotSavedError: the disk refused.
        """
        raise NotImplementedError

    def commit(self, position: Position) -> str:
        """Make the checkpoint durable and give it its name; one of that name is exchanged for it atomically.

        Returns:
            ``prefix``.

        Raises:
            ValueError: a table was not written, or the position makes no sense.
            NotSavedError: the disk refused, or TensorFlow's part is not there.
            NotPublishedError: the checkpoint is complete and restores, but what follows the commit failed.
        """
        raise NotImplementedError

    def __enter__(self) -> "CheckpointWriter":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        raise NotImplementedError
