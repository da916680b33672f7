"""The state machine of a daemon: events in, actions out.  It does no I/O and reads no clock.

Killed workers (SIGKILL, which is also how the kernel ends one when memory runs out) are replaced: all
truth is in shared memory that the supervisor holds.  A worker that ends in any other way may have
scribbled on it, so the session fails.
"""
import signal
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

from ascpipe.config import Settings
from ascpipe.errors import (
    AscpipeError,
    CrashLoopError,
    DaemonStoppedError,
    DiskWorkerDiedError,
    KeyWorkerDiedError,
    TableWorkerDiedError,
)

KEY, TABLE, DISK = "key", "table", "disk"

# States of a daemon, and groups of them.
IDLE = "idle"  #: workers wait, no trainer
REGISTERED = "registered"  #: a trainer is connected, it has not started yet
SERVING = "serving"  #: segments are there, workers work
FAILED = "failed"  #: the session is over, its trainer has not left yet
STOPPED = "stopped"  #: on the way out
HAS_TRAINER = frozenset({REGISTERED, SERVING, FAILED})
HAS_SEGMENTS = frozenset({SERVING, FAILED})

BACKOFF_S = (0.0, 0.1, 0.5, 2.0)  #: before the first, second, ... restart within the window
RESTARTS = 5  #: allowed within the window
WINDOW_S = 60.0
PRIVATE_PATIENCE_S = 30.0  #: how long a private daemon waits for its trainer to register


@dataclass(frozen=True)
class Worker:
    """Identity of a worker: it survives the process, which may be replaced.

    Attributes:
        kind: ``KEY``, ``TABLE`` or ``DISK``.
        index: number among those of its kind.
    """

    kind: str
    index: int

    def __str__(self) -> str:
        return "{}-{}".format(self.kind, self.index)

    @property
    def sentence(self) -> str:
        """For messages: ``"key worker 0"``."""
        return "{} worker {}".format(self.kind, self.index)


def workers_of(settings: Settings) -> Tuple[Worker, ...]:
    """All workers of a daemon, key workers first."""
    return tuple(Worker(kind, index) for kind, count in ((KEY, settings.workers), (TABLE, settings.table_workers))
                 for index in range(count))


DISK_WORKER = Worker(DISK, 0)  #: there is one, in a session with rows on disk
_DIED = {KEY: KeyWorkerDiedError, TABLE: TableWorkerDiedError, DISK: DiskWorkerDiedError}


# ---- events

@dataclass(frozen=True)
class TrainerRegistered:
    """A trainer has this daemon from now on."""


@dataclass(frozen=True)
class SessionStarted:
    """The segments are there; ``has_disk`` if rows of some table go to disk."""

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


@dataclass
class _Place:
    """Restart history of one worker."""

    restarts_at: List[float] = field(default_factory=list)  # within the window
    causes: List[str] = field(default_factory=list)
    restart_count: int = 0  # in all
    start_at: Optional[float] = None  # a start that is due then
    restart: bool = False  # whether it replaces one that had segments
    generation: int = 0  # of the process that runs, 0 if none


