"""Check that raises an error for moving averages of table variables.

The average would mix rows of different keys, because a row of a table variable belongs to different keys over time.
"""
from typing import Any

import tensorflow as tf

from ascpipe.errors import TableUseError
from ascpipe.tf import internals, patches
from ascpipe.tf.graph.expansion import ExpansionLookup
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.stand_ins import name_of
from ascpipe.tf.graph.table_uses import AVERAGE

_REASON = ("ExponentialMovingAverage.apply() averages its rows over steps, but they belong to other keys in each "
           "step. {}. Nothing was trained".format(AVERAGE))


@patches.MOVING_AVERAGES.by
def _apply(self: Any, var_list: Any = None) -> Any:
    state = GraphState.known(internals.outermost(tf.compat.v1.get_default_graph()))
    if state is not None and state.served is None and var_list is not None:
        var_list = list(var_list)
        for target in var_list:
            for table in state.tables.values():
                if target is table or any(target is each for each in _rows_of(state, table)):
                    raise TableUseError(name_of(state, table), _REASON)
    return patches.MOVING_AVERAGES.plain(self, var_list)


def _rows_of(state: GraphState, table: Table) -> Any:
    yield table.variable
    yield from table.optimizer_variables
    yield from state.requests.local.get(table.table_name, ())
    for lookup in state.lookups.values():
        if lookup.table is table and isinstance(lookup, ExpansionLookup):
            yield from (lookup.local, lookup.handles)
