"""Warm start: dense variables and tables begin with values from checkpoints of another training
(docs/how-to/warm_start.md).

``warm_start`` is for programs that name it; ``install`` gives it to every Estimator of the process.
"""
import dataclasses
import functools
import logging
import os
import re
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import tensorflow as tf
from tensorflow.python.training import checkpoint_management

from ascpipe.checkpoint.errors import NoCheckpointError
from ascpipe.checkpoint.tree import open_tree
from ascpipe.errors import ColumnError
from ascpipe.errors.base import shown
from ascpipe.tf import internals, patches
from ascpipe.tf.checkpoints.restoring import Source, load_tables
from ascpipe.tf.checkpoints.tensorflow_part import op_name
from ascpipe.tf.graph.column_names import table_name
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import names_of_variables
from ascpipe.tf.graph.stand_ins import StandIns
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import AnyOf, Instance, ListOf, PathText, Rule, boolean, checked, wrong_type

_log = logging.getLogger(__name__)

#: Loads tables in a session whose variables are initialised; rows by the name of the table.
Load = Callable[[tf.compat.v1.Session], Dict[str, int]]


@dataclasses.dataclass
class _Begun:
    """Warm starts of one graph.

    Attributes:
        loads: what to call with a session that was initialised and not restored.
        is_under_way: whether TensorFlow's part of one is being made.
    """

    loads: List[Callable[[tf.compat.v1.Session], Any]] = dataclasses.field(default_factory=list)
    is_under_way: bool = False

    @staticmethod
    def of(state: GraphState) -> "_Begun":
        return internals.kept_on(state, "warm_starts", _Begun)


