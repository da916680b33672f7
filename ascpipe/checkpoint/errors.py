"""What goes wrong with checkpoints.

::

    CheckpointError                 E500  anything else of checkpoints
    +-- NotSavedError               E510  a save failed; earlier checkpoints are as they were
    +-- NotPublishedError           E511  saved and complete, but what follows failed
    +-- NoCheckpointError           E520  there is none (also a FileNotFoundError)
    |   `-- NoTablesError           E526  it has no tables (also a FileExistsError)
    +-- CheckpointPathError         E521  a path or name that we refuse (also a ValueError)
    +-- DamagedCheckpointError      E522  it is not what was saved
    +-- UnverifiedCheckpointError   E523  it has no manifest of ours
    +-- CheckpointMismatchError     E524  it is not of the tables of this program
    +-- NotRemovedError             E525  it was not removed
    +-- NoRoomForCopyError          E527  too little memory for a copy beside the live tables
    `-- NoMemoryToReadError         E528  too little memory to verify or read one
"""
import os
from typing import ClassVar, Tuple

from ascpipe.errors import AscpipeError

_GIB = float(1 << 30)


class CheckpointError(AscpipeError):
    """Of checkpoints."""

    code = "E500"


class NotSavedError(CheckpointError):
    """A save failed; earlier checkpoints are as they were, and training may go on.

    Attributes:
        prefix: of the checkpoint that was to be.
        written_bytes, needed_bytes: of its sparse part.
        state: a sentence on what is left where, and what is intact.
    """

    code = "E510"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "reason", "written_bytes", "needed_bytes", "state")

    def _text(self) -> str:
        return ("checkpoint {} not saved: {} (wrote {} of {} bytes, {:.2f} of {:.2f} GiB). {} Training may go on; "
                "mend the cause and save again").format(
                    self.prefix, self.reason, self.written_bytes, self.needed_bytes, self.written_bytes / _GIB,
                    self.needed_bytes / _GIB, self.state)


class NotPublishedError(CheckpointError):
    """A checkpoint is complete and restores, but what follows its commit failed."""

    code = "E511"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "directory", "reason")
    template = ("checkpoint {prefix} is complete in {directory} and can be restored, but {reason}. "
                "Mend the cause and save again")


class NoCheckpointError(CheckpointError, FileNotFoundError):
    """There is no such checkpoint."""

    code = "E520"
    fields: ClassVar[Tuple[str, ...]] = ("path",)
    template = ("there is no checkpoint: {path} does not exist. Nothing was changed. "
                "Give DIR/BASE-STEP as save() returned it")


class NoTablesError(NoCheckpointError, FileExistsError):
    """A checkpoint has a dense part and no tables; a FileExistsError, too, as Rec SDK has it.

    Attributes:
        prefix: of the checkpoint.
        instead: what to do.
    """

    code = "E526"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "instead")  # an OSError takes no third

    def _text(self) -> str:
        directory, stem = os.path.split(self.prefix)
        return "checkpoint {} has variables but no tables: there is no {}. Nothing was changed. {}".format(
            self.prefix, os.path.join(directory, "sparse-" + stem), self.instead)


class CheckpointPathError(CheckpointError, ValueError):
    """A path or name of a checkpoint that we refuse."""

    code = "E521"
    fields: ClassVar[Tuple[str, ...]] = ("path", "reason")
    template = "checkpoint path {path!r} refused: {reason}. Nothing was read or written"


class DamagedCheckpointError(CheckpointError):
    """A checkpoint is not what was saved; nothing of it is used.

    Attributes:
        prefix: of the checkpoint.
        file: the file in question, relative to its directory.
    """

    code = "E522"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "file", "reason")
    template = ("checkpoint {prefix} is damaged: {file}: {reason}. Nothing was changed, and nothing of it will be "
                "used. Restore another one, or get this one from a copy")


class UnverifiedCheckpointError(CheckpointError):
    """A checkpoint without our manifest."""

    code = "E523"
    fields: ClassVar[Tuple[str, ...]] = ("prefix",)
    template = ("checkpoint {prefix} has no manifest of ascpipe, so it cannot be verified. Nothing was changed. If it "
                "comes from Rec SDK and you trust it, give allow_unverified=True or set ASCPIPE_ALLOW_UNVERIFIED=1")


class CheckpointMismatchError(CheckpointError):
    """A checkpoint is not of the tables of this program.

    Attributes:
        prefix: of the checkpoint.
        table: name of the table.
    """

    code = "E524"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "table", "reason")
    template = "checkpoint {prefix}: table {table!r} {reason}. Nothing was changed"


class NotRemovedError(CheckpointError):
    """A checkpoint was not removed."""

    code = "E525"
    fields: ClassVar[Tuple[str, ...]] = ("path", "reason")
    template = "{path} was not removed: {reason}"


class NoRoomForCopyError(CheckpointError):
    """A session that only evaluates cannot have a copy of a checkpoint: there is too little memory.

    Attributes:
        prefix: of the checkpoint.
        need_bytes: of its keys and embeddings, with their index.
        have: a sentence with what is there, for each limit.
    """

    code = "E527"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "need_bytes", "have")
    template = ("the rows of checkpoint {prefix} need {need_bytes} bytes of memory for a copy beside the tables, and "
                "there is: {have}. Nothing was changed. Evaluate after training has ended, or on another machine")


class NoMemoryToReadError(CheckpointError):
    """There is too little memory to verify or read a checkpoint. The checkpoint may be whole.

    Attributes:
        prefix: of the checkpoint.
        what: the memory is needed for.
        need_bytes: requested memory in bytes.
        have: text with the remaining memory below each limit.
    """

    code = "E528"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "what", "need_bytes", "have")

    def _text(self) -> str:
        return ("checkpoint {} cannot be read: {} need {} bytes ({:.2f} GiB) of memory, and there is: {}. Nothing was "
                "changed. Raise the limit, or read it on a machine with more memory").format(
                    self.prefix, self.what, self.need_bytes, self.need_bytes / _GIB, self.have)
