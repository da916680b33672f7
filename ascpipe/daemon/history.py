"""Class ``History``, which writes the counters of a run to a file. The file is kept when the daemon exits.

The event loop only takes the samples. A thread writes them, so a file system that does not respond cannot delay the
event loop. A file has at most ``MOST`` samples. When it is full, every second sample is removed, and the interval
doubles. The files of the last ``recorded_runs`` runs are kept.
"""
import contextlib
import json
import logging
import os
import platform
import queue
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional

from ascpipe import __version__, names
from ascpipe.config import Settings
from ascpipe.control import run_record, saves
from ascpipe.control.client import running_daemons
from ascpipe.daemon.events import CloseSession
from ascpipe.directories import refusing, user_state
from ascpipe.errors import AscpipeError
from ascpipe.names import RunDir

MOST = 720  #: maximum number of samples of a file
_FIRST_INTERVAL_S = 1.0
MOST_FAILURE = 1000  #: maximum length of the message of a failed session
MOST_WAITING = 16  #: maximum number of samples that wait for the disk; later ones are dropped
_END_TIMEOUT_S = 2.0  # maximum time for which the end of a run waits for the disk
_IDLE_S = 60.0  # a thread without work checks this often whether its run has ended

_log = logging.getLogger("ascpipe.daemon")


