"""``lookup_sparse``: the rows of each bag of ids, combined to one."""
from typing import Any, Dict, Optional, Union

import tensorflow as tf

from ascpipe.errors import CombinerError
from ascpipe.tf.graph.bags import bags_of, combined, require_combiner
from ascpipe.tf.graph.batch_structure import SparseIds, find_ids, missing
from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.unseen_rows import Unseen
from ascpipe.tf.program.sparse_lookup import look_up


def lookup_sparse(table: Table, ids: Union[FeatureSpec, SparseIds], weights: Optional[SparseIds], combiner: str,
                  max_norm: Optional[float], *, batch: Any, name: Optional[str], is_train: bool,
                  send_count: Optional[int], is_grad: bool, default_value: Any,
                  thresholds: Optional[Dict[str, Optional[int]]], of_column: bool = False,
                  channel_is_open: bool = False, unseen: Unseen = Unseen.DEFAULT_ROW) -> tf.Tensor:
    """One row for each bag of ids, as ``ascpipe.tf.lookup_sparse`` gives them.

    Args:
        of_column: where bags end, and weights, are made of the batch alone, too: they are made in the dataset and come
            with the batch.
        channel_is_open, unseen: as of ``look_up``.

    Raises:
        CombinerError: ids, weights or an argument that cannot be combined.
        Exception: what ``sparse_lookup`` raises.
    """
    require_combiner(table.table_name, combiner, max_norm)
    is_feature = isinstance(ids, FeatureSpec)
    found = _ids_of(table, ids, batch) if isinstance(ids, FeatureSpec) else ids
    with tf.name_scope("lookup_sparse"):
        bags = bags_of(table.table_name, found, weights)
    state = GraphState.of(tf.compat.v1.get_default_graph())
    served = state.served is not None
    if of_column and not served:
        state.requests.carried.extend(tensor for tensor in (bags.splits, bags.weights) if tensor is not None)
    rows = look_up(
        table, ids if is_feature and not served else bags.values, send_count, is_train, None,
        modify_graph=not is_feature or served, batch=batch, access_and_evict_config=thresholds, is_grad=is_grad,
        serving_default_value=default_value, values_alone=True, channel_is_open=channel_is_open,
        unseen=unseen)
    with tf.name_scope("lookup_sparse"):
        bagged = combined(rows, bags, combiner, max_norm)
    return tf.identity(bagged, name=name or "lookup_sparse")


def _ids_of(table: Table, spec: FeatureSpec, batch: Any) -> SparseIds:
    """The ids of a feature in a batch, which says where bags end."""
    if batch is None:
        raise RuntimeError("FeatureSpec {!r}: lookup_sparse needs batch=, what iterator.get_next() returned".format(
            spec.label))
    found = find_ids(batch, spec)
    if found is None:
        raise KeyError(missing(batch, spec))
    if isinstance(found, tf.Tensor):
        raise CombinerError(table.table_name, "the ids of FeatureSpec {!r} are a dense Tensor in the batch, expected a "
                            "SparseTensor or RaggedTensor, whose rows are bags".format(spec.label))
    return found
