"""Lets a saver find tables and no variables, which TensorFlow refuses, as it would write an empty file."""
import dataclasses
from typing import Any, Callable, List, Optional

import tensorflow as tf
from tensorflow.python.training import saver as plain_saver
from tensorflow.python.training.saving import saveable_object

from ascpipe.tf import internals
from ascpipe.tf.checkpoints import tensorflow_part
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import names_of_variables
from ascpipe.tf.running.process import Process

MARK = "ascpipe_only_tables"  #: the one entry of TensorFlow's part: int32 0


@dataclasses.dataclass
class _Asked:
    """The items of a saver before they were replaced.

    Attributes:
        items: its ``var_list``.
        has_only_mark: whether the saver saves a mark in their place.
    """

    items: Any
    has_only_mark: bool = False


def build(saver: tf.compat.v1.train.Saver, plain_build: Callable[[], None]) -> None:
    """Build a saver as TensorFlow does; also one of tables alone, or of tables that are created after it.

    A saver that finds no variables saves and restores a mark in their place, so that the files, the ``checkpoint`` file
    and all that looks for them are as always. Built again, it takes variables that have come since.

    Raises:
        ValueError: as TensorFlow raises it; ``complete``.
    """
    if tf.executing_eagerly() or not Process.is_initialised():
        plain_build()
        return
    graph = tf.compat.v1.get_default_graph()
    parts = internals.SaverParts(saver)
    if parts.is_built:
        plain_build()
        complete(saver, graph)
        return
    state = GraphState.of(graph)
    asked = _asked_of(saver)
    asked.clear()
    asked.append(_Asked(parts.items))
    tensorflow_part.leave_out_tables(saver)
    if internals.all_saveable_objects() if parts.items is None else parts.items:
        plain_build()
    elif state.served is not None and state.tables:
        parts.allow_empty()  # the tables of an export are files of their own
        plain_build()
    elif parts.allows_empty and not state.tables:
        plain_build()
    else:
        with tf.control_dependencies(None):
            parts.items = [_Mark(tf.constant(0, tf.int32, name="only_tables"))]
        parts.use_builder(_MarkBuilder(parts.write_version))
        asked[0].has_only_mark = True
        plain_build()


def complete(saver: tf.compat.v1.train.Saver, graph: tf.Graph) -> None:
    """Let a saver that found no variables when it was built save those of its graph that were made since.

    Raises:
        ValueError: there are neither tables nor variables.
        RuntimeError: there are such variables, and the graph is finalized.
    """
    parts = internals.SaverParts(saver)
    asked = next(iter(_asked_of(saver)), None)
    if asked is None or not (asked.has_only_mark or parts.is_empty):
        return  # made before ``init``, or of variables
    state = GraphState.known(graph)
    has_tables = state is not None and any(table.is_save for table in state.tables.values())
    is_served = state is not None and state.served is not None
    if parts.allows_empty and (not has_tables or is_served):
        return
    with graph.as_default():
        came = _variables(state) if asked.items is None else []
        if not came and not has_tables:
            raise ValueError("No variables to save, and no tables (is_save=True): there were none in the graph when "
                             "this Saver was made, and none came since")
        if not came and (asked.has_only_mark or graph.finalized):
            return
        if graph.finalized:
            raise RuntimeError("this Saver was made before the variables of its graph ({}, ...), and the graph is "
                               "finalized: make it after them, or call its build() before the graph is "
                               "finalized".format(came[0]))
        parts.forget_build()
        parts.items = asked.items
        saver.build()


def _asked_of(saver: tf.compat.v1.train.Saver) -> List[_Asked]:
    """One or none, kept with the saver."""
    return internals.kept_on(saver, "asked", list)


def _variables(state: Optional[GraphState]) -> List[str]:
    """Names of all in the default graph that TensorFlow saves; variables of tables are not among them."""
    theirs = names_of_variables(state.tables.values()) if state is not None else set()
    return [item.op.name for item in internals.all_saveable_objects() if item.op.name not in theirs]


class _Mark(saveable_object.SaveableObject):
    """A number that is saved where there is nothing else."""

    def __init__(self, number: tf.Tensor) -> None:
        super().__init__(number, [saveable_object.SaveSpec(number, "", MARK)], MARK)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> tf.Operation:
        """Nothing changes."""
        return tf.no_op()


class _MarkBuilder(plain_saver.BulkSaverBuilder):
    """Restores without reading: what a graph with variables has saved is no mark."""

    def bulk_restore(self, filename_tensor: tf.Tensor, saveables: Any, preferred_shard: int,
                     restore_sequentially: bool) -> List[tf.Tensor]:
        """In the place of what TensorFlow would read."""
        return [saveable.op for saveable in saveables]
