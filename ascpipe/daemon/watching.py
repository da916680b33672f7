"""Watches what a daemon depends on: workers and the template that may hang, and its files, which others may remove."""
import logging
import time
from typing import Callable, Collection, Dict, Hashable, Set

from ascpipe.daemon.hangs import NAMED_AFTER_S, Hangs
from ascpipe.daemon.lifecycle import Worker
from ascpipe.daemon.run_directory import OwnedRunDir
from ascpipe.daemon.supervisor import TEMPLATE, Supervisor

_WATCH_S = 1.0  # between two looks
_TOUCH_S = 3600.0  # between two touches of our files

_log = logging.getLogger("ascpipe.daemon")


class Watch:
    """Looks once a second, when it is called more often.

    Args:
        supervisor: of the workers.
        owned: directory of the daemon, with its sockets.
        patience_s: seconds after which a worker that hangs is killed; 0: never.

    Attributes:
        hanging: seconds for which each worker has not moved, of those that hang.
    """

    def __init__(self, supervisor: Supervisor, owned: OwnedRunDir, patience_s: float) -> None:
        self._supervisor, self._owned, self._patience_s = supervisor, owned, patience_s
        self.hanging: Dict[Hashable, float] = {}
        self._hangs = Hangs()
        self._named: Set[int] = set()  # pids that hang, and were named
        self._look_at, self._touch_at = 0.0, time.monotonic() + _TOUCH_S

    def look(self, awaited: Callable[[], Collection[Worker]]) -> str:
        """Name processes that hang, or end them; begin a template again.

        Args:
            awaited: gives the workers that the trainer waits for.

        Returns:
            Path of a file of ours that was removed or is another daemon's; empty if there is none.
        """
        now = time.monotonic()
        if now < self._look_at:
            return ""
        self._look_at = now + _WATCH_S
        if self._supervisor.renew_template(now):
            _log.warning("the template has ended and is begun again")
        self._look_for_hangs(awaited(), now)
        if now >= self._touch_at:
            self._touch_at = now + _TOUCH_S
            self._owned.keep_from_cleaners()
        return self._owned.lost()

    def _look_for_hangs(self, awaited: Collection[Worker], now: float) -> None:
        watched = self._supervisor.watched(awaited)
        self.hanging = self._hangs.look(watched, now)
        for name, seconds in self.hanging.items():
            if name == TEMPLATE:  # workers do without, and those that begin may wait for it
                if seconds >= NAMED_AFTER_S:
                    _log.warning("the template (pid %d) has not moved for %.0f s and is ended", watched[name].pid,
                                 seconds)
                    self._supervisor.end_hung(name, "")
            elif self._patience_s and seconds >= self._patience_s:
                self._supervisor.end_hung(
                    name, "it did not move for {:.0f} s and was ended (worker_patience_s)".format(seconds))
            elif seconds >= NAMED_AFTER_S and watched[name].pid not in self._named:
                self._named.add(watched[name].pid)
                _log.warning(
                    "%s (pid %d) has not moved for %.0f s: it %s", getattr(name, "sentence", name), watched[name].pid,
                    seconds, "is stopped" if watched[name].is_stopped else "is waited for and uses no processor time")
