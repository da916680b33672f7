"""Which checkpoints a directory has, and the removal of those that are not kept."""
from typing import List, NamedTuple, Optional


class Found(NamedTuple):
    """A complete checkpoint: its records are whole and every file has the size they say.

    Attributes:
        prefix: ``directory/base-step``.
        step: of its manifest; None: saved without one.
    """

    prefix: str
    step: Optional[int]


def complete_checkpoints(directory: str) -> List[Found]:
    """Complete checkpoints of ours in a directory by step, those without a step first; digests are not computed.

    Raises:
        CheckpointPathError: a path that we refuse.
    """
    raise NotImplementedError


def remove_checkpoint(prefix: str) -> None:
    """Remove a checkpoint of ours, both parts; a kill leaves it whole, or gone with remains for the next save.

    No link is followed, and dense files are removed only if they are its own.

    Raises:
        CheckpointPathError: a path that we refuse.
        NoCheckpointError: there is none.
        NotRemovedError: it is not ours, or the disk refused.
    """
    raise NotImplementedError
