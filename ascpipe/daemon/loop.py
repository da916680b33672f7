"""Event loop of a daemon, which creates events from sockets, child processes and signals, and executes the resulting
actions.
"""
import dataclasses
import logging
import os
import secrets
import select
import signal
import socket
import time
from typing import Any, Callable, Collection, Dict, List, Optional

from ascpipe import __version__, errors
from ascpipe.config import Settings
from ascpipe.control import messages
from ascpipe.control.proc_stat import read_stat
from ascpipe.control.server import Peer, Server
from ascpipe.daemon import events, hangs, kernel_cache, statistics, table_readers
from ascpipe.daemon.history import MOST_FAILURE, History
from ascpipe.daemon.lifecycle import IDLE, Lifecycle
from ascpipe.daemon.lifelines import Lifelines
from ascpipe.daemon.run_directory import OwnedRunDir
from ascpipe.daemon.session import Session
from ascpipe.daemon.session_memory import SessionMemory, bell_of
from ascpipe.daemon.supervisor import Supervisor
from ascpipe.daemon.tracing import Tracing
from ascpipe.daemon.watching import Watch
from ascpipe.daemon.worker_identity import DISK, DISK_WORKER, Worker, workers_of
from ascpipe.shm.memory import Places

_LONGEST_POLL_S = 1.0
_ALONE_POLL_S = 0.1  # poll interval while a private daemon waits for its trainer, whose exit sends no event


