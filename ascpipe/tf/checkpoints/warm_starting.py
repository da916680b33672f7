"""Warm start of dense variables and tables from checkpoints of another training run (docs/how-to/warm_start.md)."""
import dataclasses
import functools
import logging
import os
import re
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

import tensorflow as tf
from tensorflow.python.training import checkpoint_management

from ascpipe.checkpoint.errors import NoCheckpointError
from ascpipe.checkpoint.reader import table_names
from ascpipe.checkpoint.tree import open_tree
from ascpipe.errors import ArgumentError, CallOrderError, ColumnError, SaverError
from ascpipe.errors.base import shown
from ascpipe.tf import internals, patches
from ascpipe.tf.checkpoints import pending_loads
from ascpipe.tf.checkpoints.restoring import Source, load_tables
from ascpipe.tf.checkpoints.tensorflow_part import op_name
from ascpipe.tf.graph.column_names import table_name
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import names_of_variables
from ascpipe.tf.graph.stand_ins import StandIns
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import AnyOf, Instance, ListOf, PathText, Rule, boolean, checked, wrong_type

_log = logging.getLogger(__name__)

#: Function that loads tables in a session whose variables are initialized. It returns the number of rows by table name.
Load = Callable[[tf.compat.v1.Session], Dict[str, int]]


@dataclasses.dataclass
class _WarmStarts:
    """Record of the warm starts of one graph.

    Attributes:
        loads: functions to call with a session that was initialized and not restored.
        tables: names of the tables that ``warm_start`` loads.
        is_under_way: True while TensorFlow's part of a warm start is being built.
    """

    loads: List[Callable[[tf.compat.v1.Session], Any]] = dataclasses.field(default_factory=list)
    tables: Set[str] = dataclasses.field(default_factory=set)
    is_under_way: bool = False

    @staticmethod
    def of(state: GraphState) -> "_WarmStarts":
        return internals.stored_on(state, "warm_starts", _WarmStarts)


class _Settings(NamedTuple):
    path: Any
    wanted: Any
    vocabularies: Any
    previous_names: Any


class _Path(Rule):
    def _check(self, name: str, value: Any) -> None:
        if not isinstance(value, (str, bytes, os.PathLike)):
            raise wrong_type(name, value, "a path")
        PathText(1, 4096).check(name, os.fsdecode(value))


class _Wanted(Rule):
    def _check(self, name: str, value: Any) -> None:
        if isinstance(value, str):
            try:
                re.compile(value)
            except re.error as error:
                raise ArgumentError("argument {}: {} is not a regular expression: {}".format(
                    name, shown(value), error)) from error
        elif isinstance(value, (list, tuple)):
            for place, one in enumerate(value):
                self.check("{}[{}]".format(name, place), one)
        elif not isinstance(value, tf.Variable):
            raise wrong_type(name, value, "a regular expression, variables, or a list of these")


@checked(ckpt_to_initialize_from=AnyOf(_Path(), ListOf(_Path())), vars_to_warm_start=_Wanted(optional=True),
         var_name_to_vocab_info=Instance(dict, list, tuple, optional=True),
         var_name_to_prev_var_name=Instance(dict, list, tuple, optional=True), allow_unverified=boolean())
