"""What happens to a daemon, and what it does about it: the events and actions of ``lifecycle``."""
from dataclasses import dataclass
from typing import Optional, Union

from ascpipe.daemon.worker_identity import Worker
from ascpipe.errors import AscpipeError

# ---- events

@dataclass(frozen=True)
class TrainerRegistered:
    """A trainer has this daemon from now on."""


@dataclass(frozen=True)
class SessionStarted:
    """The segments have been made. ``has_disk``: some table has rows on disk."""

    has_disk: bool = False


@dataclass(frozen=True)
class StreamAdded:
    """The ring of one more stream is there; ``stream`` is its number."""

    stream: int


@dataclass(frozen=True)
class TableAdded:
    """A table has a segment that the workers have not mapped; ``has_disk`` if rows of it go to disk."""

    table: int
    has_disk: bool = False


@dataclass(frozen=True)
class TrainerGone:
    """The trainer said ``bye``, or died."""


@dataclass(frozen=True)
class LauncherGone:
    """The process that launched a private daemon ended before it registered."""


@dataclass(frozen=True)
class RunDirLost:
    """No other trainer can find the daemon: its lock or a socket was removed."""


@dataclass(frozen=True)
class StopAsked:
    """The daemon is to stop, by ``ascpipe stop`` or a signal; ``reason`` names it."""

    reason: str


@dataclass(frozen=True)
class WorkerEnded:
    """A worker was reaped.

    Attributes:
        generation: of the process.
        signal_number: that ended it, or 0.
        cause: a sentence for the log and the error.
        report: the error that it sent before it ended, or None.
        broken_kernels: it could not read compiled kernels.
        retry: these kernels have been removed.
    """

    worker: Worker
    pid: int
    generation: int
    signal_number: int
    cause: str
    report: Optional[AscpipeError] = None
    broken_kernels: bool = False
    retry: bool = False


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


Event = Union[TrainerRegistered, SessionStarted, StreamAdded, TableAdded, TrainerGone, LauncherGone, RunDirLost,
              StopAsked, WorkerEnded, Tick]


# ---- actions

@dataclass(frozen=True)
class StartWorker:
    """Spawn a worker, and attach it if there are segments."""

    worker: Worker
    generation: int
    restart: bool


@dataclass(frozen=True)
class AttachWorkers:
    """Hand the new segments to all workers that run."""


@dataclass(frozen=True)
class HandOutStream:
    """Hand a stream's ring to all workers that run; those that are started later are attached to it."""

    stream: int


@dataclass(frozen=True)
class HandOutTable:
    """Hand a table's segment to all workers that run; those that are started later are attached to it."""

    table: int


@dataclass(frozen=True)
class ClearClaim:
    """The worker of this generation is dead: what it had claimed is free, and what it had published and not rung for is
    rung for."""

    generation: int


@dataclass(frozen=True)
class FailSession:
    """Store the error in shared memory, where the trainer reads it."""

    error: AscpipeError


@dataclass(frozen=True)
class EndWorkers:
    """Kill and reap all workers."""


@dataclass(frozen=True)
class CloseSession:
    """Give the segments back, if there are any."""


@dataclass(frozen=True)
class Exit:
    """Leave the loop."""


Action = Union[StartWorker, AttachWorkers, HandOutStream, HandOutTable, ClearClaim, FailSession, EndWorkers,
               CloseSession, Exit]
