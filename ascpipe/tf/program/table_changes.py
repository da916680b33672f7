"""Ops that change a table between two steps: another access threshold, and feature eviction.

Each takes effect exactly where the program runs it, however far the pipeline has worked ahead: batches that
were trained before see the table as it was, all later ones as it is then.  It is run in a run of its own,
not together with a training step.
"""
from typing import Any, List, Optional

import tensorflow as tf

from ascpipe.layout.words import CUT_EVICT, CUT_THRESHOLD, TRAIN
from ascpipe.tf.graph.feature_spec import clean_table_name
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.scopes import outside_scopes
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.running import native


def set_threshold(threshold: Any, emb_name: str = "", ids_name: str = "", name: Optional[str] = None) -> tf.Operation:
    """An op that changes how often a key must occur before it gets a row. Run it between training steps.

    Tables without admission are left alone.

    Args:
        threshold: integer scalar, tensor or number; above 0: the new access threshold; 0: occurrences are no
            longer counted, the threshold stays; below 0 is an error when the op runs.
        emb_name: the table; empty: all tables of the default graph that there are now.
        ids_name: without effect: a table has one threshold.
        name: of the op.

    Raises:
        ValueError: there is no such table.
        EnvironmentError: before ``init``.
    """
    graph = tf.compat.v1.get_default_graph()
    tables = _named_tables(GraphState.of(graph), emb_name)
    with graph.name_scope(name or "set_threshold"), tf.device("/device:CPU:0"):
        argument = tf.cast(tf.convert_to_tensor(threshold), tf.int64)
        return tf.group(*[_cut(table, CUT_THRESHOLD, argument) for table in tables])


def eviction_op(state: GraphState) -> Optional[tf.Operation]:
    """The op that evicts from every trained table of a graph with an ``eviction_threshold``; None without any."""
    if state.evict_op is None:
        tables = [table for name, table in state.tables.items()
                  if (name, TRAIN) in state.lookups and state.thresholds.of(name).evicts]
        if not tables:
            return None
        graph = tables[0].variable.graph
        with outside_scopes(graph), graph.name_scope("ascpipe/evict"):
            state.evict_op = tf.group(*[
                _cut(table, CUT_EVICT, tf.constant(state.thresholds.of(table.table_name).eviction, tf.int64))
                for table in tables])
    return state.evict_op


def _cut(table: Table, kind: int, argument: tf.Tensor) -> tf.Operation:
    return native.ops().asc_cut(argument=argument, table=table.shape.number, kind=kind)


def _named_tables(state: GraphState, name: str) -> List[Table]:
    if not state.tables:
        raise ValueError("set_threshold: the default graph has no table; call it after create_table()")
    cleaned = clean_table_name(name) if name else None
    if cleaned is not None and cleaned not in state.tables:
        raise ValueError("set_threshold: the default graph has no table {!r}; there are {}".format(
            name, ", ".join(sorted(map(repr, state.tables)))))
    # Before the start a lookup may still say that a table has admission; without it the table ignores the cut.
    return [table for key, table in state.tables.items() if cleaned in (None, key)
            and (not state.started or state.thresholds.of(key).admission)]
