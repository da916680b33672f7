"""Class ``Supervisor``, which starts, watches and ends the worker processes, and reports how each process ended."""
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, Collection, Dict, Hashable, List, Mapping, Optional, Sequence, Union

from ascpipe.config import Settings, processors
from ascpipe.control import exec_worker, fdsocket
from ascpipe.control.child import EXEC_TIMEOUT_S, Child
from ascpipe.control.exec_worker import NO_ROOM_FOR_KERNELS
from ascpipe.control.proc_stat import read_stat
from ascpipe.daemon.events import WorkerEnded
from ascpipe.daemon.hangs import Seen
from ascpipe.daemon.template import GONE, LOADING, READY, Adopted, Template
from ascpipe.daemon.worker_ends import WorkerEnds, ended_by_broken_kernels
from ascpipe.daemon.worker_identity import DISK, KEY, TABLE, Worker, workers_of
from ascpipe.errors import AscpipeError, ConfigError, MessageError, MessageTimeoutError, WorkerError, received
from ascpipe.layout import kernel_library
from ascpipe.names import RunDir
from ascpipe.shm import syscalls

#: commands that execute workers, by kind
COMMANDS: Mapping[str, Sequence[str]] = {
    kind: (sys.executable, "-m", "ascpipe.workers.loading", kind) for kind in (KEY, TABLE, DISK)}
_OOM_SCORE_ADJ = {KEY: "500", TABLE: "100", DISK: "100"}  # stateless key workers are killed first if memory runs out
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
_RENEWAL_S = 10.0  # minimum time between two starts of a template; a start that fails needs 1 s of processor time
_END_S = 5.0  # maximum wait for the exit of a killed process; a process that waits for a disk exits later
_PAUSE_S = 0.002
TEMPLATE = "template"  #: name of the template among the watched processes


@dataclass
class _Process:
    """State of a worker from its start until it has been reaped."""

    worker: Worker
    generation: int
    channel: socket.socket
    theirs: Optional[socket.socket]  # the worker's end of the channel, until the worker starts
    popen: "Union[subprocess.Popen[bytes], Adopted, None]" = None
    cannot_start: str = ""
    loaded: bool = False  # the worker has loaded all its code, including compiled kernels
    attached: bool = False
    silent: bool = False  # the worker's end of the channel is closed
    report: Optional[AscpipeError] = None
    hung: str = ""  # reason why the supervisor killed the worker


