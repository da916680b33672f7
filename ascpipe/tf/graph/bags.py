"""Bags of ids: the rows of a SparseTensor or RaggedTensor, whose embeddings a lookup combines to one each."""
from typing import Any, NamedTuple, Optional, Union

import tensorflow as tf

from ascpipe.errors import CombinerError
from ascpipe.tf.graph.batch_structure import SparseIds

COMBINERS = ("sum", "mean", "sqrtn")


class Bags(NamedTuple):
    """Bags of ids, one after the other.

    Attributes:
        values: [n], the ids of all bags.
        bag_of: int64[n], the bag of each id; these rise.
        count: int64 scalar: bags.
    """

    values: tf.Tensor
    bag_of: tf.Tensor
    count: Union[tf.Tensor, int]


def bags_of(table_name: str, ids: Any) -> Bags:
    """The bags of ids. Raises ``CombinerError`` for what is no SparseTensor or RaggedTensor of rank 2."""
    _require_bags(table_name, "ids", ids)
    if isinstance(ids, tf.RaggedTensor):
        return Bags(ids.flat_values, ids.value_rowids(), ids.nrows())
    return Bags(ids.values, ids.indices[:, 0], ids.dense_shape[0])


def weights_of(table_name: str, weights: Optional[SparseIds], ids: SparseIds) -> Optional[tf.Tensor]:
    """The weights of ids, float32[n]. Raises ``CombinerError`` for weights that cannot be those of the ids."""
    if weights is None:
        return None
    _require_bags(table_name, "weights", weights)
    if isinstance(weights, tf.RaggedTensor) != isinstance(ids, tf.RaggedTensor):
        raise CombinerError(table_name, "weights are a {} and ids a {}; give both in one form".format(
            type(weights).__name__, type(ids).__name__))
    if weights.dtype != tf.float32:
        raise CombinerError(table_name, "weights have dtype {}, expected float32: tf.cast() their values".format(
            weights.dtype.name))
    values, others = (each.flat_values if isinstance(each, tf.RaggedTensor) else each.values
                      for each in (weights, ids))
    if not values.shape.is_compatible_with(others.shape):
        raise CombinerError(table_name, "there are weights {} for ids {}; each id has one weight".format(
            values.shape, others.shape))
    return values


def require_combiner(table_name: str, combiner: Any, max_norm: Any) -> None:
    """Raise ``CombinerError`` for a combiner that there is not, or a limit of norms that is none."""
    if combiner not in COMBINERS:
        raise CombinerError(table_name, "combiner is {!r}, expected one of {}".format(
            combiner, ", ".join(map(repr, COMBINERS))))
    is_number = isinstance(max_norm, (int, float)) and not isinstance(max_norm, bool)
    if max_norm is not None and not (is_number and 0 < max_norm < float("inf")):
        raise CombinerError(table_name, "max_norm is {!r}, expected None or a number above 0".format(max_norm))


def combined(rows: tf.Tensor, bags: Bags, weights: Optional[tf.Tensor], combiner: str,
             max_norm: Optional[float]) -> tf.Tensor:
    """One row for each bag, float32[bags, dim]; zeros for one without ids.

    Args:
        rows: float32[n, dim], of all ids.
        bags: of them.
        weights: float32[n]; None: 1 each.
        combiner: one of ``COMBINERS``.
        max_norm: what the length of each row is cut to before.
    """
    if max_norm is not None:
        rows = tf.clip_by_norm(rows, max_norm, axes=[1])
    if weights is None:
        combine = {"sum": tf.sparse.segment_sum, "mean": tf.sparse.segment_mean, "sqrtn": tf.sparse.segment_sqrt_n}
        numbers = tf.range(tf.shape(rows, out_type=tf.int32)[0])
        return combine[combiner](rows, numbers, tf.cast(bags.bag_of, tf.int32), num_segments=bags.count)
    weights = tf.expand_dims(weights, 1)
    total = tf.math.unsorted_segment_sum(rows * weights, bags.bag_of, bags.count)
    if combiner == "sum":
        return total
    divisor = tf.math.unsorted_segment_sum(
        weights if combiner == "mean" else tf.square(weights), bags.bag_of, bags.count)
    there = tf.math.unsorted_segment_sum(tf.ones_like(weights), bags.bag_of, bags.count) > 0
    divisor = tf.where_v2(there, divisor, 1.0)
    return total / (divisor if combiner == "mean" else tf.sqrt(divisor))


def _require_bags(table_name: str, what: str, given: Any) -> None:
    if not isinstance(given, (tf.SparseTensor, tf.RaggedTensor)):
        kind = "a dense Tensor" if isinstance(given, tf.Tensor) else type(given).__name__
        raise CombinerError(table_name, "{} are {}, expected a SparseTensor or RaggedTensor, whose rows are bags"
                            .format(what, kind))
    rank = given.shape.rank
    if rank is not None and rank != 2:
        raise CombinerError(table_name, "{} have rank {}, expected 2, bags of ids: tf.sparse.reshape() them to [bags, "
                            "ids]".format(what, rank))
