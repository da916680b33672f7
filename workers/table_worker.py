"""Table worker: entries, plans, truth and cuts of its tables.  All truth is in shared memory.

    python -m ascpipe.workers.table_worker --channel FD --index I --generation G
"""
from typing import Callable, Optional

from ascpipe.shm import layout
from ascpipe.words import EVAL, TRAIN
from ascpipe.workers.runner import Attachment, Worker, command
from ascpipe.workers.table_stage import Bells, Place, TableStage


def make_step(worker: Worker, attachment: Attachment) -> Callable[[], int]:
    """The step of a table worker over the tables it serves."""
    bells = Bells(attachment.bell(layout.BELL_TRAINER).ring, attachment.bell(layout.BELL_PUMP).ring)
    stages = [
        TableStage(attachment.tables[number], _place(attachment, number, TRAIN), _place(attachment, number, EVAL),
                   bells, attachment.restart)
        for number, serving in sorted(attachment.workers.items()) if serving == worker.index
    ]

    def step() -> int:
        return sum(stage.step() for stage in stages)

    return step


def _place(attachment: Attachment, table: int, channel: int) -> Optional[Place]:
    """Where a table stands in the stream of a channel; a table is in one stream per channel at most."""
    for ring, stream in zip(attachment.rings, attachment.streams):
        if stream["channel"] == channel and table in stream["tables"]:
            return Place(ring, stream["tables"].index(table))
    return None


main = command("table_worker", layout.BELL_TABLE_WORKERS, make_step)

if __name__ == "__main__":
    main()
