"""The supervisor's handle of the process that workers are forked from; that process runs ``ascpipe.workers.template``.

It saves what a worker loads before it can begin. It is never needed: without it workers are executed.  A daemon starts
it before it loads its own modules (``ascpipe.daemon.start``), because a trainer that waits for the daemon waits for
the workers, too.
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
_OOM_SCORE_ADJ = "100"  # as a table worker, into which it is forked
_FORK_S = 5.0  # a fork takes milliseconds, and longer on a busy machine

LOADING = "loading"
READY = "ready"
GONE = "gone"


class Adopted:
    """A process that was forked from the template, and is our child since; as much of ``Popen`` as we use.

    Args:
        pid: of the process. Raises ``ChildProcessError`` if it is no child of ours.

    Attributes:
        returncode: as ``Popen`` has it: None while it runs, an exit code, or the number of a signal below 0.
    """

    def __init__(self, pid: int) -> None:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        self.pid = pid
        self.returncode: Optional[int] = None

    def poll(self) -> Optional[int]:
        """``returncode``; the process is reaped if it has ended."""
        return self._wait(os.WNOHANG)

    def wait(self) -> Optional[int]:
        """``returncode``, once the process has ended."""
        return self._wait(0)

    def kill(self) -> None:
        """Send SIGKILL, unless it was reaped."""
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
    """Forks workers, once it was told to load and has loaded.

    Args:
        begin: starts a process that runs ``ascpipe.workers.template``, which ``end`` kills; returns it and our end of
            its channel, or raises ``OSError``, as this does then.

    Attributes:
        state: LOADING, READY, or GONE until it begins again.
        begun: how often it has.
    """

    def __init__(self, begin: Callable[[], _Begun]) -> None:
        self._begin = begin
        self.begun = 0
        self.begin_again()

    def begin_again(self) -> None:
        """Start another process, which is to be told to load. Raises ``OSError``."""
        self._process, self._channel = self._begin()
        self.state = LOADING
        self.begun += 1

    @property
    def pid(self) -> int:
        """Of its process, 0 if it is gone."""
        return 0 if self.state == GONE else self._process.pid

    def load(self, cache_dir: str, library: str, log: int) -> None:
        """Have it load the kernels of ``library``, or that lie in ``cache_dir``, and write to ``log`` from now on."""
        try:
            fdsocket.send(self._channel, {"verb": "load", "cache_dir": cache_dir, "library": library}, [log])
        except MessageError:  # it has ended
            self.end()

    def fds(self) -> Sequence[int]:
        """What gets readable when it has loaded, or ended."""
        return () if self.state == GONE else (self._channel.fileno(),)

    def look(self) -> None:
        """Read its messages."""
        if self.state == LOADING:
            try:
                _expected("loaded", fdsocket.receive_begun(self._channel))
            except MessageTimeoutError:
                return
            except MessageError:
                self.end()
                return
            self.state = READY
        elif self.state == READY and fdsocket.is_readable(self._channel):  # it speaks when it is asked: this is its end
            self.end()

    def fork(self, body: Dict[str, Any], fds: Tuple[int, int]) -> Optional[Adopted]:
        """A new worker, our child; None: the template has ended, or does not answer and was ended.

        Args:
            body: kind, index, generation, title, oom_score_adj, processor.
            fds: the worker's channel and its log.
        """
        if self.state != READY:
            return None
        worker = self._asked(body, fds)
        if worker is None:
            kill(self._process)
            worker = self._answer(0.0)  # it may have come too late; a worker that we never hear of does not begin
            self.end()
        return worker

    def end(self) -> None:
        """Kill and reap it, and what is not a worker yet. Workers that were forked from it live on."""
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
        """The worker that it says it has forked; None: it says nothing, or anything else."""
        try:
            return Adopted(int(_expected("forked", fdsocket.receive_body(self._channel, timeout_s))["pid"]))
        except (MessageError, ChildProcessError):
            return None


@contextlib.contextmanager
def running_template(environment: Mapping[str, str]) -> Iterator[Optional[Template]]:
    """A template that is killed at the end of the block, if not before. None: no more processes or files can be had."""
    def begin() -> _Begun:
        return _start(environment)

    try:
        template = Template(begin)
    except OSError:
        yield None  # workers are executed then, or the daemon fails to start for the same reason
        return
    try:
        yield template
    finally:
        template.end()


def _start(environment: Mapping[str, str]) -> _Begun:
    """Start one; it writes to our stderr until it is told to load. Raises ``OSError``."""
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
        raise MessageError("the template said {!r}, expected {!r}".format(body.get("verb"), verb))
    return body
