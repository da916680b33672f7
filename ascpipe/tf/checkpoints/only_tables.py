"""Savers that find tables and no variables: TensorFlow refuses to make one, as it would write an empty file."""
from typing import Any, Callable, List, Optional

import tensorflow as tf
from tensorflow.python.ops import variables
from tensorflow.python.training import saver as plain_saver
from tensorflow.python.training.saving import saveable_object

from ascpipe.tf.checkpoints import tensorflow_part
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import names_of_variables
from ascpipe.tf.running.configuration import Configuration

MARK = "ascpipe_only_tables"  #: the one entry of TensorFlow's part: int32 0


def build(saver: tf.compat.v1.train.Saver, plain_build: Callable[[], None]) -> None:
    """Build a saver as TensorFlow does; also one of tables alone, or of tables that are created after it.

    What has no variables by then saves and restores a mark in their place, so that the files, the ``checkpoint`` file
    and all that looks for them are as always. Built again, it takes variables that have come since.

    Raises:
        ValueError: as TensorFlow raises it; ``complete``.
    """
    if tf.executing_eagerly() or not Configuration.is_initialised():
        plain_build()
        return
    graph = tf.compat.v1.get_default_graph()
    if saver._is_built or saver.saver_def:
        plain_build()
        complete(saver, graph)
        return
    state = Configuration.get_instance().of_graph(graph)
    saver._asked = saver._var_list
    saver._has_only_mark = False
    tensorflow_part.leave_out_tables(saver)
    if variables._all_saveable_objects() if saver._var_list is None else saver._var_list:
        plain_build()
    elif state.served is not None and state.tables:
        saver._allow_empty = True  # the tables of an export are files of their own
        plain_build()
    elif saver._allow_empty and not state.tables:
        plain_build()
    else:
        _build_with_mark(saver, plain_build)


def complete(saver: tf.compat.v1.train.Saver, graph: tf.Graph) -> None:
    """Let a saver that found no variables when it was built save those of its graph that were made since.

    Raises:
        ValueError: there are neither tables nor variables.
        RuntimeError: there are such variables, and the graph is finalized.
    """
    if not hasattr(saver, "_asked") or not (saver._has_only_mark or saver._is_empty):
        return  # made before ``init``, or of variables
    state = Configuration.get_instance().of_graph(graph) if Configuration.is_initialised() else None
    has_tables = state is not None and any(table.is_save for table in state.tables.values())
    is_served = state is not None and state.served is not None
    if saver._allow_empty and (not has_tables or is_served):
        return
    with graph.as_default():
        came = _variables(state) if saver._asked is None else []
        if not came and not has_tables:
            raise ValueError("No variables to save, and no tables (is_save=True): there were none in the graph when "
                             "this Saver was made, and none came since")
        if not came and (saver._has_only_mark or graph.finalized):
            return
        if graph.finalized:
            raise RuntimeError("this Saver was made before the variables of its graph ({}, ...), and the graph is "
                               "finalized: make it after them, or call its build() before the graph is "
                               "finalized".format(came[0]))
        saver._is_built, saver._is_empty, saver.saver_def, saver._builder = False, None, None, None
        saver._var_list = saver._asked
        saver.build()


def _variables(state: Optional[GraphState]) -> List[str]:
    """Names of all in the default graph that TensorFlow saves; variables of tables are not among them."""
    theirs = names_of_variables(state.tables.values()) if state is not None else set()
    return [item.op.name for item in variables._all_saveable_objects() if item.op.name not in theirs]


def _build_with_mark(saver: tf.compat.v1.train.Saver, plain_build: Callable[[], None]) -> None:
    with tf.control_dependencies(None):
        saver._var_list = [_Mark(tf.constant(0, tf.int32, name="only_tables"))]
    saver._builder = _MarkBuilder(saver._write_version)
    saver._has_only_mark = True
    plain_build()


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
