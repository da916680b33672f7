"""Check that a program loads the tables of a warm start before it trains them.

A table is *pending* after ``asc.warm_start`` has selected it, until the program loads it or restores a checkpoint.
"""
import dataclasses
from typing import Dict, Iterable

import tensorflow as tf

from ascpipe.errors import CallOrderError
from ascpipe.tf import internals
from ascpipe.tf.graph import settled_runs
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.process import Process


@dataclasses.dataclass
class _Pending:
    """Names of the pending tables of a graph, as the keys of a dict, in the order of their selection."""

    tables: Dict[str, None] = dataclasses.field(default_factory=dict)

    @staticmethod
    def of(state: GraphState) -> "_Pending":
        return internals.stored_on(state, "pending_loads", _Pending)


def expect(state: GraphState, tables: Iterable[str]) -> None:
    """Record that tables of a graph are pending, because ``warm_start`` has selected them."""
    _Pending.of(state).tables.update(dict.fromkeys(tables))
    settled_runs.forget(state)


def settle(state: GraphState) -> None:
    """Record that no table of a graph is pending any more, because the program has loaded or restored the tables."""
    _Pending.of(state).tables.clear()


def sizes(graph: tf.Graph) -> Dict[str, int]:
    """Return the number of trained keys of each pending table. The dict is empty if no table is pending.

    It is also empty in graphs that only evaluate, and on ranks other than 0, because rank 0 can load the tables of all
    ranks.
    """
    state = GraphState.known(graph)
    if state is None or not state.started or not state.trains or not _Pending.of(state).tables:
        return {}
    pipeline = Process.current().running_pipeline()
    if pipeline.rank != 0:
        return {}
    return {name: pipeline.native_side.table_size(state.tables[name].shape.number)
            for name in _Pending.of(state).tables}


def require_loaded(graph: tf.Graph, before: Dict[str, int]) -> None:
    """Raise ``CallOrderError`` if a run of a session has trained a pending table.

    A table without rows that has rows after the run was trained in this run.

    Args:
        before: result of ``sizes`` before the run.
    """
    if not before:  # the usual case
        return
    after = sizes(graph)
    trained = [name for name in before if before[name] == 0 and after.get(name, 0) > 0]
    if trained:
        raise CallOrderError(
            "asc.warm_start() selected {}, but the program has not called the function that it returned. The step "
            "has trained initial rows instead of the rows of the checkpoint. Nothing was saved. Call load = "
            "asc.warm_start(...) and then load(session), after the initializers and before the first batch, or pass "
            "Scaffold(init_fn=lambda _, session: load(session)) (docs/how-to/warm_start.md)".format(
                ", ".join(map(repr, trained))))
