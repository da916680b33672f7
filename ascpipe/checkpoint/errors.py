"""Checkpoint errors.

::

    CheckpointError                 E500  other checkpoint errors
    +-- NotSavedError               E510  a save failed; earlier checkpoints are unchanged
    +-- NotPublishedError           E511  the checkpoint is complete, but an operation after its commit failed
    +-- NoCheckpointError           E520  there is no such checkpoint (also a FileNotFoundError)
    |   `-- NoTablesError           E526  the checkpoint has no tables (also a FileExistsError)
    +-- CheckpointPathError         E521  a path or name is not allowed (also a ValueError)
    +-- DamagedCheckpointError      E522  the checkpoint differs from the saved data
    |   `-- UnmergedCheckpointError E534  Rec SDK has not merged the parts of several ranks
    +-- UnverifiedCheckpointError   E523  the checkpoint has no ascpipe manifest
    +-- CheckpointMismatchError     E524  the checkpoint does not match the tables of this program
    +-- NotRemovedError             E525  the checkpoint was not removed
    +-- NoRoomForCopyError          E527  too little memory for a copy next to the live tables
    +-- NoMemoryToReadError         E528  too little memory to verify or read a checkpoint
    +-- RowsNotExportedError        E529  the rows of a table were not exported
    +-- RowsNotImportedError        E530  rows of files do not fit a table, or are invalid (also a ValueError)
    +-- DamagedRowsError            E531  a file with rows is damaged, or cannot be read
    +-- UpdateNotExportedError      E532  an update for servers was not written
    `-- NotConvertedError           E533  a checkpoint was not converted from or to TensorFlow (also a ValueError)
"""
import os
from typing import ClassVar, Tuple

from ascpipe.errors import AscpipeError

_GIB = float(1 << 30)


class CheckpointError(AscpipeError):
    """Base class of checkpoint errors."""

    code = "E500"


class NotSavedError(CheckpointError):
    """A save failed. Earlier checkpoints are unchanged, and training can continue.

    Attributes:
        prefix: prefix of the checkpoint that was not saved.
        written_bytes, needed_bytes: written and total size of the sparse part.
        state: a sentence about remaining files and intact checkpoints.
    """

    code = "E510"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "reason", "written_bytes", "needed_bytes", "state")

    def _text(self) -> str:
        return ("Checkpoint {} was not saved: {} (wrote {} of {} bytes, {:.2f} of {:.2f} GiB). {} Training can "
                "continue; remove the cause and save again").format(
                    self.prefix, self.reason, self.written_bytes, self.needed_bytes, self.written_bytes / _GIB,
                    self.needed_bytes / _GIB, self.state)


class NotPublishedError(CheckpointError):
    """A checkpoint is complete and can be restored, but an operation after its commit failed."""

    code = "E511"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "directory", "reason")
    template = ("Checkpoint {prefix} is complete in {directory} and can be restored, but a step after its commit "
                "failed: {reason}. Remove the cause and save again")


class NoCheckpointError(CheckpointError, FileNotFoundError):
    """There is no such checkpoint."""

    code = "E520"
    fields: ClassVar[Tuple[str, ...]] = ("path",)
    template = ("There is no checkpoint: {path} does not exist. Nothing was changed. "
                "Pass DIR/BASE-STEP as save() returned it")


class NoTablesError(NoCheckpointError, FileExistsError):
    """A checkpoint has a dense part and no tables. The class is derived from FileExistsError for compatibility with Rec
    SDK.

    Attributes:
        prefix: prefix of the checkpoint.
        instead: a sentence with the recommended action.
    """

    code = "E526"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "instead")  # OSError drops a third argument

    def _text(self) -> str:
        directory, stem = os.path.split(self.prefix)
        return "Checkpoint {} has variables but no tables: there is no {}. Nothing was changed. {}".format(
            self.prefix, os.path.join(directory, "sparse-" + stem), self.instead)


class CheckpointPathError(CheckpointError, ValueError):
    """A path or name of a checkpoint is not allowed."""

    code = "E521"
    fields: ClassVar[Tuple[str, ...]] = ("path", "reason")
    template = "Checkpoint path {path!r} was refused: {reason}. Nothing was read or written"


class DamagedCheckpointError(CheckpointError):
    """A checkpoint differs from the saved data. No part of the checkpoint is used.

    Attributes:
        prefix: prefix of the checkpoint.
        file: path of the damaged file, relative to the directory of the checkpoint.
    """

    code = "E522"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "file", "reason")
    template = ("Checkpoint {prefix} is damaged: {file}: {reason}. Nothing was changed, and nothing of it is "
                "used. Restore another checkpoint, or copy this one again")


class UnmergedCheckpointError(DamagedCheckpointError):
    """A checkpoint of Rec SDK has separate parts of several ranks. Rec SDK merges the parts at the end of a save."""

    code = "E534"
    template = ("Checkpoint {prefix} is incomplete: {file}: {reason}. Nothing was changed, and nothing of it is used. "
                "Restore another checkpoint")


