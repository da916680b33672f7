"""Restores tables from a checkpoint between two training steps, however far the pipeline has read ahead."""
import contextlib
import functools
import logging
from typing import Any, Callable, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from ascpipe.checkpoint.contents import Policies, Position, SlotSpec, TableSpec
from ascpipe.checkpoint.errors import CheckpointMismatchError
from ascpipe.checkpoint.reader import Checkpoint, open_checkpoint
from ascpipe.tf.checkpoints import table_rows
from ascpipe.tf.checkpoints.instances import Wanted, instance_of
from ascpipe.tf.checkpoints.saving import position, saved_part
from ascpipe.tf.clean_up import end_quietly
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import OptimizerSlot
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.running.hold_between_steps import Hold, TableState, hold
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.process import Process

_log = logging.getLogger(__name__)

Attach = Callable[..., Any]  #: ``GraphState.attach`` of a session

#: TensorFlow's restore of the dense variables from a prefix; None: the checkpoint has none.
DenseRestore = Callable[[Optional[str]], Any]

Columns = List[Tuple[int, int, int]]  #: (column in a saved row, column in a row, width) of what is taken over
Fresh = List[Tuple[int, int, float]]  #: (column in a row, width, value) of what begins anew


class Source(NamedTuple):
    """A table of a checkpoint.

    Attributes:
        prefix: ``dir/base-step`` of the checkpoint.
        name: of the table there.
    """

    prefix: str
    name: str


class _Load(NamedTuple):
    """The load of one table from a checkpoint; the spec has its name there."""

    table: Table
    checkpoint: Checkpoint
    spec: TableSpec
    columns: Columns
    fresh: Fresh

    @property
    def wanted(self) -> Wanted:
        """The table as an instance takes it."""
        return Wanted(self.table.shape.number, self.checkpoint, self.spec)


def restore_checkpoint(state: GraphState, pipeline: Pipeline, prefix: str, restore_dense: DenseRestore,
                       attach: Attach, *, allow_unverified: bool = False,
                       allow_missing: Collection[str] = ()) -> Dict[str, int]:
    """Verify a checkpoint, then replace tables and dense variables by it.

    Batches that were submitted and not yet trained are trained upon what was restored.

    Args:
        state: of a graph whose pipeline runs.
        prefix: ``dir/base-step``.
        restore_dense: called once, while no step trains.
        attach: lets the variables of the session share the memory of the tables, or read an instance of that number;
            called before anything is changed.
        allow_unverified: also a checkpoint without our manifest.
        allow_missing: names of tables that may be missing or empty; they begin empty. ``"table/slot"`` names an
            optimizer slot that may be missing; it begins as for new keys.

    Returns:
        Rows by the name of the table.

    Raises:
        CheckpointError: no such checkpoint, or it is damaged, unverified, or not of such tables; nothing was changed.
        NoRoomForCopyError: the graph only evaluates, and there is too little memory for a copy of the rows; nothing
            was changed.
        tf.errors.OpError: the pipeline has failed, a table has too little room, or TensorFlow could not restore its
            part.
    """
    Process.current().require_one_rank("restoring tables")
    with open_checkpoint(prefix, allow_unverified=allow_unverified) as checkpoint:
        loads = [_checked_load(state, checkpoint, table, _saved_spec(checkpoint, table, allow_missing), allow_missing)
                 for table in state.tables.values() if table.is_save]
        if state.trains:
            attach()
            _replace(state, pipeline, checkpoint, loads, restore_dense)
        else:
            _read(pipeline, checkpoint, loads, restore_dense, attach)
        return {load.spec.name: load.spec.rows for load in loads}


def _replace(state: GraphState, pipeline: Pipeline, checkpoint: Checkpoint, loads: Sequence[_Load],
             restore_dense: DenseRestore) -> None:
    """Let training go on from a checkpoint."""
    with hold(alone=True) as held:
        restore_dense(checkpoint.dense_prefix)
        if _is_live(pipeline, held, checkpoint):
            _log.info("the tables are already as %s has them", checkpoint.prefix)
        else:
            pipeline.loaded = None
            for load in loads:
                _load_table(state, pipeline, held, load)
        saved = checkpoint.position
        if saved is not None:
            pipeline.trained_before.update({
                number: saved.trained_batches.get(name, 0) - held.trained_batches(number)
                for name, number in saved_part(pipeline, state).rings.items()})
            pipeline.loaded = saved, _position(pipeline, held, saved)


def _read(pipeline: Pipeline, checkpoint: Checkpoint, loads: Sequence[_Load], restore_dense: DenseRestore,
          attach: Attach) -> None:
    """Let a session that only evaluates read a checkpoint: the tables where they are as it has them, else a copy."""
    with hold(alone=False) as held:
        if _is_live(pipeline, held, checkpoint):
            _log.info("the tables are as %s has them", checkpoint.prefix)
            attach()
            restore_dense(checkpoint.dense_prefix)
            return
    with instance_of([load.wanted for load in loads]) as instance:
        attach(instance)
        restore_dense(checkpoint.dense_prefix)
    _log.info("the session reads copies of the tables of %s: %d rows", checkpoint.prefix,
              sum(load.spec.rows for load in loads))


