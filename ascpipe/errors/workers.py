"""Errors of workers, and of steps that depend on them."""
from typing import ClassVar, Tuple

from ascpipe.errors.base import AscpipeError


class WorkerError(AscpipeError):
    """A worker process exited and could not be restarted."""

    code = "E120"
    fields: ClassVar[Tuple[str, ...]] = ("worker", "pid", "cause")
    template = "{worker} (pid {pid}) ended: {cause}"


class TableWorkerDiedError(WorkerError):
    """A table worker exited other than by SIGKILL."""

    code = "E122"
    template = ("{worker} (pid {pid}) ended: {cause}. Its memory may be damaged, so it will not be reused. "
                "What was trained since the last checkpoint is lost. Restart the program")


class KeyWorkerDiedError(WorkerError):
    """A key worker exited other than by SIGKILL."""

    code = "E130"
    template = ("{worker} (pid {pid}) ended: {cause}. No batch was half-applied. "
                "What was trained since the last checkpoint is lost. Restart the program")


class DiskWorkerDiedError(WorkerError):
    """The disk worker exited other than by SIGKILL."""

    code = "E132"
    template = ("{worker} (pid {pid}) ended: {cause}. Rows on disk are lost with it. "
                "What was trained since the last checkpoint is lost. Restart the program")


class RowUnreadableError(WorkerError):
    """A row that a step needs cannot be read from disk.

    Attributes:
        table, key: name of the table, and the key.
        directory, slot: directory of the row file, and disk slot within the table.
        reason: error of the disk, or what is in the slot instead of the row.
    """

    code = "E422"
    fields: ClassVar[Tuple[str, ...]] = ("table", "key", "directory", "slot", "reason")
    template = ("table {table!r}: the row of key {key} cannot be read from {directory} (disk slot {slot}): {reason}. "
                "The step that needs it was not run, and what was trained since the last checkpoint is lost. Look "
                "after that disk, then restart the program from a checkpoint")


class DiskFullError(WorkerError):
    """Rows must be written to disk, and no disk accepts them.

    Attributes:
        table: name of the table.
        lacking, need_bytes: number of rows that must be written, and their size.
        reason: last error of the disk.
        room: free space of each directory.
    """

    code = "E423"
    fields: ClassVar[Tuple[str, ...]] = ("table", "lacking", "need_bytes", "reason", "room")
    template = ("table {table!r}: {lacking} rows ({need_bytes} bytes) must go to disk to make room for the next batch, "
                "and none can: {reason}. Free now: {room}. What was trained since the last checkpoint is lost. Make "
                "room there, or name other directories in ssd_data_path, then restart the program from a checkpoint")


class DiskSilentError(WorkerError):
    """Disks with rows no longer respond.

    Attributes:
        seconds: how long a step waited without any completed operation.
        under_way: number of operations in flight, and their directories.
    """

    code = "E424"
    fields: ClassVar[Tuple[str, ...]] = ("seconds", "under_way")
    template = ("no row was read from disk, and none written, for {seconds:.0f} s (disk_patience_s) while a step "
                "waited for rows; operations under way: {under_way}. The step was not run, and what was trained since "
                "the last checkpoint is lost. Look after that disk, or allow it more time if it is that slow, then "
                "restart the program from a checkpoint")


class CrashLoopError(WorkerError):
    """A worker was restarted too often.

    Attributes:
        restarts: number of restarts within ``window_s`` seconds.
    """

    code = "E140"
    fields: ClassVar[Tuple[str, ...]] = ("worker", "restarts", "window_s", "causes")
    template = ("{worker} was restarted {restarts} times in {window_s:g} s, giving up. Last causes: {causes}. "
                "What was trained since the last checkpoint is lost. Restart the program")
