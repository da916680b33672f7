"""Replacement for TensorFlow's ``safe_embedding_lookup_sparse`` that looks up the table of a column's variable."""
import functools
from typing import Any, Optional, Tuple

import tensorflow as tf

from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf import patches
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.ids import Ids
from ascpipe.tf.graph.lookup_request import LookupRequest
from ascpipe.tf.graph.stand_ins import StandIn, StandIns
from ascpipe.tf.graph.unseen_rows import Unseen
from ascpipe.tf.program.lookup_sparse import lookup_sparse

#: Ops that compute hash buckets. Hash buckets are never negative, so there are no ids to remove.
_HASHES = frozenset(("StringToHashBucketFast", "StringToHashBucketStrong", "SparseCross"))


@patches.SAFE_LOOKUP.by
def _safe_embedding_lookup_sparse(embedding_weights: Any, sparse_ids: tf.SparseTensor,
                                  sparse_weights: Optional[tf.SparseTensor] = None, combiner: Optional[str] = "mean",
                                  default_id: Any = None, name: Optional[str] = None, partition_strategy: str = "div",
                                  max_norm: Optional[float] = None, **of_later_releases: Any) -> Any:
    stand_in = _stand_in(embedding_weights)
    if stand_in is None:
        return patches.SAFE_LOOKUP.plain(embedding_weights, sparse_ids, sparse_weights, combiner, default_id, name,
                                         partition_strategy, max_norm, **of_later_releases)
    with tf.name_scope(name or "embedding_lookup"):
        return _combined(stand_in, sparse_ids, sparse_weights, combiner or "mean", max_norm)


def _combined(stand_in: StandIn, given: tf.SparseTensor, given_weights: Optional[tf.SparseTensor], combiner: str,
              max_norm: Optional[float]) -> tf.Tensor:
    """Return one row per bag. The result has the shape of the ids, except that the last dimension is dim.

    As in TensorFlow, negative ids are ignored. Ids with weights <= 0 are also ignored, unless the combiner is "sum".
    """
    ids, weights = _pruned(given, given_weights, combiner)
    shape = given.dense_shape
    is_flat = given.shape.rank == 2
    if not is_flat:
        flat = tf.stack([tf.reduce_prod(shape[:-1]), shape[-1]])
        ids = tf.sparse.reshape(ids, flat)
        weights = None if weights is None else tf.sparse.reshape(weights, flat)
    state = GraphState.of(tf.compat.v1.get_default_graph())
    trains = state.mode in (None, tf.estimator.ModeKeys.TRAIN) and state.served is None and stand_in.trains
    request = LookupRequest(stand_in.table, Ids.of(ids), channel=TRAIN if trains else EVAL, unseen=Unseen.INITIAL,
                            is_open=trains and state.mode is None)
    rows = lookup_sparse(request, None if weights is None else Ids.of(weights), combiner, max_norm, of_column=True)
    if is_flat:
        return rows
    outer = shape[:-1]
    if state.served is None:
        state.requests.carried.append(outer)
    known = given.shape[:-1]
    rows = tf.reshape(rows, tf.concat([outer, [stand_in.table.emb_size]], axis=0))
    rows.set_shape(known.concatenate([stand_in.table.emb_size]))
    return rows


def _pruned(ids: tf.SparseTensor, weights: Optional[tf.SparseTensor],
            combiner: str) -> Tuple[tf.SparseTensor, Optional[tf.SparseTensor]]:
    """Remove the ids and weights that TensorFlow's columns ignore."""
    tests = [] if ids.values.op.type in _HASHES else [ids.values >= 0]
    if weights is not None and combiner != "sum":
        tests.append(weights.values > 0)
    if not tests:
        return ids, weights
    kept = functools.reduce(tf.logical_and, tests)
    return tf.sparse.retain(ids, kept), None if weights is None else tf.sparse.retain(weights, kept)


def _stand_in(weights: Any) -> Optional[StandIn]:
    state = GraphState.known(weights.graph) if isinstance(weights, tf.Variable) else None
    return None if state is None else StandIns.of(state).of_variable(weights)
