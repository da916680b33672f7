"""Calls of the incumbent's API that are not built yet: programs may import them, and are told when they call."""
from typing import Any

import tensorflow as tf

from ascpipe.tf.not_built import NotBuiltYetError
from ascpipe.tf.validation import Integer, boolean, check_all

_FEATURE_SPEC_MODE = "declare the ids with FeatureSpec and get_asc_insert_func, and call start_asc_pipeline()"


def modify_graph_and_start_emb_cache(full_graph: Any = None, dump_graph: bool = False) -> None:
    """Graph modification; not built yet."""
    raise NotBuiltYetError("modify_graph_and_start_emb_cache()", _FEATURE_SPEC_MODE)


class GraphModifierHook(tf.estimator.SessionRunHook):
    """Graph modification for Estimators; not built yet."""

    def __init__(self, dump_graph: bool = False, modify_graph: bool = True) -> None:
        raise NotBuiltYetError("GraphModifierHook", _FEATURE_SPEC_MODE + " at the end of model_fn")


class EvictHook(tf.estimator.SessionRunHook):
    """Feature eviction by time or steps; not built yet, so only the switched-off one can be made.

    Args:
        evict_enable: whether features are evicted.
        evict_time_interval: seconds, in [1, 2147483647].
        evict_step_interval: steps, in [1, 2147483647], or None.
    """

    def __init__(self, evict_enable: bool = False, evict_time_interval: int = 86400,
                 evict_step_interval: Any = None) -> None:
        check_all({"evict_enable": boolean(), "evict_time_interval": Integer(1),
                   "evict_step_interval": Integer(1, optional=True)},
                  {"evict_enable": evict_enable, "evict_time_interval": evict_time_interval,
                   "evict_step_interval": evict_step_interval})
        if evict_enable:
            raise NotBuiltYetError("EvictHook(evict_enable=True)", "leave it False")


def import_host_pipeline_ops(so_name: str = "") -> Any:
    """The module of host ops (``set_threshold`` and others); not built yet."""
    raise NotBuiltYetError("import_host_pipeline_ops()", "leave admission off; the other ops are made for you")


def export(table_list: Any = None) -> None:
    """Export of saved tables; not built yet."""
    raise NotBuiltYetError("export()", "read the rows in evaluation")
