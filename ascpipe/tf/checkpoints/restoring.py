"""Functions that restore tables from a checkpoint between two training steps."""
import contextlib
import logging
import os
from typing import Any, Callable, Collection, Dict, Mapping, NamedTuple, Optional, Sequence

from ascpipe.checkpoint.reader import Checkpoint, open_checkpoint
from ascpipe.tf.checkpoints import dropped_tables, loading, pending_loads, pretrained
from ascpipe.tf.checkpoints.instances import Wanted, instance_of
from ascpipe.tf.checkpoints.loading import Load
from ascpipe.tf.checkpoints.missing_parts import Advice, advise_allow_missing
from ascpipe.tf.checkpoints.positions import start_reading
from ascpipe.tf.checkpoints.saving import saved_part
from ascpipe.tf.graph import row_resets
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.asking import working
from ascpipe.tf.running.hold_between_steps import Hold, hold
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.process import Process

_log = logging.getLogger(__name__)

Attach = Callable[..., Any]  #: ``GraphState.attach`` of a session

#: TensorFlow's restore of the dense variables from a prefix. The prefix is None if the checkpoint has no dense
#: variables.
DenseRestore = Callable[[Optional[str]], Any]


class Source(NamedTuple):
    """Saved table that is the source of a warm start.

    Attributes:
        prefix: ``dir/base-step`` of the checkpoint.
        name: name of the table in the checkpoint.
        with_slots: True to load the optimizer slots of the table.
    """

    prefix: str
    name: str
    with_slots: bool = True


class Differences(NamedTuple):
    """Allowed differences between a restored checkpoint and the tables of a program.

    Attributes:
        allow_unverified: True to accept a checkpoint without a manifest of ascpipe.
        allow_missing: names of tables that may be missing or empty in the checkpoint. A missing table is empty after
            the restore. A name ``"table/slot"`` allows a missing optimizer slot, which gets initial values.
        advice: function that returns the advice for the error about any other missing table or ``table/slot``.
        names: name of a table in this program -> its name in the checkpoint, for tables with another name.
    """

    allow_unverified: bool = False
    allow_missing: Collection[str] = ()
    advice: Advice = advise_allow_missing
    names: Mapping[str, str] = {}


def restore_checkpoint(state: GraphState, prefix: str, restore_dense: DenseRestore, attach: Attach,
                       allowed: Differences = Differences()) -> Dict[str, int]:  # noqa: B008  (immutable)
    """Verify a checkpoint, and replace tables and dense variables with the contents of the checkpoint.

    Batches that were read ahead remain queued and are trained after the restore. If rank 0 restores, all ranks load
    their shards of the tables. If another rank restores, only its dense variables are replaced.

    Args:
        state: state of a graph whose pipeline runs.
        prefix: ``dir/base-step``.
        restore_dense: function that restores the dense variables. It is called once, while no step trains.
        attach: function that attaches the session's variables to the live tables, or to the instance with a given
            number. It is called before variables and tables are changed.
        allowed: differences between the checkpoint and the program that are not errors.

    Returns:
        Table name -> number of rows.

    Raises:
        CheckpointError: the checkpoint is missing, damaged or unverified, or contains other tables. Nothing was
            changed.
        NoRoomForCopyError: there is too little memory for a copy in a graph that only evaluates. Nothing was changed.
        tf.errors.OpError: the pipeline has failed, a table has too little space, or TensorFlow's restore failed.
    """
    pipeline = Process.current().running_pipeline()
    with open_checkpoint(prefix, allow_unverified=allowed.allow_unverified) as checkpoint:
        loads = [loading.restored(checkpoint, table.shape, state.slots.get(name, ()), table.key_dtype.name,
                                  allowed.allow_missing, allowed.advice, allowed.names.get(name))
                 for name, table in state.tables.items() if table.is_save]
        unused = sorted(set(checkpoint.tables) - {load.spec.name for load in loads})
        if not state.trains:
            _read(pipeline, checkpoint, loads, restore_dense, attach)
        elif pipeline.rank != 0:
            attach()
            with hold(alone=False):
                restore_dense(checkpoint.dense_prefix)
            saved = loading.position_in(pipeline, checkpoint)
            if saved is not None:
                start_reading(pipeline, prefix, saved, saved_part(pipeline, state).rings)
        else:
            attach()
            what = {"sources": {load.shape.name: (os.path.abspath(prefix), load.spec.name) for load in loads},
                    "allow_unverified": allowed.allow_unverified, "allow_missing": sorted(allowed.allow_missing),
                    "begins": False, "rings": saved_part(pipeline, state).rings}
            _replace(pipeline, checkpoint, loads, restore_dense, what)
        if state.trains:
            dropped_tables.note(pipeline, checkpoint.prefix, unused)
            names = {load.shape.name: load.spec.name for load in loads}
            pretrained.complete(state, pipeline, checkpoint, names, attach)
        pending_loads.settle(state)
        row_resets.note_restore(state)
        return {load.spec.name: load.spec.rows for load in loads}


