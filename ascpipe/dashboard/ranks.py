"""Class ``Ranks``, which queries the daemons of the other ranks of this machine. Each rank has its own daemon."""
import collections
from typing import Any, Deque, Dict, List, Sequence

from ascpipe.control import messages
from ascpipe.control.client import ask, running_daemons
from ascpipe.errors import AscpipeError
from ascpipe.figures.ranks import rank_rates
from ascpipe.names import run_dir

MOST_RANKS = 16  #: further ranks of this machine are not shown
_ASK_RANK_S = 0.1
_KEPT = 3  # answers of another rank, of about four seconds

Status = Dict[str, Any]


class Ranks:
    """Ranks of the training run that have a daemon on this machine.

    Args:
        name: name of the daemon of this rank.

    Attributes:
        recording: names of the other ranks' daemons that record spans.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._others: Dict[str, Deque[Status]] = {}
        self.recording: List[str] = []

    def look(self, looks: Sequence[Status]) -> List[Dict[str, Any]]:
        """Query the other daemons. Return one dict per rank, sorted by rank. With one rank, return an empty list.

        A dict has the fields of ``exchanges`` in ``status``, ``daemon`` (name of the daemon), and ``rates`` (see
        ``rank_rates``; None if they are unknown).

        Args:
            looks: answers of this rank's daemon to ``status``, oldest first.
        """
        mine = looks[-1]["exchanges"]
        seen: Dict[str, Deque[Status]] = {}
        for name in [] if mine is None else self._names():
            try:
                status = ask(run_dir(name), messages.Status(), _ASK_RANK_S)
            except AscpipeError:  # it exits, or is busy
                continue
            theirs = status["exchanges"]
            if theirs is not None and theirs["ranks"] == mine["ranks"] and theirs["rank"] != mine["rank"]:
                seen[name] = collections.deque(self._others.get(name, ()), _KEPT)
                seen[name].append(status)
        self._others = seen
        self.recording = sorted(name for name, answers in seen.items() if answers[-1]["trace"]["since_ns"])
        if mine is None:
            return []
        found = [_told(self._name, looks), *(_told(name, list(answers)) for name, answers in seen.items())]
        return sorted(found, key=lambda one: int(one["rank"]))

    def _names(self) -> List[str]:
        return [name for name in running_daemons() if name != self._name][:MOST_RANKS]


def _told(name: str, looks: Sequence[Status]) -> Dict[str, Any]:
    return {**looks[-1]["exchanges"], "daemon": name, "rates": rank_rates(looks[0], looks[-1])}