class UnverifiedCheckpointError(CheckpointError):
    """A checkpoint has no ascpipe manifest."""

    code = "E523"
    fields: ClassVar[Tuple[str, ...]] = ("prefix",)
    template = ("Checkpoint {prefix} has no manifest of ascpipe, so it cannot be verified. Nothing was changed. If it "
                "comes from Rec SDK and you trust it, pass allow_unverified=True or set ASCPIPE_ALLOW_UNVERIFIED=1")


class CheckpointMismatchError(CheckpointError):
    """A checkpoint does not match the tables of this program.

    Attributes:
        prefix: prefix of the checkpoint.
        table: name of the table.
    """

    code = "E524"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "table", "reason")
    template = "Checkpoint {prefix}: table {table!r} {reason}. Nothing was changed"


class NotRemovedError(CheckpointError):
    """A checkpoint was not removed."""

    code = "E525"
    fields: ClassVar[Tuple[str, ...]] = ("path", "reason")
    template = "{path} was not removed: {reason}"


class NoRoomForCopyError(CheckpointError):
    """An evaluation session has too little memory to copy a checkpoint.

    Attributes:
        prefix: prefix of the checkpoint.
        need_bytes: size of keys, embeddings and their index.
        have: string that lists the available memory under each limit.
    """

    code = "E527"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "need_bytes", "have")
    template = ("The rows of checkpoint {prefix} need {need_bytes} bytes of memory for a copy beside the tables. "
                "Available: {have}. Nothing was changed. Evaluate after training has ended, or on another machine")


class NoMemoryToReadError(CheckpointError):
    """There is too little memory to verify or read a checkpoint. The checkpoint may be intact.

    Attributes:
        prefix: prefix of the checkpoint.
        what: purpose of the memory.
        need_bytes: requested memory in bytes.
        have: string that lists the available memory under each limit.
    """

    code = "E528"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "what", "need_bytes", "have")

    def _text(self) -> str:
        return ("Checkpoint {} cannot be read: {} need {} bytes ({:.2f} GiB) of memory. Available: {}. Nothing was "
                "changed. Raise the limit, or read it on a machine with more memory").format(
                    self.prefix, self.what, self.need_bytes, self.need_bytes / _GIB, self.have)


class RowsNotExportedError(CheckpointError):
    """The rows of a table were not exported.

    Attributes:
        prefix: prefix of the checkpoint.
        table: name of the table.
        to: path of the directory that was not created.
    """

    code = "E529"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "table", "to", "reason")
    template = ("Table {table!r} of checkpoint {prefix} was not exported to {to}: {reason}. The checkpoint is "
                "unchanged, and no file was left behind")


class RowsNotImportedError(CheckpointError, ValueError):
    """The rows in a file do not match a table, or contain invalid values. No checkpoint was written.

    Attributes:
        source: path of the files.
        place: file of the first invalid row, and the line, row group or row.
        reason: what is invalid, and what to do.
        count: number of invalid rows, or 0 if no single row is invalid.
    """

    code = "E530"
    fields: ClassVar[Tuple[str, ...]] = ("source", "place", "reason", "count")

    def _text(self) -> str:
        where = " (in {} row{})".format(self.count, "" if self.count == 1 else "s") if self.count else ""
        return "{} was not imported: {}: {}{}. Nothing was written or changed".format(
            self.source, self.place, self.reason, where)


class DamagedRowsError(CheckpointError):
    """A file with rows is damaged or cannot be read. No checkpoint was written.

    Attributes:
        source: path of the files.
        place: damaged file, and the line or row group in it.
        reason: what is damaged.
    """

    code = "E531"
    fields: ClassVar[Tuple[str, ...]] = ("source", "place", "reason")
    template = ("{source} was not imported: {place} is damaged or cannot be read: {reason}. Nothing was written or "
                "changed. Copy or export the files again")


class UpdateNotExportedError(CheckpointError):
    """An update for servers was not written.

    Attributes:
        prefix: prefix of the checkpoint.
        to: directory of the updates.
    """

    code = "E532"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "to", "reason")
    template = ("The rows of checkpoint {prefix} were not written to {to}: {reason}. The checkpoint and complete "
                "updates are unchanged, and servers keep the last version")


class NotConvertedError(CheckpointError, ValueError):
    """A TensorFlow checkpoint was not converted to tables, or tables were not converted to variables.

    Attributes:
        prefix: prefix of the checkpoint.
        name: variable, table or file that cannot be converted.
        reason: why it cannot be converted, and what to do.
    """

    code = "E533"
    fields: ClassVar[Tuple[str, ...]] = ("prefix", "name", "reason")
    template = "Checkpoint {prefix} was not converted: {name}: {reason}. No checkpoint was written or changed"