class Supervisor:
    """Owner of the worker processes. Workers are forked from a template, or executed as new programs.

    Args:
        run: run directory, for the logs of workers.
        environment: environment of workers.
        commands: commands that execute workers, by kind. ``--channel --index --generation --title`` are appended.
        processors: processors to which workers are bound.
        template: process from which workers are forked when it has loaded. It is restarted if it exits, and
            killed by ``close``. If None, workers are executed.
    """

    def __init__(self, run: RunDir, environment: Mapping[str, str],
                 commands: Mapping[str, Sequence[str]] = COMMANDS,
                 processors: Optional[Mapping[Worker, int]] = None, template: Optional[Template] = None) -> None:
        self._run = run
        self._environment = dict(environment)
        self._commands = commands
        self._processors = processors or {}
        self._ends = WorkerEnds(run, environment.get("NUMBA_CACHE_DIR", ""))
        self._processes: Dict[Worker, _Process] = {}
        self._killed: List[Union[subprocess.Popen[bytes], Adopted]] = []  # processes that are not reaped yet
        self._template = template
        self._renewal_at = 0.0  # earliest restart of the template
        if template is not None:
            self._load(template)

    def start(self, worker: Worker, generation: int) -> None:
        """Start a worker in a new process session and process group, with a new log. The kernel kills the worker when
        this process dies.

        While the first template is loading, the worker does not start. The worker starts when the template has loaded,
        and ``read`` then returns the worker. Messages that are sent before the start wait in the channel of the worker.
        """
        ours, theirs = socket.socketpair()
        process = self._processes[worker] = _Process(worker, generation, ours, theirs)
        if not self._awaits_template():
            try:
                self._begin(process)
            except OSError:
                del self._processes[worker]
                ours.close()
                raise

    def _awaits_template(self) -> bool:
        """Return True if new workers must wait until the first template is ready. Starting the workers as new programs
        would take as long as waiting.
        """
        return self._template is not None and self._template.state == LOADING and self._template.begun == 1

    def template_state(self) -> str:
        """Return the template's state. Return GONE if there is no template."""
        return GONE if self._template is None else self._template.state

    def has_loaded(self) -> bool:
        """Return True if the template or a worker has loaded the compiled kernels."""
        return self.template_state() == READY or any(process.loaded for process in self._processes.values())

    def renew_template(self, now: float) -> bool:
        """Restart the template if it has exited, at most once in ``_RENEWAL_S`` seconds. Return True after a restart.
        """
        if self._template is None or self._template.state != GONE or now < self._renewal_at:
            return False
        self._renewal_at = now + _RENEWAL_S
        try:
            self._template.begin_again()
        except OSError:  # too many processes or files
            return False
        self._load(self._template)
        return True

    def _load(self, template: Template) -> None:
        """Tell the template to load the kernels. If loading fails, the template exits, and workers are started as new
        programs.
        """
        syscalls.adopt_orphans()
        try:
            log = self._open_log("template-0")
        except OSError:
            template.end()
            return
        try:
            template.load(self._environment.get("NUMBA_CACHE_DIR", ""),
                          self._environment.get(kernel_library.VARIABLE, ""), log)
        finally:
            os.close(log)

    def _begin(self, process: _Process) -> None:
        worker = process.worker
        theirs = process.theirs
        if theirs is None:
            return
        process.theirs = None
        with theirs:
            log = self._open_log(str(worker))
            try:
                body = {"kind": worker.kind, "index": worker.index, "generation": process.generation,
                        "title": "{} of {}".format(worker.sentence, self._run.name),
                        "oom_score_adj": _OOM_SCORE_ADJ[worker.kind], "processor": self._processors.get(worker, -1)}
                forked = None if self._template is None else self._template.fork(body, (theirs.fileno(), log))
                process.popen = forked or self._execute(process, body, theirs.fileno(), log)
            finally:
                os.close(log)

    def _execute(self, process: _Process, body: Dict[str, Any], channel: int, log: int) -> Child:
        child = Child(
            [sys.executable, "-I", "-S", exec_worker.__file__, str(os.getpid()), body["oom_score_adj"],
             str(body["processor"]), *self._commands[body["kind"]], "--index", str(body["index"]),
             "--generation", str(body["generation"]), "--title", body["title"], "--channel", str(channel)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[channel], start_new_session=True, cwd="/",
            env=self._environment)
        if child.is_late:
            process.hung = "its program did not start within {:g} s, and it was killed".format(EXEC_TIMEOUT_S)
        return child

    def _open_log(self, name: str) -> int:
        """Open the log of a worker. If the log cannot be opened, for example because the disk is full, return a copy of
        this process's stderr.
        """
        try:
            return os.open(self._run.worker_log(name), _LOG_FLAGS, 0o600)
        except OSError:
            return os.dup(2)

    def attach(self, worker: Worker, body: Dict[str, Any], fds: Sequence[int]) -> None:
        """Send a message with descriptors to a worker. If the worker is dead or does not read the message, ``reap``
        reports the worker later.
        """
        try:
            fdsocket.send(self._processes[worker].channel, body, fds)
        except MessageTimeoutError:  # the restarted worker receives the message
            self.kill_hung(worker, "it did not read its messages, and was killed")
        except MessageError:
            pass

    def running(self) -> List[Worker]:
        """Return the workers that have a process or are starting."""
        return list(self._processes)

    def pid(self, worker: Worker) -> int:
        """Return the PID of a worker, or 0 if the worker has no process."""
        popen = self._processes[worker].popen if worker in self._processes else None
        return 0 if popen is None else popen.pid

    def generation(self, worker: Worker) -> int:
        """Return the generation of a worker, or 0 if the worker does not run."""
        return self._processes[worker].generation if worker in self._processes else 0

    def is_attached(self, worker: Worker) -> bool:
        """Return True if the worker has mapped the segments of the session."""
        return worker in self._processes and self._processes[worker].attached

    def channels(self) -> List[int]:
        """Return the descriptors that become readable when a worker sends a message or exits."""
        said = [process.channel.fileno() for process in self._processes.values() if not process.silent]
        return [*said, *(self._template.fds() if self._template is not None else ())]

    def read(self) -> List[Worker]:
        """Read the messages of the workers. Return the workers whose process was started by this call."""
        begun = []
        if self._template is not None:
            self._template.look()
            for process in self._processes.values():
                if process.theirs is not None and not self._awaits_template():
                    begun.append(process.worker)
                    try:
                        self._begin(process)
                    except OSError as error:  # too many processes or files
                        process.cannot_start = "it cannot be started: {}".format(error)
        for process in self._processes.values():
            self._read_one(process)
        return begun

    def watched(self, awaited: Collection[Worker]) -> Dict[Hashable, Seen]:
        """Return the observed state of each live worker and of a live template. The key of the template is TEMPLATE."""
        asked: Dict[Hashable, Any] = {worker: (self.pid(worker), worker in awaited and worker.kind != DISK)
                                      for worker in self._processes}
        if self._template is not None:
            asked[TEMPLATE] = self._template.pid, self._awaits_template()
        seen: Dict[Hashable, Seen] = {}
        for name, (pid, is_awaited) in asked.items():
            stat = read_stat(pid) if pid else None
            if stat is not None and not stat.has_ended:
                seen[name] = Seen(pid, stat.ticks, stat.is_stopped, is_awaited)
        return seen

    def kill_hung(self, name: Hashable, cause: str) -> None:
        """Kill a hanging worker or the template. ``reap`` then reports ``cause`` as the cause of the worker's exit."""
        if isinstance(name, Worker) and name in self._processes:
            process = self._processes[name]
            process.hung = cause
            if process.popen is not None:
                process.popen.kill()
        elif name == TEMPLATE and self._template is not None:
            self._template.end()

    def given_up(self, worker: Worker, error: WorkerError) -> WorkerEnded:
        """Return an event that ends the session with ``error``. The worker to which the event refers is blocked and has
        not exited yet.
        """
        return WorkerEnded(worker, self.pid(worker), self.generation(worker), 0, str(error), error)

    def reap(self) -> List[WorkerEnded]:
        """Reap the workers that exited since the last call. Return one event for each reaped worker."""
        self._killed = [popen for popen in self._killed if popen.poll() is None]
        ended = []
        for worker, process in list(self._processes.items()):
            code = None if process.popen is None else process.popen.poll()
            if code is None and not process.cannot_start:
                continue
            self._read_one(process)
            pid = self.pid(worker)
            code = code or 0
            if code == NO_ROOM_FOR_KERNELS:
                process.report = self._ends.no_room_for_kernels(worker)
            process.channel.close()
            del self._processes[worker]
            ended.append(WorkerEnded(
                worker, pid, process.generation, max(0, -code),
                process.cannot_start or process.hung or self._ends.cause(worker, code), process.report,
                broken_kernels=not process.attached and ended_by_broken_kernels(code, process.loaded)))
        return ended

    def end_all(self) -> List[int]:
        """Kill the process groups of all workers, and reap the workers.

        Returns:
            PIDs of workers that wait for a disk and have not exited in time.
        """
        popens = [process.popen for process in self._processes.values() if process.popen is not None]
        for popen in popens:
            try:
                os.killpg(popen.pid, signal.SIGKILL)  # the process is not reaped, so the PID is still valid
            except ProcessLookupError:
                popen.kill()  # the process has not created its process group yet
        deadline = time.monotonic() + _END_S
        late = [popen for popen in popens if popen.poll() is None]
        while late and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            late = [popen for popen in late if popen.poll() is None]
        self._killed += late
        for process in self._processes.values():
            process.channel.close()
            if process.theirs is not None:
                process.theirs.close()
        self._processes.clear()
        return [popen.pid for popen in late]

    def close(self) -> None:
        """Kill and reap all workers and the template."""
        self.end_all()
        if self._template is not None:
            self._template.end()

    def _read_one(self, process: _Process) -> None:
        while not process.silent:
            try:
                body = fdsocket.receive_if_available(process.channel)
            except MessageTimeoutError:
                return
            except MessageError:
                process.silent = True
                return
            if body.get("verb") == "loaded":
                process.loaded = True
            elif body.get("verb") == "attached":
                process.attached = True
            elif body.get("verb") == "failed":
                code = str(body.get("code"))
                text = str(body.get("text"))
                process.report = received(code, text)
                if not isinstance(process.report, WorkerError):
                    process.report = received(WorkerError.code, "{}: {}".format(code, text))


def bound_processors(settings: Settings) -> Dict[Worker, int]:
    """Assign the processors of ``bind_cpu`` to workers round-robin. Key workers are first.

    Raises:
        ConfigError: this process must not run on one of these processors.
    """
    wanted = processors(settings.bind_cpu)
    allowed = os.sched_getaffinity(0)
    for processor in wanted:
        if processor not in allowed:
            raise ConfigError("bind_cpu", "the settings", settings.bind_cpu,
                              "processor {} is not allowed for this process: {}".format(
                                  processor, ",".join(map(str, sorted(allowed)))))
    workers = workers_of(settings)
    return {worker: wanted[place % len(wanted)] for place, worker in enumerate(workers)} if wanted else {}
