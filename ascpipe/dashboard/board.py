"""Class ``Board``, which queries one daemon, keeps a history of the answers and serves the dashboard page."""
import collections
import logging
import os
import socket
import time
from typing import Any, Deque, Dict, List, Optional, Tuple

from ascpipe.control import messages, saves
from ascpipe.control.client import ask
from ascpipe.control.proc_stat import read_stat
from ascpipe.control.web import Server
from ascpipe.dashboard.history import TICK_S, History
from ascpipe.dashboard.lookups import Lookups, arguments_of_timeline
from ascpipe.dashboard.ranks import Ranks
from ascpipe.dashboard.site import NotThereError, Query, Site, as_json, parameters
from ascpipe.dashboard.snapshot import Look, pids_of, point, snapshot
from ascpipe.errors import AscpipeError
from ascpipe.names import RunDir

LOOKS = 3  #: queries for each point of the history; shares of time have a resolution of 100 / ``KEPT_LOOKS`` %
KEPT_LOOKS = 9  #: answers from which rates are computed, of about five seconds
ASK_S = 1.0  #: timeout for an answer of the daemon
MOST_VIEWERS = 32  #: maximum number of open pages
MOST_PEERS = 16  #: maximum number of other connections
TIMELINE_S = 2.0  #: seconds of activity that the page shows
_HOT_KEYS = "20"
_FRESH_S = {"/hotkeys": 10.0, "/timeline": 5.0, "/checkpoints": 2.0, "/verify": 3600.0}  # maximum age of outputs
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

_log = logging.getLogger("ascpipe.metrics")


class Board:
    """Dashboard of a daemon. The caller must poll ``events`` for at most ``wait_s`` seconds, and then call ``serve``.

    Args:
        run: run directory of the daemon.
        listener: listening socket of a loopback address, which ``close`` closes.
        token: secret of the page's address.
        history: earlier points, to which points are added.
    """

    def __init__(self, run: RunDir, listener: socket.socket, token: str, history: Optional[History] = None) -> None:
        self._run = run
        self._history = History() if history is None else history
        self._lookups = Lookups()
        self._ranks = Ranks(run.name)
        self._looks: Deque[Look] = collections.deque(maxlen=KEPT_LOOKS)
        self._silent = "The daemon has not answered yet."
        self._look_at = time.monotonic()
        self._tick_at = self._look_at + TICK_S / LOOKS
        self._event = _event({"silent": self._silent, "time": time.time()})
        site = Site(token, {
            "/now": lambda query: self._event[len(b"data: "):].rstrip(), "/history": self._history_of,
            "/hotkeys": self._hot_keys, "/timeline": self._timeline, "/checkpoints": self._checkpoints,
            "/verify": self._verified}, lambda: self._event)
        self._server = Server(listener, site.answer, peers=MOST_PEERS, streams=MOST_VIEWERS)

    def events(self) -> List[Tuple[int, int]]:
        """Return (descriptor, poll events) for each socket."""
        return self._server.events()

    def wait_s(self) -> float:
        """Return the seconds until ``serve`` must be called."""
        waits = [self._look_at - time.monotonic(), self._server.wait_s(), self._lookups.wait_s()]
        return max(0.0, min(wait for wait in waits if wait is not None))

    def serve(self, ready: Dict[int, int]) -> None:
        """Query the daemon if a query is due, and serve ready sockets.

        Args:
            ready: result of ``poll``, by descriptor.
        """
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = max(self._look_at + TICK_S / LOOKS, now)  # this process may have been suspended
            self._look()
            if now >= self._tick_at:
                self._tick_at = max(self._tick_at + TICK_S, now)
                self._tick()
        self._lookups.look()
        self._server.serve(ready)

    def close(self) -> None:
        """Close all sockets and end a running command."""
        self._lookups.close()
        self._server.close()

    # ---- figures

    def _look(self) -> None:
        try:
            status = {**ask(self._run, messages.Status(), ASK_S), "logs": self._run.path,
                      "last_save": saves.newest(self._run)}
        except AscpipeError as error:
            if not self._silent:
                _log.warning("the dashboard has no figures: %s", error.sentence())
            self._silent = error.sentence()
            self._looks.clear()
            self._look_at = time.monotonic() + TICK_S
            return
        self._silent = ""
        if self._looks and self._looks[-1].status["pid"] != status["pid"]:  # another daemon of the same name
            self._looks.clear()
        self._looks.append(Look(status, {pid: stat.ticks / _TICKS_PER_S for pid in pids_of(status)
                                         for stat in [read_stat(pid)] if stat is not None}))

    def _tick(self) -> None:
        now = time.time()
        if not self._looks:
            self._history.add(now, "", {}, {})
            self._publish({"silent": self._silent, "time": now})
            return
        shown = snapshot(self._looks)
        overview, tables = point(self._looks, shown)
        ranks = self._ranks.look([look.status for look in self._looks])
        self._history.add(now, shown["rates"]["bottleneck"], overview, tables,
                          {one["rank"]: one["rates"] or {} for one in ranks})
        self._publish({"silent": "", "time": now, "point": overview, "ranks": ranks,
                       "saves": [dict(save._asdict()) for save in saves.read(self._run)], **shown})

    def _publish(self, told: Dict[str, Any]) -> None:
        self._event = _event(told)
        self._server.publish(self._event)

    # ---- sources of the page

    def _history_of(self, query: Query) -> Optional[bytes]:
        if "ranks" in query:
            return as_json(self._history.ranks())
        if "table" not in query:
            return as_json(self._history.overview())
        found = self._history.table(query["table"])
        if found is None:
            raise NotThereError("there is no history of this table")
        return as_json(found)

    def _hot_keys(self, query: Query) -> Optional[bytes]:
        table = parameters(query, "table")["table"]
        if not self._looks or table not in [one["name"] for one in self._looks[-1].status["tables"]]:
            raise NotThereError("there is no such table")
        return self._output("/hotkeys", [
            "hotkeys", "--name", self._run.name, "--count", _HOT_KEYS, "--json", "--", table])

    def _timeline(self, query: Query) -> Optional[bytes]:
        return self._output("/timeline", arguments_of_timeline(
            [self._run.name, *self._ranks.recording], TIMELINE_S))

    def _checkpoints(self, query: Query) -> Optional[bytes]:
        known = saves.read(self._run)
        return self._output("/checkpoints", ["checkpoint", "list", "--json", "--", os.path.dirname(
            known[-1].prefix)]) if known else as_json([])

    def _verified(self, query: Query) -> Optional[bytes]:
        prefix = parameters(query, "checkpoint")["checkpoint"]
        if prefix not in [save.prefix for save in saves.read(self._run)]:
            raise NotThereError("this session has not saved such a checkpoint")
        return self._output("/verify", ["checkpoint", "verify", "--json", "--", prefix])

    def _output(self, path: str, arguments: List[str]) -> Optional[bytes]:
        found = self._lookups.output(arguments, _FRESH_S[path])
        return None if found is None else found.text


def _event(told: Dict[str, Any]) -> bytes:
    return b"data: " + as_json(told) + b"\n\n"
