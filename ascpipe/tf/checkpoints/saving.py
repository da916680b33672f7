"""Functions that save tables and dense variables in one checkpoint, in their state after the same training step."""
import contextlib
import logging
import os
from typing import Any, Callable, ContextManager, Dict, List, NamedTuple, Optional, Sequence, Union

from ascpipe.checkpoint.contents import InitialRows, Policies, Position, TableSpec
from ascpipe.checkpoint.errors import NotSavedError
from ascpipe.checkpoint.retention import complete_checkpoints
from ascpipe.checkpoint.slice_writer import SliceWriter
from ascpipe.checkpoint.writer import CheckpointWriter
from ascpipe.errors import OutOfSharedMemoryError
from ascpipe.layout import structs
from ascpipe.layout.words import TRAIN
from ascpipe.shm import memory
from ascpipe.tf import internals
from ascpipe.tf.checkpoints import deltas, dropped_tables, table_rows
from ascpipe.tf.checkpoints.positions import position
from ascpipe.tf.checkpoints.recorded_saves import note
from ascpipe.tf.checkpoints.save_progress import SaveProgress
from ascpipe.tf.checkpoints.snapshot_reader import FrozenTables, frozen_tables
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.asking import Asked, RefusedError, asked, working
from ascpipe.tf.running.hold_between_steps import Hold, TableState, hold
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.shapes import KnownTable

_log = logging.getLogger(__name__)


SAVE = "save"  #: name of the request to the other ranks

DenseSave = Callable[[str], Any]  #: TensorFlow's save of the dense variables to a prefix


class Checkpoints:
    """Record of saves and restores of this process since ``init``.

    Attributes:
        last_saved: prefix of the last checkpoint that was saved, or None.
        version_is_restored: True if the program has restored ``restore_model_version``.
    """

    last_saved: Optional[str] = None
    version_is_restored: bool = False

    @classmethod
    def of(cls, process: Process) -> "Checkpoints":
        """Return the ``Checkpoints`` object of a process."""
        return internals.stored_on(process, "checkpoints", cls)

    def note(self, pipeline: Pipeline, prefix: str, seconds: float) -> None:
        """Record a complete checkpoint, ``directory/base-step``, and the duration of the save in seconds."""
        self.last_saved = prefix
        note(pipeline.link.name, prefix, seconds)


class SavedPart(NamedTuple):
    """Tables and training streams that a save contains.

    Attributes:
        tables: tables to save.
        rings: numbers of the rings of training streams, by stream name in checkpoints.
    """

    tables: List[KnownTable]
    rings: Dict[str, int]


class SaveRequest(NamedTuple):
    """Source, target and options of one save.

    Attributes:
        pipeline: the running pipeline.
        part: tables and training streams to save.
        directory: directory of the checkpoint. It is created if necessary.
        base: name of the checkpoint without the step.
        step: 0 or more, or None for a name without a step.
        dense: False if there are no dense variables.
        delta: True to save only changes of the tables since the last save with this directory and base, if possible.
        threshold: threshold of ``deltas.changes_since``.
    """

    pipeline: Pipeline
    part: SavedPart
    directory: str
    base: str
    step: Optional[int]
    dense: bool = True
    delta: bool = False
    threshold: int = 0


def saved_part(pipeline: Pipeline, state: GraphState) -> SavedPart:
    """Return the tables and training streams to save. Tables with ``is_save=False`` are omitted.

    If the graph trains, return its tables and training streams. Otherwise, return the pipeline's tables and streams.
    """
    if state.trains:
        tables = [pipeline.tables[name] for name in state.tables]
        numbers = [stream.number for stream in state.streams() if stream.channel == TRAIN]
    else:
        tables = list(pipeline.tables.values())
        numbers = [stream.number for stream in pipeline.streams if stream.channel == TRAIN]
    return SavedPart([table for table in tables if table.is_save],
                     {"training_{}".format(place) if place else "training": pipeline.rings[number]
                      for place, number in enumerate(numbers)})


def prefix_of(directory: str, base: str, step: Optional[int]) -> str:
    """Return the absolute path ``directory/base-step``."""
    return os.path.join(os.path.abspath(directory), base if step is None else "{}-{}".format(base, step))


def save_checkpoint(request: SaveRequest, save_dense: DenseSave, publish: Callable[[str], None]) -> str:
    """Save tables and dense variables between two training steps.

    Args:
        request: source, target and options of the save.
        save_dense: function that saves the dense variables. It is called once, while no step trains.
        publish: function that is called with ``directory/base-step`` when the checkpoint is complete. The call happens
            before the other ranks are notified.

    Returns:
        ``directory/base-step``.

    Raises:
        NotSavedError, CheckpointPathError: the same errors as in ``CheckpointWriter``. Earlier checkpoints are
            unchanged. The error is also raised if the previous background save has failed. In this case, nothing is
            saved.
        tf.errors.OpError: the pipeline has failed, or TensorFlow could not save its part.
    """
    request.pipeline.background.wait()
    with hold(alone=False) as held, _writer(request) as writer:
        tables = held_tables(held, request.part.tables)
        here = position(request.pipeline, held, tables, request.part.rings)
        if request.dense:
            save_dense(writer.dense_prefix)
        if _is_saved(request, writer, tables, here):
            publish(writer.prefix)
            return writer.prefix
        tip = _tip(request, tables)
        with _other_ranks(request, writer, tip, background=False) as others, working(request.pipeline.ranks):
            return _write(request, writer, tables, here, tip, others, publish)


