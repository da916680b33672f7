"""Class ``Template``, with which the supervisor controls the process ``ascpipe.workers.template`` and forks workers.

A forked worker need not load its code. The template is optional: without a template, workers are executed. A daemon
starts the template before it loads its own modules (``ascpipe.daemon.start``), because a trainer that waits for the
daemon also waits for the workers.
"""
import contextlib
import os
import signal
import socket
import subprocess
import sys
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, Tuple

from ascpipe.control import fdsocket
from ascpipe.control.child import Child, kill
from ascpipe.errors import MessageError, MessageTimeoutError

_COMMAND = (sys.executable, "-m", "ascpipe.workers.template")
_OOM_SCORE_ADJ = "100"  # the same value as for table workers, which are forked from the template
_FORK_S = 5.0  # a fork needs milliseconds, or longer on a busy machine

LOADING = "loading"
READY = "ready"
GONE = "gone"


class Adopted:
    """Process that was forked by the template and is now a child of this process. The methods work like the methods of
    ``subprocess.Popen``.

    Attributes:
        returncode: None while the process runs, an exit code, or a negative signal number.

    Raises:
        ChildProcessError: the process is not a child of this process.
    """

    def __init__(self, pid: int) -> None:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        self.pid = pid
        self.returncode: Optional[int] = None

    def poll(self) -> Optional[int]:
        """Return ``returncode``, and reap the process if it has exited."""
        return self._wait(os.WNOHANG)

    def wait(self) -> Optional[int]:
        """Wait until the process exits, and return ``returncode``."""
        return self._wait(0)

    def kill(self) -> None:
        """Send SIGKILL to the process unless the process was reaped."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def _wait(self, options: int) -> Optional[int]:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return self.returncode


_Begun = Tuple["subprocess.Popen[bytes]", socket.socket]


class Template:
    """Process that loads the code of workers once and then forks workers.

    Args:
        begin: function that starts a process of ``ascpipe.workers.template``. It returns the process and the
            supervisor's end of the channel.

    Attributes:
        state: LOADING, READY, or GONE until it restarts.
        begun: number of starts.

    Raises:
        OSError: ``begin`` failed.
    """

    def __init__(self, begin: Callable[[], _Begun]) -> None:
        self._begin = begin
        self.begun = 0
        self.begin_again()

    def begin_again(self) -> None:
        """Start a new template process. After this method, the caller must call ``load``. Raise ``OSError`` if the
        start fails.
        """
        self._process, self._channel = self._begin()
        self.state = LOADING
        self.begun += 1

    @property
    def pid(self) -> int:
        """Return the PID of the process, or 0 if the process has exited."""
        return 0 if self.state == GONE else self._process.pid

    def load(self, cache_dir: str, library: str, log: int) -> None:
        """Tell the template to write its log to ``log``, and to load kernels from ``library``.

        If ``library`` is empty, the template loads kernels from ``cache_dir``.
        """
        try:
            fdsocket.send(self._channel, {"verb": "load", "cache_dir": cache_dir, "library": library}, [log])
        except MessageError:  # the template has exited
            self.end()

    def fds(self) -> Sequence[int]:
        """Return the descriptor that becomes readable when the template has loaded the kernels or has exited."""
        return () if self.state == GONE else (self._channel.fileno(),)

    def look(self) -> None:
        """Read the messages of the template, and update ``state``."""
        if self.state == LOADING:
            try:
                _expected("loaded", fdsocket.receive_if_available(self._channel))
            except MessageTimeoutError:
                return
            except MessageError:
                self.end()
                return
            self.state = READY
        elif self.state == READY and fdsocket.is_readable(self._channel):  # no request is pending, so it has exited
            self.end()

    def fork(self, body: Dict[str, Any], fds: Tuple[int, int]) -> Optional[Adopted]:
        """Fork a worker. The new worker becomes a child of this process.

        Return None if the template has exited or does not reply. A template that does not reply is killed.

        Args:
            body: kind, index, generation, title, oom_score_adj, processor.
            fds: the worker's channel and its log.
        """
        if self.state != READY:
            return None
        worker = self._asked(body, fds)
        if worker is None:
            kill(self._process)
            worker = self._answer(0.0)  # a late reply; without a reply, the worker does not start
            self.end()
        return worker

    def end(self) -> None:
        """Kill and reap the template, and its forks that have not become workers yet. Workers continue to run."""
        if self.state != GONE:
            self.state = GONE
            kill(self._process)
            self._channel.close()

    def _asked(self, body: Dict[str, Any], fds: Tuple[int, int]) -> Optional[Adopted]:
        try:
            fdsocket.send(self._channel, body, fds)
        except MessageError:
            return None
        return self._answer(_FORK_S)

    def _answer(self, timeout_s: float) -> Optional[Adopted]:
        try:
            return Adopted(int(_expected("forked", fdsocket.receive_body(self._channel, timeout_s))["pid"]))
        except (MessageError, ChildProcessError):
            return None


@contextlib.contextmanager
def running_template(environment: Mapping[str, str]) -> Iterator[Optional[Template]]:
    """Context manager that yields a template and kills it at the end of the block.

    It yields None if no process or descriptor is available.
    """
    def begin() -> _Begun:
        return _start(environment)

    try:
        template = Template(begin)
    except OSError:
        yield None  # the daemon executes workers instead, or fails for the same reason
        return
    try:
        yield template
    finally:
        template.end()


def _start(environment: Mapping[str, str]) -> _Begun:
    """Start a template process. Until ``load`` is called, the template writes to the stderr of this process.

    Raise ``OSError`` if the start fails.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            return Child(
                [*_COMMAND, "--channel", str(theirs.fileno()), "--supervisor", str(os.getpid()),
                 "--oom-score-adj", _OOM_SCORE_ADJ],
                stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True, cwd="/",
                env={**environment, "PYTHONFAULTHANDLER": "1"}), ours
    except BaseException:
        ours.close()
        raise


def _expected(verb: str, body: Dict[str, Any]) -> Dict[str, Any]:
    if body.get("verb") != verb:
        raise MessageError("the template sent {!r}; expected {!r}".format(body.get("verb"), verb))
    return body
