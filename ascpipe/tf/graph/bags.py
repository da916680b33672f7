"""Bags of ids. A bag is a row of a SparseTensor or RaggedTensor. Lookups combine the embeddings of a bag into one
embedding.

AscCombine reads a tensor with one row per id. The graph of a step has no such tensor, because
``tfops/src/step/read_rules.cc`` replaces AscCombine. In that graph, one op reads bags from the table and one op sums
gradients.
"""
from typing import Any, List, NamedTuple, Optional

import tensorflow as tf

from ascpipe.errors import CombinerError
from ascpipe.errors.base import shown
from ascpipe.tf.graph.ids import Ids
from ascpipe.tf.running import native

COMBINERS = ("sum", "mean", "sqrtn")


class Bags(NamedTuple):
    """Bags of ids. The ids of all bags are stored consecutively.

    Attributes:
        values: [n], the ids of all bags.
        splits: int64[bags + 1]. Bag b has the ids [splits[b], splits[b + 1]).
        weights: float32[n], one weight per id, or None if each weight is 1.
    """

    values: tf.Tensor
    splits: tf.Tensor
    weights: Optional[tf.Tensor]


def bags_of(table_name: str, ids: Ids, weights: Optional[Ids]) -> Bags:
    """Convert ids and weights to bags. Raise the same ``CombinerError`` as ``require_bags``."""
    require_bags(table_name, ids, weights)
    places = [each.places for each in (ids, weights) if each is not None]
    splits = native.ops().asc_bag_splits(
        places=places if len({id(place) for place in places}) > 1 else places[:1],
        shape=[] if ids.is_ragged else [ids.given.dense_shape])
    bags = ids.given.shape[0].value
    splits.set_shape([None if bags is None else bags + 1])
    return Bags(ids.values, splits, None if weights is None else weights.values)


def require_bags(table_name: str, ids: Ids, weights: Optional[Ids]) -> None:
    """Raise ``CombinerError`` if the ids do not form bags, or if the weights do not match the ids."""
    _require_bags(table_name, "ids", ids)
    if weights is not None:
        _require_weights(table_name, weights, ids)


def require_combiner(table_name: str, combiner: Any, max_norm: Any) -> None:
    """Raise ``CombinerError`` for an unknown combiner or an invalid ``max_norm``."""
    if not isinstance(combiner, str) or combiner not in COMBINERS:
        raise CombinerError(table_name, "combiner is {}; expected one of {}".format(
            shown(combiner), ", ".join(map(repr, COMBINERS))))
    is_number = isinstance(max_norm, (int, float)) and not isinstance(max_norm, bool)
    if max_norm is not None and not (is_number and 0 < max_norm < float("inf")):
        raise CombinerError(table_name, "max_norm is {}; expected None or a number above 0".format(shown(max_norm)))


def combined(rows: tf.Tensor, bags: Bags, combiner: str, max_norm: Optional[float]) -> tf.Tensor:
    """Return one row per bag, float32[bags, dim]. The row of an empty bag is zero.

    Args:
        rows: float32[n, dim], one row per id of the bags.
        combiner: one of ``COMBINERS``.
        max_norm: maximum L2 norm of a row, or None. Rows with a larger norm are scaled to ``max_norm`` before they are
            combined.
    """
    return native.ops().asc_combine(
        rows=rows, splits=bags.splits, weights=[] if bags.weights is None else [bags.weights], combiner=combiner,
        max_norm=max_norm or 0.0)


@tf.RegisterGradient("AscCombine")
def _gradient_of_combine(op: tf.Operation, gradient: tf.Tensor) -> List[Any]:
    rows, splits, *weights = op.inputs
    how = {"combiner": op.get_attr("combiner"), "max_norm": op.get_attr("max_norm")}
    of_rows = native.ops().asc_combine_rows_grad(
        grad=gradient, splits=splits, weights=weights, rows=[rows] if how["max_norm"] else [], **how)
    of_weights = [native.ops().asc_combine_weights_grad(
        rows=rows, slots=[], restore=[], default_row=[], splits=splits, weights=each, grad=gradient, **how)
        for each in weights]
    return [of_rows, None, *of_weights]


def _require_weights(table_name: str, weights: Ids, ids: Ids) -> None:
    _require_bags(table_name, "weights", weights)
    if weights.is_ragged != ids.is_ragged:
        raise CombinerError(table_name, "weights are a {}, but ids are a {}. Pass both in the same form".format(
            type(weights.given).__name__, type(ids.given).__name__))
    if weights.values.dtype != tf.float32:
        raise CombinerError(table_name, "weights have dtype {}; expected float32. Convert their values with "
                                        "tf.cast()".format(
            weights.values.dtype.name))
    given = weights.values.shape
    wanted = ids.values.shape
    if not given.is_compatible_with(wanted):
        raise CombinerError(table_name, "there are weights {} for ids {}, but each id has one "
                                        "weight".format(given, wanted))


def _require_bags(table_name: str, what: str, ids: Ids) -> None:
    given = ids.given
    if not isinstance(given, (tf.SparseTensor, tf.RaggedTensor)):
        kind = "a dense Tensor" if isinstance(given, tf.Tensor) else type(given).__name__
        raise CombinerError(table_name, "{} are {}; expected a SparseTensor or RaggedTensor, whose rows are bags"
                            .format(what, kind))
    rank = given.shape.rank
    if rank is not None and rank != 2:
        raise CombinerError(table_name, "{} have rank {}; expected 2, bags of ids. Use tf.sparse.reshape() to [bags, "
                                        "ids]".format(what, rank))
