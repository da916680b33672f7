"""Variables of feature columns for which tables stand, in one graph."""
from typing import Any, Dict, NamedTuple, Optional, Set

import tensorflow as tf

from ascpipe.tf import internals
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.sparse_table import Table


class StandIn(NamedTuple):
    """A variable without rows that TensorFlow made in the place of a large one, and the table that has the rows.

    Attributes:
        variable: float[0, dim], under the name and in the collections where TensorFlow has the large one.
        table: the table.
        trains: whether its rows are trained.
    """

    variable: tf.Variable
    table: Table
    trains: bool


class StandIns(Dict[str, StandIn]):
    """The stand-ins of one graph, by the names of their variables. Made by ``StandIns.of``.

    Attributes:
        updated: by name of a table that an optimizer updates, the variable scope in which it does.
        unreached: names of tables whose gradient an optimizer was asked for, and found none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.updated: Dict[str, str] = {}
        self.unreached: Set[str] = set()

    @staticmethod
    def of(state: GraphState) -> "StandIns":
        """Return the stand-ins of a graph; there are none the first time."""
        return internals.kept_on(state, "stand_ins", StandIns)

    def of_variable(self, variable: Any) -> Optional[StandIn]:
        """The stand-in for a variable; None if no table has its rows, or it is no variable."""
        return self.get(variable.op.name) if isinstance(variable, tf.Variable) else None

    def variables(self) -> Dict[str, str]:
        """By the name of each table, the name of its variable."""
        return {stand_in.table.table_name: variable for variable, stand_in in self.items()}

    def name_of_slot(self, variable: str) -> Optional[str]:
        """How the names of the slots begin that TensorFlow would make of a variable; None: no optimizer updates it."""
        scope = self.updated.get(self[variable].table.table_name)
        return None if scope is None else "/".join([*filter(None, [scope]), variable])


def name_of(state: GraphState, table: Table) -> str:
    """The name by which a program knows a table: of one behind a column that of the column's variable."""
    return StandIns.of(state).variables().get(table.table_name, table.table_name)
