"""``lookup_concat``: lookups written straight into the tensor that a model reads, beside its other columns."""
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import tensorflow as tf

from ascpipe.layout.words import EVAL
from ascpipe.tf import internals
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.table_lookup import TableLookup
from ascpipe.tf.running import native
from ascpipe.tf.validation import ListOf, Numbers, Text, checked


@checked(values=ListOf(Numbers()), name=Text(1, 255, optional=True))
def lookup_concat(values: Sequence[Any], name: Optional[str] = None) -> tf.Tensor:
    """``tf.concat(values, axis=1)``, the same bits, without a tensor for each lookup and its copy.

    What ``sparse_lookup`` returned for ids of shape [batch], or for ids of shape [batch, k] and was then reshaped to
    [batch, k dim], is looked up by one op for all tables, together with the other columns, and its gradient is summed
    from the columns of the one gradient, if all features of its table are among ``values``, each once.  All else, such
    as ids of other shapes, lookups of tensors (``modify_graph``) and expansion tables, is joined as ``tf.concat``
    does it.

    Args:
        values: list or tuple of float32[batch, columns] each.
        name: of the op.

    Returns:
        float32[batch, sum of the columns].

    Raises:
        ValueError: an argument of the wrong type. From ``tf.gradients``: rows that are looked up here are trained
            through another use of what ``sparse_lookup`` returned, too, so that their gradient would be two sums.
    """
    tensors = [tf.convert_to_tensor(value) for value in values]
    pieces = _fused([_piece_of(tensor) for tensor in tensors])
    others = [place for place, piece in enumerate(pieces) if piece is None]
    if len(others) == len(tensors) or any(not _is_column_block(tensors[place]) for place in others):
        return tf.concat(tensors, axis=1, name=name)
    return _joined(tensors, pieces, name)


class Piece(NamedTuple):
    """A value that is what a table's lookup gives.

    Attributes:
        lookup: of the table.
        place: which of its features.
        trains: whether a gradient may go through the value.
        after: what the value waits for, of the ops between the lookup and it.
    """

    lookup: TableLookup
    place: int
    trains: bool
    after: List[tf.Operation]


def _piece_of(tensor: tf.Tensor) -> Optional[Piece]:
    graph = tensor.graph
    state = GraphState.known(graph)
    if state is None or internals.is_in_control_flow(graph):
        return None
    trains, after, is_reshaped = True, [], False
    while tensor.op.type in ("Identity", "StopGradient") or (not is_reshaped and _is_side_by_side(tensor)):
        trains &= tensor.op.type != "StopGradient"
        is_reshaped |= tensor.op.type == "Reshape"
        after += tensor.op.control_inputs
        tensor = tensor.op.inputs[0]
    for lookup in state.lookups.values():
        # Not a lookup with a default row of its own, nor one of an expansion table.
        if type(lookup) is TableLookup and tensor.op is lookup.ops[0]:
            place = tensor.value_index
            rank = lookup.restore[place].shape.rank
            return Piece(lookup, place, trains, after) if rank == (2 if is_reshaped else 1) else None
    return None


def _is_side_by_side(tensor: tf.Tensor) -> bool:
    """Whether rows of shape [batch, k, dim] are reshaped to [batch, k dim]."""
    if tensor.op.type != "Reshape" or tensor.shape.rank != 2:
        return False
    before = tensor.op.inputs[0].shape
    columns = None if before.rank != 3 else before[1:].num_elements()
    return columns is not None and columns > 0 and tensor.shape[1].value == columns


def _fused(pieces: List[Optional[Piece]]) -> List[Optional[Piece]]:
    """The pieces of tables all of whose features are there, each once: their gradient is one sum."""
    places: Dict[TableLookup, List[int]] = {}
    for piece in pieces:
        if piece is not None:
            places.setdefault(piece.lookup, []).append(piece.place)
    whole = {lookup for lookup, found in places.items() if sorted(found) == list(range(len(lookup.specs)))}
    return [piece if piece is not None and piece.lookup in whole else None for piece in pieces]