def warm_start(ckpt_to_initialize_from: Any, vars_to_warm_start: Any = ".*", var_name_to_vocab_info: Any = None,
               var_name_to_prev_var_name: Any = None, *, allow_unverified: bool = False) -> Load:
    """Initialize the default graph from checkpoints of another training run, like ``tf.train.warm_start``.

    Dense variables get new initializers. The returned function ``load`` loads the tables. Call ``load`` with the
    session after the initializers; a training step raises E263 before. The best way is ``Scaffold(init_fn=lambda _,
    session: load(session))``, because TensorFlow does not call ``init_fn`` if training continues from a checkpoint.

    Args:
        ckpt_to_initialize_from: a checkpoint ``dir/base-step``, a directory, or a list of such paths. For a directory,
            its newest checkpoint is used. If several paths of a list contain the same variable or table, the last path
            counts. With a list, other arguments must be lists of the same length; the two maps may also be None.
        vars_to_warm_start: selection of variables and tables. A regular expression selects trainable variables and
            tables by the start of their names. A list may contain table names and regular expressions for all
            variables. A list may also contain variables, including variables of tables. None selects only variables
            with a ``VocabInfo``.
        var_name_to_vocab_info: the same as in TensorFlow. It cannot be used for tables.
        var_name_to_prev_var_name: name of a variable or table in this graph -> name in the checkpoint.
        allow_unverified: True to accept a checkpoint without a manifest of ascpipe, such as a checkpoint of Rec SDK.

    Returns:
        A function that loads the tables. It raises ``RuntimeError`` if the pipeline was not started. It raises
        ``CheckpointError`` if a checkpoint is damaged or unverified, or contains other tables. It raises
        ``tf.errors.OpError`` for the same reasons as ``Saver.restore``.

    Raises:
        ValueError: an argument has the wrong type, lists differ in length, or a mapped name is not warm-started.
        FileNotFoundError: the checkpoint does not exist.
    """
    state = GraphState.of(tf.compat.v1.get_default_graph())
    sources: Dict[str, Source] = {}
    for settings in _by_path(ckpt_to_initialize_from, vars_to_warm_start, var_name_to_vocab_info,
                             var_name_to_prev_var_name):
        prefix = _checkpoint(settings.path)
        tables, dense = _selected(state, settings.wanted)
        previous_names = dict(settings.previous_names or {})
        for variable, stand_in in StandIns.of(state).items():
            if stand_in.table.table_name in tables:
                before = previous_names.get(variable, variable)
                _require_table(prefix, before, variable, settings.vocabularies)
                previous_names.setdefault(stand_in.table.table_name, table_name(before))
                if isinstance(dense, list) and not any(op_name(item) == variable for item in dense):
                    previous_names.pop(variable, None)  # TensorFlow does not restore the variable
        sources.update({name: Source(prefix, previous_names.pop(name, name), slots)
                        for name, slots in tables.items()})
        if dense != [] or settings.vocabularies or previous_names:
            begun = _WarmStarts.of(state)
            begun.is_under_way = True
            try:
                patches.WARM_START.plain(prefix, dense, settings.vocabularies, previous_names)
            finally:
                begun.is_under_way = False
    _WarmStarts.of(state).tables.update(sources)
    pending_loads.expect(state, sources)
    if not sources:
        _log.warning("the warm start from %s initializes no table; this graph has %s", ckpt_to_initialize_from,
                     ", ".join(state.tables) or "none")
    return functools.partial(_load, state, sources, allow_unverified)


def is_under_way(state: GraphState) -> bool:
    """Return whether TensorFlow's part of a warm start of this graph is being built."""
    return _WarmStarts.of(state).is_under_way


def begin_tables(state: GraphState, path: Any, sources: Dict[str, Tuple[str, bool]]) -> None:
    """Register tables that a scaffold of the graph loads from a checkpoint when the scaffold initializes a session.

    Args:
        path: a single ``ckpt_to_initialize_from`` of ``warm_start``.
        sources: table name -> name of the table in the checkpoint, and True to load the optimizer slots.
    """
    prefix = _checkpoint(path)
    _WarmStarts.of(state).loads.append(functools.partial(
        _load, state, {name: Source(prefix, *source) for name, source in sources.items()}, False))


def left_out(state: GraphState, path: Any) -> List[str]:
    """Return the names of the graph's tables that are in a checkpoint, but are not loaded by a warm start. Tables of
    feature columns are omitted.

    Args:
        path: a checkpoint, or a directory with checkpoints, of which the newest is used.
    """
    others = {*StandIns.of(state).variables(), *_WarmStarts.of(state).tables}
    wanted = [name for name, table in state.tables.items() if table.is_save and name not in others]
    saved = table_names(_checkpoint(path)) if wanted else []
    return [name for name in wanted if name in saved]


