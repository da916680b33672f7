"""Functions that raise an error for copies of graphs. A copy contains ops of tables, but neither tables nor a pipeline.
"""
import re
from typing import Any

import tensorflow as tf

from ascpipe.errors import TableUseError
from ascpipe.tf import internals, patches
from ascpipe.tf.graph.graph_state import GraphState

_PLANS = ("AscNextPlan", "AscProvisionalPlan")  #: types of ops on which lookups depend
_TABLE = re.compile(r"([^/]+?)_(?:(?:training|evaluation)(?:_plan)?|unmodified)/")
_EXPORT = "To serve the model, export it with its tables as a SavedModel (docs/how-to/saved_models.md)"


class _Seen:
    """Version and number of ops of a graph at the last check. An attribute of the graph stores this object."""

    def __init__(self) -> None:
        self.version = 0
        self.ops = 0


def require_no_copy(graph: tf.Graph) -> None:
    """Raise ``TableUseError`` if a graph reads tables that were created in another graph."""
    state = GraphState.known(graph)
    if state is not None and (state.tables or state.served is not None):
        return
    seen = internals.stored_on(graph, "seen", _Seen)
    version = graph.version
    if seen.version == version:
        return
    ops = graph.get_operations()[seen.ops:]
    for op in ops:
        if op.type in _PLANS:
            raise _imported(op.name)
    seen.version = version
    seen.ops = seen.ops + len(ops)


def _imported(op_name: str) -> TableUseError:
    return TableUseError(
        _table_of(op_name), "this graph comes from tf.train.import_meta_graph() or tf.import_graph_def(). A graph "
                            "file has ops, but neither tables nor their pipeline. Nothing was run. Build the graph "
                            "with the code of the program, then restore the checkpoint with asc.Saver. " + _EXPORT)


@patches.FREEZE.by
def _extract_sub_graph(graph_def: Any, dest_nodes: Any) -> Any:
    """Replacement for ``extract_sub_graph``, which is called by all aliases of ``convert_variables_to_constants``."""
    found = patches.FREEZE.plain(graph_def, dest_nodes)
    for node in found.node:
        if node.op in _PLANS:
            raise TableUseError(
                _table_of(node.name), "convert_variables_to_constants(), which freeze_graph calls, would keep only "
                                      "the rows that are on the device now, and the frozen graph would still need "
                                      "the pipeline. Nothing was converted. " + _EXPORT)
    return found


def _table_of(op_name: str) -> str:
    found = _TABLE.search(op_name)
    return op_name if found is None else found.group(1)
