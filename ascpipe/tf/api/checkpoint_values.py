"""Replacement of ``tf.train.init_from_checkpoint`` that also loads rows into the tables of feature columns."""
import logging
from typing import Any, Dict, Mapping, Optional, Tuple

import tensorflow as tf

from ascpipe.errors import ColumnError, SaverError, api_names
from ascpipe.tf import patches
from ascpipe.tf.checkpoints import warm_starting
from ascpipe.tf.graph.column_names import table_name
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import StandIns
from ascpipe.tf.running.process import Process

_log = logging.getLogger(__name__)

_NO_ROWS = ("tf.train.init_from_checkpoint() sets only initializers of variables. The rows of the tables {} in {} are "
            "not loaded")


@patches.INIT_FROM_CHECKPOINT.by
def _init_from_checkpoint(path: Any, assignment_map: Mapping[str, Any]) -> None:
    """Set the initializers of variables. In an Estimator, also register the tables whose rows are loaded later.

    Raises:
        ColumnError: the map contains a variable with a table, and the function is called outside an Estimator. An
            Estimator calls ``Scaffold.init_fn``, which loads the rows. Other sessions run only initializers.
        SaverError: the map contains a scope, and the checkpoint contains tables of the graph that would not be loaded.
            In TensorFlow, the scope may contain the variables that these tables replace.
    """
    patches.INIT_FROM_CHECKPOINT.plain(path, assignment_map)
    state = GraphState.known(tf.compat.v1.get_default_graph())
    if state is None or warm_starting.is_under_way(state) or state.served is not None:
        return
    sources: Dict[str, Tuple[str, bool]] = {}
    stand_ins = StandIns.of(state)
    for source, target in sorted(assignment_map.items()):
        for variable, stand_in in stand_ins.items():
            name = _name_in_checkpoint(source, target, variable, stand_in.variable)
            if name is not None:
                table = stand_in.table.table_name
                slot = stand_ins.name_of_slot(variable)  # a scope includes the optimizer slot, if it exists
                has_slot = slot is not None and _name_in_checkpoint(source, target, slot) is not None
                sources[table] = table_name(name), has_slot
                if state.mode is None:
                    raise ColumnError(variable, "tf.train.init_from_checkpoint() sets only initializers, but the rows "
                                      "of this variable are in a table. Call load = asc.warm_start(checkpoint, "
                                      "[variable]), and load(session) after the initializers have run")
    if sources:
        warm_starting.begin_tables(state, path, sources)
    _require_no_rows(state, path, assignment_map)


def _require_no_rows(state: GraphState, path: Any, assignment_map: Mapping[str, Any]) -> None:
    """Check whether a checkpoint contains tables that would not be loaded. For such tables, raise ``SaverError`` if
    ``assignment_map`` contains a scope; otherwise, log a warning.
    """
    tables = warm_starting.left_out(state, path)
    if not tables:
        return
    text = _NO_ROWS.format(", ".join(map(repr, tables)), path)
    scopes = [source for source in assignment_map if source.endswith("/")]
    if scopes:
        raise SaverError("{}, although assignment_map contains the scope {!r}. Call load = asc.warm_start() before, "
                         "and load(session) after the initializers have run (docs/how-to/warm_start.md). If the tables "
                         "should keep their initial rows, map variables instead of scopes".format(text, scopes[0]))
    if Process.current().is_first(text):
        _log.warning("%s", api_names.in_names_of_program(
            text + ". To load them, call load = asc.warm_start(), and load(session) after the initializers have run"))


def _name_in_checkpoint(source: str, target: Any, name: str, variable: Optional[tf.Variable] = None) -> Optional[str]:
    """Return the name that a variable has in the checkpoint according to an entry of ``assignment_map``. Return None if
    the entry does not name the variable.

    Args:
        source: a name in the checkpoint, or a scope with a slash at the end.
        target: a variable, a list of the parts of a variable, a name or a scope.
        name: name of the variable.
        variable: the variable, or None to compare only names.
    """
    if not isinstance(target, str):
        return source if any(each is variable for each in tf.nest.flatten(target)) else None
    if target == name:
        return source
    scope = target[:target.rindex("/") + 1] if "/" in target else ""
    if not source.endswith("/") or not (scope == "/" or name.startswith(scope)):
        return None
    return (source if source != "/" else "") + (name if scope == "/" else name[len(scope):])
