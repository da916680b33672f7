"""Functions that return or set single values of the configuration, and functions that return tables."""
from typing import Any, Dict, List, Tuple

import tensorflow as tf

from ascpipe import ranks
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.incumbent.config_initializer import ConfigInitializer
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import Integer, Text, boolean, checked


def get_rank_id() -> int:
    """Return the rank of this process. Before ``init``, return the rank from the launcher, or 0 if there is no
    launcher.

    Most functions of this module raise ``EnvironmentError`` before ``init``. The exceptions are this function,
    ``get_rank_size``, ``get_device_id`` and ``is_asc_manager_initialized``.
    """
    if Process.is_initialised():
        return Process.current().configuration.rank_id
    return ranks.get_rank_id() if ranks.launched() else 0


def get_rank_size() -> int:
    """Return the number of ranks. Before ``init``, return the number of ranks from the launcher, or 1 if there is no
    launcher.
    """
    if Process.is_initialised():
        return Process.current().configuration.rank_size
    return ranks.get_rank_size() if ranks.launched() else 1


def get_device_id() -> int:
    """Return the device number, which is equal to the rank. The function may be called before ``init``."""
    return get_rank_id()


def get_use_static() -> bool:
    """Return whether lookups require a ``send_count``."""
    return Process.current().configuration.use_static


def get_use_dynamic_expansion() -> bool:
    """Return whether tables grow on demand."""
    return Process.current().configuration.use_dynamic_expansion


def get_use_hot() -> bool:
    """Return the argument ``use_hot`` of ``init``. The argument has no effect."""
    return Process.current().configuration.use_hot


def get_if_load() -> bool:
    """Return the argument ``if_load`` of ``init``, or the value that ``set_if_load`` has set."""
    return Process.current().configuration.if_load


@checked(if_load=boolean())
def set_if_load(if_load: bool) -> None:
    """Set the value that ``get_if_load`` returns."""
    Process.current().configuration.if_load = if_load


def get_train_interval() -> int:
    """Return the number of steps between evaluations. The number has no effect."""
    return Process.current().configuration.train_steps


@checked(interval=Integer(-1))
def set_train_interval(interval: int) -> None:
    """Store the number of steps between evaluations. The number has no effect."""
    Process.current().configuration.train_steps = interval


def get_eval_steps() -> int:
    """Return the number of evaluation steps. The number has no effect."""
    return Process.current().configuration.eval_steps


@checked(steps=Integer(-1))
def set_eval_steps(steps: int) -> None:
    """Store the number of evaluation steps. The number has no effect."""
    Process.current().configuration.eval_steps = steps


def get_ascend_global_hashtable_collection() -> str:
    """Return the name of the collection for table variables."""
    return Process.current().configuration.hashtable_collection


@checked(name=Text(1, 255))
def set_ascend_global_hashtable_collection(name: str) -> None:
    """Set the name (1 to 255 characters) of the collection to which variables of new tables are added."""
    Process.current().configuration.hashtable_collection = name


@checked(name=Text(1, 255))
def set_ascend_table_name_must_contain(name: str = "merged") -> None:
    """Do nothing, because tables are never merged."""


def insert_optimizer(*args: Any, **kwargs: Any) -> None:
    """Do nothing. Optimizers and their slots are registered automatically."""


def is_asc_manager_initialized() -> bool:
    """Return whether the pipeline runs or starts with the next run of a session."""
    return Process.is_initialised() and Process.current().frozen


@checked(is_train_channel=boolean())
def clear_channel(is_train_channel: bool = False) -> tf.Operation:
    """Return a no-op. In Rec SDK, the op resets a channel's counter, which does not exist in ascpipe."""
    return tf.no_op(name="clear_channel_{}".format(int(not is_train_channel)))


def export_table_instances() -> Dict[Any, Table]:
    """Return a dict for the default graph: variable of a table -> table."""
    return ConfigInitializer.get_instance().sparse_embed_config.table_instance_dict


def get_table_instance(variable: Any) -> Table:
    """Return the table of a variable of the default graph. Raise ``KeyError`` if the variable has no table."""
    return ConfigInitializer.get_instance().sparse_embed_config.get_table_instance(variable)


def get_table_instance_by_name(table_name: str) -> Table:
    """Return the table with the name ``table_name`` in the default graph. Raise ``KeyError`` if there is no such table.
    """
    return ConfigInitializer.get_instance().sparse_embed_config.get_table_instance_by_name(table_name)


def get_dense_and_sparse_variable() -> Tuple[List[tf.Variable], List[tf.Variable]]:
    """Return the trainable variables and the table variables of the default graph."""
    graph = tf.compat.v1.get_default_graph()
    dense = graph.get_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES)
    return dense, graph.get_collection(Process.current().configuration.hashtable_collection)
