"""Base class of the stages of a table worker, and types and functions that several stages use."""
from typing import Callable, NamedTuple, Optional

from ascpipe.shm.ring import TableView
from ascpipe.tables.records import Truth


class Bells(NamedTuple):
    """Functions that ring the bells of a trainer's threads."""

    trainer: Callable[[], None]
    pump: Callable[[], None]


class Stage:
    """Actions of a worker for one table or for all tables of one stream."""

    def step(self) -> int:
        """Perform all actions that are possible now, without waiting. Return the number of actions."""
        done = 0
        while True:
            acted = self.act()
            if not acted:
                return done
            done += acted

    def act(self) -> int:
        """Perform the next action of each table. Return the number of performed actions."""
        raise NotImplementedError

    def pause_s(self) -> Optional[float]:
        """Return the number of seconds that the worker may pause, or None if this stage does not limit the pause."""
        return None


def truth_of(view: TableView) -> Truth:
    """Return the arrays of a table in its shared-memory segment."""
    return Truth(view.header, view.header_at, view.entries, view.slot_entries, view.ready_entries, view.ready_homes,
                 view.disk_table, view.requests)