def load_tables(state: GraphState, pipeline: Pipeline, sources: Mapping[str, Source], attach: Attach, *,
                allow_unverified: bool = False) -> Dict[str, int]:
    """Verify checkpoints, then let tables begin another training as they are there, under any name.

    Keys, rows, counts and timestamps are taken over, and the optimizer slots that the program has; those that are not
    there begin as for new keys. Thresholds and initial rows stay the program's; a key with a row is admitted. A session
    of a graph that only evaluates reads a copy of its own, and the tables stay as they are.

    Args:
        state, pipeline, attach, allow_unverified: as those of ``restore_checkpoint``.
        sources: by the name of the table in this program.

    Returns:
        Rows by the name of the table.

    Raises:
        CheckpointError, tf.errors.OpError: as ``restore_checkpoint``.
    """
    Process.current().require_one_rank("restoring tables")
    pipeline.background.settle()
    with contextlib.ExitStack() as opened:
        checkpoints = {prefix: opened.enter_context(open_checkpoint(prefix, allow_unverified=allow_unverified))
                       for prefix in sorted({source.prefix for source in sources.values()})}
        loads = {name: _beginning(state, checkpoints[source.prefix], state.tables[name], source.name)
                 for name, source in sources.items()}
        if state.trains:
            attach()
            with hold(alone=True) as held:
                for load in loads.values():
                    _load_table(state, pipeline, held, load)
        else:
            with instance_of([load.wanted for load in loads.values()]) as instance:
                attach(instance)
    return {name: load.spec.rows for name, load in loads.items()}


def _beginning(state: GraphState, checkpoint: Checkpoint, table: Table, saved_name: str) -> _Load:
    """Describe how a table begins another training. Raises ``CheckpointMismatchError`` where it cannot."""
    missing = _missing(checkpoint, saved_name)
    if missing is not None:
        raise CheckpointMismatchError(
            checkpoint.prefix, saved_name, "{}; the checkpoint has {}. Name in vars_to_warm_start what it has, and in "
            "var_name_to_prev_var_name what has another name there".format(
                missing, ", ".join(sorted(checkpoint.tables)) or "no table"))
    spec = checkpoint.tables[saved_name]
    anew = ["{}/{}".format(saved_name, slot.name) for slot in state.slots.get(table.table_name, ())]
    load = _checked_load(state, checkpoint, table, spec, anew)
    policies = spec.policies and Policies(-1, counting=False, faae_coefficient=1, eviction_threshold=-1,
                                          time=spec.policies.time)
    return load._replace(spec=spec._replace(initial=None, policies=policies))


def _saved_spec(checkpoint: Checkpoint, table: Table, allow_missing: Collection[str]) -> TableSpec:
    """Spec of the table of the same name; of an empty one where that is allowed."""
    name = table.table_name
    missing = _missing(checkpoint, name)
    if missing is not None and name not in allow_missing:
        raise CheckpointMismatchError(checkpoint.prefix, name, "{}; if it shall begin empty, name it in allow_missing"
                                      .format(missing))
    empty = TableSpec(name, table.emb_size, table.key_dtype.name, (), 0, 0, None, None)
    return checkpoint.tables.get(name, empty)


def _missing(checkpoint: Checkpoint, name: str) -> Optional[str]:
    """What is missing of a table; None: nothing."""
    spec = checkpoint.tables.get(name)
    if spec is None:
        return "is not in it"
    return "has no key in it" if spec.rows + spec.candidates == 0 and not _began_empty(checkpoint) else None


def _checked_load(state: GraphState, checkpoint: Checkpoint, table: Table, spec: TableSpec,
                  allow_missing: Collection[str]) -> _Load:
    """Describe how a table is loaded. Raises ``CheckpointMismatchError`` where it cannot be."""
    if spec.dim != table.emb_size:
        raise CheckpointMismatchError(checkpoint.prefix, spec.name, "has rows of {} floats there and of {} in this "
                                      "program".format(spec.dim, table.emb_size))
    saved = _places(spec.dim, spec.slots)
    columns: Columns = [(0, 0, spec.dim)]
    fresh: Fresh = []
    slots = state.slots.get(table.table_name, ())
    for slot, (column, width) in zip(slots, _places(spec.dim, slots).values()):
        if slot.name in saved:
            found, saved_width = saved[slot.name]
            if saved_width != width:
                raise CheckpointMismatchError(
                    checkpoint.prefix, spec.name, "has {} floats of the optimizer slot {} there and {} in this program"
                    .format(saved_width, slot.name, width))
            columns.append((found, column, width))
            continue
        if spec.rows and "{}/{}".format(spec.name, slot.name) not in allow_missing:
            raise CheckpointMismatchError(
                checkpoint.prefix, spec.name, "has the optimizer slots {} there, not {}; if it shall begin anew, name "
                "'{}/{}' in allow_missing".format(", ".join(saved) or "(none)", slot.name, spec.name, slot.name))
        fresh.append((column, width, slot.initial))
    return _Load(table, checkpoint, spec, columns, fresh)


