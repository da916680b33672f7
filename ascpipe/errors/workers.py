"""Errors of worker processes, and of the disks that store rows."""
from typing import ClassVar, Tuple

from ascpipe.errors.base import AscpipeError


class WorkerError(AscpipeError):
    """A worker process failed, or the kernels of workers cannot be compiled. Base class of errors of workers."""

    code = "E120"
    fields: ClassVar[Tuple[str, ...]] = ("worker", "pid", "cause")
    template = "{worker} (pid {pid}) exited: {cause}"


class TableWorkerDiedError(WorkerError):
    """A table worker exited for a reason other than SIGKILL."""

    code = "E122"
    template = ("{worker} (pid {pid}) exited: {cause}. Its memory may be damaged and is discarded. "
                "Training since the last checkpoint is lost. Restart the program")


class KeyWorkerDiedError(WorkerError):
    """A key worker exited for a reason other than SIGKILL."""

    code = "E130"
    template = ("{worker} (pid {pid}) exited: {cause}. No batch was half-applied. "
                "Training since the last checkpoint is lost. Restart the program")


class DiskWorkerDiedError(WorkerError):
    """The disk worker exited for a reason other than SIGKILL."""

    code = "E132"
    template = ("{worker} (pid {pid}) exited: {cause}. Its rows on disk are lost. "
                "Training since the last checkpoint is lost. Restart the program")


class RowUnreadableError(WorkerError):
    """A row that a step needs cannot be read from disk.

    Attributes:
        table, key: name of the table, and key of the row.
        directory, slot: directory of the row file, and disk slot within the table.
        reason: error of the disk, or description of the wrong content of the slot.
    """

    code = "E422"
    fields: ClassVar[Tuple[str, ...]] = ("table", "key", "directory", "slot", "reason")
    template = ("Table {table!r}: the row of key {key} cannot be read from {directory} (disk slot {slot}): {reason}. "
                "The step that needs it was not run, and training since the last checkpoint is lost. Check "
                "that disk, then restart the program from a checkpoint")


class DiskFullError(WorkerError):
    """Rows must be written to disk, but no disk accepts writes.

    Attributes:
        table: name of the table.
        lacking, need_bytes: number and total size of the rows that must be written.
        reason: last error of the disk.
        room: free space of each directory.
    """

    code = "E423"
    fields: ClassVar[Tuple[str, ...]] = ("table", "lacking", "need_bytes", "reason", "room")
    template = ("Table {table!r}: {lacking} rows ({need_bytes} bytes) must be written to disk for the next batch, and "
                "no disk accepts them: {reason}. Free space: {room}. Training since the last checkpoint is lost. Free "
                "space there, or use other directories in ssd_data_path, then restart the program from a checkpoint")


class DiskSilentError(WorkerError):
    """The disks that store rows do not respond while a step waits for rows.

    Attributes:
        seconds: time in seconds for which a step waited without a completed operation.
        under_way: number of operations in flight, and their directories.
    """

    code = "E424"
    fields: ClassVar[Tuple[str, ...]] = ("seconds", "under_way")
    template = ("No row was read from disk or written for {seconds:.0f} s (disk_patience_s) while a step waited for "
                "rows; operations in flight: {under_way}. The step was not run, and training since the "
                "last checkpoint is lost. Check that disk, or raise disk_patience_s if it is that slow, then "
                "restart the program from a checkpoint")


class CrashLoopError(WorkerError):
    """A worker was restarted too often.

    Attributes:
        restarts: number of restarts within ``window_s`` seconds.
    """

    code = "E140"
    fields: ClassVar[Tuple[str, ...]] = ("worker", "restarts", "window_s", "causes")
    template = ("{worker} was restarted {restarts} times in {window_s:g} s and is not restarted again. "
                "Last causes: {causes}. Training since the last checkpoint is lost. Restart the program")
