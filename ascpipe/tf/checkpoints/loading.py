"""Functions that load tables from checkpoints during a hold. Each rank loads the keys that it owns."""
import contextlib
import functools
import logging
from typing import Any, Collection, ContextManager, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from ascpipe.checkpoint.contents import Policies, Position, SlotSpec, TableSpec
from ascpipe.checkpoint.errors import CheckpointError, CheckpointMismatchError
from ascpipe.checkpoint.reader import Checkpoint
from ascpipe.rows.file_table import FileTable
from ascpipe.rows.tensorflow_names import equal_slot
from ascpipe.tf.checkpoints import table_rows
from ascpipe.tf.checkpoints.missing_parts import Advice, advise_allow_missing, advise_import
from ascpipe.tf.checkpoints.positions import continue_reading, position
from ascpipe.tf.checkpoints.table_copy import EditedTable
from ascpipe.tf.clean_up import end_quietly
from ascpipe.tf.graph.optimizer_slots import GRADIENT_COUNT, GRADIENT_SUM, OptimizerSlot
from ascpipe.tf.running.asking import Asked, RefusedError, asked
from ascpipe.tf.running.hold_between_steps import Hold, TableState
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.shapes import TableShape

_log = logging.getLogger(__name__)

LOAD = "load"  #: name of the request to the other ranks

Slots = Sequence[Union[SlotSpec, OptimizerSlot]]
Columns = List[Tuple[int, int, int]]  #: (column in a saved row, column in a row, width) of each copied part
Fresh = List[Tuple[int, int, float]]  #: (column in a row, width, value) of each initialized part


class Load(NamedTuple):
    """Request to load one table from a checkpoint, from files with rows, or from an edited copy of the table.

    ``spec`` contains the table's name in the checkpoint.
    """

    shape: TableShape
    slots: Slots
    checkpoint: Union[Checkpoint, FileTable, EditedTable]
    spec: TableSpec
    columns: Columns
    fresh: Fresh

    def counts(self, pipeline: Pipeline) -> Tuple[int, int]:
        """Return the number of this rank's keys that have a row, and the number of keys that are counted but have no
        row.
        """
        if self.spec.name not in self.checkpoint.tables:
            return 0, 0
        return self.checkpoint.rows_of(self.spec.name, pipeline.rank, pipeline.ranks)


def restored(checkpoint: Checkpoint, shape: TableShape, slots: Slots, key_dtype: str,
             allow_missing: Collection[str], advice: Advice = advise_allow_missing,
             saved_name: Optional[str] = None) -> Load:
    """Return the ``Load`` that restores a table from a saved table.

    The load is empty if the saved table is missing and ``allow_missing`` contains its name.

    Args:
        slots: optimizer slots of the table in this program.
        allow_missing: names of tables, and names ``"table/slot"`` of optimizer slots, that may be missing or empty.
        advice: function that returns the advice for the error about any other missing table or ``table/slot``.
        saved_name: name of the table in the checkpoint, or None if it has the same name.

    Raises:
        CheckpointMismatchError: the checkpoint does not contain the table, or the saved rows have another length or
            other optimizer slots.
    """
    name = saved_name or shape.name
    reason = _missing(checkpoint, name)
    if reason is not None and name not in allow_missing:
        raise CheckpointMismatchError(checkpoint.prefix, name, "{}; {}".format(reason, advice(name)))
    empty = TableSpec(name, shape.dim, key_dtype, (), 0, 0, None, None)
    return _checked(checkpoint, shape, slots, checkpoint.tables.get(name, empty), allow_missing, advice)