def _replace(pipeline: Pipeline, checkpoint: Checkpoint, loads: Sequence[Load], restore_dense: DenseRestore,
             what: Dict[str, Any]) -> None:
    with hold(alone=True) as held:
        restore_dense(checkpoint.dense_prefix)
        if _is_live(pipeline, held, checkpoint, loads):
            _log.info("the tables already have the contents of %s", checkpoint.prefix)
        else:
            pipeline.loaded = None
            with loading.other_ranks(pipeline, what) as others, working(pipeline.ranks):
                loading.load_tables(pipeline, held, loads)
                loading.require_loaded(others, checkpoint.prefix)
        loading.note_loaded(pipeline, held, checkpoint, what["rings"])
        if _are_renamed(loads):  # the tables do not have the same names as in the checkpoint
            pipeline.loaded = None
            pipeline.begin_history()


def _read(pipeline: Pipeline, checkpoint: Checkpoint, loads: Sequence[Load], restore_dense: DenseRestore,
          attach: Attach) -> None:
    """Restore a checkpoint in a session that only evaluates.

    The session reads the live tables if their contents are equal to the checkpoint. Otherwise, the session reads a
    copy.
    """
    with hold(alone=False) as held:
        if _is_live(pipeline, held, checkpoint, loads):
            _log.info("the tables have the contents of %s", checkpoint.prefix)
            attach()
            restore_dense(checkpoint.dense_prefix)
            return
    with instance_of([_wanted(pipeline, checkpoint, load) for load in loads]) as instance:
        attach(instance)
        restore_dense(checkpoint.dense_prefix)
    _log.info("the session reads copies of the tables of %s: %d rows", checkpoint.prefix,
              sum(load.spec.rows for load in loads))


def load_tables(state: GraphState, pipeline: Pipeline, sources: Mapping[str, Source], attach: Attach, *,
                allow_unverified: bool = False) -> Dict[str, int]:
    """Verify checkpoints, and warm-start tables from these checkpoints.

    Keys, rows, counts, timestamps and saved optimizer slots are loaded. Slots that were not saved get initial values.
    The program's thresholds and initializers stay in effect. A key with a row is admitted, even if its count is below
    the threshold. If the graph only evaluates, its session reads a copy, and the live tables do not change.

    Args:
        state, pipeline, attach: the same as in ``restore_checkpoint``.
        allow_unverified: True to accept checkpoints without a manifest of ascpipe.
        sources: sources by name of the table in this program.

    Returns:
        Table name -> number of rows.

    Raises:
        CheckpointError, tf.errors.OpError: the same errors as in ``restore_checkpoint``.
    """
    pipeline.background.settle()
    with contextlib.ExitStack() as opened:
        checkpoints = {prefix: opened.enter_context(open_checkpoint(prefix, allow_unverified=allow_unverified))
                       for prefix in sorted({source.prefix for source in sources.values()})}
        loads = {name: loading.begun(checkpoints[source.prefix], state.tables[name].shape, state.slots.get(name, ()),
                                     source.name, with_slots=source.with_slots)
                 for name, source in sources.items()}
        if not state.trains:
            with instance_of([_wanted(pipeline, checkpoints[source.prefix], loads[name])
                              for name, source in sources.items()]) as instance:
                attach(instance)
        elif pipeline.rank != 0:
            attach()
        else:
            attach()
            what = {"sources": {name: (os.path.abspath(source.prefix), source.name)
                                for name, source in sources.items()},
                    "with_slots": sorted(name for name, source in sources.items() if source.with_slots),
                    "allow_unverified": allow_unverified, "allow_missing": [], "begins": True, "rings": {}}
            with hold(alone=True) as held, loading.other_ranks(pipeline, what) as others, working(pipeline.ranks):
                loading.load_tables(pipeline, held, list(loads.values()))
                loading.require_loaded(others, ", ".join(checkpoints))
                pipeline.begin_history()
    pending_loads.settle(state)
    return {name: load.spec.rows for name, load in loads.items()}


def _wanted(pipeline: Pipeline, checkpoint: Checkpoint, load: Load) -> Wanted:
    return Wanted(load.shape.number, checkpoint, load.spec._replace(rows=load.counts(pipeline)[0]), pipeline.rank,
                  pipeline.ranks)


def _are_renamed(loads: Sequence[Load]) -> bool:
    return any(load.spec.name != load.shape.name for load in loads)


def _is_live(pipeline: Pipeline, held: Hold, checkpoint: Checkpoint, loads: Sequence[Load]) -> bool:
    """Return True if no table has changed since the checkpoint was saved or loaded."""
    saved = loading.position_in(pipeline, checkpoint)
    if saved is None or _are_renamed(loads):
        return False
    if pipeline.loaded is not None and pipeline.loaded[0] == saved:
        saved = pipeline.loaded[1]
    return saved.run_id == pipeline.run_id and loading.position_now(pipeline, held, saved).tables == saved.tables
