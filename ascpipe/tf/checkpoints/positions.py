"""Functions that store training positions in checkpoints, and that start datasets at these positions."""
import logging
import os
from typing import Dict, List, Optional, Tuple

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
    """Return a dict: name of a training stream -> position of the dataset that feeds the stream.

    The result omits streams whose dataset does not read files, and streams that have not trained a batch yet. If the
    position of a dataset is unknown, the reason is logged once. If an iterator was initialized from several datasets,
    the result contains the position of the dataset that was trained last. This case is logged once, too.

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
        if len({read.source for read in reads}) > 1:
            _log_once(pipeline, "The checkpoint has the reading position of one dataset of stream %r, the dataset that "
                      "was trained last, but the iterator reads several datasets of asc.data.read. In a restored "
                      "program, the others begin with the first record of their first pass. Pass all files to one "
                      "asc.data.read, or restore at the end of an epoch", name)
        read = sources.get(position[0])
        if read is not None:
            found[name] = ReadPosition(read.data, *position[1:])
    return found


def start_reading(pipeline: Pipeline, prefix: str, saved: Position, rings: Dict[str, int]) -> None:
    """Start the datasets of training streams at the position of a checkpoint that this rank restores.

    A dataset with other data, or with a stage after which the position has no meaning, starts at the first record.
    Ranks other than 0 call this function when their program restores the checkpoint, because the program may read the
    first batch before rank 0 has requested to load the tables. The later load does not start the datasets again.

    Args:
        prefix: path of the checkpoint.
        saved: position of the checkpoint.
        rings: numbers of the rings of training streams, by stream name.
    """
    for _, source, start in _starts(pipeline, saved, rings):
        pipeline.native_side.read_from(source, start)
    _meet(pipeline, "load", "restore", prefix)


def continue_reading(pipeline: Pipeline, prefix: str, saved: Position, rings: Dict[str, int]) -> None:
    """Record that tables were loaded from a checkpoint.

    Start the datasets that were not started yet. A save before the next trained batch records the position of this
    checkpoint.
    """
    has_started = pipeline.rank != 0 and _meet(pipeline, "restore", "load", prefix)
    for ring, source, start in sorted(_starts(pipeline, saved, rings), key=lambda each: bool(each[2].data)):
        if not has_started:
            pipeline.native_side.read_from(source, start)
        pipeline.native_side.set_trained_position(ring, source, start)  # the last start of a ring is valid


def _starts(pipeline: Pipeline, saved: Position, rings: Dict[str, int]) -> List[Tuple[int, int, ReadPosition]]:
    """Return the ring number, source number and start position of each dataset."""
    return [(ring, read.source, _start(pipeline, read, saved.reads.get(name)))
            for name, ring in rings.items() for read in pipeline.reads.get(ring, ())]


def _meet(pipeline: Pipeline, awaited: str, mine: str, prefix: str) -> bool:
    """Return whether the event ``awaited`` was recorded for a checkpoint, and delete this record. If there is no such
    record, record the event ``mine``.
    """
    place = os.path.abspath(prefix)
    if (awaited, place) in pipeline.restores:
        pipeline.restores.discard((awaited, place))
        return True
    pipeline.restores.add((mine, place))
    return False


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
