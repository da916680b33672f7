"""Class ``Worker``, which identifies a worker of a daemon by kind and index."""
from dataclasses import dataclass
from typing import Tuple

from ascpipe.config import Settings

KEY = "key"
TABLE = "table"
DISK = "disk"


@dataclass(frozen=True)
class Worker:
    """Identity of a worker. The identity of a worker stays the same after a restart.

    Attributes:
        kind: ``KEY``, ``TABLE`` or ``DISK``.
        index: number among the workers of its kind.
    """

    kind: str
    index: int

    def __str__(self) -> str:
        return "{}-{}".format(self.kind, self.index)

    @property
    def sentence(self) -> str:
        """Return the name of the worker for messages, for example ``"key worker 0"``."""
        return "{} worker {}".format(self.kind, self.index)


def workers_of(settings: Settings) -> Tuple[Worker, ...]:
    """Return all workers of a daemon except the disk worker. Key workers are first."""
    return tuple(Worker(kind, index) for kind, count in ((KEY, settings.workers), (TABLE, settings.table_workers))
                 for index in range(count))


DISK_WORKER = Worker(DISK, 0)  #: the only disk worker, which runs if a session has rows on disk
