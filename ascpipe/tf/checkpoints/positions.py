"""Training positions in checkpoints, and the datasets that continue from them."""
import logging
from typing import Dict, Optional

from ascpipe.checkpoint.contents import Position, ReadPosition, TablePosition
from ascpipe.tf.running.hold_between_steps import Hold, TableState
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.shapes import ReadSource

_log = logging.getLogger(__name__)

_FIRST = ("", 0, 0, 0)


def position(pipeline: Pipeline, held: Hold, tables: Dict[str, TableState], rings: Dict[str, int]) -> Position:
    """Return the current training position of the given tables and rings."""
    return Position(
        run_id=pipeline.run_id,
        tables={name: TablePosition(int(at.header["retired"]), int(at.header["cut_applied"]))
                for name, at in tables.items()},
        trained_batches={name: held.trained_batches(number) for name, number in rings.items()},
        reads=_read_positions(pipeline, held, rings))


def _read_positions(pipeline: Pipeline, held: Hold, rings: Dict[str, int]) -> Dict[str, ReadPosition]:
    """Return the positions of the datasets that feed training streams, by stream name.

    The result has no position for a stream whose dataset does not read files, or that has trained no batch yet. If the
    position of a dataset is unknown, the reason is logged once.

    Args:
        rings: numbers of the rings of training streams, by stream name in checkpoints.
    """
    found = {}
    for name, ring in rings.items():
        position = held.read_position(ring)
        reads = pipeline.reads.get(ring, ())
        sources = {read.source: read for read in reads if _is_restorable(pipeline, read)}
        if position is None:
            if sources and len(sources) == len(reads) and held.trained_batches(ring):
                _log_once(pipeline, "The checkpoint has no reading position of stream %r, because no tensor of the "
                          "batch comes unchanged from asc.data.read. A restored program reads from the first record. "
                          "Let the maps between asc.data.read and the insert function return one tensor unchanged, "
                          "for example the labels", name)
            continue
        read = sources.get(position[0])
        if read is not None:
            found[name] = ReadPosition(read.data, *position[1:])
    return found


def continue_reading(pipeline: Pipeline, ring: int, saved: Position, name: str) -> None:
    """Let the datasets of a training stream start at the position of a restored checkpoint.

    A dataset with other data, or with a stage after which the position has no meaning, starts at the first record.

    Args:
        ring: number of the stream's ring.
        saved: position of the checkpoint.
        name: name of the stream in the checkpoint.
    """
    trained = None
    for read in pipeline.reads.get(ring, ()):
        start = _start(pipeline, read, saved.reads.get(name))
        pipeline.native_side.read_from(read.source, start)
        if trained is None or start.data:
            trained = read.source, start
    if trained is not None:  # a save before the next batch is trained has the position of the restored checkpoint
        pipeline.native_side.set_trained_position(ring, *trained)


def _start(pipeline: Pipeline, read: ReadSource, position: Optional[ReadPosition]) -> ReadPosition:
    if position is not None and _is_restorable(pipeline, read):
        if position.data == read.data:
            _log.info("reading continues after %d records of epoch %d (pass %d)", position.consumed, position.epoch,
                      position.pass_number)
            return position
        _log.info("the checkpoint was trained on other files, or with another seed. Reading begins with the first "
                  "record")
    return ReadPosition(*_FIRST)


def _is_restorable(pipeline: Pipeline, read: ReadSource) -> bool:
    if read.obstacle is not None:
        _log_once(pipeline, "Checkpoints have no reading position, because of %s. A restored program reads from the "
                  "first record. Use epochs and batch_size of asc.data.read instead of stages, and call asc.data.read "
                  "for each iterator", read.obstacle)
    return read.obstacle is None


def _log_once(pipeline: Pipeline, text: str, name: str) -> None:
    if text % name not in pipeline.logged:
        pipeline.logged.add(text % name)
        _log.warning(text, name)
