"""Calls of the incumbent's API that are not built yet: programs may import them, and are told when they call."""
from typing import Any, Sequence

import tensorflow as tf

from ascpipe.tf.not_built import NotBuiltYetError

_FEATURE_SPEC_MODE = "declare the ids with FeatureSpec and get_asc_insert_func, and call start_asc_pipeline()"


def modify_graph_and_start_emb_cache(full_graph: Any = None, dump_graph: bool = False) -> None:
    """Graph modification; not built yet."""
    raise NotBuiltYetError("modify_graph_and_start_emb_cache()", _FEATURE_SPEC_MODE)


class GraphModifierHook(tf.estimator.SessionRunHook):
    """Graph modification for Estimators; not built yet."""

    def __init__(self, dump_graph: bool = False, modify_graph: bool = True) -> None:
        raise NotBuiltYetError("GraphModifierHook", _FEATURE_SPEC_MODE + " at the end of model_fn")


class LookupSubgraphSlicerHook(tf.estimator.SessionRunHook):
    """Moves ops of some types, which ids need, into the dataset; not built yet."""

    def __init__(self, op_types: Sequence[str]) -> None:
        raise NotBuiltYetError("LookupSubgraphSlicerHook", "compute the ids in dataset.map")


class OrphanLookupKeySlicerHook(tf.estimator.SessionRunHook):
    """Moves ids that no iterator feeds into the dataset; not built yet."""

    def __init__(self) -> None:
        raise NotBuiltYetError("OrphanLookupKeySlicerHook", "give the ids in the batches of the dataset")


class ACGPushOpsToDatasetHook(tf.estimator.SessionRunHook):
    """The older name of what ``LookupSubgraphSlicerHook`` does; not built yet."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotBuiltYetError("ACGPushOpsToDatasetHook", "compute the ids in dataset.map")
