"""Record of the tensors whose gradients a program computes.

The record is used to find tables on which a loss depends but which no op updates. ``tf.gradients``, ``tf.hessians`` and
all optimizers call the function of TensorFlow that this module patches.
"""
from typing import Any

import tensorflow as tf

from ascpipe.layout.words import TRAIN
from ascpipe.tf import internals, patches
from ascpipe.tf.graph.gradient_state import GradientState
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import StandIn
from ascpipe.tf.program.tensor_lookups import merge
from ascpipe.tf.running.process import Process
from ascpipe.tf.training.column_gradients import gradients_of_stand_ins, rows_for_stand_ins, targets_of


@patches.GRADIENTS.by
def _gradients(ys: Any, xs: Any, *args: Any, **kwargs: Any) -> Any:
    has_tables = _note(ys)
    _merge(xs)
    _note_tables_apart(xs)
    calculate = patches.gated_gradients if has_tables else patches.GRADIENTS.plain
    found = calculate(ys, rows_for_stand_ins(ys, xs), *args, **kwargs)
    return gradients_of_stand_ins(xs, found)


@patches.TAPE_GRADIENT.by
def _gradient_of_tape(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
    _note(target)
    _merge(sources)
    return patches.TAPE_GRADIENT.plain(self, target, sources, *args, **kwargs)


def _merge(sources: Any) -> None:
    """Merge the lookups of each table if a program of ``ascpipe.tf`` computes gradients with respect to rows of tables.

    With Rec SDK's API, programs must call ``do_merge_lookup``.
    """
    if not Process.is_initialised() or not Process.current().is_plain:
        return
    for graph in {internals.outermost(source.graph) for source in tf.nest.flatten(sources)
                  if isinstance(source, (tf.Tensor, tf.Variable)) and hasattr(source, "graph")}:
        state = GraphState.of(graph)
        targets = {id(target) for table in state.tables.values() for target in (
            table.variable, internals.reference_of(table.variable),
            *state.requests.local.get(table.table_name, ()))} if state.requests.unmerged(TRAIN) else set()
        if any(id(source) in targets for source in tf.nest.flatten(sources)):
            merge(state, TRAIN)


def _note_tables_apart(sources: Any) -> None:
    """Record the tables among the sources of gradients, if all sources are tables."""
    state = GraphState.known(internals.outermost(tf.compat.v1.get_default_graph()))
    if state is None or not state.tables:
        return
    names = {id(target): name for name, table in state.tables.items() for target in (
        table.variable, internals.reference_of(table.variable), *targets_of(state, StandIn(None, table, True)))}
    found = [names.get(id(source)) for source in tf.nest.flatten(sources)]
    if None not in found:
        GradientState.of(state).apart.update(name for name in found if name is not None)


def _note(targets: Any) -> bool:
    """Record the targets that are in graphs with tables, and return whether there are any."""
    has_tables = False
    for tensor in tf.nest.flatten(targets):
        if not isinstance(tensor, tf.Tensor) or not hasattr(tensor, "graph"):
            continue
        graph = internals.outermost(tensor.graph)
        state = GraphState.known(graph)
        if state is not None and state.tables:
            within = "" if tensor.graph is graph else "{} of ".format(id(tensor.graph))
            GradientState.of(state).losses[within + tensor.name] = tensor
            has_tables = True
    return has_tables