def _places(dim: int, slots: Sequence[Union[SlotSpec, OptimizerSlot]]) -> Dict[str, Tuple[int, int]]:
    """(column, width) of each optimizer slot in a row."""
    places = {}
    for slot in slots:
        places[slot.name] = (dim, slot.width)
        dim += slot.width
    return places


def _load_table(state: GraphState, pipeline: Pipeline, held: Hold, load: _Load) -> None:
    spec, number, name = load.spec, load.table.shape.number, load.table.table_name
    if spec.rows + spec.candidates == 0 and not any(name in stream.table_names() for stream in state.streams()):
        return  # in no stream: no worker has the table, and it has no rows
    held.begin_load(number, spec.rows + spec.candidates, spec.rows)
    at = held.table(number)
    try:
        written = _fill(held, at, load)
    except BaseException:
        end_quietly(functools.partial(held.give_up_load, number), "table {!r}".format(name))
        _log.error("table %r could not be read from %s and is empty now; restore a checkpoint before training goes on",
                   name, load.checkpoint.prefix)
        raise
    threshold, counting, now = _policies(at, spec)
    held.end_load(number, written, now, threshold, counting=counting)
    if spec.initial is not None:
        held.set_seed(number, spec.initial.seed)
        pipeline.seeds[name] = spec.initial.seed
        pool = load.checkpoint.pool(spec.name)
        if pool is not None and load.table.shape.pool is not None:
            pool = np.ascontiguousarray(pool)
            held.set_pool(number, pool)
            pipeline.pools[name] = pool


def _fill(held: Hold, at: TableState, load: _Load) -> int:
    """Write entries, then rows; returns how many keys."""
    if load.spec.name not in load.checkpoint.tables:
        return 0
    written = _fill_entries(held, at, load)
    held.end_entries(load.table.shape.number)
    _fill_rows(at, load)
    return written


def _fill_entries(held: Hold, at: TableState, load: _Load) -> int:
    name, number, policies, start = load.spec.name, load.table.shape.number, load.spec.policies, 0
    has_admission = policies is not None and policies.access_threshold >= 0
    admitting = 0 if has_admission else max(0, int(at.header["access_threshold"]))
    saved = load.checkpoint
    for with_rows, blocks in ((True, saved.keys_with_rows(name)), (False, saved.candidates(name))):
        for keys in blocks:
            if with_rows and admitting:  # how often it occurred is unknown, or said for another threshold
                keys = keys._replace(counts=keys.counts.clip(min=admitting))
            held.write_entries(number, start, keys, with_rows=with_rows)
            start += len(keys.keys)
    return start


def _fill_rows(at: TableState, load: _Load) -> None:
    widths, start = [load.spec.dim, *(slot.width for slot in load.spec.slots)], 0

    def targets(first: int, n: int) -> Sequence[Optional[np.ndarray]]:
        return table_rows.row_targets(at, load.columns, first, n, widths)

    for parts in load.checkpoint.row_parts(load.spec.name, targets):
        table_rows.write_rows(at, start, parts, load.columns, load.fresh)
        start += len(parts[0])


def _policies(at: TableState, spec: TableSpec) -> Tuple[int, bool, int]:
    """(access threshold, counting, time): those of the checkpoint where both it and the program have admission."""
    threshold, counting = int(at.header["access_threshold"]), bool(at.header["counting"])
    saved = spec.policies
    if saved is None:
        return threshold, counting, 0
    if threshold >= 0 and saved.access_threshold >= 0:
        threshold, counting = saved.access_threshold, saved.counting
    return threshold, counting, saved.time


def _is_live(pipeline: Pipeline, held: Hold, checkpoint: Checkpoint) -> bool:
    """Whether nothing happened to the tables since they were saved there, or loaded from there."""
    saved = checkpoint.position
    if saved is None:
        return False
    if pipeline.loaded is not None and pipeline.loaded[0] == saved:
        saved = pipeline.loaded[1]
    return saved.run_id == pipeline.run_id and _position(pipeline, held, saved).tables == saved.tables


def _position(pipeline: Pipeline, held: Hold, saved: Position) -> Position:
    """The position of training now, of the tables of a saved position."""
    return position(pipeline, held, {name: held.table(pipeline.tables[name].shape.number)
                                     for name in saved.tables if name in pipeline.tables}, {})


def _began_empty(checkpoint: Checkpoint) -> bool:
    """Whether a checkpoint was saved before the first step: it has no keys in any table."""
    return checkpoint.step == 0 and not any(spec.rows + spec.candidates for spec in checkpoint.tables.values())