def begun(checkpoint: Union[Checkpoint, FileTable], shape: TableShape, slots: Slots, saved_name: str, *,
          with_slots: bool) -> Load:
    """Return the ``Load`` that warm-starts a table from a saved table or files. The function raises the same errors as
    ``restored``.

    Args:
        with_slots: True to load the saved optimizer slots. Otherwise, optimizer slots get initial values. Sums of
            gradients always get initial values, because a new training begins a new cycle.
    """
    reason = _missing(checkpoint, saved_name)
    if reason is not None:
        raise CheckpointMismatchError(
            checkpoint.prefix, saved_name, "{}; it has {}. List only its tables in vars_to_warm_start, and map names "
            "that differ in var_name_to_prev_var_name".format(
                reason, ", ".join(sorted(checkpoint.tables)) or "no table"))
    spec = checkpoint.tables[saved_name]
    load = _checked(checkpoint, shape, slots, spec, ["{}/{}".format(saved_name, slot.name) for slot in slots])
    anew = {column: (column, width, slot.initial or 0.0)
            for slot, (column, width) in zip(slots, _places(spec.dim, slots).values())
            if not with_slots or slot.name.endswith((GRADIENT_SUM, GRADIENT_COUNT))}
    load = load._replace(columns=[each for each in load.columns if each[1] not in anew],
                         fresh=[*anew.values(), *(each for each in load.fresh if each[0] not in anew)])
    policies = spec.policies and Policies(-1, counting=False, faae_coefficient=1, eviction_threshold=-1,
                                          time=spec.policies.time)
    return load._replace(spec=spec._replace(initial=None, policies=policies))


def load_tables(pipeline: Pipeline, held: Hold, loads: Iterable[Load]) -> None:
    """Replace the contents of tables during an exclusive hold.

    Raises:
        DamagedCheckpointError: a checkpoint has changed since it was verified. The table is empty afterwards.
        tf.errors.OpError: a table has too little space.
    """
    for load in loads:
        _load(pipeline, held, load)


def other_ranks(pipeline: Pipeline, what: Dict[str, Any]) -> ContextManager[Optional[Asked]]:
    """Request that the other ranks load their shards of tables. The context manager yields None if there is only one
    rank.

    Args:
        what: the request. ``sources`` maps the name of a table to (path, saved name).
    """
    if pipeline.ranks == 1:
        return contextlib.nullcontext()
    return asked({"what": LOAD, **what}, changes=True, limit_s=pipeline.wait_timeout_s,
                 about="the load of {}".format(", ".join(sorted({path for path, _ in what["sources"].values()}))))


def require_loaded(others: Optional[Asked], path: str) -> None:
    """Wait until all other ranks have loaded their shards. Raise ``CheckpointError`` if the load has failed on a rank.
    """
    if others is None:
        return
    try:
        others.answers()
    except RefusedError as error:
        raise CheckpointError("{} was loaded on rank 0 but not on {}. The ranks now have different tables, and none "
                              "continues training. Restart all ranks".format(path, error)) from error


def note_loaded(pipeline: Pipeline, held: Hold, checkpoint: Checkpoint, rings: Dict[str, int]) -> None:
    """Record that training continues from a checkpoint whose contents have been loaded into the tables.

    Args:
        rings: numbers of the rings of training streams, by stream name.
    """
    saved = position_in(pipeline, checkpoint)
    if saved is not None:
        for name, number in rings.items():
            pipeline.native_side.set_trained_batches(number, saved.trained_batches.get(name, 0))
        continue_reading(pipeline, checkpoint.prefix, saved, rings)
        _warn_of_other_ranks(pipeline, checkpoint, saved, rings)
        pipeline.loaded = saved, position_now(pipeline, held, saved)


def _warn_of_other_ranks(pipeline: Pipeline, checkpoint: Checkpoint, saved: Position, rings: Dict[str, int]) -> None:
    """If another number of ranks saved the checkpoint, log a warning that ``trained_batches`` counts batches per rank.

    The number of batches that the program skips is not known. Datasets with a reading position do not need to skip
    batches.
    """
    ranks = len(checkpoint.positions)
    counts = {name: saved.trained_batches.get(name, 0) for name in rings if name not in saved.reads}
    if ranks == pipeline.ranks or pipeline.rank != 0 or not any(counts.values()):
        return
    _log.warning("%s was saved by %d ranks, and this program has %d. Its numbers of trained batches (%s) count the "
                 "batches of one rank. A dataset that skips them must skip n * %d // %d batches, otherwise it repeats "
                 "or omits records (docs/how-to/saving.md, \"Another number of ranks\")", checkpoint.prefix, ranks,
                 pipeline.ranks, ", ".join("{}: {}".format(*item) for item in counts.items()), ranks, pipeline.ranks)


