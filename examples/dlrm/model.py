"""Click model: a bottom MLP for numbers, one embedding per field, and a top MLP with one logit.

The model does not depend on the source of embeddings. ``embeddings.py`` has two sources.
"""
from typing import Callable, List, Sequence

from examples.dlrm.quiet import tf


def click_logits(
        dense: tf.Tensor, embeddings: Sequence[tf.Tensor], *, bottom: Sequence[int], top: Sequence[int],
        seed: int) -> tf.Tensor:
    """Return the logit of a click for each row.

    Args:
        dense: float32[B, D], the numeric columns.
        embeddings: float32[B, dim] per field.
        bottom: units of the layers for the numbers.
        top: units of the hidden layers for numbers and embeddings.
        seed: seed of the initial weights. They do not depend on other ops of the graph.

    Returns:
        float32[B]. A second call (evaluation) shares the variables of the first call.
    """
    with tf.compat.v1.variable_scope("click_model", reuse=tf.compat.v1.AUTO_REUSE):
        numbers = _layers(dense, bottom, "bottom", seed)
        joined = _layers(tf.concat([numbers, *embeddings], axis=1), top, "top", seed + len(bottom))
        logits = _layer(joined, 1, "logit", seed + len(bottom) + len(top))
    return tf.squeeze(logits, axis=1)


def click_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Return the mean cross entropy of a batch, a float32 scalar."""
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def train_op(
        loss: tf.Tensor, dense_variables: List[tf.Variable], sparse_variables: List[tf.Variable],
        dense_optimizer: tf.compat.v1.train.Optimizer, sparse_optimizer: tf.compat.v1.train.Optimizer,
        average: Callable[[List[tf.Tensor]], List[tf.Tensor]]) -> tf.Operation:
    """Return an op that computes all gradients before all updates. ``average`` computes means of dense
    gradients over ranks.

    GATE_GRAPH is necessary, because variables of TensorFlow 1 are references. Otherwise an update may overwrite a
    weight while another gradient reads the weight.
    """
    pairs = dense_optimizer.compute_gradients(
        loss, dense_variables + sparse_variables, gate_gradients=tf.compat.v1.train.Optimizer.GATE_GRAPH)
    split = len(dense_variables)
    dense = average([gradient for gradient, _ in pairs[:split]])
    # Gradients of rows are not averaged here. The rank that owns a row sums its gradients of all ranks.
    return tf.group(dense_optimizer.apply_gradients(zip(dense, dense_variables)),
                    sparse_optimizer.apply_gradients(pairs[split:]))


def _layers(inputs: tf.Tensor, units: Sequence[int], name: str, seed: int) -> tf.Tensor:
    for number, width in enumerate(units):
        inputs = tf.nn.relu(_layer(inputs, width, "{}_{}".format(name, number), seed + number))
    return inputs


def _layer(inputs: tf.Tensor, width: int, name: str, seed: int) -> tf.Tensor:
    weights = tf.compat.v1.get_variable(
        name + "_weights", [inputs.shape[1], width], initializer=tf.compat.v1.glorot_uniform_initializer(seed=seed))
    bias = tf.compat.v1.get_variable(name + "_bias", [width], initializer=tf.compat.v1.zeros_initializer())
    return tf.nn.bias_add(tf.matmul(inputs, weights), bias)
