"""Rewiring of ops that read a table's gradient, so that they read one row per occurrence of a key (ADR 56).

The gradient of a table's lookups has one sum per key. TensorFlow's gradient of ``embedding_lookup`` has one row per
occurrence, so clipping the sums or computing their norm would have a different result. Linear ops continue to read the
sums, because summing before or after a linear op has the same result. When gradients are applied, all other ops of the
program are rewired to read the occurrences.
"""
import logging
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

import tensorflow as tf

from ascpipe.layout.words import SLOT_FROZEN
from ascpipe.tf import internals
from ascpipe.tf.graph.ancestors import ops_feeding
from ascpipe.tf.graph.gradient_state import GradientState
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.rewiring import origin_of, outside_scopes
from ascpipe.tf.graph.row_numbers import origins_of, sums_each_row
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.stand_ins import name_of
from ascpipe.tf.running import native
from ascpipe.tf.running.process import Process

_log = logging.getLogger(__name__)

Pairs = List[Tuple[Any, Any]]
_PASSING = ("Identity", "PreventGradient", "StopGradient")
_TESTS = ("IsFinite", "IsInf", "IsNan")  #: ops that test a whole gradient and may read sums, if ops of _REDUCES follow
_REDUCES = ("All", "Any")


class Occurrences(NamedTuple):
    """Gradient of a table's lookups before the gradients of each key are summed.

    Attributes:
        values: float[n, dim], one row per occurrence of a trained key. Bags of ids have one row per key and lookup,
            because TensorFlow looks up the distinct ids of bags.
        indices: int32[n], the row numbers.
        places: int32[n], position of each key in the slots of the sum, or None if a lookup has bags.
    """

    values: tf.Tensor
    indices: tf.Tensor
    places: Optional[tf.Tensor] = None


def occurrences_of(summing: tf.Operation) -> Occurrences:
    """Return the gradients that an op of type ``SUM`` sums. Repeated calls return the same tensors."""
    if _has_all_occurrences(summing):
        return Occurrences(summing.outputs[0], summing.outputs[1])
    made: Dict[tf.Operation, Occurrences] = internals.stored_on(summing.graph, "occurrences", dict)
    if summing not in made:
        with outside_scopes(summing.graph, "ascpipe/occurrences"), internals.in_control_flow_of(summing):
            made[summing] = _create(summing)
    return made[summing]


def factors_of(values: tf.Tensor, summing: tf.Operation) -> Optional[List[Tuple[tf.Tensor, bool]]]:
    """Return the scalars by which the program multiplied or divided a sum to compute ``values``.

    Each scalar is returned with a bool, which is True for a division. Negations are omitted. Return None if other ops
    changed the sum.
    """
    found: List[Tuple[tf.Tensor, bool]] = []
    while values is not summing.outputs[0]:
        if not _is_linear(values.op):
            return None
        place = _changed_input(values.op)
        if values.op.type in ("Mul", "RealDiv"):
            found.append((values.op.inputs[1 - place], values.op.type == "RealDiv"))
        values = values.op.inputs[place]
    return found


def with_occurrences(state: GraphState, pairs: Pairs) -> Pairs:
    """Rewire ops that change gradients of tables, so that they read occurrences. Return the pairs (gradient, variable)
    to apply.

    Programs for Rec SDK are not changed, because gradients in these programs contain each key once.

    Args:
        pairs: gradients and their variables. Gradients of tables are computed from lookups of this step.
    """
    if not Process.current().is_plain:
        return pairs
    tables = {id(table.variable): table for table in state.tables.values()}
    found: Pairs = []
    for gradient, target in pairs:
        table = tables.get(id(target))
        if table is not None and isinstance(gradient, tf.IndexedSlices):
            gradient = _GradientOps(state, table, gradient).applied(pairs)
        found.append((gradient, target))
    return found


def read_occurrences(state: GraphState) -> None:
    """Rewire ops that were created after ``apply_gradients``, so that they read occurrences instead of sums.

    Ops that read a gradient which the program does not apply are rewired, too, for example ops that display its norm.
    Call the function before a session runs these ops.
    """
    if Process.current().configuration.rank_size > 1 or not Process.current().is_plain:
        return
    for summing in dict.fromkeys([*GradientState.of(state).applied_sums, *_sums_not_applied(state)]):
        for op, tensor, image in _readers(state, summing):
            if not state.started or internals.order_of(op) > GradientState.of(state).checked_order:
                _rewire_inputs(op, tensor, image())


def _sums_not_applied(state: GraphState) -> List[tf.Operation]:
    """Return the ops of type ``SUM`` whose sums are not applied to a variable by an optimizer or by the program."""
    known = GradientState.of(state).given_sums
    return [op for graph in {table.variable.graph for table in state.tables.values()} for op in graph.get_operations()
            if sums_each_row(op) and op.name not in known and not op.name.startswith("ascpipe/")
            and not _has_all_occurrences(op) and not any(
                internals.is_reference(tensor) for reader in _readers(state, op) for tensor in reader.op.inputs)]


