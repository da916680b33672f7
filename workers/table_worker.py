"""Table worker, which plans the batches of its tables, updates the trained state in shared memory, and applies cuts.

::

    python -m ascpipe.workers.table_worker --channel FD --index I --generation G --title TEXT
"""
from typing import Dict, List, Optional, Union

import numpy as np

from ascpipe.kernels.hashing import spread_of
from ascpipe.layout import structs
from ascpipe.layout.words import EVAL, LOCAL, TRAIN
from ascpipe.shm.ring import TableInRing
from ascpipe.tables.table import Table
from ascpipe.workers.cuts import CutStage
from ascpipe.workers.eval_stage import EvalStage, Questions
from ascpipe.workers.listeners import Listeners
from ascpipe.workers.pace import least_pause
from ascpipe.workers.ring_scheduler import RingScheduler
from ascpipe.workers.runner import Attachment, StreamView, Work, Worker, command
from ascpipe.workers.stage import Bells, Stage, truth_of
from ascpipe.workers.train_stage import TrainStage


class _Served:
    """Table that this worker serves, and the stage that changes the table.

    Both are replaced when an evaluation-only table gets a training stream.
    """

    def __init__(self) -> None:
        self.table: Table
        self.changes: Union[TrainStage, CutStage]

    def serve(self, attachment: Attachment, number: int, bells: Bells, *, restart: bool) -> None:
        """Start serving a table from its trained state in shared memory."""
        view = attachment.tables[number]
        self.table = Table(truth_of(view), spread_of(attachment.hash_seed))
        at = _training_ring(attachment, number)
        if at is None:
            self.changes = CutStage(view, self.table, bells)
        else:
            self.changes = TrainStage(view, self.table, at, bells, restart=restart, log=attachment.eviction_log)

    def resolve(self, keys: np.ndarray, slots: np.ndarray, disk_slots: np.ndarray, generations: np.ndarray) -> None:
        """Find the rows of keys; see ``Table.resolve``."""
        self.table.resolve(keys, slots, disk_slots, generations)

    def is_readable(self) -> bool:
        """Return whether shared memory contains the state of the table after the last trained step."""
        return self.changes.is_readable()


def make_work(worker: Worker, attachment: Attachment) -> Work:
    """Return the functions that the main loop of a table worker calls. The functions handle the tables of this worker.
    """
    trainer = attachment.bell(structs.BELL_TRAINER)
    pump = attachment.bell(structs.BELL_PUMP)
    bells = Bells(trainer.ring, pump.ring_unless_pausing)
    listeners = Listeners([trainer], [pump])
    disk_listeners = Listeners([trainer], [pump, attachment.bell(structs.BELL_DISK_WORKER)])
    served: Dict[int, _Served] = {}
    untrained: Dict[int, CutStage] = {}  # tables that are in no training stream
    stages: List[Stage] = []  # one stage per stream

    def serve(number: int, *, restart: bool) -> None:
        served.setdefault(number, _Served()).serve(attachment, number, bells, restart=restart)
        changes = served[number].changes
        if isinstance(changes, CutStage):
            untrained[number] = changes
        else:
            untrained.pop(number, None)

    def serve_ours(number: int) -> None:
        if attachment.workers[number] == worker.number:
            serve(number, restart=attachment.restart)

    def serve_stream(stream: StreamView) -> None:
        if stream.channel == LOCAL:
            return
        ours = {column: served[number] for column, number in enumerate(stream.tables) if number in served}
        if stream.channel == EVAL:
            readers = [EvalStage(of.resolve, TableInRing(stream.ring, column), of.is_readable, bells)
                       for column, of in ours.items()]
            stages.append(Questions(stream.ring, readers))
            return
        for column in ours:
            if stream.tables[column] in untrained:
                serve(stream.tables[column], restart=True)  # a new stream; cuts may have changed the table
        trained = [of.changes for of in ours.values() if isinstance(of.changes, TrainStage)]
        has_disk = any(attachment.tables[stream.tables[column]].disk_table is not None for column in ours)
        stages.append(RingScheduler(stream.ring, list(ours), trained, disk_listeners if has_disk else listeners))

    attachment.each_table(serve_ours)
    attachment.each_stream(serve_stream)

    def step() -> int:
        done = 0
        for stage in stages:
            done += stage.step()
        for changes in untrained.values():
            done += changes.step()
        return done

    return Work(step, lambda: least_pause([stage.pause_s() for stage in stages]))


def _training_ring(attachment: Attachment, table: int) -> Optional[TableInRing]:
    for stream in attachment.streams:
        if stream.channel == TRAIN and table in stream.tables:
            return TableInRing(stream.ring, stream.tables.index(table))
    return None


main = command("table_worker", structs.BELL_TABLE_WORKERS, make_work)

if __name__ == "__main__":
    main()
