"""Stand-ins in one graph. A stand-in is a variable with 0 rows that replaces a large variable of a feature column."""
from typing import Any, Dict, NamedTuple, Optional, Set

import tensorflow as tf

from ascpipe.tf import internals
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.sparse_table import Table


class StandIn(NamedTuple):
    """A stand-in variable, which TensorFlow created instead of a large variable, and the table that contains the rows.

    Attributes:
        variable: float[0, dim], with the name and collections of the large variable.
        trains: True if the rows are trained.
    """

    variable: tf.Variable
    table: Table
    trains: bool


class StandIns(Dict[str, StandIn]):
    """Stand-ins of one graph as a dict: name of the stand-in variable -> stand-in. ``StandIns.of`` creates an object.

    Attributes:
        updated: table name -> variable scope in which an optimizer updates the table.
        unreached: names of tables that got no gradient because the loss does not depend on them.
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
        """Return the stand-in to which a variable belongs, or None if there is no such stand-in."""
        return self.get(variable.op.name) if isinstance(variable, tf.Variable) else None

    def variables(self) -> Dict[str, str]:
        """Return a dict: name of a table -> name of the stand-in variable."""
        return {stand_in.table.table_name: variable for variable, stand_in in self.items()}

    def name_of_slot(self, variable: str) -> Optional[str]:
        """Return the prefix of TensorFlow's names for the slots of a variable.

        Return None if no optimizer updates the variable.
        """
        scope = self.updated.get(self[variable].table.table_name)
        return None if scope is None else "/".join([*filter(None, [scope]), variable])


def name_of(state: GraphState, table: Table) -> str:
    """Return the name of the column's variable if a table has a stand-in. Otherwise, return the table's name."""
    return StandIns.of(state).variables().get(table.table_name, table.table_name)
