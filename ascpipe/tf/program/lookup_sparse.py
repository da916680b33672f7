"""``lookup_sparse``, which combines the rows of each bag of ids."""
import dataclasses
import logging
from typing import Any, Optional

import tensorflow as tf

from ascpipe.errors import CombinerError, TableLookupError
from ascpipe.tf.graph.bags import bags_of, combined, require_combiner
from ascpipe.tf.graph.batch_structure import require_ids
from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.ids import Ids
from ascpipe.tf.graph.lookup_request import LookupRequest
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.program.sparse_lookup import look_up
from ascpipe.tf.running.process import Process

_log = logging.getLogger(__name__)


def combiner_of(table_name: str, given: Optional[str]) -> str:
    """Return the combiner of a lookup, which defaults to "sum". Log one warning per table for an omitted combiner.

    TensorFlow's default is "mean", so a converted program without a combiner would silently train something else.
    """
    if given is not None:
        return given
    if Process.current().is_first("combiner of table " + table_name):
        _log.warning("lookup_sparse of table %r adds the rows of a bag, because no combiner is given. "
                     "tf.nn.embedding_lookup_sparse takes the mean. Pass combiner='sum' or combiner='mean'", table_name)
    return "sum"


def lookup_sparse(request: LookupRequest, weights: Optional[Ids], combiner: str, max_norm: Optional[float], *,
                  of_column: bool = False) -> tf.Tensor:
    """Return one row for each bag of ids. This function implements ``ascpipe.tf.lookup_sparse``.

    Args:
        request: lookup request. Its ids are a FeatureSpec or bags.
        weights: the same as in ``ascpipe.tf.lookup_sparse``.
        combiner: the same as in ``ascpipe.tf.lookup_sparse``.
        max_norm: the same as in ``ascpipe.tf.lookup_sparse``.
        of_column: True to compute splits and weights in the dataset. The batch then contains splits and weights.

    Raises:
        CombinerError: the ids, the weights or another argument cannot be combined.
        Exception: an error of ``sparse_lookup``.
    """
    table = request.table
    ids = request.ids
    require_combiner(table.table_name, combiner, max_norm)
    found = _ids_of(table, ids, request.batch) if isinstance(ids, FeatureSpec) else ids
    state = GraphState.of(tf.compat.v1.get_default_graph())
    name = request.name
    request = dataclasses.replace(request, values_alone=True, name=None)
    if state.served is not None:
        rows = look_up(dataclasses.replace(request, ids=Ids.of(found.values)))
        with tf.name_scope("lookup_sparse"):
            bagged = state.served.combined(table.table_name, rows, found, weights, combiner, max_norm)
    else:
        with tf.name_scope("lookup_sparse"):
            bags = bags_of(table.table_name, found, weights)
        if of_column:
            state.requests.carried.extend(tensor for tensor in (bags.splits, bags.weights) if tensor is not None)
        by = ids if isinstance(ids, FeatureSpec) else Ids.of(bags.values)
        rows = look_up(dataclasses.replace(request, ids=by))
        with tf.name_scope("lookup_sparse"):
            bagged = combined(rows, bags, combiner, max_norm)
    return tf.identity(bagged, name=name or "lookup_sparse")


def _ids_of(table: Table, spec: FeatureSpec, batch: Any) -> Ids:
    """Return a feature's ids in a batch, as a SparseTensor or RaggedTensor. Each row of the returned tensor is a bag.
    """
    found = require_ids(batch, spec, TableLookupError(
        "FeatureSpec {!r} was passed to asc.lookup_sparse() without batch=. Pass what iterator.get_next() returned as "
        "batch".format(spec.label)))
    if found.is_dense:
        raise CombinerError(table.table_name, "the ids of FeatureSpec {!r} are a dense Tensor in the batch. Expected a "
                            "SparseTensor or RaggedTensor, whose rows are bags".format(spec.label))
    return found
