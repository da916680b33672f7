"""TensorFlow's part of a checkpoint, which contains no rows of tables.

If there are no variables, this part contains only a mark, an int32 with value 0. The mark is necessary because
TensorFlow does not build a saver without variables.
"""
import dataclasses
import logging
import pathlib
import threading
from typing import Any, Callable, Iterator, List, Optional

import tensorflow as tf
from tensorflow.python.training import saver as plain_saver
from tensorflow.python.training.saving import saveable_object

from ascpipe.errors import SaverError, ServingError
from ascpipe.tf import internals
from ascpipe.tf.checkpoints import saver_parts
from ascpipe.tf.clean_up import interruptible
from ascpipe.tf.graph.dataset_graph import GET_NEXT
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import names_of_variables
from ascpipe.tf.graph.stand_ins import StandIns, name_of
from ascpipe.tf.running.process import Process

MARK = "ascpipe_only_tables"  #: name of the mark, an int32 with value 0

#: last two parts of the prefix to which a SavedModel builder saves variables
_VARIABLES_OF_A_SAVED_MODEL = (tf.saved_model.VARIABLES_DIRECTORY, tf.saved_model.VARIABLES_FILENAME)
_RESTORING = "Restoring parameters from "  #: start of TensorFlow's log message


@dataclasses.dataclass
class _Asked:
    """The items that a saver would save if ascpipe did not replace them. An attribute of the saver stores this object.

    Attributes:
        is_known: True if the saver was built after ``init``.
        items: ``var_list`` of the saver.
        has_only_mark: True if the saver saves a mark instead of the items.
    """

    is_known: bool = False
    items: Any = None
    has_only_mark: bool = False


def require_no_saved_model(prefix: str, writes_checkpoint_files: bool) -> None:
    """Raise ``ServingError`` if a SavedModel builder saves the variables of a graph whose tables have a pipeline.

    Args:
        prefix: prefix of the checkpoint that is to be saved.
        writes_checkpoint_files: whether the save also writes a graph file or a ``checkpoint`` file. A builder writes
            neither of these files.
    """
    if not writes_checkpoint_files and pathlib.PurePath(prefix).parts[-2:] == _VARIABLES_OF_A_SAVED_MODEL:
        raise ServingError(
            "simple_save() and SavedModelBuilder would write a model that no server can load, because its lookups read "
            "the pipeline of this process. Nothing was saved. Build the model again in a graph for serving, within "
            "`with asc.serving_tables(checkpoint):`, and save that graph (docs/how-to/saved_models.md#in-a-session)")


def build(saver: tf.compat.v1.train.Saver, plain_build: Callable[[], None]) -> None:
    """Build a saver. The graph may have only tables, and may get variables later.

    A saver without variables saves and restores a mark, so that TensorFlow's files exist as usual. A second build
    includes variables that were created after the first build.

    Raises:
        ValueError: an error of TensorFlow or of ``complete``.
    """
    if tf.executing_eagerly() or not Process.is_initialised():
        plain_build()
        return
    graph = tf.compat.v1.get_default_graph()
    parts = saver_parts.SaverParts(saver)
    if parts.is_built:
        plain_build()
        complete(saver, graph)
        return
    state = GraphState.of(graph)
    asked = internals.stored_on(saver, "asked", _Asked)
    asked.is_known = True
    asked.items = parts.items
    asked.has_only_mark = False
    _leave_out_tables(parts, state)
    if not parts.saved():
        if state.served is not None and state.tables:
            parts.allow_empty()  # the tables of an exported model are separate files
        elif state.tables or not parts.allows_empty:
            with tf.control_dependencies(None):
                parts.save_instead([_Mark(tf.constant(0, tf.int32, name="only_tables"))], _MarkBuilder)
            asked.has_only_mark = True
    plain_build()


def complete(saver: tf.compat.v1.train.Saver, graph: tf.Graph) -> None:
    """Rebuild a saver that was built without variables. The rebuilt saver includes variables that were created later.

    Raises:
        ValueError: there are neither tables nor variables.
        RuntimeError: variables were created later, and the graph is finalized.
    """
    parts = saver_parts.SaverParts(saver)
    asked = internals.stored_on(saver, "asked", _Asked)
    if not asked.is_known or not (asked.has_only_mark or parts.is_empty):
        return  # the saver was built before ``init``, or it has variables
    state = GraphState.known(graph)
    has_tables = state is not None and any(table.is_save for table in state.tables.values())
    is_served = state is not None and state.served is not None
    if parts.allows_empty and (not has_tables or is_served):
        return
    with graph.as_default():
        came = _variables(state) if asked.items is None else []
        if not came and not has_tables:
            raise SaverError("No variables to save, and no tables (is_save=True): the graph had none when this Saver "
                             "was created, and none were added")
        if not came and (asked.has_only_mark or graph.finalized):
            return
        if graph.finalized:
            raise SaverError("This Saver was created before the variables of its graph ({}, ...), and the graph is "
                             "finalized. Create it after them, or call its build() before the graph is "
                             "finalized".format(came[0]))
        parts.forget_build()
        parts.items = asked.items
        saver.build()