class History:
    """Record of the current run. If no run is being recorded, the methods do nothing. Only the thread of the event loop
    may use the object.

    Args:
        run: run directory of the daemon.
        settings: settings of the daemon. Nothing is recorded if ``recorded_runs`` is 0.
        status: function that returns the answer to ``status``.
    """

    def __init__(self, run: RunDir, settings: Settings, status: Callable[[], Dict[str, Any]]) -> None:
        self._run = run
        self._settings = settings
        self._status = status
        self._writer: Optional[_Writer] = None
        self._due = 0.0
        self._interval_s = _FIRST_INTERVAL_S
        self._count = 0
        self._newest_save = 0.0  # time at which the newest recorded checkpoint was complete

    def look(self, now: float) -> None:
        """Take a sample if one is due. Call the method only while there is a session. ``now`` is monotonic time."""
        if self._settings.recorded_runs == 0:
            return
        if self._writer is None:
            self._interval_s = _FIRST_INTERVAL_S
            self._count = 0
            self._due = now
            self._writer = self._begin()
        if now >= self._due:
            self._due = now + self._interval_s
            self._sample()

    def end(self, close: CloseSession) -> None:
        """Take the last sample of the run, if a run is recorded. The sample contains the end of the session.

        The method waits for a limited time until the file is written.

        Args:
            close: how the session ended. The daemon's answer to ``status`` no longer contains this information.
        """
        if self._writer is not None:
            self._sample(close)
            self._writer.end()
        self._writer = None

    def _begin(self) -> "_Writer":
        trainer = self._status()["trainer"] or {"pid": 0, "run": 0, "since": ""}
        head = {
            "format": run_record.FORMAT, "daemon": self._run.name, "run": trainer["run"], "pid": trainer["pid"],
            "daemon_pid": os.getpid(), "since": trainer["since"], "ascpipe": __version__,
            "program": _command_line(trainer["pid"]),
            "settings": {name: getattr(self._settings, name) for name in sorted(Settings.__fields__)},
            "machine": {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version(),
                        "system": "{} {}".format(platform.system(), platform.release()),
                        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")}}
        path = os.path.join(run_record.base_dir(), "{}-{}{}".format(self._run.name, trainer["run"], run_record.SUFFIX))
        return _Writer(path, json.dumps(head), self._settings.recorded_runs)

    def _sample(self, close: Optional[CloseSession] = None) -> None:
        if self._writer is None or self._writer.has_failed:
            return
        if self._count >= MOST and self._writer.put(_thin):
            self._count = (self._count + 1) // 2
            self._interval_s *= 2
        new = [save for save in saves.read(self._run) if save.at > self._newest_save]
        line = run_record.packed(self._status(), time.time(), new) if close is None else run_record.packed(
            last_status(self._status(), close), time.time(), new,
            run_record.TRAINER_DIED if close.trainer_died else run_record.ENDED)
        if self._writer.put(lambda path: _append(path, line)):
            self._count += 1
            self._newest_save = max([self._newest_save, *(save.at for save in new)])


def last_status(status: Mapping[str, Any], close: CloseSession) -> Dict[str, Any]:
    """Return the last answer to ``status`` of a session. The function is pure.

    Args:
        status: answer of a daemon that has already reset the failure and the restarts of the session.
        close: how the session ended.
    """
    restarts = dict(close.restarts)
    known = {(worker.kind, worker.index): count for worker, count in restarts.items()}
    workers = [{**worker, "restarts": known.pop((worker["kind"], worker["index"]), 0)} for worker in status["workers"]]
    workers += [{"kind": kind, "index": index, "restarts": count} for (kind, index), count in known.items()]
    return {**status, "workers": workers,
            "failure": None if close.failure is None else str(close.failure)[:MOST_FAILURE]}


class _Writer:
    """Thread that writes the record file of one run. All methods except ``end`` return immediately.

    Attributes:
        has_failed: whether the file could not be written. No further work is done.
    """

    def __init__(self, path: str, head: str, most: int) -> None:
        self._path = path
        self._work: queue.Queue[Optional[Callable[[str], None]]] = queue.Queue(MOST_WAITING)
        self._is_ended = False
        self._is_late = False
        self.has_failed = False
        self._thread = threading.Thread(target=self._run, name="ascpipe-run-record", daemon=True)
        self.put(lambda path: _create(path, head, most))
        self._thread.start()

    def put(self, work: Callable[[str], None]) -> bool:
        """Queue ``work``, which the thread then calls with the path of the file. Return False if the queue is full."""
        try:
            self._work.put_nowait(work)
        except queue.Full:
            if not self._is_late:
                self._is_late = True
                _log.warning("%s does not respond; `ascpipe report` lacks samples of this run", self._path)
            return False
        return True

    def end(self) -> None:
        """Wait until all queued work is done, for at most 2 * ``_END_TIMEOUT_S`` seconds."""
        self._is_ended = True
        try:
            self._work.put(None, timeout=_END_TIMEOUT_S)
        except queue.Full:  # put has logged that the disk does not respond; the thread ends when the disk responds
            return
        self._thread.join(_END_TIMEOUT_S)

    def _run(self) -> None:
        while not (self._is_ended and self._work.empty()):
            try:
                work = self._work.get(timeout=_IDLE_S)
            except queue.Empty:
                continue
            if work is None:
                return
            try:
                if not self.has_failed:
                    work(self._path)
            except (AscpipeError, OSError) as error:
                self.has_failed = True
                _log.warning("the run is not recorded for `ascpipe report`: %s", error)


def _create(path: str, head: str, most: int) -> None:
    """Create the file of a run, and write the first line. Remove old files, so that at most ``most`` files exist."""
    base = os.path.dirname(path)
    with refusing(base):
        os.makedirs(os.path.dirname(user_state()), mode=0o700, exist_ok=True)
        names.make_private_dir(user_state())
        names.make_private_dir(base)
    for old in run_record.superseded(run_record.names(), most - 1, _running()):
        with contextlib.suppress(FileNotFoundError):  # another daemon has just removed it
            os.unlink(os.path.join(base, old + run_record.SUFFIX))
    _write(path, [head + "\n"])


def _running() -> List[str]:
    try:
        return running_daemons()
    except AscpipeError:  # the directory of run directories is damaged
        return []


def _append(path: str, line: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def _thin(path: str) -> None:
    """Remove every second sample."""
    with open(path, encoding="utf-8") as file:
        head, *lines = file.readlines()
    _write(path + ".tmp", [head, *(line + "\n" for line in run_record.thinned(lines))])
    os.replace(path + ".tmp", path)


def _write(path: str, lines: List[str]) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        file.writelines(lines)


def _command_line(pid: int) -> str:
    """Return the command line of a process, or an empty string if the process has ended."""
    try:
        with open("/proc/{}/cmdline".format(pid), encoding="utf-8", errors="replace") as file:
            return file.read(1000).replace("\0", " ").strip()
    except OSError:
        return ""