def position_in(pipeline: Pipeline, checkpoint: Checkpoint) -> Optional[Position]:
    """Return the training position of this rank in a checkpoint, or None if the checkpoint has no position.

    If the checkpoint was saved by another number of ranks, return ``checkpoint.position``.
    """
    if len(checkpoint.positions) == pipeline.ranks:
        return checkpoint.positions[pipeline.rank]
    return checkpoint.position


def position_now(pipeline: Pipeline, held: Hold, saved: Position) -> Position:
    """Return the current training position of the tables that ``saved`` contains."""
    return position(pipeline, held, {name: held.table(pipeline.tables[name].shape.number)
                                     for name in saved.tables if name in pipeline.tables}, {})


def _missing(checkpoint: Union[Checkpoint, FileTable], name: str) -> Optional[str]:
    """Return the reason why a table cannot be loaded from a checkpoint, or None if there is no obstacle.

    The manifest shows whether a table was saved empty. Without a manifest, an empty table is treated as missing.
    """
    spec = checkpoint.tables.get(name)
    if spec is None:
        return "is not in the checkpoint"
    return "has no keys in the checkpoint" if spec.rows + spec.candidates == 0 and not checkpoint.verified else None


def _checked(checkpoint: Union[Checkpoint, FileTable], shape: TableShape, slots: Slots, spec: TableSpec,
             allow_missing: Collection[str], advice: Advice = advise_allow_missing) -> Load:
    if spec.dim != shape.dim:
        raise CheckpointMismatchError(checkpoint.prefix, spec.name, "has rows of {} floats in the checkpoint and of {} "
                                      "in this program. {}".format(spec.dim, shape.dim, advise_import(
                                          checkpoint.prefix, spec, shape, {slot.name for slot in slots})))
    saved = _places(spec.dim, spec.slots)
    columns: Columns = [(0, 0, spec.dim)]
    fresh: Fresh = []
    for slot, (column, width) in zip(slots, _places(spec.dim, slots).values()):
        saved_name = slot.name if slot.name in saved else equal_slot(slot.name) or slot.name
        if saved_name in saved:
            found, saved_width = saved[saved_name]
            if saved_width != width:
                raise CheckpointMismatchError(
                    checkpoint.prefix, spec.name, "has {} floats of the optimizer slot {} in the checkpoint and {} in "
                    "this program".format(saved_width, slot.name, width))
            columns.append((found, column, width))
            continue
        if spec.rows and "{}/{}".format(spec.name, slot.name) not in allow_missing:
            raise CheckpointMismatchError(
                checkpoint.prefix, spec.name, "has the optimizer slots {} in the checkpoint, not {}; {}".format(
                    ", ".join(saved) or "(none)", slot.name, advice("{}/{}".format(spec.name, slot.name))))
        fresh.append((column, width, slot.initial or 0.0))
    return Load(shape, slots, checkpoint, spec, columns, fresh)


def _places(dim: int, slots: Slots) -> Dict[str, Tuple[int, int]]:
    """Return a dict: name of an optimizer slot -> (first column, number of columns) in a row."""
    places = {}
    for slot in slots:
        places[slot.name] = (dim, slot.width)
        dim += slot.width
    return places