def begin_save(request: SaveRequest, save_dense: DenseSave, describe: DenseSave, publish: Callable[[str], None]) -> str:
    """Start a background save, and return as soon as the device rows have been copied. Training may then continue.

    Args:
        request, save_dense: the same as in ``save_checkpoint``.
        describe: function that writes files that do not depend on the training step, such as the meta graph. The save
            thread calls it with the prefix of the dense variables.
        publish: the same as in ``save_checkpoint``. The save thread calls it.

    Returns:
        ``directory/base-step``. ``pipeline.background.wait()`` waits for the save, and raises the error of the save.

    Raises:
        NotSavedError, CheckpointPathError, tf.errors.OpError: the same errors as in ``save_checkpoint``.
    """
    request.pipeline.background.wait()
    with contextlib.ExitStack() as undo:
        writer = undo.enter_context(_writer(request))
        with hold(alone=False) as held, working(request.pipeline.ranks):
            tables = held_tables(held, request.part.tables)
            require_memory(request.pipeline, tables, writer.prefix)
            tip = _tip(request, tables)
            others = undo.enter_context(_other_ranks(request, writer, tip, background=True))
            frozen = undo.enter_context(freeze(request.pipeline, held, request.part.tables, tables))
            here = position(request.pipeline, held, tables, request.part.rings)
            if request.dense:
                save_dense(writer.dense_prefix)
        rest = undo.pop_all()

    def work() -> None:
        with working(request.pipeline.ranks), rest:
            if request.dense:
                describe(writer.dense_prefix)
            tables = frozen.tables()
            if _is_saved(request, writer, tables, here):
                publish(writer.prefix)
            else:
                _write(request, writer, tables, here, tip, others, publish)

    request.pipeline.background.begin(writer.prefix, work)
    return writer.prefix


def wait_for_save() -> None:
    """Wait until the background save has finished: the checkpoint is durable and listed in the ``checkpoint`` file.

    Raises:
        NotSavedError, NotPublishedError, tf.errors.OpError: the save has failed. The error is raised only once. This
            function, the next save or the end of the pipeline raises it.
    """
    if Process.is_initialised() and Process.current().pipeline is not None:
        Process.current().running_pipeline().background.wait()


def _writer(request: SaveRequest) -> CheckpointWriter:
    return CheckpointWriter(request.directory, request.base, request.step, SaveProgress(request.base),
                            dense=request.dense, ranks=request.pipeline.ranks)


def _tip(request: SaveRequest, tables: Dict[str, TableState]) -> Optional[deltas.Tip]:
    if not request.delta:
        return None
    return deltas.parent_of(request.pipeline.tips, request.directory, request.base, request.step, tables)


def _other_ranks(request: SaveRequest, writer: CheckpointWriter, tip: Optional[deltas.Tip], *,
                 background: bool) -> ContextManager[Optional[Asked]]:
    """Request that the other ranks save their slices. The context manager yields None if there is only one rank."""
    if request.pipeline.ranks == 1:
        return contextlib.nullcontext()
    return asked({"what": SAVE, "directory": os.path.abspath(request.directory), "base": request.base,
                  "step": request.step, "staging": writer.staging_name, "background": background,
                  "parent": None if tip is None else tip.link.stem, "threshold": request.threshold,
                  "tables": [table.shape.name for table in request.part.tables], "rings": request.part.rings},
                 changes=False, about="the save of {}".format(writer.prefix), limit_s=request.pipeline.wait_timeout_s)


def _write(request: SaveRequest, writer: CheckpointWriter, tables: Dict[str, TableState], here: Position,
           tip: Optional[deltas.Tip], others: Optional[Asked], publish: Callable[[str], None]) -> str:
    """Write the tables, commit the checkpoint and publish it. Return the prefix of the checkpoint."""
    pipeline = request.pipeline
    since, changes = deltas.changes_since(tip, tables, request.threshold)
    if others is not None and since is not tip:
        raise NotSavedError(writer.prefix, "the base checkpoint of the delta cannot be read", 0, 0,
                            "Save a full checkpoint.")
    specs = specs_of(pipeline, request.part.tables, tables, changes)
    writer.begin_tables(specs, None if since is None else since.link)
    write_tables(writer, pipeline, specs, tables, changes)
    prefix = writer.commit(here, () if others is None else _slices(others, writer))
    note_saved(pipeline, deltas.name_of(request.directory, request.base),
               deltas.next_tip(pipeline, since, prefix, writer.link, here, tables))
    try:
        publish(prefix)
    finally:
        if others is not None:  # after publish, because other ranks read the name from the checkpoint file
            others.tell({"what": SAVE, "done": True, "link": list(writer.link)})
    return prefix