@patches.WARM_STARTED.by
def _get_grouped_variables(vars_to_warm_start: Any) -> Any:
    """Replacement for the function that selects variables in ``tf.train.warm_start``.

    Raises:
        SaverError: the selection contains tables, and the program did not call ``asc.warm_start`` for them.
    """
    state = GraphState.known(tf.compat.v1.get_default_graph())
    if state is not None and state.served is None and not is_under_way(state):
        others = {*StandIns.of(state).variables(), *_WarmStarts.of(state).tables}
        tables = [name for name in _selected(state, vars_to_warm_start)[0] if name not in others]
        if tables:
            raise SaverError(
                "tf.train.warm_start() sets only initializers of variables, but vars_to_warm_start also selects the "
                "tables {}, whose rows have no initializer. Nothing was changed. Call load = asc.warm_start() with the "
                "same arguments, and load(session) after the initializers have run (docs/how-to/warm_start.md). If the "
                "tables should keep their initial rows, pass a list of variables as vars_to_warm_start".format(
                    ", ".join(map(repr, tables))))
    return patches.WARM_STARTED.plain(vars_to_warm_start)


@patches.WARM_START.by
def _warm_start_of_estimator(*settings: Any, **named_settings: Any) -> None:
    """Replacement for the function ``warm_start`` that Estimators call.

    A scaffold of the graph loads the tables. With TensorFlow 2.15, programs can also call this function themselves.
    """
    state = GraphState.known(tf.compat.v1.get_default_graph())
    if state is None or not state.tables or state.mode is None:
        patches.WARM_START.plain(*settings, **named_settings)
    else:
        _WarmStarts.of(state).loads.append(warm_start(*settings, **named_settings))


def _init_fn(scaffold: tf.compat.v1.train.Scaffold) -> Optional[Callable[[tf.compat.v1.Session], Any]]:
    """Return a function that calls the program's ``init_fn`` and then loads the tables of warm starts.

    Return the program's ``init_fn`` if the graph has no warm start.
    """
    plain: Optional[Callable[[tf.compat.v1.Session], Any]] = patches.SCAFFOLD_INIT_FN.plain.fget(scaffold)
    state = GraphState.known(tf.compat.v1.get_default_graph())
    loads = [] if state is None else _WarmStarts.of(state).loads
    if not loads:
        return plain

    def initialise(session: tf.compat.v1.Session) -> None:
        if plain is not None:
            plain(session)
        for load in loads:
            load(session)

    return initialise


patches.SCAFFOLD_INIT_FN.by(property(_init_fn))


def _by_path(paths: Any, *others: Any) -> Iterator[_Settings]:
    """Yield the settings of each path. Raise ``ValueError`` if the arguments do not match the paths."""
    if not isinstance(paths, (list, tuple)):
        for name, value in zip(_PER_PATH[1:], others[1:]):
            if isinstance(value, (list, tuple)):
                raise ArgumentError("{} is a list, but ckpt_to_initialize_from is a single path, {!r}. Pass a list of "
                                    "paths of the same length".format(name, paths))
        yield _Settings(paths, *others)
        return
    lists = []
    for name, value in zip(_PER_PATH, others):
        if not value and not isinstance(value, (list, tuple)) and name != _PER_PATH[0]:
            value = [None] * len(paths)  # WarmStartSettings replaces None with {}
        if not isinstance(value, (list, tuple)) or len(value) != len(paths):
            raise ArgumentError("{} must be a list of {}, one item for each path of ckpt_to_initialize_from, not "
                                "{!r}".format(name, len(paths), value))
        lists.append(value)
    yield from map(_Settings, paths, *lists)


_PER_PATH = ("vars_to_warm_start", "var_name_to_vocab_info", "var_name_to_prev_var_name")


def _checkpoint(path: Any) -> str:
    """Return the prefix of a checkpoint, or of the newest checkpoint in a directory."""
    path = os.fsdecode(path)
    prefix = checkpoint_management.latest_checkpoint(path) if os.path.isdir(path) else path
    if prefix is None:
        raise NoCheckpointError(os.path.join(path, "checkpoint"))
    if not checkpoint_management.checkpoint_exists_internal(prefix):
        try:
            open_tree(prefix).close()  # a checkpoint may contain only tables
        except NoCheckpointError as error:
            raise NoCheckpointError(prefix) from error
    return prefix


