"""``use_for_feature_columns``, which replaces variables of TensorFlow's feature columns by tables."""
import dataclasses
import logging
import sys
import textwrap
from typing import Any, Dict, List, Mapping, Optional, Set

import tensorflow as tf

from ascpipe.errors import CallOrderError, ColumnError
from ascpipe.tf import internals, patches
from ascpipe.tf.api import lifecycle
from ascpipe.tf.api.column_models import ColumnModels
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import StandIns
from ascpipe.tf.running.column_choice import ColumnChoice, Columns, TableSizes
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.shapes import MAX_VOCABULARY
from ascpipe.tf.validation import Integer, PathText, Rule, Text, boolean, checked, wrong_type

_log = logging.getLogger(__name__)

MIN_BUCKETS = 10000
#: Types of ops that return their input unchanged.
_COPIES = ("Identity", "ReadVariableOp")
#: Types of ops whose results are correct even if the rows of the variable are in a table.
_HARMLESS = ("Assign", "AssignVariableOp", "IsVariableInitialized", "VarIsInitializedOp", "Save", "SaveSlices",
             "SaveV2", "Shape", "ShapeN", "Size", "VariableShape", "HistogramSummary", "Switch", "RefSwitch")
_WIDTH = 118  #: maximum width of printed lines


class _Paths(Rule):
    def _check(self, name: str, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise wrong_type(name, value, "a dict from names of variables to paths")
        for variable, path in value.items():
            Text(1, 1000).check("name in " + name, variable)
            PathText(1, 4096).check("{}[{!r}]".format(name, variable), path)


@checked(min_buckets=Integer(1), device_vocabulary_size=Integer(1, MAX_VOCABULARY, optional=True),
         host_vocabulary_size=Integer(0, MAX_VOCABULARY), take_over=boolean(),
         pretrained=_Paths(optional=True))
def use_for_feature_columns(*, min_buckets: int = MIN_BUCKETS, device_vocabulary_size: Optional[int] = None,
                            host_vocabulary_size: int = 0, take_over: bool = False,
                            pretrained: Optional[Mapping[str, str]] = None) -> None:
    """Replace the large variables of TensorFlow's feature columns by tables in all later graphs of this process.

    Call this function once, before the first graph is built. The program needs no other call and no hook, because this
    function calls ``init`` if necessary. Pipelines start with the first run of a session. ascpipe prints once which
    variables are replaced and which are not.

    Args:
        min_buckets: columns with at least this many buckets get a table.
        device_vocabulary_size: size of each table, as in ``create_table``. None means the column's number of buckets.
        host_vocabulary_size: host size of each table whose column has more buckets than the device table has rows.
        take_over: True to continue from a checkpoint that this program wrote without ascpipe. The rows and optimizer
            slots of the columns are then loaded into tables. If False, restoring such a checkpoint raises E526.
        pretrained: dict from the name of a variable to the path of files with the initial rows of its table, as in
            ``create_table``. The keys in the files are the ids of the column. ascpipe prints the names of the
            variables.

    Raises:
        ValueError: an argument has the wrong type or is out of range.
        EnvironmentError: graphs of this process already have pipelines.

    Starting a pipeline raises ``ColumnError`` if a name in ``pretrained`` is not the name of a variable with a table.
    """
    is_alone = not Process.is_initialised()
    if is_alone:
        lifecycle.init()
    process = Process.current()
    if is_alone and process.configuration.rank_size == 1:
        Columns.of(process).models = ColumnModels(_restart)
    if process.frozen:
        raise CallOrderError("asc.use_for_feature_columns() was called after a pipeline had started. Call it once, "
                             "before the first graph is built")
    patches.COLUMNS.use()
    Columns.of(process).choice = ColumnChoice(min_buckets, TableSizes(device_vocabulary_size, host_vocabulary_size),
                                              take_over, dict(pretrained or {}))
    process.deferred.mark_on_demand = _start_columns


def _restart() -> None:
    before = Process.current()
    lifecycle.shutdown()
    lifecycle.init()
    process = Process.current()
    internals.stored_on(process, "columns", lambda: dataclasses.replace(Columns.of(before), told={}))
    process.warned = before.warned
    process.deferred.mark_on_demand = _start_columns


def _start_columns(graph: tf.Graph) -> None:
    state = GraphState.of(graph)
    if not state.marked:
        columns = Columns.of(Process.current())
        _require_columns(columns)
        _print_choice(columns)
        _warn_of_reads(state)
    lifecycle.start_if_it_has_lookups(graph)


def _require_columns(columns: Columns) -> None:
    """Raise ``ColumnError`` if a name in ``pretrained`` is not the name of a column's variable."""
    known = {**columns.printed, **columns.told}
    for name in columns.choice.pretrained if columns.choice is not None and known else ():
        if name not in known:
            raise ColumnError(name, "pretrained has rows for it, but no feature column has a variable of this name. "
                                    "The variables are {}".format(", ".join(map(repr, sorted(known)))))


def _print_choice(columns: Columns) -> None:
    """Print the variables that are replaced by tables, and the reasons why other variables are not replaced. Print each
    name only once."""
    new = {name: reason for name, reason in columns.told.items() if name not in columns.printed}
    columns.told = {}
    columns.printed.update(new)
    taken = [name for name, reason in new.items() if not reason]
    left = ["{} ({})".format(name, reason) for name, reason in new.items() if reason]
    for what, names in (("variables replaced by tables:", taken), ("variables not replaced:", left)):
        if names:
            line = "ascpipe: {} {}".format(what, ", ".join(names))
            sys.stderr.write(textwrap.fill(line, _WIDTH, subsequent_indent="  ", break_long_words=False,
                                           break_on_hyphens=False) + "\n")
    sys.stderr.flush()


def _warn_of_reads(state: GraphState) -> None:
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
    """Return the ops that read the value of a variable, except ops whose type is in ``_HARMLESS``."""
    found = []
    waiting = list(variable.op.outputs)
    while waiting:
        for op in waiting.pop().consumers():
            if op.type in _COPIES:
                waiting.extend(op.outputs)
            elif op.type not in _HARMLESS:
                found.append(op)
    return found
