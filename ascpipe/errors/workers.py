"""Why a worker, or a step that needs it, cannot go on."""
from typing import ClassVar, Tuple

from ascpipe.errors.base import AscpipeError


class WorkerError(AscpipeError):
    """A worker process ended and could not simply be replaced."""

    code = "E120"
    fields: ClassVar[Tuple[str, ...]] = ("worker", "pid", "cause")
    template = "{worker} (pid {pid}) ended: {cause}"


class TableWorkerDiedError(WorkerError):
    """A table worker ended by anything but SIGKILL."""

    code = "E122"
    template = ("{worker} (pid {pid}) ended: {cause}. Its memory may be damaged, so it will not be reused. "
                "What was trained since the last checkpoint is lost. Restart the program")


class KeyWorkerDiedError(WorkerError):
    """A key worker ended by anything but SIGKILL."""

    code = "E130"
    template = ("{worker} (pid {pid}) ended: {cause}. No batch was half-applied. "
                "What was trained since the last checkpoint is lost. Restart the program")


class DiskWorkerDiedError(WorkerError):
    """The disk worker ended by anything but SIGKILL."""

    code = "E132"
    template = ("{worker} (pid {pid}) ended: {cause}. Rows on disk are lost with it. "
                "What was trained since the last checkpoint is lost. Restart the program")


class RowUnreadableError(WorkerError):
    """A row that a step needs cannot be read from disk.

    Attributes:
        table, key: name of the table, the key.
        directory, slot: of the row file, the disk slot among all of the table.
        reason: what the disk says, or what stands in the slot instead of the row.
    """

    code = "E422"
    fields: ClassVar[Tuple[str, ...]] = ("table", "key", "directory", "slot", "reason")
    template = ("table {table!r}: the row of key {key} cannot be read from {directory} (disk slot {slot}): {reason}. "
                "The step that needs it was not run, and what was trained since the last checkpoint is lost. Look "
                "after that disk, then restart the program from a checkpoint")


class DiskFullError(WorkerError):
    """Rows have to go to disk, and none can be written.

    Attributes:
        table: its name.
        lacking, need_bytes: rows that must go to disk, and what they take there.
        reason: what the disk said last.
        room: the directories, and what is free in each.
    """

    code = "E423"
    fields: ClassVar[Tuple[str, ...]] = ("table", "lacking", "need_bytes", "reason", "room")
    template = ("table {table!r}: {lacking} rows ({need_bytes} bytes) must go to disk to make room for the next batch, "
                "and none can: {reason}. Free now: {room}. What was trained since the last checkpoint is lost. Make "
                "room there, or name other directories in ssd_data_path, then restart the program from a checkpoint")


class DiskSilentError(WorkerError):
    """Disks with rows do not answer any more.

    Attributes:
        seconds: for which a step waited, and none of their operations ended.
        under_way: how many operations are, and in which directories.
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
        restarts: how often within ``window_s`` seconds.
    """

    code = "E140"
    fields: ClassVar[Tuple[str, ...]] = ("worker", "restarts", "window_s", "causes")
    template = ("{worker} was restarted {restarts} times in {window_s:g} s, giving up. Last causes: {causes}. "
                "What was trained since the last checkpoint is lost. Restart the program")
