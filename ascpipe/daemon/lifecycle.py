"""State machine of a daemon, which maps events to actions. The state machine does no I/O and reads no clock.

A worker that was killed by SIGKILL, for example by the OOM killer, is replaced. Its state is in shared memory, which
the supervisor keeps. A worker that ended in any other way may have corrupted that memory, so the session fails.
"""
import signal
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

from ascpipe.daemon import events
from ascpipe.daemon.worker_identity import DISK, DISK_WORKER, KEY, TABLE, Worker
from ascpipe.errors import (
    AscpipeError,
    CrashLoopError,
    DaemonStoppedError,
    DiskWorkerDiedError,
    KeyWorkerDiedError,
    TableWorkerDiedError,
)

IDLE = "idle"  #: workers are waiting; there is no trainer
REGISTERED = "registered"  #: the trainer is registered; the session has not started
SERVING = "serving"  #: segments exist, workers are running
FAILED = "failed"  #: the session has failed, its trainer is still connected
STOPPED = "stopped"  #: the daemon is exiting
HAS_TRAINER = frozenset({REGISTERED, SERVING, FAILED})
HAS_SEGMENTS = frozenset({SERVING, FAILED})

BACKOFF_S = (0.0, 0.1, 0.5, 2.0)  #: delay before the first, second, ... restart
RESTARTS = 5  #: allowed restarts within the window
WINDOW_S = 60.0
PRIVATE_PATIENCE_S = 30.0  #: time in which the trainer of a private daemon must register

_DIED = {KEY: KeyWorkerDiedError, TABLE: TableWorkerDiedError, DISK: DiskWorkerDiedError}


@dataclass
class _WorkerRecord:
    """Restarts, scheduled start and generation of one worker."""

    restarts_at: List[float] = field(default_factory=list)  # times of restarts within the window
    causes: List[str] = field(default_factory=list)
    restart_count: int = 0  # in total
    start_at: Optional[float] = None  # time of the next start, if one is scheduled
    restart: bool = False  # the next start replaces a worker that had segments
    generation: int = 0  # generation of the running process, or 0


