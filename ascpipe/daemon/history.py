"""Class ``History``, with which a daemon records the counters of a run in a file that outlives the daemon.

A file has at most ``MOST`` samples. When it is full, every second sample is removed, and the interval doubles. The
files of the last ``KEPT`` runs are kept.
"""
import json
import logging
import os
import platform
import time
from typing import Any, Callable, Dict, Optional

from ascpipe import __version__, names
from ascpipe.config import Settings
from ascpipe.control import run_record
from ascpipe.directories import refusing, user_state
from ascpipe.errors import AscpipeError

MOST = 720  #: maximum number of samples of a file
KEPT = 10  #: maximum number of files
_FIRST_INTERVAL_S = 1.0

_log = logging.getLogger("ascpipe.daemon")


class History:
    """Record of the current run. Without a run, the object does nothing.

    Args:
        daemon: name of the daemon.
        settings: settings of the daemon.
        status: function that returns the answer to ``status``.
    """

    def __init__(self, daemon: str, settings: Settings, status: Callable[[], Dict[str, Any]]) -> None:
        self._daemon = daemon
        self._settings = settings
        self._status = status
        self._path: Optional[str] = None
        self._is_recording = False
        self._due = 0.0
        self._interval_s = _FIRST_INTERVAL_S
        self._count = 0

    def look(self, now: float) -> None:
        """Append a sample if one is due. Call the method only while there is a session. ``now`` is monotonic time."""
        if not self._is_recording:
            self._is_recording = True
            self._interval_s = _FIRST_INTERVAL_S
            self._count = 0
            self._due = now
            self._path = None
            self._safely(self._begin)
        if now >= self._due:
            self._due = now + self._interval_s
            self._safely(self._append)

    def end(self) -> None:
        """Append the last sample of the run, if a run is recorded."""
        if self._is_recording:
            self._safely(self._append)
        self._is_recording = False
        self._path = None

    def _safely(self, action: Callable[[], None]) -> None:
        try:
            action()
        except (AscpipeError, OSError) as error:
            _log.warning("the run is not recorded for `ascpipe report`: %s", error)
            self._path = None

    def _begin(self) -> None:
        status = self._status()
        base = run_record.base_dir()
        with refusing(base):
            os.makedirs(os.path.dirname(user_state()), mode=0o700, exist_ok=True)
            names.make_private_dir(user_state())
            names.make_private_dir(base)
        for old in run_record.names()[KEPT - 1:]:
            os.unlink(os.path.join(base, old + run_record.SUFFIX))
        trainer = status["trainer"] or {"pid": 0, "run": 0, "since": ""}
        head = {
            "format": run_record.FORMAT, "daemon": self._daemon, "run": trainer["run"], "pid": trainer["pid"],
            "since": trainer["since"], "program": _command_line(trainer["pid"]), "ascpipe": __version__,
            "settings": {name: getattr(self._settings, name) for name in sorted(Settings.__fields__)},
            "machine": {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version(),
                        "system": "{} {}".format(platform.system(), platform.release()),
                        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")}}
        path = os.path.join(base, "{}-{}{}".format(self._daemon, trainer["run"], run_record.SUFFIX))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
            file.write(json.dumps(head) + "\n")
        self._path = path

    def _append(self) -> None:
        if self._path is None:
            return
        if self._count >= MOST:
            self._thin()
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(run_record.packed(self._status(), time.time()) + "\n")
        self._count += 1

    def _thin(self) -> None:
        path = self._path or ""
        with open(path, encoding="utf-8") as file:
            head, *lines = file.readlines()
        kept = lines[::2]
        with open(os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.writelines([head, *kept])
        os.replace(path + ".tmp", path)
        self._count = len(kept)
        self._interval_s *= 2


def _command_line(pid: int) -> str:
    """Return the command line of a process, or an empty string if the process has ended."""
    try:
        with open("/proc/{}/cmdline".format(pid), encoding="utf-8", errors="replace") as file:
            return file.read(1000).replace("\0", " ").strip()
    except OSError:
        return ""
