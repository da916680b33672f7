"""Class ``Ranks``, which starts several ranks of a program with Horovod's launcher and reports why ranks failed.

Horovod starts and connects the processes. This module adds:

- checks
- signal handling
- the exit code of the program
- the causes that ranks have recorded
- restarts on the remaining hosts
"""
import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import click

from ascpipe.cli.hosts import GivenHosts, HostScript, Place, RankCount, check_addresses
from ascpipe.cli.ranks_folder import ranks_folder
from ascpipe.cli.reachable import unreachable
from ascpipe.daemon.run_directory import sweep_dead_runs
from ascpipe.errors import RanksError
from ascpipe.logs import one_line
from ascpipe.rank_lifeline import PORT_VARIABLE, Lifeline
from ascpipe.ranks import FOLDER_VARIABLE, LAUNCHERS, LOCAL_RANK, causes, check_horovod, has_first_batch

_HOROVODRUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "horovodrun.py")
_FIRST_FAILURES = (  # output of horovodrun, of mpirun if a rank exited, and of mpirun if a rank was killed
    re.compile(rb"Process name: ([0-9]+)\s+Exit code: +([0-9]+)"),
    re.compile(rb"Process name: \[\[[0-9]+,[0-9]+\],([0-9]+)\]\s+Exit code: +([0-9]+)"),
    re.compile(rb"process rank ([0-9]+) with PID [0-9]+ on node \S+ exited on signal ([0-9]+)"))
_NO_SSH = b"could not connect to some hosts via ssh"  # last line of horovodrun; the names are on stdout
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_FUSED_FROM = 3  # minimum number of ranks at which the order of additions may vary
_END_S = 30.0  # seconds from a signal to the exit of the launcher; horovodrun kills ranks after 10 s
_LAST_WORDS_S = 5.0  # seconds from the exit of the launcher to the end of its stderr
_KEPT_BYTES = 65536
_MOST_EARLY_FAILURES = 3  # maximum failures in a row before the first batch; the cause is probably the program
_EARLY_S = 600.0  # a longer run has not failed early, even if no first batch is known (programs without tables)
_SHOWN_CAUSES = 20


class Ranks:
    """Launcher of several ranks.

    Args:
        program: command of each rank.
        count: minimum and maximum number of ranks. Within these limits, the hosts determine how many ranks start.
        hosts: source of the hosts, which is queried before each start.
        mpi: start the ranks with mpirun instead of horovodrun's own method.
        daemon: name of the daemon of each rank. If None or empty, the ranks use private daemons.

    Raises:
        click.BadParameter: given hosts are too few, or ranks of a machine would share a daemon.
        HorovodMissingError, HorovodVersionError: Horovod is missing or has another version.
        RanksError: a host has no address, other machines could not reach this machine, or a script found too few
            hosts.
    """

    def __init__(self, program: Sequence[str], count: RankCount, hosts: Union[GivenHosts, HostScript], mpi: bool,
                 daemon: Optional[str] = None) -> None:
        self._program = program
        self._count = count
        self._hosts = hosts
        self._mpi = mpi
        self._daemon = daemon
        self._has_others = False
        self._early_failures = 0
        self._places = self._chosen()

    def _chosen(self) -> List[Place]:
        """Return the hosts for the next start of the ranks."""
        places = self._hosts.chosen(self._count)
        if self._daemon and LOCAL_RANK not in self._daemon and any(place.ranks > 1 for place in places):
            raise click.BadParameter("a daemon serves one process, but {!r} would serve all ranks of a machine. Use "
                                     "{!r}, or omit it, so that each rank has a private daemon".format(
                                         self._daemon, self._daemon + "-" + LOCAL_RANK),
                                     param_hint="--daemon or ASCPIPE_NAME")
        check_horovod()
        self._has_others = check_addresses([place.host for place in places])
        return places

    def _number(self) -> int:
        return sum(place.ranks for place in self._places)

    def command(self) -> List[str]:
        """Return the command line of Horovod's launcher."""
        return [sys.executable, _HOROVODRUN, "--mpi" if self._mpi else "--gloo", "--disable-cache",
                "-np", str(self._number()), "-H", ",".join("{}:{}".format(*place) for place in self._places),
                *self._program]

    def run(self, environment: Mapping[str, str], restarts: int) -> int:
        """Run the ranks until they exit. After a failure, restart all ranks, at most ``restarts`` times. Do not restart
        after three failures in a row before the first batch.

        Returns:
            Exit code of the first failed rank, or 0. After a signal to this process, 128 plus the signal number.
        """
        mine = {name for launcher in LAUNCHERS for name in launcher}
        given = {name: value for name, value in environment.items() if name not in mine}
        for attempt in range(restarts + 1):
            if attempt:
                before = self._number()
                self._places = self._chosen()
                say("restart {} of {}: all ranks restart{}".format(
                    attempt, restarts, "" if self._number() == before else ", {} instead of {}".format(
                        self._number(), before)))
            code, signalled = self._run_once(given)
            if code == 0 or signalled:
                break
            if self._early_failures == _MOST_EARLY_FAILURES and attempt < restarts:
                say("the ranks failed {} times in a row before their first batch, so they do not restart. Correct the "
                    "program, its arguments or its environment, and test the command with --restarts 0 first".format(
                        _MOST_EARLY_FAILURES))
                break
        return code

    def _run_once(self, environment: Mapping[str, str]) -> Tuple[int, bool]:
        """Run the ranks once. Return (exit code, whether a signal to this process ended the ranks)."""
        # makes sums of dense gradients reproducible
        unfused = {"HOROVOD_FUSION_THRESHOLD": "0"} if self._number() >= _FUSED_FROM else {}
        with ranks_folder() as folder, Lifeline(self._number()) as lifeline:
            added = {FOLDER_VARIABLE: folder, **({PORT_VARIABLE: str(lifeline.port)} if self._has_others else {})}
            launcher = _Launcher(self.command(), {**unfused, **environment, **added})
            begin = time.monotonic()
            code, first = launcher.wait()
            has_trained = has_first_batch(folder) or lifeline.has_trained() or (self._mpi and self._has_others)
            is_early = not has_trained and time.monotonic() - begin < _EARLY_S
            self._early_failures = self._early_failures + 1 if is_early and not launcher.lacked_hosts else 0
            with contextlib.suppress(FileNotFoundError):  # no daemon has been started
                sweep_dead_runs("")  # a launcher that kills a rank may also kill its daemon
            if launcher.signalled:
                return 128 + launcher.signalled, True
            if code:
                if launcher.lacked_hosts:
                    say(without_ssh(unreachable([place.host for place in self._places])))
                else:
                    self._explain(code, first, folder)
            return code, False

    def _explain(self, code: int, first: Optional[int], folder: str) -> None:
        say("{} {}. Messages of the ranks, first one first:".format(
            "the launcher of the ranks" if first is None else "rank {}".format(first), _ending(code)))
        found = causes(folder)
        for cause in found[:_SHOWN_CAUSES]:
            say("  rank {}: {}".format(cause.rank, cause.text))
        if not found:
            say("  none{}; see their output above".format(
                ", on this machine" if [place.host for place in self._places] != ["localhost"] else ""))


