"""A process that has imported TensorFlow becomes horovodrun and its ranks: nothing is executed and imported again.

The launcher is Horovod's own. Only the function that executes the command of a rank is replaced: it gives the command
to a process that was forked before. ``tests/ranks/test_run_ranks.py`` and ``test_examples.py`` start processes as
users do.
"""
import ctypes
import json
import os
import runpy
import shlex
import signal
import sys
import threading
from typing import Any, Dict, List
from unittest import mock

import psutil

from tests.support.programs.as_executed import ascpipe_run, enter, python, python_apart

__all__ = ["ascpipe_run", "horovodrun", "python", "python_apart"]

PR_SET_PDEATHSIG = 1
GRACE_S = 5.0  #: between SIGTERM and SIGKILL


class _Rank:
    """Process that was forked by the launcher and waits for the command that it will run as a rank.

    Attributes:
        command: of the rank; empty in the launcher.
    """

    def __init__(self) -> None:
        self.read, self._ask = os.pipe()
        self.out, self.err = os.pipe(), os.pipe()
        launcher = os.getpid()
        self.pid = os.fork()
        self.command: List[str] = []
        if self.pid == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != launcher:
                os._exit(1)
            os.close(self._ask)
            for descriptors, standard in ((self.out, 1), (self.err, 2)):
                os.dup2(descriptors[1], standard)
                for descriptor in descriptors:
                    os.close(descriptor)
            with os.fdopen(self.read) as asked:
                self.command = json.loads(asked.readline())
            sys.stdout.reconfigure(line_buffering=True)
        else:
            for descriptor in (self.read, self.out[1], self.err[1]):
                os.close(descriptor)

    def give(self, command: List[str]) -> None:
        """Send the command of the rank."""
        with os.fdopen(self._ask, "w") as asked:
            asked.write(json.dumps(command) + "\n")

    def wait(self) -> int:
        """Return its exit code as a shell does."""
        _, status = os.waitpid(self.pid, 0)
        return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def horovodrun(arguments: List[str], folder: str, environment: Dict[str, str]) -> None:
    """Run ``horovodrun ARGUMENTS``, whose command is ``python FILE ...``.

    Args:
        arguments: as of the launcher; ``-np`` is among them.
        folder: its working directory.
        environment: all of it.
    """
    enter(folder, environment)
    ranks: List[_Rank] = []
    for _ in range(int(arguments[arguments.index("-np") + 1])):
        ranks.append(_Rank())
        if ranks[-1].command:
            _become(ranks[-1].command)
            return
    from horovod.common import util
    from horovod.runner import gloo_run
    from horovod.runner.common.util import safe_shell_exec
    from horovod.runner.util.threads import in_thread, on_event

    def execute(command: str, index: int, events: List[threading.Event], stdout: Any, stderr: Any,
                prefix_output_with_timestamp: bool) -> int:
        rank, ended = ranks[index], threading.Event()
        told = [in_thread(safe_shell_exec.prefix_connection, (
            os.fdopen(said, "rb", 0), stream, kind, index, prefix_output_with_timestamp))
            for said, stream, kind in ((rank.out[0], sys.stdout, "stdout"), (rank.err[0], sys.stderr, "stderr"))]
        for event in events:
            on_event(event, _end, (rank, ended), ended, silent=True)
        rank.give(shlex.split(command))
        code = rank.wait()
        ended.set()
        for thread in told:
            thread.join()
        return code

    sys.argv = ["horovodrun", *arguments]
    # Horovod loads its library in one more process to see whether gloo is built in.
    with mock.patch.object(gloo_run.safe_shell_exec, "execute", execute), \
            mock.patch.object(util, "gloo_built", return_value=True):
        runpy.run_module("horovod.runner.launch", run_name="__main__")


def _end(rank: _Rank, ended: threading.Event) -> None:
    """End a rank as Horovod does."""
    _kill(rank.pid, signal.SIGTERM)
    if not ended.wait(GRACE_S):
        for child in psutil.Process(rank.pid).children(recursive=True):
            _kill(child.pid, signal.SIGKILL)
        _kill(rank.pid, signal.SIGKILL)


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has ended


def _become(command: List[str]) -> None:
    """Run ``env NAME=VALUE ... python FILE ...`` in this process."""
    variables = dict(os.environ)
    _, *words = command
    while "=" in words[0]:
        name, _, variables[name] = words.pop(0).partition("=")
    python(words[1:], os.getcwd(), variables)