class _Settings(NamedTuple):
    """The arguments of ``tf.train.warm_start`` for one path."""

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
                raise ValueError("argument {}: {} is no regular expression: {}".format(
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
    """Let the default graph begin as checkpoints of another training are. Call it as ``tf.train.warm_start``.

    Dense variables begin so by their initializers. Tables do by what is returned, to be called between the
    initializers and the first batch, with the session; best by ``Scaffold(init_fn=lambda _, session: load(session))``,
    which is not called where training goes on from a checkpoint of its own.

    Args:
        ckpt_to_initialize_from: a checkpoint, ``dir/base-step``; or a directory, for the newest that its
            ``checkpoint`` file names; or a list of these: the later overrides the earlier, variable by variable and
            table by table. Then each other argument is a list of as many, or None (not ``vars_to_warm_start``).
        vars_to_warm_start: what begins so: a regular expression that names of trainable variables and of tables
            begin with; or a list of names of tables, and of regular expressions for all variables; or a list of
            variables, those of tables included; None: only variables with a ``VocabInfo``.
        var_name_to_vocab_info: as TensorFlow has it; tables need none.
        var_name_to_prev_var_name: names of variables and tables in this graph -> their names in the checkpoint.
        allow_unverified: also a checkpoint without our manifest, such as Rec SDK's.

    Returns:
        Replaces the tables. Raises ``RuntimeError`` before ``start_asc_pipeline``, ``CheckpointError`` where a
        checkpoint is damaged, unverified or not of such tables, ``tf.errors.OpError`` as ``Saver.restore``.

    Raises:
        ValueError: an argument of the wrong type; lists of different lengths; a name in a dictionary that is not
            warm-started.
        FileNotFoundError: there is no such checkpoint.
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
                    previous_names.pop(variable, None)  # TensorFlow has no use for it
        sources.update({name: Source(prefix, previous_names.pop(name, name), slots)
                        for name, slots in tables.items()})
        if dense != [] or settings.vocabularies or previous_names:
            begun = _Begun.of(state)
            begun.is_under_way = True
            try:
                patches.WARM_START.plain(prefix, dense, settings.vocabularies, previous_names)
            finally:
                begun.is_under_way = False
    if not sources:
        _log.warning("warm start from %s: it begins no table; this graph has %s", ckpt_to_initialize_from,
                     ", ".join(state.tables) or "none")
    return functools.partial(_load, state, sources, allow_unverified)


def is_under_way(state: GraphState) -> bool:
    """Whether TensorFlow's part of a warm start of a graph is being made."""
    return _Begun.of(state).is_under_way


def begin_tables(state: GraphState, path: Any, sources: Dict[str, Tuple[str, bool]]) -> None:
    """Let tables begin with rows of a checkpoint when a scaffold of the graph initialises a session.

    Args:
        path: as ``ckpt_to_initialize_from`` of ``warm_start``, one.
        sources: by name of a table, that of the one in the checkpoint, and whether its slots begin so, too.
    """
    prefix = _checkpoint(path)
    _Begun.of(state).loads.append(functools.partial(
        _load, state, {name: Source(prefix, *source) for name, source in sources.items()}, False))


@patches.WARM_START.by
def _warm_start_of_estimator(*settings: Any, **named_settings: Any) -> None:
    """In the place of TensorFlow's: the tables are loaded when a scaffold of the graph initialises a session."""
    state = GraphState.known(tf.compat.v1.get_default_graph())
    if state is None or not state.tables:
        patches.WARM_START.plain(*settings, **named_settings)
    else:
        _Begun.of(state).loads.append(warm_start(*settings, **named_settings))


def _init_fn(scaffold: tf.compat.v1.train.Scaffold) -> Optional[Callable[[tf.compat.v1.Session], Any]]:
    """Called by a session's creator that restores no checkpoint: the program's own, then the loads of tables."""
    plain: Optional[Callable[[tf.compat.v1.Session], Any]] = patches.SCAFFOLD_INIT_FN.plain.fget(scaffold)
    state = GraphState.known(tf.compat.v1.get_default_graph())
    loads = [] if state is None else _Begun.of(state).loads
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
    """The settings of each path. Raises ``ValueError`` where they do not go together."""
    if not isinstance(paths, (list, tuple)):
        for name, value in zip(_PER_PATH[1:], others[1:]):
            if isinstance(value, (list, tuple)):
                raise ValueError("{} is a list, and ckpt_to_initialize_from is one path, {!r}".format(name, paths))
        yield _Settings(paths, *others)
        return
    lists = []
    for name, value in zip(_PER_PATH, others):
        if not value and not isinstance(value, (list, tuple)) and name != _PER_PATH[0]:
            value = [None] * len(paths)  # WarmStartSettings makes {} of None
        if not isinstance(value, (list, tuple)) or len(value) != len(paths):
            raise ValueError("{} must be a list of {}, one for each path of ckpt_to_initialize_from, not {!r}".format(
                name, len(paths), value))
        lists.append(value)
    yield from map(_Settings, paths, *lists)


_PER_PATH = ("vars_to_warm_start", "var_name_to_vocab_info", "var_name_to_prev_var_name")


def _checkpoint(path: Any) -> str:
    """``dir/base-step`` of a checkpoint, or of the newest in a directory."""
    path = os.fsdecode(path)
    prefix = checkpoint_management.latest_checkpoint(path) if os.path.isdir(path) else path
    if prefix is None:
        raise NoCheckpointError(os.path.join(path, "checkpoint"))
    if not checkpoint_management.checkpoint_exists_internal(prefix):
        try:
            open_tree(prefix).close()  # one of tables alone
        except NoCheckpointError as error:
            raise NoCheckpointError(prefix) from error
    return prefix


def _selected(state: GraphState, wanted: Any) -> Tuple[Dict[str, bool], Any]:
    """Names of the tables that ``wanted`` names, each with whether its slots begin so, too; and what remains of it for
    TensorFlow; ``[]``: nothing.

    The slots of a variable are variables of their own to TensorFlow: an expression in a list may name them, while one
    that stands alone, and a variable, say the rows, and the optimizer begins anew.
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
    """Raise ``ColumnError`` where a checkpoint cannot have the table of a variable as it is wanted."""
    if variable in (vocabularies or {}):
        raise ColumnError(variable, "a VocabInfo gives its rows another order, and those of a table are found by their "
                          "ids: leave it out where new words only follow the old ones, or let this column be "
                          "TensorFlow's by a larger min_buckets")
    if not checkpoint_management.checkpoint_exists_internal(prefix):
        return  # it has tables alone
    shapes = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
    if shapes.get(before, [0])[0]:
        raise ColumnError(variable, "the checkpoint {} has {} rows of {!r} as TensorFlow keeps them, and no table: a "
                          "warm start takes tables from a training with tables, or leave this one out of "
                          "vars_to_warm_start".format(prefix, shapes[before][0], before))


def _is_slot_in(expression: str, state: GraphState, variable: str) -> bool:
    named_by = StandIns.of(state).name_of_slot(variable)
    return named_by is not None and _names(expression, named_by, "/slot")


def _names(expression: str, variable: str, slot: str = "") -> bool:
    """Whether an expression is of a variable, also by the name that it has where a partitioner makes one part of it."""
    return any(re.match(expression, name + slot + ":0") for name in (variable, variable + "/part_0"))


def _variables_in_scope(scope: str) -> List[tf.Variable]:
    """The variables that TensorFlow finds for a regular expression in a list."""
    found = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, scope)
    if not found:
        _log.warning("vars_to_warm_start: %r is no table and begins no variable's name", scope)
    return found


def _load(state: GraphState, sources: Dict[str, Source], allow_unverified: bool,
          session: tf.compat.v1.Session) -> Dict[str, int]:
    if not sources:
        return {}
    Process.current().deferred.start(session.graph)
    if not state.started:
        raise RuntimeError("tables are warm-started once their pipeline runs: call start_asc_pipeline() in model_fn, "
                           "or in begin() of a hook, as ascpipe.tf.StartHook does")
    rows = load_tables(state, Process.current().running_pipeline(), sources,
                       functools.partial(state.attach, session), allow_unverified=allow_unverified)
    for name, count in rows.items():
        _log.info("table %r begins with %d rows: those of %r in %s", name, count, sources[name].name,
                  sources[name].prefix)
    return rows