class _Reader(NamedTuple):
    """An op that reads sums or scaled sums.

    ``tensor`` is the op's input that contains the sums. ``image`` returns the occurrences that replace ``tensor``.
    """

    op: tf.Operation
    tensor: tf.Tensor
    image: Callable[[], tf.Tensor]


class _GradientOps:
    """The program's ops between the gradient of one table and the optimizer that applies the gradient."""

    def __init__(self, state: GraphState, table: Table, gradient: tf.IndexedSlices) -> None:
        self._state = state
        self._table = table
        self._gradient = gradient
        self._sums = [origin.op for origin in origins_of(gradient.indices)
                      if sums_each_row(origin.op) and not _has_all_occurrences(origin.op)]
        GradientState.of(state).given_sums.update(op.name for op in self._sums)
        self._is_linear = len(self._sums) == 1 and origin_of(gradient.indices) is self._sums[0] and (
            factors_of(gradient.values, self._sums[0]) is not None)

    def applied(self, pairs: Pairs) -> tf.IndexedSlices:
        """Return the gradient to apply.

        The gradient contains sums if the program only scales sums. Otherwise, it contains the values that the
        program's ops compute from occurrences.
        """
        readers = [reader for summing in self._sums for reader in _readers(self._state, summing)]
        why_not = self._refusal_reason(readers)
        if why_not is not None:
            if not self._is_linear or {reader.op for reader in readers} & set(ops_feeding(_tensors_of(pairs))):
                self._warn(why_not)
            return self._gradient
        GradientState.of(self._state).applied_sums.extend(self._sums)
        for op, tensor, image in readers:
            _rewire_inputs(op, tensor, image())
        if self._is_linear:
            return self._gradient
        values, indices = (_on_occurrences(tensor, self._sums)
                           for tensor in (self._gradient.values, self._gradient.indices))
        if len(self._sums) == 1 and origin_of(self._gradient.indices) is self._sums[0]:
            values, indices = _summed(self._sums[0], values, indices)
        return tf.IndexedSlices(values, indices, self._gradient.dense_shape)

    def _refusal_reason(self, readers: Sequence[_Reader]) -> Optional[str]:
        """Return the reason why the program's ops continue to read sums, or None if the ops can be rewired."""
        if not self._sums:
            return None
        if Process.current().configuration.rank_size > 1:
            return "several ranks exchange these sums. Do not change gradients of tables"
        if self._state.started and any(
                internals.order_of(reader.op) <= GradientState.of(self._state).checked_order for reader in readers):
            return "a session ran these ops before gradients were applied. Apply gradients before the first run"
        return None

    def _warn(self, why: str) -> None:
        warned: Set[str] = internals.stored_on(self._table.variable.graph, "gradients_warned_of", set)
        name = name_of(self._state, self._table)
        if name in warned:
            return
        warned.add(name)
        _log.warning(
            "table %r: the program clips or changes its gradient, and results differ from TensorFlow if ids repeat "
            "in a batch. The change applies to the sum of each key, not to each occurrence, because %s", name, why)


def _readers(state: GraphState, summing: tf.Operation) -> List[_Reader]:
    found: List[_Reader] = []
    waiting: List[Tuple[tf.Tensor, Callable[[], tf.Tensor]]] = [
        (summing.outputs[0], lambda: occurrences_of(summing).values),
        (summing.outputs[1], lambda: occurrences_of(summing).indices)]
    while waiting:
        tensor, image = waiting.pop()
        for op in tensor.consumers():
            if _is_of_an_optimizer(state, op):
                continue
            if _is_linear(op) and op.inputs[_changed_input(op)] is tensor:
                waiting.extend((output, _lazily_on_occurrences(output, image)) for output in op.outputs)
            elif not _is_test(op):
                found.append(_Reader(op, tensor, image))
    return found


def _is_of_an_optimizer(state: GraphState, op: tf.Operation) -> bool:
    """Return True if ascpipe created an op, or if the op was created while gradients were applied."""
    if op.type.startswith("Asc") or op.name.startswith("ascpipe/"):
        return True
    number = internals.order_of(op)
    return any(begin < number <= end for begin, end in GradientState.of(state).applied)


class _Part(NamedTuple):
    """One term of a sum: the gradient of one lookup.

    Attributes:
        restore: int32[n], positions in the slots, or -1 for an id without a slot.
        gradients: float[n, dim].
        is_of_bags: True if the ids are combined.
    """

    restore: tf.Tensor
    gradients: tf.Tensor
    is_of_bags: bool


def _parts(summing: tf.Operation) -> List[_Part]:
    count = summing.get_attr("k")
    dim = _dim(summing)
    return [_Part(tf.reshape(ids, [-1]), tf.reshape(rows, [-1, dim]), origin_of(rows).type == "AscCombineRowsGrad")
            for ids, rows in zip(summing.inputs[1:1 + count], summing.inputs[1 + count:])]


