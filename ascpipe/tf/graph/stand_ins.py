"""Variables of feature columns that tables replace, in one graph."""
from typing import Any, Dict, NamedTuple, Optional, Set

import tensorflow as tf

from ascpipe.tf import internals
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.sparse_table import Table


class StandIn(NamedTuple):
    """A variable without rows that TensorFlow created instead of a large one, and the table with the rows.

    Attributes:
        variable: float[0, dim], with the name and collections of the large variable.
        trains: True if the rows are trained.
    """

    variable: tf.Variable
    table: Table
    trains: bool


class StandIns(Dict[str, StandIn]):
    """Stand-ins of one graph by the names of their variables. Created by ``StandIns.of``.

    Attributes:
        updated: variable scope in which an optimizer updates a table, by table name.
        unreached: names of tables that a differentiated loss does not depend on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.updated: Dict[str, str] = {}
        self.unreached: Set[str] = set()

    @staticmethod
    def of(state: GraphState) -> "StandIns":
        """Return the stand-ins of a graph."""
        return internals.stored_on(state, "stand_ins", StandIns)

    def of_variable(self, variable: Any) -> Optional[StandIn]:
        """Return the stand-in of a variable; None for other variables and objects."""
        return self.get(variable.op.name) if isinstance(variable, tf.Variable) else None

    def variables(self) -> Dict[str, str]:
        """Return the name of the variable of each table, by table name."""
        return {stand_in.table.table_name: variable for variable, stand_in in self.items()}

    def name_of_slot(self, variable: str) -> Optional[str]:
        """Return the prefix of TensorFlow's names for the slots of a variable; None if no optimizer updates it."""
        scope = self.updated.get(self[variable].table.table_name)
        return None if scope is None else "/".join([*filter(None, [scope]), variable])


def name_of(state: GraphState, table: Table) -> str:
    """Return a program's name of a table; for a stand-in, the name of the column's variable."""
    return StandIns.of(state).variables().get(table.table_name, table.table_name)