def _load(pipeline: Pipeline, held: Hold, load: Load) -> None:
    spec = load.spec
    number = load.shape.number
    name = load.shape.name
    rows, candidates = load.counts(pipeline)
    if rows + candidates == 0 and not any(number in stream.tables for stream in pipeline.streams):
        return  # the table is in no stream, so it has neither a worker nor rows
    held.begin_load(number, rows + candidates, rows)
    at = held.table(number)
    try:
        written = _fill(pipeline, held, at, load)
    except BaseException:
        end_quietly(functools.partial(held.abort_load, number), "table {!r}".format(name))
        _log.error("table %r could not be read from %s and is now empty. Restore a checkpoint before you continue "
                   "training", name, load.checkpoint.prefix)
        raise
    threshold, counting, now = _policies(at, spec)
    held.end_load(number, written, now, threshold, counting=counting)
    if spec.initial is not None:
        held.set_seed(number, spec.initial.seed)
        pipeline.seeds[name] = spec.initial.seed
        pool = load.checkpoint.pool(spec.name)
        if pool is not None and load.shape.pool is not None:
            pool = np.ascontiguousarray(pool)
            held.set_pool(number, pool)
            pipeline.pools[name] = pool


def _fill(pipeline: Pipeline, held: Hold, at: TableState, load: Load) -> int:
    """Write the entries and then the rows of a table. Return the number of keys."""
    if load.spec.name not in load.checkpoint.tables:
        return 0
    written = _fill_entries(pipeline, held, at, load)
    held.end_entries(load.shape.number)
    with_sums = _fill_rows(pipeline, at, load)
    if with_sums is not None:
        pipeline.native_side.set_unapplied_keys(load.shape.number, at.entries["key"][with_sums])
    return written


def _fill_entries(pipeline: Pipeline, held: Hold, at: TableState, load: Load) -> int:
    name = load.spec.name
    policies = load.spec.policies
    start = 0
    has_admission = policies is not None and policies.access_threshold >= 0
    admitting = 0 if has_admission else max(0, int(at.header["access_threshold"]))
    saved = load.checkpoint
    share = (pipeline.rank, pipeline.ranks)
    for with_rows, blocks in ((True, saved.keys_with_rows(name, *share)), (False, saved.candidates(name, *share))):
        for keys in blocks:
            if with_rows and admitting:  # the counts are unknown, or were counted with another threshold
                keys = keys._replace(counts=keys.counts.clip(min=admitting))
            held.write_entries(load.shape.number, start, keys, with_rows=with_rows)
            start += len(keys.keys)
    return start


def _fill_rows(pipeline: Pipeline, at: TableState, load: Load) -> Optional[np.ndarray]:
    """Write rows.

    Return the indices of rows with unapplied gradient sums. Return None if no sums are loaded, or if no graph trains
    the table.
    """
    widths = [load.spec.dim, *(slot.width for slot in load.spec.slots)]
    start = 0
    begins = [column for column, _ in _places(load.spec.dim, load.spec.slots).values()]
    taken = {column for column, _, _ in load.columns}
    counts = [1 + place for place, slot in enumerate(load.spec.slots)
              if slot.name.endswith(GRADIENT_COUNT) and begins[place] in taken]
    with_sums = [np.zeros(0, np.int64)]

    def targets(first: int, n: int) -> Sequence[Optional[np.ndarray]]:
        return table_rows.row_targets(at, load.columns, first, n, widths)

    for parts in load.checkpoint.row_parts(load.spec.name, targets, pipeline.rank, pipeline.ranks):
        with_sums.extend(start + np.flatnonzero(parts[place]) for place in counts)
        table_rows.write_rows(at, start, parts, load.columns, load.fresh)
        start += len(parts[0])
    return np.concatenate(with_sums) if counts and load.shape.number in pipeline.trained_tables() else None


def _policies(at: TableState, spec: TableSpec) -> Tuple[int, bool, int]:
    """Return the access threshold of a loaded table, whether occurrences are counted, and the greatest timestamp.

    The threshold and ``counting`` are the saved values if the checkpoint and the program use admission. Otherwise, they
    are the values of the program.
    """
    threshold = int(at.header["access_threshold"])
    counting = bool(at.header["counting"])
    saved = spec.policies
    if saved is None:
        return threshold, counting, 0
    if threshold >= 0 and saved.access_threshold >= 0:
        threshold = saved.access_threshold
        counting = saved.counting
    return threshold, counting, saved.time