def _dim(summing: tf.Operation) -> int:
    return int(summing.get_attr("dim"))


def _has_all_occurrences(summing: tf.Operation) -> bool:
    """Return True if the only term of a sum is the gradient of bags. TensorFlow's gradient has the same rows as this
    sum.
    """
    return summing.get_attr("k") == 1 and origin_of(summing.inputs[2]).type == "AscCombineRowsGrad"


def _create(summing: tf.Operation) -> Occurrences:
    found = [_rows_of(summing, part) for part in _parts(summing)]
    if len(found) == 1:
        return found[0]
    values, indices, places = zip(*found)
    return Occurrences(tf.concat(values, 0), tf.concat(indices, 0), None if None in places else tf.concat(places, 0))


def _rows_of(summing: tf.Operation, part: _Part) -> Occurrences:
    slots = summing.inputs[0]
    alone = Process.current().configuration.rank_size == 1
    if part.is_of_bags and alone:
        rows = native.ops().asc_lookup_grad(
            slots=slots, restore=[part.restore], grads=[part.gradients], dim=_dim(summing), partial=True)
        return Occurrences(rows.values, rows.indices)
    # Occurrences that train no row are removed.
    is_trained = tf.concat([tf.logical_and(slots >= 0, slots < SLOT_FROZEN), [False]], axis=0)
    place = tf.compat.v2.where(part.restore < 0, tf.size(slots), part.restore)
    trained = tf.squeeze(tf.where(tf.gather(is_trained, place)), axis=1)
    places = tf.gather(part.restore, trained)
    gradients = tf.gather(part.gradients, trained)
    indices = tf.gather(slots, places)
    if alone:  # with several ranks, the ranks would exchange the output of each AscLookupGrad
        gradients, indices = native.ops().asc_lookup_grad(
            slots=indices, restore=[tf.range(tf.size(indices))], grads=[gradients], dim=_dim(summing))
    return Occurrences(gradients, indices, places)


def _summed(summing: tf.Operation, values: tf.Tensor, indices: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """For each row, sum the values that the program computed from occurrences.

    If a lookup has bags, return the values unchanged. The optimizer then sums them.
    """
    places = occurrences_of(summing).places
    if places is None:
        return values, indices
    rows = native.ops().asc_lookup_grad(
        slots=summing.inputs[0], restore=[places], grads=[values], dim=_dim(summing), partial=True)
    return rows.values, rows.indices


def _is_linear(op: tf.Operation) -> bool:
    if op.type in (*_PASSING, "Neg", "Switch"):
        return True
    return op.type == "RealDiv" and op.inputs[1].shape.rank == 0 or op.type == "Mul" and any(
        factor.shape.rank == 0 for factor in op.inputs)


def _changed_input(op: tf.Operation) -> int:
    return int(op.type == "Mul" and op.inputs[0].shape.rank == 0)


def _lazily_on_occurrences(output: tf.Tensor, image: Callable[[], tf.Tensor]) -> Callable[[], tf.Tensor]:
    made: List[tf.Tensor] = []

    def make() -> tf.Tensor:
        if not made:
            made.append(_reapply(output, image()))
        return made[0]

    return make


def _on_occurrences(tensor: tf.Tensor, sums: Sequence[tf.Operation]) -> tf.Tensor:
    """If ``tensor`` is a sum or a scaled sum, return the occurrences with the same scaling.

    Otherwise, return ``tensor``.
    """
    if tensor.op in sums:
        return occurrences_of(tensor.op)[tensor.value_index]
    if not _is_linear(tensor.op):
        return tensor
    before = tensor.op.inputs[_changed_input(tensor.op)]
    after = _on_occurrences(before, sums)
    return tensor if after is before else _reapply(tensor, after)


def _reapply(output: tf.Tensor, given: tf.Tensor) -> tf.Tensor:
    op = output.op
    if op.type in _PASSING:
        return given
    with outside_scopes(op.graph, "ascpipe/occurrences"), internals.in_control_flow_of(op):
        # TensorFlow adds a Switch to a branch that reads or returns an outer tensor. The op is in this branch. Its
        # consumer may be in an inner conditional, or outside the branch.
        if op.type == "Switch":
            return tf.identity(given)
        if op.type == "Neg":
            return tf.negative(given)
        factor = op.inputs[1 - _changed_input(op)]
        return given / factor if op.type == "RealDiv" else given * factor


def _is_test(op: tf.Operation) -> bool:
    return op.type in _TESTS and all(reader.type in _REDUCES for reader in op.outputs[0].consumers())


def _rewire_inputs(op: tf.Operation, before: tf.Tensor, after: tf.Tensor) -> None:
    for place, source in enumerate(op.inputs):
        if source is before:
            internals.rewire(op, place, after)


def _tensors_of(pairs: Iterable[Tuple[Any, Any]]) -> List[tf.Tensor]:
    found = [gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient for gradient, _ in pairs]
    return [each for each in found if isinstance(each, tf.Tensor)]