class Lifecycle:
    """Maps events to actions.  Invariant: a generation is used once; a claim is cleared after its worker was reaped.

    Args:
        workers: all places.
        private: the daemon ends with its trainer.
        now: seconds, monotonic; so is ``now`` of every call.
    """

    def __init__(self, workers: Tuple[Worker, ...], private: bool, now: float) -> None:
        self.state = IDLE
        self.error: Optional[AscpipeError] = None  #: why the session failed
        self._private = private
        self._born = now
        self._generations = 0
        self._places: Dict[Worker, _Place] = {worker: _Place() for worker in workers}
        self._broken: Optional[AscpipeError] = None  # an idle worker that cannot run
        self._decisions: Dict[type, Callable[[Any, float], List[Action]]] = {
            TrainerRegistered: self._trainer_registered, SessionStarted: self._session_started,
            StreamAdded: self._stream_added, TableAdded: self._table_added, TrainerGone: self._trainer_gone,
            LauncherGone: self._launcher_gone, RunDirLost: self._run_dir_lost, StopAsked: self._stop,
            WorkerEnded: self._worker_ended, Tick: self._tick}
        self._all_due(now)

    @property
    def workers(self) -> Tuple[Worker, ...]:
        """Those that run or are to run: key workers first, the disk worker last."""
        return tuple(self._places)

    def restarts(self, worker: Worker) -> int:
        """Number of restarts of this worker in this session."""
        return self._places[worker].restart_count

    def next_look(self) -> Optional[float]:
        """Time at which the next ``Tick`` is due; None: no timer runs."""
        times = [place.start_at for place in self._places.values() if place.start_at is not None]
        if self._private and self.state == IDLE:
            times.append(self._born + PRIVATE_PATIENCE_S)
        return min(times) if times else None

    def handle(self, event: Event, now: float) -> List[Action]:
        """The actions for an event, to be carried out in this order.

        Raises:
            KeyError: the event is of no kind that ``Event`` lists.
        """
        decide = self._decisions[type(event)]
        return [] if self.state == STOPPED else decide(event, now)

    def _trainer_registered(self, event: TrainerRegistered, now: float) -> List[Action]:
        self.state = REGISTERED
        return []

    def _session_started(self, event: SessionStarted, now: float) -> List[Action]:
        self.state = SERVING
        if self._broken is not None:
            return self._fail(self._broken)
        return [AttachWorkers(), *self._want_disk_worker(now, wanted=event.has_disk)]

    def _stream_added(self, event: StreamAdded, now: float) -> List[Action]:
        return [HandOutStream(event.stream)] if self.state == SERVING else []

    def _table_added(self, event: TableAdded, now: float) -> List[Action]:
        if self.state != SERVING:
            return []
        return [HandOutTable(event.table), *self._want_disk_worker(now, wanted=event.has_disk)]

    def _want_disk_worker(self, now: float, *, wanted: bool) -> List[Action]:
        """Start the disk worker, unless it is there."""
        if not wanted or DISK_WORKER in self._places:
            return []
        self._places[DISK_WORKER] = _Place(start_at=now)
        return self._tick(Tick(), now)

    def _launcher_gone(self, event: LauncherGone, now: float) -> List[Action]:
        return self._leave() if self._private and self.state == IDLE else []

    def _run_dir_lost(self, event: RunDirLost, now: float) -> List[Action]:
        if self.state not in HAS_TRAINER:
            return self._leave()
        self._private = True  # it ends with the trainer that it has
        return []

    def _tick(self, event: Tick, now: float) -> List[Action]:
        actions: List[Action] = []
        for worker, place in self._places.items():
            if place.start_at is not None and place.start_at <= now:
                place.start_at = None
                self._generations += 1
                place.generation = self._generations
                actions.append(StartWorker(worker, place.generation, place.restart))
        if self._private and self.state == IDLE and now >= self._born + PRIVATE_PATIENCE_S:
            return actions + self._leave()
        return actions

    def _worker_ended(self, event: WorkerEnded, now: float) -> List[Action]:
        place = self._places[event.worker]
        if place.generation != event.generation:
            return []  # we ended it ourselves
        place.generation = 0
        if self.state == FAILED:
            return []
        actions: List[Action] = [ClearClaim(event.generation)] if self.state == SERVING else []
        error = self._verdict(event, place, now)
        if error is not None:
            if self.state == SERVING:
                return self._fail(error)
            self._broken = error  # said when a trainer starts
            return actions
        self._schedule(place, now)
        return actions

    def _verdict(self, event: WorkerEnded, place: _Place, now: float) -> Optional[AscpipeError]:
        """None: replace it."""
        if event.signal_number != signal.SIGKILL and not event.retry:
            return event.report or _DIED[event.worker.kind](event.worker.sentence, event.pid, event.cause)
        place.causes.append("pid {}: {}".format(event.pid, event.cause))
        place.restarts_at = [at for at in place.restarts_at if at > now - WINDOW_S]
        if len(place.restarts_at) >= RESTARTS:
            return CrashLoopError(event.worker.sentence, RESTARTS, WINDOW_S, "; ".join(place.causes[-3:]))
        return None

    def _schedule(self, place: _Place, now: float) -> None:
        place.start_at = now + BACKOFF_S[min(len(place.restarts_at), len(BACKOFF_S) - 1)]
        place.restarts_at.append(now)
        place.restart_count += 1
        place.restart = self.state == SERVING

    def _fail(self, error: AscpipeError) -> List[Action]:
        self.state = FAILED
        self.error = error
        self._nothing_runs()
        return [FailSession(error), EndWorkers()]

    def _trainer_gone(self, event: TrainerGone, now: float) -> List[Action]:
        if self.state not in HAS_TRAINER:
            return []
        had_segments = self.state in HAS_SEGMENTS
        if self._private:
            return self._leave()
        self.state, self.error = IDLE, None
        if not had_segments:
            return []
        self._nothing_runs()
        self._broken = None
        self._places.pop(DISK_WORKER, None)
        self._all_due(now)
        return [EndWorkers(), CloseSession()]

    def _stop(self, event: StopAsked, now: float) -> List[Action]:
        actions: List[Action] = []
        if self.state == SERVING:
            actions.append(FailSession(DaemonStoppedError(event.reason)))
        return actions + self._leave()

    def _leave(self) -> List[Action]:
        self.state = STOPPED
        self._nothing_runs()
        return [EndWorkers(), CloseSession(), Exit()]

    def _nothing_runs(self) -> None:
        for place in self._places.values():
            place.generation, place.start_at = 0, None

    def _all_due(self, now: float) -> None:
        for worker in self._places:
            self._places[worker] = _Place(start_at=now)