class Lifecycle:
    """State machine that maps events to actions.

    Each started process has a new generation. The claims of a worker are cleared after its process was reaped.

    Args:
        private: whether the daemon exits together with its trainer.
        now: monotonic time in seconds. ``now`` has this meaning in all methods.
    """

    def __init__(self, workers: Tuple[Worker, ...], private: bool, now: float) -> None:
        self.state = IDLE
        self.error: Optional[AscpipeError] = None  #: failure of the session
        self.sessions_failed = 0  #: sessions that failed or whose trainer died, since the daemon started
        self._private = private
        self._born = now
        self._generations = 0
        self._places: Dict[Worker, _WorkerRecord] = {worker: _WorkerRecord() for worker in workers}
        self._broken: Optional[AscpipeError] = None  # error of an idle worker that cannot run
        self._decisions: Dict[type, Callable[[Any, float], List[events.Action]]] = {
            events.TrainerRegistered: self._trainer_registered, events.SessionStarted: self._session_started,
            events.StreamAdded: self._stream_added, events.TableAdded: self._table_added,
            events.TrainerGone: self._trainer_gone, events.LauncherGone: self._launcher_gone,
            events.RunDirLost: self._run_dir_lost, events.StopRequested: self._stop,
            events.WorkerEnded: self._worker_ended, events.Tick: self._tick}
        self._schedule_all(now)

    @property
    def workers(self) -> Tuple[Worker, ...]:
        """Return the running and scheduled workers. Key workers are first, the disk worker is last."""
        return tuple(self._places)

    def restarts(self, worker: Worker) -> int:
        """Return the number of restarts of a worker in this session."""
        return self._places[worker].restart_count

    def next_look(self) -> Optional[float]:
        """Return the time at which the next ``Tick`` is due, or None if no timer runs."""
        times = [place.start_at for place in self._places.values() if place.start_at is not None]
        if self._private and self.state == IDLE:
            times.append(self._born + PRIVATE_PATIENCE_S)
        return min(times) if times else None

    def handle(self, event: events.Event, now: float) -> List[events.Action]:
        """Return the actions for an event. The caller must execute the actions in the returned order.

        Raises:
            KeyError: the type of the event is not in ``Event``.
        """
        decide = self._decisions[type(event)]
        return [] if self.state == STOPPED else decide(event, now)

    def _trainer_registered(self, event: events.TrainerRegistered, now: float) -> List[events.Action]:
        self.state = REGISTERED
        return []

    def _session_started(self, event: events.SessionStarted, now: float) -> List[events.Action]:
        self.state = SERVING
        if self._broken is not None:
            return self._fail(self._broken)
        return [events.AttachWorkers(), *self._want_disk_worker(now, wanted=event.has_disk)]

    def _stream_added(self, event: events.StreamAdded, now: float) -> List[events.Action]:
        return [events.SendStream(event.stream)] if self.state == SERVING else []

    def _table_added(self, event: events.TableAdded, now: float) -> List[events.Action]:
        if self.state != SERVING:
            return []
        return [events.SendTable(event.table), *self._want_disk_worker(now, wanted=event.has_disk)]

    def _want_disk_worker(self, now: float, *, wanted: bool) -> List[events.Action]:
        if not wanted or DISK_WORKER in self._places:
            return []
        self._places[DISK_WORKER] = _WorkerRecord(start_at=now)
        return self._tick(events.Tick(), now)

    def _launcher_gone(self, event: events.LauncherGone, now: float) -> List[events.Action]:
        return self._leave() if self._private and self.state == IDLE else []

    def _run_dir_lost(self, event: events.RunDirLost, now: float) -> List[events.Action]:
        if self.state not in HAS_TRAINER:
            return self._leave()
        self._private = True  # exit when the present trainer leaves
        return []

    def _tick(self, event: events.Tick, now: float) -> List[events.Action]:
        actions: List[events.Action] = []
        for worker, place in self._places.items():
            if place.start_at is not None and place.start_at <= now:
                place.start_at = None
                self._generations += 1
                place.generation = self._generations
                actions.append(events.StartWorker(worker, place.generation, place.restart))
        if self._private and self.state == IDLE and now >= self._born + PRIVATE_PATIENCE_S:
            return actions + self._leave()
        return actions

    def _worker_ended(self, event: events.WorkerEnded, now: float) -> List[events.Action]:
        place = self._places[event.worker]
        if place.generation != event.generation:
            return []  # the daemon itself ended the worker
        place.generation = 0
        if self.state == FAILED:
            return []
        actions: List[events.Action] = [events.ClearClaim(event.generation)] if self.state == SERVING else []
        error = self._verdict(event, place, now)
        if error is not None:
            if self.state == SERVING:
                return self._fail(error)
            self._broken = error  # raised when a trainer starts
            return actions
        self._schedule(place, now)
        return actions

    def _verdict(self, event: events.WorkerEnded, place: _WorkerRecord, now: float) -> Optional[AscpipeError]:
        """Return the error that ends the session, or None if the worker is to be replaced."""
        if event.signal_number != signal.SIGKILL and not event.retry:
            return event.report or _DIED[event.worker.kind](event.worker.sentence, event.pid, event.cause)
        place.causes.append("pid {}: {}".format(event.pid, event.cause))
        place.restarts_at = [at for at in place.restarts_at if at > now - WINDOW_S]
        if len(place.restarts_at) >= RESTARTS:
            return CrashLoopError(event.worker.sentence, RESTARTS, WINDOW_S, "; ".join(place.causes[-3:]))
        return None

    def _schedule(self, place: _WorkerRecord, now: float) -> None:
        place.start_at = now + BACKOFF_S[min(len(place.restarts_at), len(BACKOFF_S) - 1)]
        place.restarts_at.append(now)
        place.restart_count += 1
        place.restart = self.state == SERVING

    def _fail(self, error: AscpipeError) -> List[events.Action]:
        self.state = FAILED
        self.error = error
        self.sessions_failed += 1
        self._forget_workers()
        return [events.FailSession(error), events.EndWorkers()]

    def _trainer_gone(self, event: events.TrainerGone, now: float) -> List[events.Action]:
        if self.state not in HAS_TRAINER:
            return []
        had_segments = self.state in HAS_SEGMENTS
        close = self._close(self.error, trainer_died=event.died)
        if event.died and self.error is None:
            self.sessions_failed += 1
        if self._private:
            return self._leave(close)
        self.state = IDLE
        self.error = None
        if not had_segments:
            return []
        self._forget_workers()
        self._broken = None
        self._places.pop(DISK_WORKER, None)
        self._schedule_all(now)
        return [events.EndWorkers(), close]

    def _stop(self, event: events.StopRequested, now: float) -> List[events.Action]:
        if self.state != SERVING:
            return self._leave()
        error = DaemonStoppedError(event.reason)
        return [events.FailSession(error), *self._leave(self._close(error))]

    def _leave(self, close: Optional[events.CloseSession] = None) -> List[events.Action]:
        close = self._close(self.error) if close is None else close
        self.state = STOPPED
        self._forget_workers()
        return [events.EndWorkers(), close, events.Exit()]

    def _close(self, failure: Optional[AscpipeError], *, trainer_died: bool = False) -> events.CloseSession:
        """Return the action that closes the session. Call the method before the restarts of workers are reset."""
        return events.CloseSession(failure, trainer_died, tuple(
            (worker, place.restart_count) for worker, place in self._places.items() if place.restart_count))

    def _forget_workers(self) -> None:
        for place in self._places.values():
            place.generation = 0
            place.start_at = None

    def _schedule_all(self, now: float) -> None:
        for worker in self._places:
            self._places[worker] = _WorkerRecord(start_at=now)
