"""Warning that another graph has initialized the tables of a graph.

All graphs of a process share the tables of the same name. If each graph is a model of its own, for example for one fold
of a cross-validation, an earlier model would silently combine its dense variables with the rows of a later model.
"""
import logging
import weakref
from typing import Dict, Mapping, Set

import tensorflow as tf

from ascpipe.errors import api_names
from ascpipe.layout.words import TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph import settled_runs
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.process import Process

_log = logging.getLogger(__name__)


def starts(state: GraphState) -> Dict[str, int]:
    """Return a dict: name of a table that a graph trains -> number of runs of the table's initializer."""
    trained = [name for name in state.tables if (name, TRAIN) in state.lookups]
    if not trained or not state.started:
        return {}
    native_side = Process.current().running_pipeline().native_side
    return {name: native_side.table_starts(state.tables[name].shape.number) for name in trained}


def note_run(graph: tf.Graph, state: GraphState, before: Mapping[str, int]) -> bool:
    """Record the tables that a run of a graph has initialized. Return True if there are any.

    Args:
        before: result of ``starts`` before the run.
    """
    begun = [name for name, number in starts(state).items() if number != before.get(name, 0)]
    graphs: Dict[str, weakref.ref[tf.Graph]] = internals.stored_on(Process.current(), "initializing_graphs", dict)
    for name in begun:
        earlier = graphs[name]() if name in graphs else None
        graphs[name] = weakref.ref(graph)
        replaced(state).discard(name)
        if earlier is not None and earlier is not graph:
            other = GraphState.of(earlier)
            replaced(other).add(name)
            settled_runs.forget(other)
    return bool(begun)


def note_restore(state: GraphState) -> None:
    """Record that a graph has restored the rows of its tables."""
    replaced(state).clear()


def replaced(state: GraphState) -> Set[str]:
    """Return the names of tables that this graph has initialized, and that another graph has initialized later."""
    return internals.stored_on(state, "replaced_rows", set)


def warn(state: GraphState) -> None:
    """Warn, once, that a run looks up rows of the tables in ``replaced``."""
    names = replaced(state)
    _log.warning(api_names.in_names_of_program(
        "another graph has initialized the table{} {}, which this graph had initialized before. Graphs share tables of "
        "the same name, so this run uses the dense variables of its graph with the rows of the other graph. If each "
        "graph is a model of its own, pass other table names to asc.create_table in each graph "
        "(docs/how-to/graphs.md)".format("s"[:len(names) - 1], ", ".join(map(repr, sorted(names))))))
    names.clear()