class Daemon:
    """Sockets, session and worker processes of a daemon. ``serve`` is its event loop.

    Args:
        private_to: PID of the process that started a private daemon, or 0 for other daemons. A private daemon
            exits together with its trainer, or together with that process if no trainer has registered.
        watch: object that checks for hangs and lost files.
        cache_dir: directory of compiled kernels. It is cleared if a worker cannot read the kernels.
        places: files and folders with memory limits.
    """

    def __init__(self, owned: OwnedRunDir, settings: Settings, *, private_to: int, supervisor: Supervisor,
                 watch: Watch, cache_dir: str, places: Places = Places()) -> None:  # noqa: B008  (immutable)
        self._log = logging.getLogger("ascpipe.daemon")
        self._owned = owned
        run = owned.run
        self._run = run
        self._settings = settings
        self._private_to = private_to
        self._supervisor = supervisor
        self._cache_dir = cache_dir
        self._life = Lifecycle(workers_of(settings), private_to != 0, time.monotonic())
        self._started = time.monotonic()
        self._tracing = Tracing(run, settings)
        self._hash_seed = settings.hash_seed or secrets.randbits(64)
        self._newest = self._cleared_after = 0  # newest generation, and its value when kernels were cleared
        self._compiles = bool(kernel_cache.compile_notice(cache_dir, os.environ))  # False after kernels were loaded
        self._ended: Dict[Worker, events.WorkerEnded] = {}  # workers that are being replaced
        self._stop_reasons: List[str] = []
        self._is_over = False
        self._verbs: Dict[str, Callable[[Any], Dict[str, Any]]] = {
            "status": self._status, "stop": self._stop, "trace": self._trace}
        self._actions: Dict[type, Callable[[Any], None]] = {
            events.StartWorker: self._start_worker, events.AttachWorkers: self._attach_workers,
            events.SendStream: self._hand_out_stream, events.SendTable: self._hand_out_table,
            events.ClearClaim: self._clear_claim, events.FailSession: self._fail_session,
            events.EndWorkers: self._end_workers, events.CloseSession: self._close_session,
            events.Exit: self._exit}
        self._waker, self._wake_end = socket.socketpair()
        self._lifelines = Lifelines(run.lifeline)
        self._session = Session(
            run, self._lifelines, self._tracing, self._life, self._handle,
            lambda start, number: SessionMemory(start, settings, number, places, private=private_to != 0))
        self._verbs.update(self._session.verbs)
        self._server = Server(run.control)
        owned.remember_sockets()
        self._watch = watch
        self._lost = ""
        self._history = History(run, settings, lambda: self._status(messages.Status()))

    def serve(self, ready: Callable[[], None]) -> None:
        """Run until the daemon must exit. ``ready`` is called once, when the daemon can answer requests."""
        self._catch_signals()
        self._handle(events.Tick())
        ready()
        while not self._is_over:
            fds = self._poll()
            self._drain_signals(fds)
            for reason in self._stop_reasons[:1]:
                self._handle(events.StopRequested(reason))
            if self._private_to and os.getppid() != self._private_to:
                self._handle(events.LauncherGone())
            self._lifelines.serve(fds)
            if any(fd in fds for fd in self._session.fds()):
                self._session.leave("died or closed its lifeline", died=True)
            self._watch_workers()
            lost = self._watch.look(self._awaited, self._memory)
            if lost:
                self._run_dir_lost(lost)
            if self._watch.silent is not None:
                self._handle(self._supervisor.given_up(DISK_WORKER, self._watch.silent))
            for peer, request in self._server.requests(self._session.connected_pid):
                self._answer(peer, request)
            self._handle(events.Tick())
            if self._memory is not None:
                self._history.look(time.monotonic())

    def close(self) -> None:
        """Release all resources. The method may also be called after ``serve`` has raised an exception."""
        self._supervisor.close()
        self._session.close()
        self._lifelines.close()
        self._server.close()
        signal.set_wakeup_fd(-1)
        self._waker.close()
        self._wake_end.close()

    # ---- waiting

    def _poll(self) -> List[int]:
        poll = select.poll()
        fds = [self._waker.fileno(), *self._server.fds(), *self._lifelines.fds(), *self._supervisor.channels()]
        for fd in fds + self._session.fds():
            poll.register(fd, select.POLLIN)
        look = self._life.next_look()
        longest_s = _ALONE_POLL_S if self._private_to and self._life.state == IDLE else _LONGEST_POLL_S
        wait_s = longest_s if look is None else min(longest_s, max(0.0, look - time.monotonic()))
        return [fd for fd, _ in poll.poll(1 + int(1000 * wait_s))]

    def _catch_signals(self) -> None:
        """Make Python write the number of each signal to a socket that the loop polls. SIGCHLD only wakes the loop."""
        self._wake_end.setblocking(False)
        self._waker.setblocking(False)
        signal.set_wakeup_fd(self._wake_end.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        if os.getsid(0) == os.getpid():  # a background process has no terminal that could be closed
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _drain_signals(self, fds: List[int]) -> None:
        if self._waker.fileno() in fds:
            for number in self._waker.recv(4096):
                if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    self._stop_reasons.append(signal.Signals(number).name)

    # ---- events

    def _watch_workers(self) -> None:
        for worker in self._supervisor.read():
            self._note_pid(worker)
        self._compiles = self._compiles and not self._supervisor.has_loaded()
        for ended in self._supervisor.reap():
            batches = self._memory.batches_of(ended.generation) if self._memory is not None else []
            if batches:
                ended = dataclasses.replace(ended, cause="{}, at work on {}".format(ended.cause, " and ".join(batches)))
            self._log.warning("%s (pid %d) exited: %s", ended.worker.sentence, ended.pid, ended.cause)
            self._ended[ended.worker] = ended
            if ended.broken_kernels:
                if ended.generation > self._cleared_after:  # an older worker started before the kernels were cleared
                    self._log.warning("compiled kernels in %s are damaged and will be recompiled", self._cache_dir)
                    kernel_cache.clear(self._cache_dir)
                    self._cleared_after = self._newest
                ended = dataclasses.replace(ended, retry=True)
            self._handle(ended)

    def _run_dir_lost(self, path: str) -> None:
        """Log the lost file. Let the daemon exit after the current session, because other trainers can no longer find
        the daemon.
        """
        if path != self._lost:
            self._lost = path
            self._log.error("%s was removed, or belongs to another daemon; this daemon exits%s", path,
                            "" if self._session.connected_pid is None else " with its trainer")
        self._handle(events.RunDirLost())

    def _awaited(self) -> Collection[Worker]:
        """Return the workers for which the trainer waits. If a signal has stopped the trainer, return no workers."""
        trainer = read_stat(self._session.pid) if self._memory is not None else None
        if self._memory is None or trainer is None or trainer.is_stopped:
            return ()
        waits_for, table = self._memory.trainer_waits()
        return hangs.awaited(waits_for, table, self._settings)

    def _handle(self, event: events.Event) -> None:
        for action in self._life.handle(event, time.monotonic()):
            self._do(action)

    def _do(self, action: events.Action) -> None:
        self._actions[type(action)](action)

    @property
    def _memory(self) -> Optional[SessionMemory]:
        return self._session.memory

    def _with_memory(self) -> SessionMemory:
        if self._memory is None:
            raise RuntimeError("there is no session in state {!r}".format(self._life.state))
        return self._memory

    def _attach_workers(self, action: events.AttachWorkers) -> None:
        for worker in self._supervisor.running():
            self._attach(self._with_memory(), worker, restart=False)

    def _hand_out_stream(self, action: events.SendStream) -> None:
        self._hand_out(*self._with_memory().stream_body(action.stream))

    def _hand_out_table(self, action: events.SendTable) -> None:
        memory = self._with_memory()
        for worker in self._supervisor.running():
            self._supervisor.attach(worker, *memory.table_body(action.table, with_files=worker.kind == DISK))
        memory.ring_all()  # see _hand_out

    def _clear_claim(self, action: events.ClearClaim) -> None:
        self._with_memory().clear_claims(action.generation)

    def _fail_session(self, action: events.FailSession) -> None:
        self._log.error("session failed: %s", action.error)
        self._with_memory().fail(action.error, self._owned.session_failed(action.error))

    def _end_workers(self, action: events.EndWorkers) -> None:
        for pid in self._supervisor.end_all():
            self._log.error("a killed worker (pid %d) has not exited, because it waits for a disk. It exits when the "
                            "disk responds, and does not affect later sessions", pid)

    def _close_session(self, action: events.CloseSession) -> None:
        self._history.end(action)
        self._ended.clear()  # the next session has new workers
        self._session.close_memory()

    def _exit(self, action: events.Exit) -> None:
        self._is_over = True

    def _start_worker(self, action: events.StartWorker) -> None:
        self._newest = action.generation
        try:
            self._supervisor.start(action.worker, action.generation)
        except OSError as error:  # too many processes or files
            cause = "it cannot be started: {}".format(error)
            self._handle(events.WorkerEnded(action.worker, 0, action.generation, 0, cause))
            return
        self._note_pid(action.worker)
        if self._memory is not None:
            self._attach(self._memory, action.worker, restart=action.restart)

    def _hand_out(self, body: Dict[str, Any], fds: List[int]) -> None:
        for worker in self._supervisor.running():
            self._supervisor.attach(worker, body, fds)
        self._with_memory().ring_all()  # a sleeping worker reads its channel when it wakes

    def _attach(self, memory: SessionMemory, worker: Worker, *, restart: bool) -> None:
        self._note_pid(worker)
        body = memory.attach_body(self._hash_seed, restart=restart)
        files, fds = memory.row_files() if worker.kind == DISK else ([], [])
        self._supervisor.attach(worker, {**body, "row_files": files, "spans": self._tracing.body_of(worker)},
                                memory.fds() + fds)

    def _note_pid(self, worker: Worker) -> None:
        pid = self._supervisor.pid(worker)
        if self._memory is not None:
            self._memory.set_pid(bell_of(worker), pid)
        ended = self._ended.pop(worker, None) if pid else None
        if ended is not None:
            how = "was killed by signal {}".format(ended.signal_number) if ended.signal_number else "exited"
            self._log.warning("%s (pid %d) %s; replaced by pid %d", worker.sentence, ended.pid, how, pid)

    # ---- verbs

    def _answer(self, peer: Peer, request: messages.Request) -> None:
        try:
            if isinstance(request.body, messages.ReadTable):
                with table_readers.opened(self._memory, request.body.table, self._life.state) as (body, fds):
                    self._server.reply(peer, request.id, body, fds)
                return
            self._server.reply(peer, request.id, self._verbs[request.verb](request.body))
        except errors.AscpipeError as error:
            self._server.refuse(peer, request.id, error)
        except OSError as error:  # a limit of the process or machine was reached; nothing was changed
            self._log.exception("cannot answer %r", request.verb)
            self._server.refuse(peer, request.id, errors.DaemonError("{}: {}".format(request.verb, error)))

    def _stop(self, body: messages.Stop) -> Dict[str, Any]:
        self._stop_reasons.append("ascpipe stop")
        self._handle(events.StopRequested("ascpipe stop"))
        return {"pid": os.getpid()}

    def _trace(self, body: messages.Trace) -> Dict[str, Any]:
        if body.spans:
            self._tracing.start(body.spans)
        else:
            self._tracing.stop()
        if self._memory is not None:  # without a session, workers receive this when they are attached
            for worker in self._supervisor.running():
                self._supervisor.attach(worker, {"verb": "record", "spans": self._tracing.body_of(worker)}, [])
            self._memory.ring_all()
        return self._tracing.told()

    def _status(self, body: messages.Status) -> Dict[str, Any]:
        workers = [{
            "kind": worker.kind, "index": worker.index, "pid": self._supervisor.pid(worker) or None,
            "generation": self._supervisor.generation(worker),
            "restarts": self._life.restarts(worker), "attached": self._supervisor.is_attached(worker),
            "hangs_s": self._watch.hanging.get(worker, 0.0)}
            for worker in self._life.workers]
        return {
            "name": self._run.name, "pid": os.getpid(), "version": __version__, "state": self._life.state,
            "private": self._private_to != 0, "uptime_s": time.monotonic() - self._started,
            "trainer": self._session.told(),
            "failure": None if self._life.error is None else str(self._life.error)[:MOST_FAILURE],
            "sessions_failed": self._life.sessions_failed, "compiling": self._compiles, "workers": workers,
            "template": self._supervisor.template_state(), "trace": self._tracing.told(),
            "messages": {"refused": self._server.refused, "dropped": self._server.dropped},
            **statistics.describe_memory(self._memory, self._life.workers),
        }
