"""What the stages of a table worker share: the base class, the bells that they ring, the truth of a table."""
from typing import Callable, NamedTuple, Optional

from ascpipe.shm.ring import TableView
from ascpipe.tables.records import Truth


class Bells(NamedTuple):
    """The bells of a trainer's threads; a call rings one."""

    trainer: Callable[[], None]
    pump: Callable[[], None]


class Stage:
    """The actions of a worker for one table, or all tables, of one stream."""

    def step(self) -> int:
        """Do everything that can be done now; never waits.  Returns how many actions were carried out."""
        done = 0
        while True:
            acted = self.act()
            if not acted:
                return done
            done += acted

    def act(self) -> int:
        """Carry out the next action, or that of each table; returns how many: 0 if there is none, or it must wait."""
        raise NotImplementedError

    def pause_s(self) -> Optional[float]:
        """Seconds in which its work may gather; None: it says nothing about that."""
        return None


def truth_of(view: TableView) -> Truth:
    """Return the truth of a table segment."""
    return Truth(view.header, view.header_at, view.entries, view.slot_entries, view.ready_entries, view.ready_homes,
                 view.disk_table, view.requests)
