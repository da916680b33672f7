"""Embedding tables for TensorFlow 1.15 and 2.15: ``import ascpipe.tf as asc``.

A program calls, in this order: ``init``, ``FeatureSpec`` and ``insert_function`` for its dataset, ``create_table``,
``sparse_lookup``, an optimizer of ``optimizers`` and ``start``. Then the program trains in a session. ``mx_rec``
provides this API under the import paths and names of Huawei's Rec SDK. This module imports each name when the name is
first used.
"""
import difflib
import importlib
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from ascpipe.checkpoint.reader import trained_batches
    from ascpipe.tf import data, feature_column, optimizers
    from ascpipe.tf.api.columns import use_for_feature_columns
    from ascpipe.tf.api.lifecycle import StartHook, init, pipeline, reset, shutdown, start
    from ascpipe.tf.api.tables import create_table, insert_function, lookup_sparse, sparse_lookup, table_variables
    from ascpipe.tf.checkpoints.export import export_tables
    from ascpipe.tf.checkpoints.plain_checkpoints import from_tensorflow, to_tensorflow
    from ascpipe.tf.checkpoints.rows import export_delta, export_rows, import_rows
    from ascpipe.tf.checkpoints.saver import Saver
    from ascpipe.tf.checkpoints.saver_hook import CheckpointSaverHook
    from ascpipe.tf.checkpoints.saving import wait_for_save
    from ascpipe.tf.checkpoints.warm_starting import warm_start
    from ascpipe.tf.graph.features import FeatureSpec
    from ascpipe.tf.graph.sparse_table import Table
    from ascpipe.tf.modify.hooks import GraphModifierHook, LookupSubgraphSlicerHook, OrphanLookupKeySlicerHook
    from ascpipe.tf.optimizers.gradient_norm import clip_by_global_norm, global_norm
    from ascpipe.tf.program.dense_variables import (
        BroadcastGlobalVariablesHook,
        DistributedOptimizer,
        broadcast_global_variables,
    )
    from ascpipe.tf.program.lookup_concat import lookup_concat
    from ascpipe.tf.program.summary_hook import SummaryHook
    from ascpipe.tf.program.table_changes import EvictHook, set_threshold, trigger_evict
    from ascpipe.tf.serving.exporting import export_saved_model, serving_tables
    from ascpipe.tf.serving.watched_tables import served_updates, served_version
    from ascpipe.tf.training.optimizers_of_programs import Optimizer

__all__ = ["BroadcastGlobalVariablesHook", "CheckpointSaverHook", "DistributedOptimizer", "EvictHook", "FeatureSpec",
           "GraphModifierHook", "LookupSubgraphSlicerHook", "Optimizer", "OrphanLookupKeySlicerHook", "Saver",
           "StartHook", "SummaryHook", "Table", "broadcast_global_variables", "clip_by_global_norm", "create_table",
           "data", "export_delta", "export_rows", "export_saved_model", "export_tables", "feature_column",
           "from_tensorflow", "global_norm", "import_rows", "init", "insert_function", "lookup_concat", "lookup_sparse",
           "optimizers", "pipeline", "reset", "served_updates", "served_version", "serving_tables", "set_threshold",
           "shutdown", "sparse_lookup", "start", "table_variables", "to_tensorflow", "trained_batches", "trigger_evict",
           "use_for_feature_columns", "wait_for_save", "warm_start"]

#: Module -> the names of ``__all__`` that are defined in the module.
_HOMES = {
    "ascpipe.checkpoint.reader": "trained_batches",
    "ascpipe.tf.api.columns": "use_for_feature_columns",
    "ascpipe.tf.api.lifecycle": "StartHook init pipeline reset shutdown start",
    "ascpipe.tf.api.tables": "create_table insert_function lookup_sparse sparse_lookup table_variables",
    "ascpipe.tf.checkpoints.export": "export_tables",
    "ascpipe.tf.checkpoints.plain_checkpoints": "from_tensorflow to_tensorflow",
    "ascpipe.tf.checkpoints.rows": "export_delta export_rows import_rows",
    "ascpipe.tf.checkpoints.saver": "Saver",
    "ascpipe.tf.checkpoints.saver_hook": "CheckpointSaverHook",
    "ascpipe.tf.checkpoints.saving": "wait_for_save",
    "ascpipe.tf.checkpoints.warm_starting": "warm_start",
    "ascpipe.tf.graph.features": "FeatureSpec",
    "ascpipe.tf.graph.sparse_table": "Table",
    "ascpipe.tf.modify.hooks": "GraphModifierHook LookupSubgraphSlicerHook OrphanLookupKeySlicerHook",
    "ascpipe.tf.optimizers.gradient_norm": "clip_by_global_norm global_norm",
    "ascpipe.tf.training.optimizers_of_programs": "Optimizer",
    "ascpipe.tf.program.dense_variables":
        "BroadcastGlobalVariablesHook DistributedOptimizer broadcast_global_variables",
    "ascpipe.tf.program.lookup_concat": "lookup_concat",
    "ascpipe.tf.program.summary_hook": "SummaryHook",
    "ascpipe.tf.program.table_changes": "EvictHook set_threshold trigger_evict",
    "ascpipe.tf.serving.exporting": "export_saved_model serving_tables",
    "ascpipe.tf.serving.watched_tables": "served_updates served_version",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        near = difflib.get_close_matches(name, __all__, 1)
        raise AttributeError("module 'ascpipe.tf' has no attribute {!r}{}".format(
            name, "; did you mean {}?".format(near[0]) if near else ""))
    homes = [module for module, names in _HOMES.items() if name in names.split()]
    found = getattr(importlib.import_module(homes[0]), name) if homes else importlib.import_module("ascpipe.tf." + name)
    globals()[name] = found
    return found


def __dir__() -> List[str]:
    return list(__all__)