def _is_column_block(tensor: tf.Tensor) -> bool:
    return tensor.dtype == tf.float32 and tensor.shape.rank == 2 and tensor.shape[1].value is not None


def _joined(tensors: List[tf.Tensor], pieces: List[Optional[Piece]], name: Optional[str]) -> tf.Tensor:
    found = [piece for piece in pieces if piece is not None]
    others = [tensor for tensor, piece in zip(tensors, pieces) if piece is None]
    lookups = list(dict.fromkeys(piece.lookup for piece in found))
    numbers, other_numbers = iter(range(len(found))), iter(range(len(found), len(tensors)))
    order = [next(other_numbers if piece is None else numbers) for piece in pieces]
    with tf.control_dependencies([op for piece in found for op in piece.after]):
        joined = native.ops().asc_lookup_concat(
            # The variables themselves, as the gradient is asked for with respect to them.
            rows=[internals.reference_of(lookup.table.variable) for lookup in lookups],
            slots=[lookup.plan[0] for lookup in lookups],
            restore=[piece.lookup.restore[piece.place] for piece in found], others=others,
            tables=[_table_number(lookup) for lookup in lookups],
            sources=[lookups.index(piece.lookup) for piece in found], order=order, name=name or "lookup_concat")
    for lookup in lookups:
        lookup.joined[joined.op.name] = [
            (number, piece.place) for number, piece in enumerate(found) if piece.lookup is lookup and piece.trains]
    return joined


def _table_number(lookup: TableLookup) -> int:
    """The number of a table whose slots may name home rows, else -1."""
    shape = lookup.table.shape
    return shape.number if lookup.channel == EVAL and (shape.home_rows > 0 or shape.expands) else -1


@tf.RegisterGradient("AscLookupConcat")
def _gradient_of_lookup_concat(op: tf.Operation, gradient: tf.Tensor) -> List[Any]:
    """For each table one sum per row, over its lookups in the order in which the program made them."""
    tables, count = op.get_attr("n"), op.get_attr("k")
    rows, slots = op.inputs[:tables], op.inputs[tables:2 * tables]
    restore, others = op.inputs[2 * tables:2 * tables + count], op.inputs[2 * tables + count:]
    sources = op.get_attr("sources")
    widths = [rows[source].shape[1].value * (ids.shape[1].value if ids.shape.rank == 2 else 1)
              for source, ids in zip(sources, restore)] + [other.shape[1].value for other in others]
    begins, end = {}, 0
    for piece in op.get_attr("order"):
        begins[piece] = end
        end += widths[piece]
    sums: List[Optional[tf.IndexedSlices]] = []
    for table in range(tables):
        trained = _trained(op, table, sources)
        if not trained:
            sums.append(None)
            continue
        zeros, none = [0] * len(trained), [-1] * len(trained)
        values, indices = native.ops().asc_sum(
            rows=[], slots=[slots[table]], restore=[restore[lookup] for lookup in trained], grads=[gradient], splits=[],
            weights=[], dims=[rows[table].shape[1].value], tables=zeros, sources=zeros, rows_of=[-1], bags=none,
            weighted=none, combiners=[""] * len(trained), max_norms=[0.0] * len(trained),
            columns=[begins[lookup] for lookup in trained], partial=[len(trained) < sources.count(table)])
        sums.append(tf.IndexedSlices(values[0], indices[0], tf.shape(rows[table])))
    columns = [gradient[:, begins[count + i]:begins[count + i] + widths[count + i]] for i in range(len(others))]
    return [*sums, *[None] * (tables + count), *columns]


def _trained(op: tf.Operation, table: int, sources: List[int]) -> List[int]:
    """Lookups of a table whose rows are trained, in the order of their creation."""
    state = GraphState.known(op.graph)
    if state is not None:
        for lookup in state.lookups.values():
            if op.name in lookup.joined and internals.reference_of(lookup.table.variable) is op.inputs[table]:
                numbers = {place: number for number, place in lookup.joined[op.name]}
                return [numbers[place] for place in lookup.with_gradient if place in numbers]
    # A graph that was imported: the order of the values.
    return [lookup for lookup, source in enumerate(sources) if source == table]
