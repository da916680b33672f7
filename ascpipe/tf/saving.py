"""Save: tables and dense variables as they are after one and the same training step, in one checkpoint."""
import logging
import os
import time
from typing import Any, Callable, Dict, List, Optional

from ascpipe.checkpoint.contents import InitialRows, Policies, Position, SlotSpec, TablePosition, TableSpec
from ascpipe.checkpoint.writer import CheckpointWriter
from ascpipe.tf import deltas, table_rows
from ascpipe.tf.graph_state import GraphState
from ascpipe.tf.hold import Hold, TableState, hold
from ascpipe.tf.pipeline import Pipeline
from ascpipe.tf.table import Table
from ascpipe.words import TRAIN

_log = logging.getLogger(__name__)

PROGRESS_S = 10.0  #: between two lines about a save that takes long

DenseSave = Callable[[str], Any]  #: TensorFlow's save of the dense variables to a prefix


def save_checkpoint(state: GraphState, pipeline: Pipeline, directory: str, base: str, step: Optional[int],
                    save_dense: DenseSave, *, dense: bool = True, delta: bool = False, threshold: int = 0) -> str:
    """Save every table that is to be saved, and the dense variables, between two training steps.

    Args:
        state: of a graph whose pipeline runs.
        directory: of the checkpoint; made where it is not there.
        base: name of the checkpoint, to which the step is added.
        step: 0 or more; None: the name gets no suffix.
        save_dense: saves the dense variables; called once, while no step trains.
        dense: False: there are none.
        delta: of the tables only what changed since the save before under this name, where that is possible.
        threshold: of a delta, see ``deltas.changes_since``.

    Returns:
        ``directory/base-step``.

    Raises:
        NotSavedError, CheckpointPathError: as ``CheckpointWriter``; earlier checkpoints are as they were.
        tf.errors.OpError: the pipeline has failed, or TensorFlow could not save its part.
    """
    tip = deltas.parent_of(pipeline.tips, directory, base, step) if delta else None
    with hold(alone=False) as held:
        tables = {table.table_name: held.table(table.shape.number) for table in _saved_tables(state)}
        tip, changes = deltas.changes_since(tip, tables, threshold)
        specs = [_spec(state, pipeline, table, tables[table.table_name], changes[table.table_name])
                 for table in _saved_tables(state)]
        with CheckpointWriter(directory, base, step, _Progress(base), dense=dense) as writer:
            writer.begin_tables(specs, None if tip is None else tip.link)
            for spec in specs:
                at, told = tables[spec.name], changes[spec.name]
                writer.write_table(spec.name, table_rows.blocks(at, _which(told)),
                                   table_rows.candidates(at, _which(told)), pipeline.pools.get(spec.name),
                                   None if told is None else told.deleted)
            if dense:
                save_dense(writer.dense_prefix)
            here = position(state, pipeline, held, tables)
            prefix = writer.commit(here)
            pipeline.tips[deltas.name_of(directory, base)] = deltas.Tip(
                prefix, writer.link, 0 if tip is None else tip.deltas + 1, here, here if tip is None else tip.full,
                deltas.loads_of(tables))
            return prefix


def position(state: GraphState, pipeline: Pipeline, held: Hold, tables: Dict[str, TableState]) -> Position:
    """Where training is now."""
    return Position(
        run_id=pipeline.run_id,
        tables={name: TablePosition(int(at.header["retired"]), int(at.header["cut_applied"]))
                for name, at in tables.items()},
        trained_batches={name: pipeline.trained_before.get(name, 0) + held.trained_batches(number)
                         for name, number in training_streams(state).items()})


def training_streams(state: GraphState) -> Dict[str, int]:
    """Numbers of the training streams by the names that they have in checkpoints."""
    numbers = [stream.number for stream in state.streams() if stream.channel == TRAIN]
    return {"training" if place == 0 else "training_{}".format(place): number for place, number in enumerate(numbers)}


def _saved_tables(state: GraphState) -> List[Table]:
    return [table for table in state.tables.values() if table.is_save]


def _which(told: Optional[deltas.Changes]) -> table_rows.Which:
    return table_rows.trained if told is None else told.among


def _spec(state: GraphState, pipeline: Pipeline, table: Table, at: TableState,
          told: Optional[deltas.Changes]) -> TableSpec:
    shape, header = table.shape, at.header
    rows, candidates = table_rows.count(at, _which(told))
    return TableSpec(
        name=shape.name, dim=shape.dim, key_dtype=table.key_dtype.name,
        slots=tuple(SlotSpec(slot.name, slot.width, slot.initial) for slot in state.slots.get(shape.name, ())),
        rows=rows, candidates=candidates,
        initial=InitialRows(pipeline.seeds[shape.name], shape.kind, shape.a, shape.b, shape.scale,
                            len(pipeline.pools.get(shape.name, ()))),
        policies=Policies(int(header["access_threshold"]), bool(header["counting"]), int(header["faae_coefficient"]),
                          int(header["eviction_threshold"]), int(header["time"])),
        deleted=0 if told is None else len(told.deleted))


class _Progress:
    """Says now and then how far a long save is."""

    def __init__(self, base: str) -> None:
        self._base, self._began = base, time.monotonic()
        self._said = self._began

    def __call__(self, written: int, needed: int) -> None:
        now = time.monotonic()
        if now - self._said >= PROGRESS_S:
            self._said = now
            _log.info("saving %s: %.1f of %.1f GiB, %.0f MiB/s", os.path.basename(self._base), written / 2.0 ** 30,
                      needed / 2.0 ** 30, written / 2.0 ** 20 / (now - self._began))