class _Launcher:
    """Horovod's launcher as a child process in a new session. The kernel ends the launcher when this process dies.

    Attributes:
        signalled: number of the first signal that this process received, or 0.
        lacked_hosts: True if the launcher started no rank because it could not reach a host by ssh.
    """

    def __init__(self, command: Sequence[str], environment: Dict[str, str]) -> None:
        self.signalled = 0
        self.lacked_hosts = False
        self._tail = b""
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._before = [(number, signal.signal(number, self._pass_on)) for number in _SIGNALS]
        owner = os.getpid()
        self._process = subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, start_new_session=True,
            preexec_fn=lambda: _end_with(owner))  # noqa: PLW1509  (no thread runs here)
        if self.signalled:  # a signal arrived before the child existed
            self._process.terminate()

    def wait(self) -> Tuple[int, Optional[int]]:
        """Wait until the launcher exits. Return (exit code, first failed rank or None)."""
        process = self._process
        if process is None or process.stderr is None:
            raise RanksError("the launcher of ranks was not started")
        copying = threading.Thread(target=self._copy, args=(process.stderr,), daemon=True)
        copying.start()
        try:
            while process.poll() is None:
                try:
                    process.wait(_END_S)
                except subprocess.TimeoutExpired:
                    if self.signalled:
                        process.kill()
        finally:
            for number, handler in self._before:
                signal.signal(number, handler)
        copying.join(_LAST_WORDS_S)
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        self.lacked_hosts = code != 0 and _NO_SSH in self._tail.splitlines()
        return (0, None) if code == 0 else _failure(code, self._tail)

    def _pass_on(self, number: int, frame: Any) -> None:
        """Ask the launcher to end the ranks. A second signal kills the launcher. The ranks detect the launcher's death.
        """
        again, self.signalled = bool(self.signalled), self.signalled or number
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL if again else signal.SIGTERM)

    def _copy(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._tail = (self._tail + line)[-_KEPT_BYTES:]
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()


def _failure(code: int, said: bytes) -> Tuple[int, Optional[int]]:
    """Return (exit code, rank) of the first failure in the launcher's output, or (``code``, None) if the output
    contains no rank.
    """
    for kind, words in enumerate(_FIRST_FAILURES):
        found = words.findall(said)
        if found:
            rank, number = map(int, found[-1])
            return 128 + number if kind == 2 else number or code, rank
    return code, None


def without_ssh(silent: Mapping[str, str]) -> str:
    """Return the error message if the launcher could not reach a host by ssh. ``silent`` maps each host that does not
    answer now to the reason.
    """
    return "no rank was started: {}".format("; ".join(
        "host {} cannot be reached by ssh ({})".format(*one) for one in silent.items()) or
        "a host could not be reached by ssh, but answers now; its name is in the output above")


def _ending(code: int) -> str:
    if code <= 128:
        return "exited with code {}".format(code)
    try:
        return "was killed by {}".format(signal.Signals(code - 128).name)
    except ValueError:
        return "exited with code {}".format(code)


def _end_with(owner: int) -> None:
    """Tell the kernel to send SIGTERM to this child process when the parent process ``owner`` dies. The child calls
    this function before it executes the launcher.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != owner:
        os._exit(1)


def say(text: str) -> None:
    """Print a message of ``ascpipe run`` as one line on stderr."""
    sys.stderr.write("ascpipe: {}\n".format(one_line(text)))
    sys.stderr.flush()
