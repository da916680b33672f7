"""Worker processes: spawns, watches, ends them, and says in a sentence how one ended."""
import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ascpipe.control import fdsocket
from ascpipe.daemon import exec_worker
from ascpipe.daemon.lifecycle import KEY, TABLE, Worker, WorkerEnded
from ascpipe.errors import AscpipeError, MessageError, MessageTimeoutError, WorkerError, received
from ascpipe.names import RunDir

#: how the two kinds are started; tests give their own
COMMANDS: Mapping[str, Sequence[str]] = {
    KEY: (sys.executable, "-m", "ascpipe.workers.key_worker"),
    TABLE: (sys.executable, "-m", "ascpipe.workers.table_worker"),
}
_OOM_SCORE_ADJ = {KEY: "500", TABLE: "100"}  # when memory runs out, a stateless worker goes first
_READ_S = 0.2  # for the rest of a message whose first byte is there
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
_LOG_TAIL_BYTES = 4096
_EXCEPTION_LINE = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Warning)\b.*")


@dataclass
class _Process:
    """A worker that runs, or ended and was not reaped yet."""

    worker: Worker
    generation: int
    popen: "subprocess.Popen[bytes]"
    channel: socket.socket
    attached: bool = False
    silent: bool = False  # its end of the channel is closed: nothing more will come, only its death
    report: Optional[AscpipeError] = None


class Supervisor:
    """Owns the worker processes.

    Args:
        run: where their logs lie.
        environment: what they see.
        commands: by kind; ``--channel --index --generation`` are appended.
    """

    def __init__(self, run: RunDir, environment: Mapping[str, str],
                 commands: Mapping[str, Sequence[str]] = COMMANDS) -> None:
        self._run, self._environment, self._commands = run, dict(environment), commands
        self._processes: Dict[Worker, _Process] = {}

    def start(self, worker: Worker, generation: int) -> None:
        """Spawn it: own session and process group, killed with us, log of its own."""
        ours, theirs = socket.socketpair()
        try:
            command = [sys.executable, "-I", "-S", exec_worker.__file__, str(os.getpid()), _OOM_SCORE_ADJ[worker.kind],
                       *self._commands[worker.kind], "--channel", str(theirs.fileno()), "--index", str(worker.index),
                       "--generation", str(generation)]
            log = os.open(self._run.worker_log(str(worker)), _LOG_FLAGS, 0o600)
            try:
                popen = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[theirs.fileno()],
                    start_new_session=True, cwd="/", env=self._environment)
            finally:
                os.close(log)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._processes[worker] = _Process(worker, generation, popen, ours)

    def attach(self, worker: Worker, body: Dict[str, Any], fds: Sequence[int]) -> None:
        """Hand it the segments.  One that is dead already is found out by ``reap``."""
        try:
            fdsocket.send(self._processes[worker].channel, body, fds)
        except MessageError:
            pass

    def running(self) -> List[Worker]:
        """Places with a process."""
        return list(self._processes)

    def pid(self, worker: Worker) -> int:
        """Of its process, 0 if there is none."""
        return self._processes[worker].popen.pid if worker in self._processes else 0

    def generation(self, worker: Worker) -> int:
        """Of its process, 0 if there is none."""
        return self._processes[worker].generation if worker in self._processes else 0

    def is_attached(self, worker: Worker) -> bool:
        """Has it said that it works?"""
        return worker in self._processes and self._processes[worker].attached

    def channels(self) -> List[int]:
        """Descriptors that get readable when a worker says something or ends."""
        return [process.channel.fileno() for process in self._processes.values() if not process.silent]

    def read(self) -> None:
        """Take in what the workers said."""
        for process in self._processes.values():
            self._read_one(process)

    def reap(self) -> List[WorkerEnded]:
        """Workers that ended since the last call, each once, reaped."""
        ended = []
        for worker, process in list(self._processes.items()):
            if process.popen.poll() is None:
                continue
            self._read_one(process)
            process.channel.close()
            del self._processes[worker]
            code = process.popen.returncode
            ended.append(WorkerEnded(
                worker, process.popen.pid, process.generation, -code if code < 0 else 0,
                self._cause(worker, code), process.report, unborn=not process.attached))
        return ended

    def end_all(self) -> None:
        """Kill and reap all workers and what they started."""
        for process in self._processes.values():
            try:
                os.killpg(process.popen.pid, signal.SIGKILL)  # not reaped, so the number is still theirs
            except ProcessLookupError:
                process.popen.kill()  # it did not get as far as its own group
        for process in self._processes.values():
            process.popen.wait()
            process.channel.close()
        self._processes.clear()

    def _read_one(self, process: _Process) -> None:
        while not process.silent:
            try:
                body, fds = fdsocket.receive(process.channel, _READ_S if _has_bytes(process.channel) else 0.0)
            except MessageTimeoutError:
                return
            except MessageError:
                process.silent = True
                return
            for fd in fds:
                os.close(fd)
            if body.get("verb") == "attached":
                process.attached = True
            elif body.get("verb") == "failed":
                code, text = str(body.get("code")), str(body.get("text"))
                process.report = received(code, text)
                if not isinstance(process.report, WorkerError):
                    process.report = received(WorkerError.code, "{}: {}".format(code, text))

    def _cause(self, worker: Worker, code: int) -> str:
        if code < 0:
            name = signal.Signals(-code).name if -code in list(signal.Signals) else "signal {}".format(-code)
            return "killed by " + name
        last = self._last_words(worker)
        return "exit code {}{}".format(code, " ({})".format(last) if last else "")

    def _last_words(self, worker: Worker) -> str:
        """The line of its log that names an exception, if any."""
        try:
            with open(self._run.worker_log(str(worker)), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_TAIL_BYTES))
                lines = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        named = [line for line in lines if _EXCEPTION_LINE.match(line)]
        return "".join(c for c in (named or [""])[-1][:300] if c.isprintable())


def _has_bytes(channel: socket.socket) -> bool:
    try:
        return bool(channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except OSError:
        return False
