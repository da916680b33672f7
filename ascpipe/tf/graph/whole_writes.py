"""Check that raises an error if a run overwrites the whole variable, or a whole slot variable, of a table.

Such a write has no keys. It changes only rows on the device, and after a move of keys it changes rows of other keys.
"""
from typing import Any, Dict, List, Sequence, Set, Tuple

import tensorflow as tf

from ascpipe.errors import TableUseError
from ascpipe.tf import internals
from ascpipe.tf.graph.ancestors import ops_behind
from ascpipe.tf.graph.fed_ids import fed_tensors, ops_run
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import name_of
from ascpipe.tf.running.process import Process

_LOAD = ("the value of {!r} was fed to its initializer, for example by variable.load(). The value has rows without "
         "their keys, and the variable may contain rows of other keys now. Nothing was run. To keep and restore rows, "
         "use a Saver, or table.read(keys) and table.assign(keys, rows)")
_RESET = ("this run would initialize its slot variable {!r}, but not the table. Only the rows on the device would be "
          "reset, not the other rows. Nothing was run. To reset slots, call table.assign(keys, rows, slots); the "
          "initializer of {!r} removes all rows with their slots")

#: Name of an initializer, or of an op that runs it -> pairs of a table and the name of the initialized variable.
_Leads = Dict[str, Set[Tuple[str, str]]]


class _Writes:
    """Initializers of the tables of a graph.

    Attributes:
        values: name of the tensor that an initializer assigns -> table and name of the variable.
        initializers: op and pair of a table and the name of the variable. The list has tables and slot variables whose
            rows are not all on the device.
        starts: pair of a table and the name of a slot variable -> number of runs of the table's initializer when the
            slot variable was last initialized.
    """

    def __init__(self) -> None:
        self.values: Dict[str, Tuple[str, str]] = {}
        self.initializers: List[Tuple[tf.Operation, Tuple[str, str]]] = []
        self.starts: Dict[Tuple[str, str], int] = {}
        self._leads: _Leads = {}
        self._order = -1

    def initialized_by(self, graph: tf.Graph, arguments: Sequence[Any]) -> Set[Tuple[str, str]]:
        """Return the pairs in ``initializers`` that a run initializes."""
        if not self.initializers:
            return set()
        leads = self._leads_of(graph)
        return {pair for op in ops_run(arguments) for pair in leads.get(op, ())}

    def _leads_of(self, graph: tf.Graph) -> _Leads:
        """Return the ops that run initializers. Ops may have been added to the graph since the last call."""
        if self._order != internals.newest_order(graph):
            self._leads = {}
            for initializer, pair in self.initializers:
                for op in ops_behind([initializer], by_control=True):
                    self._leads.setdefault(op.name, set()).add(pair)
            self._order = internals.newest_order(graph)
        return self._leads


def note_variables(state: GraphState) -> None:
    """Record the initializers of all tables of a graph, and of their slot variables, when the slots are known."""
    writes = _of(state)
    writes.values = {}
    writes.initializers = []
    for name, table in state.tables.items():
        slots = [slot.variable for slot in state.slots.get(name, ()) if slot.variable is not None]
        for variable in (table.variable, *slots):
            writes.values[variable.initializer.inputs[1].name] = (name, variable.op.name)
            if slots and table.shape.home_rows > 0:
                writes.initializers.append((variable.initializer, (name, variable.op.name)))


def refuse_whole_writes(graph: tf.Graph, arguments: Sequence[Any]) -> bool:
    """Raise ``TableUseError`` if a run feeds the value of a table's variable, or initializes slots without the table.

    Return whether the run initializes variables of tables. Whether it may do so depends on the rows of that time.

    The slots of a table without rows may be initialized in any way, because they have their initial values. A table
    with pretrained rows has rows after its own initializer, and its slots may be initialized after that once.

    Args:
        arguments: arguments of the call with which a session runs a step. A dict contains the fed values, and lists
            contain the fetches and targets.
    """
    state = GraphState.known(graph)
    if state is None or not state.started:
        return False
    writes = _of(state)
    for tensor in fed_tensors(arguments):
        if tensor in writes.values:
            name, variable = writes.values[tensor]
            raise TableUseError(name_of(state, state.tables[name]), _LOAD.format(variable))
    pairs = writes.initialized_by(graph, arguments)
    of_tables = {name for name, variable in pairs if state.tables[name].variable.op.name == variable}
    for name, variable in sorted(pairs):
        table = state.tables[name]
        starts = Process.current().running_pipeline().native_side.table_starts(table.shape.number)
        if name in of_tables:
            starts += 1
        elif table.size() > 0 and not (name in state.pretrained and writes.starts.get((name, variable), 0) < starts):
            raise TableUseError(name_of(state, table), _RESET.format(variable, table.variable.op.name))
        writes.starts[name, variable] = starts
    return bool(pairs)


def _of(state: GraphState) -> _Writes:
    return internals.stored_on(state, "whole_writes", _Writes)
