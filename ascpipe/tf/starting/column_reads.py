"""Warnings about ops that read a variable of a feature column, although the rows of the variable are in a table."""
import logging
from typing import Dict, List, Set

import tensorflow as tf

from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import StandIns
from ascpipe.tf.running.process import Process

_log = logging.getLogger(__name__)

#: Types of ops that return their input unchanged.
_COPIES = ("Identity", "ReadVariableOp")
#: Types of ops whose results are correct for a variable without rows.
_HARMLESS = ("Assign", "AssignVariableOp", "IsVariableInitialized", "VarIsInitializedOp", "Save", "SaveSlices",
             "SaveV2", "Shape", "ShapeN", "Size", "VariableShape", "HistogramSummary", "Switch", "RefSwitch")


def warn_of_column_reads(state: GraphState) -> None:
    """Log a warning about ops of the program, such as norms, that read a variable whose rows are in a table."""
    normed: Set[str] = set()
    others: Dict[str, Set[str]] = {}  # type of the op -> variables
    for name, stand_in in StandIns.of(state).items():
        for op in _readers(stand_in.variable):
            if op.type == "L2Loss":
                normed.add(name)
            else:
                others.setdefault(op.type, set()).add(name)
    process = Process.current()
    if normed and process.is_first("norms"):
        _log.warning("The loss uses tf.nn.l2_loss of %s, whose rows are in tables. This norm is 0, so the rows are not "
                     "regularized (deepctr: l2_reg_linear). TensorFlow would use the norm of all rows in each step",
                     ", ".join(sorted(normed)))
    if others and process.is_first("reads"):
        _log.warning("Ops of the types %s use %s, whose rows are in tables, so these ops find no rows. Sums and "
                     "averages (ExponentialMovingAverage) of these variables are empty, and assignments change no row",
                     ", ".join(sorted(others)), ", ".join(sorted(set().union(*others.values()))))


def _readers(variable: tf.Variable) -> List[tf.Operation]:
    """Return the ops that read the value of a variable, except ops of the types ``_HARMLESS``."""
    found = []
    waiting = list(variable.op.outputs)
    while waiting:
        for op in waiting.pop().consumers():
            if op.type in _COPIES:
                waiting.extend(op.outputs)
            elif op.type not in _HARMLESS:
                found.append(op)
    return found