def _slices(others: Asked, writer: CheckpointWriter) -> List[str]:
    try:
        return others.answers()
    except RefusedError as error:
        raise NotSavedError(writer.prefix, str(error), writer.written_bytes, writer.needed_bytes,
                            "Earlier checkpoints are unchanged.") from error


def specs_of(pipeline: Pipeline, known: Sequence[KnownTable], tables: Dict[str, TableState],
             changes: Dict[str, Optional[deltas.Changes]]) -> List[TableSpec]:
    """Return the specs of the tables that a save contains."""
    return [_spec(pipeline, table, tables[table.shape.name], changes[table.shape.name]) for table in known]


def write_tables(writer: Union[CheckpointWriter, SliceWriter], pipeline: Pipeline, specs: Sequence[TableSpec],
                 tables: Dict[str, TableState], changes: Dict[str, Optional[deltas.Changes]]) -> None:
    """Write the tables that were passed to ``writer.begin_tables``."""
    for spec in specs:
        at = tables[spec.name]
        told = changes[spec.name]
        writer.write_table(spec.name, table_rows.blocks(at, _which(told)),
                           table_rows.candidates(at, _which(told)) if spec.candidates else (),
                           pipeline.pools.get(spec.name), None if told is None else told.deleted)


def held_tables(held: Hold, tables: Sequence[KnownTable]) -> Dict[str, TableState]:
    """Return a dict: name of a table -> state of the table."""
    return {table.shape.name: held.table(table.shape.number) for table in tables}


def freeze(pipeline: Pipeline, held: Hold, known: Sequence[KnownTable],
           tables: Dict[str, TableState]) -> ContextManager[FrozenTables]:
    """Take a snapshot of the tables. The save thread reads the snapshot while training continues."""
    return frozen_tables(held, {table.shape.name: table.shape.number for table in known}, tables,
                         pipeline.save_log_bytes)


def note_saved(pipeline: Pipeline, name: str, tip: deltas.Tip) -> None:
    """Record a save as the parent of later deltas. ``name`` is the key in ``Pipeline.tips``."""
    pipeline.tips[name] = tip


def _is_saved(request: SaveRequest, writer: CheckpointWriter, tables: Dict[str, TableState], here: Position) -> bool:
    """Return True if a checkpoint with the requested prefix exists, and nothing has changed since it was saved or
    restored. The save then keeps this checkpoint.
    """
    if dropped_tables.keep(request.pipeline, writer.prefix, here):
        return True
    tip = request.pipeline.tips.get(deltas.name_of(request.directory, request.base))
    if tip is None or tip.prefix != writer.prefix or tip.position != here or tip.loads != deltas.loads_of(tables):
        return False
    return (tip.link in [found.link for found in complete_checkpoints(request.directory)]
            and (not request.dense or writer.has_dense_of(tip.prefix)))


def require_memory(pipeline: Pipeline, tables: Dict[str, TableState], prefix: str) -> None:
    """Raise ``NotSavedError`` if there is too little memory for the copies that a background save makes.

    Without this check, the kernel might kill the process.
    """
    needed = sum(structs.ENTRY.itemsize * int(at.header["entries_used"]) for at in tables.values())
    needed += sum(4 * (int(at.header["entries_used"]) + int(at.header["homes_ready"]))
                  for at in tables.values() if len(at.homes))
    if not pipeline.background.was_used:  # later saves reuse the copies of the device rows
        needed += sum(rows.nbytes for at in tables.values() for rows in at.device)
    try:
        memory.require(needed, "copies for a background save")
    except OutOfSharedMemoryError as error:
        raise NotSavedError(
            prefix, "a background save needs {} bytes of memory for copies. Available: {}. Save in the foreground, "
            "which needs no copies".format(needed, error.have), 0, needed, "Earlier checkpoints are unchanged."
        ) from error


def _which(told: Optional[deltas.Changes]) -> table_rows.Which:
    return table_rows.trained if told is None else told.among


def _spec(pipeline: Pipeline, table: KnownTable, at: TableState, told: Optional[deltas.Changes]) -> TableSpec:
    shape = table.shape
    header = at.header
    rows, candidates = table_rows.count(at, _which(told))
    return TableSpec(
        name=shape.name, dim=shape.dim, key_dtype=table.key_dtype.name,
        slots=table.slots, rows=rows, candidates=candidates,
        initial=InitialRows(pipeline.seeds[shape.name], shape.kind, shape.a, shape.b, shape.scale,
                            len(pipeline.pools.get(shape.name, ()))),
        policies=Policies(int(header["access_threshold"]), bool(header["counting"]), int(header["faae_coefficient"]),
                          int(header["eviction_threshold"]), int(header["time"])),
        deleted=0 if told is None else len(told.deleted), column=table.column)
