"""Table worker: entries, plans, truth and cuts of its tables.  All truth is in shared memory.

    python -m ascpipe.workers.table_worker --channel FD --index I --generation G
"""
from typing import Callable, List, Optional, Union

from ascpipe.shm import layout
from ascpipe.shm.ring import Place
from ascpipe.tables.table import Table
from ascpipe.words import EVAL, TRAIN
from ascpipe.workers.cuts import Bells, CutStage, truth_of
from ascpipe.workers.eval_stage import EvalStage
from ascpipe.workers.runner import Attachment, Worker, command
from ascpipe.workers.stage import Stage
from ascpipe.workers.train_stage import TrainStage


def make_step(worker: Worker, attachment: Attachment) -> Callable[[], int]:
    """The step of a table worker over the tables it serves."""
    stages = [stage for number, serving in sorted(attachment.workers.items()) if serving == worker.number
              for stage in _stages(attachment, number)]

    def step() -> int:
        return sum(stage.step() for stage in stages)

    return step


def _stages(attachment: Attachment, number: int) -> List[Stage]:
    """The stages of one table, one per channel that it is in."""
    bells = Bells(attachment.bell(layout.BELL_TRAINER).ring, attachment.bell(layout.BELL_PUMP).ring)
    view = attachment.tables[number]
    table = Table(truth_of(view))
    train, evaluation = _place(attachment, number, TRAIN), _place(attachment, number, EVAL)
    changes: Union[TrainStage, CutStage]
    if train is None:
        changes = CutStage(view, table, bells)
    else:
        changes = TrainStage(view, table, train, bells, restart=attachment.restart)
    stages: List[Stage] = [changes]
    if evaluation is not None:
        stages.append(EvalStage(table, evaluation, changes.is_readable, bells))
    return stages


def _place(attachment: Attachment, table: int, channel: int) -> Optional[Place]:
    """Where a table stands in the stream of a channel; a table is in one stream per channel at most."""
    for ring, stream in zip(attachment.rings, attachment.streams):
        if stream["channel"] == channel and table in stream["tables"]:
            return Place(ring, stream["tables"].index(table))
    return None


main = command("table_worker", layout.BELL_TABLE_WORKERS, make_step)

if __name__ == "__main__":
    main()