def _selected(state: GraphState, wanted: Any) -> Tuple[Dict[str, bool], Any]:
    """Return the selected tables, and the part of ``wanted`` that is passed to TensorFlow.

    This part is ``[]`` if only tables are selected. The value for a table is True if its optimizer slots are loaded. In
    TensorFlow, an optimizer slot of a feature column's variable is a separate variable. Only a regular expression in a
    list can select it. Otherwise, the slots of the table get initial values.
    """
    behind = StandIns.of(state).variables()
    if isinstance(wanted, str):
        return {name: name not in behind for name, table in state.tables.items() if table.is_save
                and (re.match(wanted, name) or re.match(wanted, behind.get(name, name)))}, wanted
    if not isinstance(wanted, list):
        return {}, wanted
    by_variable = {table.variable.op.name: name for name, table in state.tables.items()}
    by_variable.update((variable, name) for name, variable in behind.items())
    theirs = names_of_variables(state.tables.values())
    tables: Dict[str, bool] = {}
    dense: List[Any] = []
    for item in wanted:
        name = by_variable.get(op_name(item), item)
        if isinstance(name, str) and name in state.tables:
            tables[name] = tables.get(name, False) or name not in behind
        elif isinstance(item, str):
            for table, variable in behind.items():
                if _names(item, variable):
                    tables[table] = tables.get(table, False) or _is_slot_in(item, state, variable)
            dense.extend(_variables_in_scope(item))
        else:
            dense.append(item)
    return tables, list({id(item): item for item in dense if op_name(item) not in theirs}.values())


def _require_table(prefix: str, before: str, variable: str, vocabularies: Any) -> None:
    """Raise ``ColumnError`` if a checkpoint cannot contain the table of a column's variable."""
    if variable in (vocabularies or {}):
        raise ColumnError(variable, "a VocabInfo reorders its rows, but rows of a table are found by their ids. Omit "
                          "it if new words only follow the old ones. Otherwise increase min_buckets, so that this "
                          "column keeps its TensorFlow variable")
    if not checkpoint_management.checkpoint_exists_internal(prefix):
        return  # the checkpoint has only tables
    shapes = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
    if shapes.get(before, [0])[0]:
        raise ColumnError(variable, "the checkpoint {} has {} rows of {!r} as a TensorFlow variable, not as a table. A "
                          "warm start loads tables only from checkpoints of programs with tables. Convert the "
                          "checkpoint with `ascpipe checkpoint from-tensorflow`, or remove the column from "
                          "vars_to_warm_start".format(prefix, shapes[before][0], before))


def _is_slot_in(expression: str, state: GraphState, variable: str) -> bool:
    named_by = StandIns.of(state).name_of_slot(variable)
    return named_by is not None and _names(expression, named_by, "/slot")


def _names(expression: str, variable: str, slot: str = "") -> bool:
    """Return whether a regular expression matches the name of a variable.

    Names of partitioned variables with one part also match.
    """
    return any(re.match(expression, name + slot + ":0") for name in (variable, variable + "/part_0"))


def _variables_in_scope(scope: str) -> List[tf.Variable]:
    found = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, scope)
    if not found:
        _log.warning("vars_to_warm_start: %r is neither a table nor the prefix of a variable's name", scope)
    return found


def _load(state: GraphState, sources: Dict[str, Source], allow_unverified: bool,
          session: tf.compat.v1.Session) -> Dict[str, int]:
    if not sources:
        return {}
    Process.current().deferred.start(session.graph)
    if not state.started:
        raise CallOrderError("Tables can be warm-started only after their pipeline has started. Call asc.start() in "
                             "model_fn or in begin() of a hook, or use asc.StartHook()")
    rows = load_tables(state, Process.current().running_pipeline(), sources,
                       functools.partial(state.attach, session), allow_unverified=allow_unverified)
    for name, count in rows.items():
        _log.info("table %r starts with %d rows, from %r in %s", name, count, sources[name].name,
                  sources[name].prefix)
    return rows
