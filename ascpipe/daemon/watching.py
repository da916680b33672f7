"""Class ``Watch``, which checks once per second whether the daemon's processes, disks and files are in order."""
import logging
import time
from typing import Callable, Collection, Dict, Hashable, Optional, Set

from ascpipe.config import Settings
from ascpipe.control.proc_stat import transfers
from ascpipe.daemon import statistics
from ascpipe.daemon.disk_silence import DiskSilence
from ascpipe.daemon.exporter import Exporter
from ascpipe.daemon.hangs import LOG_AFTER_S, Hangs
from ascpipe.daemon.run_directory import OwnedRunDir
from ascpipe.daemon.session_memory import SessionMemory
from ascpipe.daemon.supervisor import TEMPLATE, Supervisor
from ascpipe.daemon.worker_identity import DISK_WORKER, Worker
from ascpipe.errors import DiskSilentError

_WATCH_S = 1.0  # seconds between two checks
_TOUCH_S = 3600.0  # seconds between two touches of the daemon's files

_log = logging.getLogger("ascpipe.daemon")


class Watch:
    """Periodic checks of a daemon. The checks run once per second, even if ``look`` is called more often.

    Attributes:
        hanging: a map from each hanging worker to the time in seconds for which it has hung.
        silent: error that must end the session because the disks no longer respond, or None.
    """

    def __init__(self, supervisor: Supervisor, owned: OwnedRunDir, settings: Settings, exporter: Exporter) -> None:
        self._exporter = exporter
        self._supervisor = supervisor
        self._owned = owned
        self._patience_s = settings.worker_patience_s
        self._disk_patience_s = settings.disk_patience_s
        self._silence = DiskSilence()
        self.silent: Optional[DiskSilentError] = None
        self.hanging: Dict[Hashable, float] = {}
        self._hangs = Hangs()
        self._named: Set[int] = set()  # PIDs of hanging processes that were logged
        self._look_at = 0.0
        self._touch_at = time.monotonic() + _TOUCH_S

    def look(self, awaited: Callable[[], Collection[Worker]], memory: Optional[SessionMemory]) -> str:
        """Log or kill hanging processes. Restart the template or the metrics process if the process has exited.

        Returns:
            Path of a removed or replaced file of the daemon, or an empty string.
        """
        now = time.monotonic()
        self.silent = None
        if now < self._look_at:
            return ""
        self._look_at = now + _WATCH_S
        self._exporter.look(now)
        if self._supervisor.renew_template(now):
            _log.warning("the template exited and is restarted")
        waited_for = awaited()
        self._look_for_hangs(waited_for, now)
        self._look_at_disks(memory, now, is_awaited=DISK_WORKER in waited_for and DISK_WORKER not in self.hanging)
        if now >= self._touch_at:
            self._touch_at = now + _TOUCH_S
            self._owned.touch_files()
        return self._owned.lost()

    def _look_for_hangs(self, awaited: Collection[Worker], now: float) -> None:
        watched = self._supervisor.watched(awaited)
        self.hanging = self._hangs.look(watched, now)
        for name, seconds in self.hanging.items():
            if name == TEMPLATE:  # kill the template, so that workers do not wait for it
                if seconds >= LOG_AFTER_S:
                    _log.warning("the template (pid %d) has made no progress for %.0f s and is "
                                 "killed", watched[name].pid,
                                 seconds)
                    self._supervisor.kill_hung(name, "")
            elif self._patience_s and seconds >= self._patience_s:
                self._supervisor.kill_hung(
                    name, "it made no progress for {:.0f} s and was killed (worker_patience_s)".format(seconds))
            elif seconds >= LOG_AFTER_S and watched[name].pid not in self._named:
                self._named.add(watched[name].pid)
                _log.warning(
                    "%s (pid %d) has made no progress for %.0f s: it %s", getattr(name, "sentence", name),
                    watched[name].pid, seconds, "is stopped" if watched[name].is_stopped else
                    "uses no processor time while a step waits for it")

    def _look_at_disks(self, memory: Optional[SessionMemory], now: float, *, is_awaited: bool) -> None:
        disks = [] if memory is None else statistics.disks(memory)
        before = self._silence.seconds
        self._silence.look(disks, transfers(self._supervisor.pid(DISK_WORKER)), now, is_awaited=is_awaited)
        seconds = self._silence.seconds
        if seconds:
            self.hanging[DISK_WORKER] = seconds
        if before < LOG_AFTER_S <= seconds:
            _log.warning("no row was read from disk or written for %.0f s while a step waits for rows; operations in "
                         "flight: %s", seconds, self._silence.sentence(disks))
        self.silent = self._silence.verdict(disks, self._disk_patience_s)
