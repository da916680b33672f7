"""Check that a program loads the tables of a warm start before it trains these tables."""
import dataclasses
from typing import Dict, Iterable

import tensorflow as tf

from ascpipe.errors import CallOrderError
from ascpipe.tf import internals
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.process import Process


@dataclasses.dataclass
class _Pending:
    """Tables of a graph that ``warm_start`` selected and that were neither loaded nor restored."""

    tables: Dict[str, None] = dataclasses.field(default_factory=dict)  # in the order of the selection

    @staticmethod
    def of(state: GraphState) -> "_Pending":
        return internals.stored_on(state, "pending_loads", _Pending)


def expect(state: GraphState, tables: Iterable[str]) -> None:
    """Record the names of tables that ``load`` must load before the graph trains these tables."""
    _Pending.of(state).tables.update(dict.fromkeys(tables))


def settle(state: GraphState) -> None:
    """Record that the program has loaded or restored the tables of a graph."""
    _Pending.of(state).tables.clear()


def sizes(graph: tf.Graph) -> Dict[str, int]:
    """Return the number of trained keys of each pending table. The dict is empty if no table is pending.

    It is also empty on ranks other than 0, because rank 0 can load the tables of all ranks.
    """
    state = GraphState.known(graph)
    if state is None or not state.started or not _Pending.of(state).tables:
        return {}
    pipeline = Process.current().running_pipeline()
    if pipeline.rank != 0:
        return {}
    return {name: pipeline.native_side.table_size(state.tables[name].shape.number)
            for name in _Pending.of(state).tables}


def require_loaded(graph: tf.Graph, before: Dict[str, int]) -> None:
    """Raise ``CallOrderError`` if a run has created the first rows of a pending table.

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
