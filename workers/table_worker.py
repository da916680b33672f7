"""Table worker: entries, plans, truth and cuts of its tables.  All truth is in shared memory.

    python -m ascpipe.workers.table_worker --channel FD --index I --generation G
"""
from typing import Callable, Dict, List, NamedTuple, Optional, Union

from ascpipe.shm import layout
from ascpipe.shm.ring import Place
from ascpipe.tables.table import Table
from ascpipe.words import EVAL, TRAIN
from ascpipe.workers.cuts import Bells, CutStage, truth_of
from ascpipe.workers.eval_stage import EvalStage, Questions
from ascpipe.workers.runner import Attachment, StreamView, Worker, command
from ascpipe.workers.stage import Stage
from ascpipe.workers.train_stage import TrainStage
from ascpipe.workers.turns import Turns


class _Served(NamedTuple):
    """A table that this worker serves: its keys and slots, and who changes them."""

    table: Table
    changes: Union[TrainStage, CutStage]


def make_step(worker: Worker, attachment: Attachment) -> Callable[[], int]:
    """The step of a table worker over the tables it serves."""
    bells = Bells(attachment.bell(layout.BELL_TRAINER).ring, attachment.bell(layout.BELL_PUMP).ring)
    served = {number: _serve(attachment, number, bells) for number, serving in sorted(attachment.workers.items())
              if serving == worker.number}
    stages: List[Stage] = [serving.changes for serving in served.values() if isinstance(serving.changes, CutStage)]
    stages += [turns for turns in (_turns(stream, served) for stream in attachment.streams) if turns is not None]

    def read_through(stream: StreamView) -> None:
        if stream.channel == EVAL:
            stages.append(Questions(stream.ring, [
                EvalStage(served[number].table, Place(stream.ring, column), served[number].changes.is_readable, bells)
                for column, number in enumerate(stream.tables) if number in served]))

    attachment.each_stream(read_through)

    def step() -> int:
        return sum(stage.step() for stage in stages)

    return step


def _serve(attachment: Attachment, number: int, bells: Bells) -> _Served:
    view = attachment.tables[number]
    table = Table(truth_of(view))
    place = _training_place(attachment, number)
    if place is None:
        return _Served(table, CutStage(view, table, bells))
    return _Served(table, TrainStage(view, table, place, bells, restart=attachment.restart))


def _turns(stream: StreamView, served: Dict[int, _Served]) -> Optional[Turns]:
    """The tables of a training stream that this worker serves."""
    stages = {column: served[number].changes for column, number in enumerate(stream.tables)
              if stream.channel == TRAIN and number in served}
    training = {column: stage for column, stage in stages.items() if isinstance(stage, TrainStage)}
    return Turns(stream.ring, list(training), list(training.values())) if training else None


def _training_place(attachment: Attachment, table: int) -> Optional[Place]:
    """Where a table stands in its training stream, of which it has one at most."""
    for stream in attachment.streams:
        if stream.channel == TRAIN and table in stream.tables:
            return Place(stream.ring, stream.tables.index(table))
    return None


main = command("table_worker", layout.BELL_TABLE_WORKERS, make_step)

if __name__ == "__main__":
    main()
