"""Events of a daemon, and the actions with which ``lifecycle`` responds to events."""
from dataclasses import dataclass
from typing import Optional, Tuple, Union

from ascpipe.daemon.worker_identity import Worker
from ascpipe.errors import AscpipeError

# ---- events

@dataclass(frozen=True)
class TrainerRegistered:
    """A trainer has registered."""


@dataclass(frozen=True)
class SessionStarted:
    """The supervisor has created the segments of a session. ``has_disk`` is true if a table has rows on disk."""

    has_disk: bool = False


@dataclass(frozen=True)
class StreamAdded:
    """The supervisor has created the ring of stream number ``stream``."""

    stream: int


@dataclass(frozen=True)
class TableAdded:
    """The supervisor has created the segment of a table, but workers have not mapped it. ``has_disk`` is true if the
    table has rows on disk.
    """

    table: int
    has_disk: bool = False


@dataclass(frozen=True)
class TrainerGone:
    """The trainer sent ``bye``, or died. ``died`` is true if the trainer sent no ``bye``."""

    died: bool = False


@dataclass(frozen=True)
class LauncherGone:
    """The process that started a private daemon exited before it registered as trainer."""


@dataclass(frozen=True)
class RunDirLost:
    """The lock file or a socket file was removed, so other trainers cannot find the daemon."""


@dataclass(frozen=True)
class StopRequested:
    """The daemon must stop. ``reason`` is the text ``ascpipe stop`` or the name of a signal."""

    reason: str


@dataclass(frozen=True)
class WorkerEnded:
    """A worker process has exited.

    Attributes:
        generation: generation of the process.
        signal_number: signal that killed it, or 0.
        cause: description of the exit, for the log and the error message.
        report: error that the worker sent before it exited, or None.
        broken_kernels: whether the worker could not read compiled kernels.
        retry: whether the broken kernels were removed, so that a restart may succeed.
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
    """The event loop has completed one iteration. Scheduled starts of workers may be due."""


Event = Union[TrainerRegistered, SessionStarted, StreamAdded, TableAdded, TrainerGone, LauncherGone, RunDirLost,
              StopRequested, WorkerEnded, Tick]


# ---- actions

@dataclass(frozen=True)
class StartWorker:
    """Start a worker. If the session already has segments, send the segments to the worker."""

    worker: Worker
    generation: int
    restart: bool


@dataclass(frozen=True)
class AttachWorkers:
    """Send the segments of the new session to all running workers."""


@dataclass(frozen=True)
class SendStream:
    """Send the ring of a stream to all running workers. Workers that start later receive the ring when they are
    attached.
    """

    stream: int


@dataclass(frozen=True)
class SendTable:
    """Send the segment of a table to all running workers. Workers that start later receive the segment when
    they are attached.
    """

    table: int


@dataclass(frozen=True)
class ClearClaim:
    """Release the claims of the dead worker whose generation is ``generation``. Ring all bells, because the worker may
    have died before it rang a bell.
    """

    generation: int


@dataclass(frozen=True)
class FailSession:
    """Store an error in shared memory, from which the trainer reads the error."""

    error: AscpipeError


@dataclass(frozen=True)
class EndWorkers:
    """Kill and reap all workers."""


@dataclass(frozen=True)
class CloseSession:
    """Release the segments of the session, if there is a session.

    Attributes:
        failure: error that ended the session, or None.
        trainer_died: whether the trainer exited without a message.
        restarts: (worker, number of restarts in the session) of each worker that was replaced.
    """

    failure: Optional[AscpipeError] = None
    trainer_died: bool = False
    restarts: Tuple[Tuple[Worker, int], ...] = ()


@dataclass(frozen=True)
class Exit:
    """Leave the event loop."""


Action = Union[StartWorker, AttachWorkers, SendStream, SendTable, ClearClaim, FailSession, EndWorkers,
               CloseSession, Exit]
