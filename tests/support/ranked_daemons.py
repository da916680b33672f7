"""Daemons that serve the ranks of many runs, one run after the other. To begin one takes a second of processor time."""
import contextlib
from typing import Dict, Iterator, List

from tests.support.daemons import DaemonProcess, is_alive
from tests.support.programs.running import RING_BYTES
from tests.support.waiting import wait_until

NAME = "rank-{}"
NAME_OF_RANKS = NAME.format("{local_rank}")  #: value of ASCPIPE_NAME of several ranks
WAIT_TIMEOUT_S = 60  #: of a step


class RankedDaemons:
    """Daemons by rank, which begin when a run needs them, and anew if a test has ended them."""

    def __init__(self) -> None:
        self._daemons: Dict[int, DaemonProcess] = {}

    def name_for(self, ranks: int) -> str:
        """Return the value of ASCPIPE_NAME for a run with this number of ranks."""
        for rank in range(ranks):
            daemon = self._daemons.get(rank)
            if daemon is None or not is_alive(daemon.pid):
                self._end(rank)
                self._daemons[rank] = DaemonProcess(NAME.format(rank), spared=True, ring_bytes=RING_BYTES,
                                                    wait_timeout_s=WAIT_TIMEOUT_S)
        return NAME.format(0) if ranks == 1 else NAME_OF_RANKS

    def require_back(self) -> None:
        """After a run: its ranks have left."""
        for daemon in self._daemons.values():
            wait_until(lambda: not is_alive(daemon.pid) or daemon.status()["state"] == "idle",  # noqa: B023
                       what="the ranks to leave their daemons")

    def end(self) -> None:
        for rank in list(self._daemons):
            self._end(rank)

    def _end(self, rank: int) -> None:
        if rank in self._daemons:
            self._daemons.pop(rank).end()


_in_use: List[RankedDaemons] = []


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """Within it, `ranked_runs.train` uses such daemons."""
    _in_use.append(RankedDaemons())
    try:
        yield
    finally:
        _in_use.pop().end()


@contextlib.contextmanager
def lent(ranks: int) -> Iterator[Dict[str, str]]:
    """Settings of a run with this number of ranks: its daemons, if they are shared."""
    if not _in_use:
        yield {}
        return
    yield {"name": _in_use[-1].name_for(ranks)}
    _in_use[-1].require_back()