def is_of_variables_alone(saver: tf.compat.v1.train.Saver, state: GraphState) -> bool:
    """Return whether the ``var_list`` of a saver contains variables and no tables of the graph."""
    asked = internals.stored_on(saver, "asked", _Asked)
    items = asked.items if asked.is_known else saver_parts.SaverParts(saver).items
    if not items:
        return False
    theirs = names_of_variables(state.tables.values()) | set(StandIns.of(state))
    return all(op_name(item) not in theirs for item in (items.values() if isinstance(items, dict) else items))


def tables_left_out(saver: tf.compat.v1.train.Saver, state: GraphState, graph: tf.Graph) -> List[str]:
    """Return the names of the tables that the ``var_list`` of a saver leaves out, although the saver restores them.

    The list is empty if the ``var_list`` contains all trainable variables, because ``tf.trainable_variables()`` has no
    tables.
    """
    asked = internals.stored_on(saver, "asked", _Asked)
    items = (asked.items.values() if isinstance(asked.items, dict) else asked.items) if asked.is_known else None
    names = {op_name(item) for item in items or ()}
    behind = StandIns.of(state).variables()
    trainable = {each.op.name for each in graph.get_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES)}
    if items is None or trainable - set(behind.values()) <= names:
        return []
    return [name_of(state, table) for name, table in state.tables.items()
            if table.is_save and behind.get(name, table.variable.op.name) not in names]


@interruptible
def logged_as(prefix: str) -> Iterator[None]:
    """Make TensorFlow log ``prefix`` instead of the path from which TensorFlow restores the verified files."""
    thread = threading.get_ident()

    def rename(record: logging.LogRecord) -> bool:
        if record.thread == thread and str(record.msg).startswith(_RESTORING):
            record.args = (prefix,)
        return True

    log = logging.getLogger("tensorflow")
    log.addFilter(rename)
    try:
        yield
    finally:
        log.removeFilter(rename)


def op_name(item: Any) -> Optional[str]:
    """Return the name of a variable's op, or None if the object is not a variable."""
    return item.op.name if isinstance(item, tf.Variable) else None


def _leave_out_tables(parts: saver_parts.SaverParts, state: GraphState) -> None:
    """Remove table variables and their slot variables from a saver, because the sparse part contains their rows.

    Raises:
        ValueError: the saver would save an iterator whose batches are submitted to the pipeline.
    """
    if not state.tables or state.served is not None:
        return
    theirs = names_of_variables(state.tables.values())
    saved = parts.saved()
    for item in saved.values() if isinstance(saved, dict) else saved:
        _refuse_iterator(state, item)
    if isinstance(saved, dict):
        parts.items = {name: item for name, item in saved.items() if op_name(item) not in theirs}
    else:
        parts.items = [item for item in saved if op_name(item) not in theirs]


def _variables(state: Optional[GraphState]) -> List[str]:
    """Return the names of the saveable objects of the default graph, except variables of tables."""
    theirs = names_of_variables(state.tables.values()) if state is not None else set()
    return [item.op.name for item in saver_parts.all_saveable_objects() if item.op.name not in theirs]


class _Mark(saveable_object.SaveableObject):
    """Saveable object for the mark, a tensor with the name ``MARK``."""

    def __init__(self, number: tf.Tensor) -> None:
        super().__init__(number, [saveable_object.SaveSpec(number, "", MARK)], MARK)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> tf.Operation:
        """Return an op that does nothing."""
        return tf.no_op()


class _MarkBuilder(plain_saver.BulkSaverBuilder):
    """Builder whose restore op reads no tensor, because a checkpoint with variables has no tensor named MARK."""

    def bulk_restore(self, filename_tensor: tf.Tensor, saveables: Any, preferred_shard: int,
                     restore_sequentially: bool) -> List[tf.Tensor]:
        return [saveable.op for saveable in saveables]


def _refuse_iterator(state: GraphState, item: Any) -> None:
    """Raise ``ValueError`` if an iterator returns batches that are submitted to the pipeline.

    The position of such an iterator is ahead of training. The sparse part of the checkpoint contains the training
    position.
    """
    if not isinstance(item, saveable_object.SaveableObject) or not isinstance(item.op, tf.Tensor):
        return
    for consumer in item.op.consumers():
        if consumer.type in GET_NEXT and any(
                state.datasets.ticket_of(stream.number, consumer) is not None for stream in state.streams()):
            raise SaverError("Iterator {!r} cannot be saved, because its batches are submitted ahead of training. Do "
                             "not save it (no make_saveable_from_iterator or CheckpointInputPipelineHook). The "
                             "checkpoint contains the number of trained batches: continue with "
                             "dataset.skip(asc.trained_batches(path)['training']) before map(insert_fn)".format(
                                 item.op.op.name))
