"""Gradient function of table lookups, which sums the gradients of all lookups for each row."""
from typing import Any, List, Optional, Sequence

import tensorflow as tf

from ascpipe.errors import TableUseError
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.table_lookup import TableLookup
from ascpipe.tf.running import native


@tf.RegisterGradient("AscLookup")
@tf.RegisterGradient("AscRestoreRows")
def _gradient_of_lookup(op: tf.Operation, *gradients: Any) -> List[Any]:
    """Return the gradient of the table. For each row, this gradient contains the sum of the gradients of all lookups.

    The gradients are added in the order in which the program created the lookups.
    """
    count = op.get_attr("k")
    if op.type == "AscLookup" and op.get_attr("table") >= 0:
        return [None] * len(op.inputs)  # lookup in evaluation
    restore = op.inputs[2:2 + count]
    lookup = _lookup_of(op)
    # An imported graph has no TableLookup, so use the order of the features.
    order: Sequence[int] = range(count) if lookup is None else lookup.with_gradient
    trained = [place for place in order if not _is_untouched(op, place, gradients[place])]
    nothing: List[Any] = [None] * (1 + count + 1)
    if not trained:
        return [None, *nothing]
    rows = op.inputs[0]  # the device table, or the local rows of an expansion table
    values, indices = native.ops().asc_lookup_grad(
        slots=op.inputs[1], restore=[restore[place] for place in trained],
        grads=[tf.convert_to_tensor(gradients[place]) for place in trained], dim=rows.shape[1].value,
        partial=len(trained) < count)
    return [tf.IndexedSlices(values, indices, tf.shape(rows)), *nothing]


@tf.RegisterGradient("AscLookupGrad")
def _gradient_of_gradient(op: tf.Operation, *gradients: Any) -> None:
    """Raise ``TableUseError``: a loss that depends on the gradient of a table is not supported."""
    state = GraphState.known(op.graph)
    names = [] if state is None else [name for (name, _), lookup in state.lookups.items()
                                      if any(op.inputs[0] is each for each in lookup.plan)]
    raise TableUseError(
        names[0] if names else op.name, "the program differentiates a gradient of the table, for "
        "example in a gradient penalty. Differentiate a gradient of the rows that sparse_lookup() returned: penalty = "
        "tf.reduce_sum(tf.square(tf.gradients(loss, rows)[0])). Nothing was trained")


def _lookup_of(op: tf.Operation) -> Optional[TableLookup]:
    """Return the ``TableLookup`` that created an op, or None in an imported graph."""
    state = GraphState.known(op.graph)
    return None if state is None else next((each for each in state.lookups.values() if each.ops[0] is op), None)


def _is_untouched(op: tf.Operation, place: int, gradient: Any) -> bool:
    """Return True if no loss depends on the output with the number ``place``. Keys of unused outputs are not trained.

    TensorFlow then passes None as the gradient, or adds an op that returns zeros.
    """
    if gradient is None:
        return True
    return isinstance(gradient, tf.Tensor) and gradient.op.type == "ZerosLike" and \
        gradient.op.inputs[0] is op.outputs[place]
