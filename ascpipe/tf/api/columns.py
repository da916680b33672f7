"""``use_for_feature_columns``, which replaces variables of TensorFlow's feature columns by tables."""
import dataclasses
import sys
import textwrap
from typing import Any, Mapping, Optional

import tensorflow as tf

from ascpipe.errors import CallOrderError, ColumnError
from ascpipe.tf import internals, patches
from ascpipe.tf.api import lifecycle
from ascpipe.tf.api.column_models import ColumnModels
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.column_choice import ColumnChoice, Columns, TableSizes
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.shapes import MAX_VOCABULARY
from ascpipe.tf.validation import Choice, Integer, PathText, Rule, Text, boolean, checked, wrong_type

MIN_BUCKETS = 10000
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
         pretrained=_Paths(optional=True), export_ops=Choice("ascpipe", "stock"))
def use_for_feature_columns(*, min_buckets: int = MIN_BUCKETS, device_vocabulary_size: Optional[int] = None,
                            host_vocabulary_size: int = 0, take_over: bool = False,
                            pretrained: Optional[Mapping[str, str]] = None, export_ops: str = "ascpipe") -> None:
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
        export_ops: ops of the tables that ``export_saved_model`` of an Estimator exports: "ascpipe", or "stock" for a
            server without the op library, as in ``asc.export_saved_model``.

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
                                              take_over, dict(pretrained or {}), export_ops)
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
    if not state.started:  # the program may have called ``start``
        columns = Columns.of(Process.current())
        _require_columns(columns)
        _print_choice(columns)
        _print_absence(graph, state, columns)
    lifecycle.start_if_it_has_lookups(graph)


def _require_columns(columns: Columns) -> None:
    """Raise ``ColumnError`` if a name in ``pretrained`` is not the name of a column's variable."""
    known = {**columns.printed, **columns.told}
    for name in columns.choice.pretrained if columns.choice is not None and known else ():
        if name not in known:
            raise ColumnError(name, "pretrained has rows for it, but no feature column has a variable of this name. "
                                    "The variables are {}".format(", ".join(map(repr, sorted(known)))))


def _print_absence(graph: tf.Graph, state: GraphState, columns: Columns) -> None:
    """Print, once per process, that a graph trains without feature columns: all its variables remain variables."""
    warned = Process.current().warned
    if (columns.printed or state.tables or "no columns" in warned
            or not graph.get_collection(tf.compat.v1.GraphKeys.TRAIN_OP)):
        return
    warned.add("no columns")
    _print_line("ascpipe: no variable is replaced by a table, because the program trains without columns of "
                "tf.feature_column. Columns that are a copy of TensorFlow's code are not replaced. For tf.Variable and "
                "tf.nn.embedding_lookup, see docs/tutorial/from-tensorflow.md")


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
            _print_line("ascpipe: {} {}".format(what, ", ".join(names)))


def _print_line(line: str) -> None:
    sys.stderr.write(textwrap.fill(line, _WIDTH, subsequent_indent="  ", break_long_words=False,
                                   break_on_hyphens=False) + "\n")
    sys.stderr.flush()
