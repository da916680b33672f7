"""Patches that enable TensorFlow's optimizers to train tables, including the tables of feature columns.

The variables of feature columns may be stand-ins for tables. The gradient of a stand-in is computed with respect to
rows of the table, and is applied by a table optimizer with the same formula as the program's optimizer.
"""
import functools
import inspect
import logging
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow as tf

from ascpipe.errors import ArgumentError, ColumnError, TableUseError, UntrainedTableError
from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf import internals, patches
from ascpipe.tf.graph.expansion import lookup_of
from ascpipe.tf.graph.gradient_state import GradientState
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.occurrences import with_occurrences
from ascpipe.tf.graph.stand_ins import StandIn, StandIns, name_of
from ascpipe.tf.graph.untrained import how_to_train
from ascpipe.tf.modify import hooks
from ascpipe.tf.optimizers import adagrad, ftrl, gradient_descent, lazy_adam
from ascpipe.tf.optimizers.base import CustomizedOptimizer, is_table_variable, note_slots, unique_name
from ascpipe.tf.optimizers.gradient_checks import require_of_the_step
from ascpipe.tf.running.process import Process
from ascpipe.tf.training.column_gradients import (
    Pairs,
    gradients_by_rows,
    handles_in,
    targets_of,
    variables_of,
    with_rows,
)

_log = logging.getLogger(__name__)

_STRATEGY = ("optimizer {!r} runs within a strategy of tf.distribute, which does not support tables. Remove "
             "train_distribute from RunConfig; to train tables with several processes, use `ascpipe run --ranks`. "
             "Nothing was trained")


class Optimizer(tf.compat.v1.train.Optimizer):
    """Optimizer that trains variables with one optimizer, and tables with another optimizer.

    Tables include tables of feature columns. All tables of the graph are trained if ``var_list`` is omitted or contains
    exactly all trainable variables. ``optimize_loss`` and ``create_train_op`` of ``tf.contrib`` and slim pass such a
    ``var_list``.

    Args:
        dense: TensorFlow optimizer for variables.
        sparse: TensorFlow optimizer for tables. It must update only the rows of a batch, or be Adam, which is replaced
            by LazyAdam. A function without arguments that returns an optimizer of ``ascpipe.tf.optimizers`` is also
            allowed, and is called once per graph.
        name: name of the op that applies gradients.

    Raises:
        ValueError: ``dense`` is not an optimizer, or ``sparse`` is neither an optimizer nor a function.
    """

    def __init__(self, dense: tf.compat.v1.train.Optimizer, sparse: Any, name: str = "Optimizer") -> None:
        super().__init__(use_locking=False, name=name)
        if not isinstance(dense, tf.compat.v1.train.Optimizer):
            raise ArgumentError("Argument dense is {!r}; expected a tf.compat.v1.train.Optimizer".format(dense))
        if not (isinstance(sparse, tf.compat.v1.train.Optimizer) or callable(sparse)):
            raise ArgumentError("Argument sparse is {!r}; expected a tf.compat.v1.train.Optimizer, or a function "
                                "that creates an optimizer of asc.optimizers".format(sparse))
        self._dense = dense
        self._sparse = sparse

    def compute_gradients(self, loss: Any, var_list: Any = None, *args: Any, **kwargs: Any) -> Pairs:
        """Compute gradients as TensorFlow's optimizers do.

        Gradients of all tables are added if ``var_list`` is None or contains exactly all trainable variables.
        """
        if var_list is None or {id(each) for each in tf.nest.flatten(var_list)} == {id(each) for each in _trainable()}:
            state = GraphState.of(tf.compat.v1.get_default_graph())
            GradientState.of(state).trained_by_default.update(state.tables)
            behind = StandIns.of(state).variables()
            var_list = [*_trainable(), *(row for name, table in state.tables.items() if name not in behind
                                         for row in targets_of(state, StandIn(None, table, True)))]
        return self._dense.compute_gradients(loss, var_list, *args, **kwargs)

    def apply_gradients(self, grads_and_vars: Iterable[Tuple[Any, Any]], global_step: Optional[tf.Variable] = None,
                        name: Optional[str] = None) -> tf.Operation:
        """Return an op that applies each gradient with the optimizer of the gradient's variable or table."""
        if self._sparse is self._dense:  # a second call would count the step twice
            return self._dense.apply_gradients(grads_and_vars, global_step, name or self._name)
        return _apply(self._dense.apply_gradients, self._sparse, list(grads_and_vars), global_step, name or self._name)

    def get_slot(self, var: tf.Variable, name: str) -> Any:
        """Return an optimizer slot of a dense variable."""
        return self._dense.get_slot(var, name)


class _Form(NamedTuple):
    """Description of the table optimizer with the same formula as a TensorFlow optimizer.

    Attributes:
        arguments: names of the copied hyper-parameters in TensorFlow's constructor.
        make: class for tables with a device table.
        make_by_address: class for expansion tables, or None.
    """

    arguments: Sequence[str]
    make: Callable[..., CustomizedOptimizer]
    make_by_address: Optional[Callable[..., CustomizedOptimizer]]


#: All arguments of the constructor. TensorFlow 2.15 also has ``beta``.
_FTRL = tuple(name for name in inspect.signature(tf.compat.v1.train.FtrlOptimizer.__init__).parameters
              if name not in ("self", "name"))
_ADAM = _Form(("lr", "beta1", "beta2", "epsilon"), lazy_adam.CustomizedLazyAdam, lazy_adam.CustomizedLazyAdamByAddress)
_FORMS: Dict[Any, _Form] = {
    tf.compat.v1.train.GradientDescentOptimizer: _Form(
        ("learning_rate", "use_locking"), gradient_descent.CustomizedGradientDescent,
        gradient_descent.CustomizedGradientDescentByAddress),
    tf.compat.v1.train.AdagradOptimizer: _Form(
        ("learning_rate", "initial_accumulator_value", "use_locking"), adagrad.CustomizedAdagrad,
        adagrad.CustomizedAdagradByAddress),
    tf.compat.v1.train.AdamOptimizer: _ADAM,
    tf.compat.v1.train.FtrlOptimizer: _Form(_FTRL, ftrl.CustomizedFtrl, None),
}


@patches.COMPUTE_GRADIENTS.by
def _compute_gradients(self: Any, loss: Any, var_list: Any = None, *args: Any, **kwargs: Any) -> Pairs:
    def compute(variables: Any) -> Pairs:
        found: Pairs = patches.COMPUTE_GRADIENTS.plain(self, loss, variables, *args, **kwargs)
        return found

    graph = tf.compat.v1.get_default_graph()
    state = GraphState.known(internals.outermost(graph))
    var_list = variables_of(state, self.get_name(), var_list)
    if state is None or not state.tables:
        return compute(var_list)
    hooks.merge_lookups(loss)
    wanted = _trainable() if var_list is None else tf.nest.flatten(var_list)
    if not wanted:
        _refuse_nothing(state)
    if StandIns.of(state):
        return gradients_by_rows(state, loss, wanted, compute)
    if isinstance(loss, tf.Tensor) and not any(map(_is_of_table, wanted)) and {id(each) for each in wanted} >= {
            id(each) for each in _trainable()}:
        GradientState.of(state).without_tables.append((self.get_name(), loss))
    pairs = compute(var_list)
    if all(gradient is None for gradient, _ in pairs):
        pairs = [(_no_rows(target) if _only_evaluates(state, target) else None, target) for _, target in pairs]
    if isinstance(self, CustomizedOptimizer):
        return pairs
    handles = handles_in(graph)
    return [(gradient, handles.get(id(target), target)) for gradient, target in pairs]


def _refuse_nothing(state: GraphState) -> None:
    trained = [table for (name, channel), lookup in state.lookups.items() for table in [state.tables[name]]
               if channel == TRAIN and lookup.with_gradient]
    if trained and state.mode in (None, tf.estimator.ModeKeys.TRAIN):
        raise UntrainedTableError(name_of(state, trained[0]), how_to_train(
            Process.current(), [table.table_name for table in trained[1:]]))


@patches.APPLY_GRADIENTS.by
def _apply_gradients(self: Any, grads_and_vars: Iterable[Tuple[Any, Any]], global_step: Optional[tf.Variable] = None,
                     name: Optional[str] = None) -> tf.Operation:
    pairs = list(grads_and_vars)
    state = GraphState.known(internals.outermost(tf.compat.v1.get_default_graph()))
    if state is None or not state.tables:
        return patches.APPLY_GRADIENTS.plain(self, pairs, global_step, name)
    if tf.distribute.has_strategy():
        raise TableUseError(name_of(state, next(iter(state.tables.values()))), _STRATEGY.format(self.get_name()))
    pairs = [(None if _only_evaluates(state, target) else gradient, target)
             for gradient, target in with_rows(state, pairs)]
    require_of_the_step(state, self.get_name(), pairs)
    pairs = with_occurrences(state, pairs)
    if any(_only_evaluates(state, target) for _, target in pairs) and all(gradient is None for gradient, _ in pairs):
        return tf.no_op(name=name)  # in evaluation, the training op is never run
    if not isinstance(self, CustomizedOptimizer) and any(
            _needs_form(state, self, gradient, target) for gradient, target in pairs):
        return _apply(functools.partial(patches.APPLY_GRADIENTS.plain, self), self, pairs, global_step,
                      name or self.get_name())
    _note_updates(state, pairs)
    _warn_of_second_optimizer(state, self, pairs)
    graph = internals.outermost(tf.compat.v1.get_default_graph())
    begin = internals.newest_order(graph)
    applied = patches.APPLY_GRADIENTS.plain(self, pairs, global_step, name)
    GradientState.of(state).applied.append((begin, internals.newest_order(graph)))
    note_slots(self, [target for gradient, target in pairs if gradient is not None])
    return applied


def _needs_form(state: GraphState, optimizer: tf.compat.v1.train.Optimizer, gradient: Any, target: Any) -> bool:
    """Return whether a table must be trained by a table optimizer instead of ``optimizer``.

    Adam would change all rows, and the rows of expansion tables are not in variables. In graphs with columns, a table
    optimizer with the same formula is always used, if it exists.
    """
    if gradient is None or not _is_of_table(target):
        return False
    if isinstance(target, tf.Tensor) or type(optimizer) is tf.compat.v1.train.AdamOptimizer:
        return True
    return bool(StandIns.of(state)) and _form_of(optimizer) is not None


def _form_of(optimizer: Any) -> Optional[_Form]:
    kind = type(optimizer)
    return _ADAM if kind.__name__ == "LazyAdamOptimizer" else _FORMS.get(kind)


def _only_evaluates(state: GraphState, target: Any) -> bool:
    """Return whether a target is the variable of a table that has only evaluation lookups."""
    names = [name for name, table in state.tables.items() if table.variable is target]
    channels = {channel for name, channel in [*state.lookups, *(
        (lookup.table.table_name, lookup.channel) for lookup in state.requests.lookups)] if name in names}
    return channels == {EVAL}


def _no_rows(variable: tf.Variable) -> tf.IndexedSlices:
    shape = variable.shape.as_list()
    return tf.IndexedSlices(tf.zeros([0, shape[1]]), tf.zeros([0], tf.int32), tf.constant(shape))


def _apply(apply_dense: Callable[..., Any], sparse: Any, pairs: Pairs, global_step: Optional[tf.Variable],
           name: str) -> tf.Operation:
    state = GraphState.of(tf.compat.v1.get_default_graph())
    pairs = with_rows(state, pairs)
    tables = [(gradient, target) for gradient, target in pairs if _is_of_table(target)]
    others = [(gradient, target) for gradient, target in pairs if not _is_of_table(target)]
    if not any(gradient is not None for gradient, _ in tables) and others:
        return apply_dense(others, global_step, name)
    updates = []
    if any(gradient is not None for gradient, _ in others):
        updates.append(apply_dense(others))
    if tables:
        _note_updates(state, tables)
        updates.append(_for_tables(sparse).apply_gradients(tables))
    with tf.control_dependencies(updates):
        if global_step is None:
            applied = tf.no_op(name=name)
        else:
            applied = tf.compat.v1.assign_add(global_step, 1, name=name)
    applied = applied if isinstance(applied, tf.Operation) else applied.op
    tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.TRAIN_OP, applied)
    return applied


def _for_tables(optimizer: Any) -> tf.compat.v1.train.Optimizer:
    """Return the table optimizer for an optimizer of the program. One table optimizer is created per graph.

    Raises:
        ColumnError, TableUseError: there is no table optimizer for expansion tables with the same formula.
    """
    made: Dict[Any, tf.compat.v1.train.Optimizer] = internals.stored_on(
        tf.compat.v1.get_default_graph(), "optimizers_for_tables", dict)
    if optimizer not in made:
        made[optimizer] = _made(optimizer)
    return made[optimizer]


def _made(optimizer: Any) -> tf.compat.v1.train.Optimizer:
    if not isinstance(optimizer, tf.compat.v1.train.Optimizer):
        optimizer = optimizer()
    if isinstance(optimizer, CustomizedOptimizer):
        return optimizer
    kind = type(optimizer)
    form = _form_of(optimizer)
    expands = Process.current().configuration.use_dynamic_expansion
    if form is None and not expands:
        return optimizer  # the optimizer itself updates the rows of the batch in the table's variable
    make = None if form is None else form.make_by_address if expands else form.make
    if form is None or make is None:
        raise _refusal(optimizer, "{} has no form for tables that grow, asc.init(use_dynamic_expansion=True). Pass "
                                  "GradientDescentOptimizer, AdagradOptimizer, LazyAdamOptimizer or AdamOptimizer "
                                  "for tables to asc.Optimizer(dense=..., sparse=...)".format(kind.__name__))
    if kind is tf.compat.v1.train.AdamOptimizer:
        _log.warning("optimizer %r: for tables it updates only the rows of a batch, like LazyAdam; Adam updates all "
                     "rows in each step", optimizer.get_name())
    else:
        _log.info("optimizer %r: its form for tables trains the tables", optimizer.get_name())
    names = form.arguments
    values = dict(zip(names, internals.settings_of(optimizer, names)))
    if "lr" in values:
        values["learning_rate"] = values.pop("lr")
    return make(name=unique_name(optimizer.get_name()), **values)


def _refusal(optimizer: tf.compat.v1.train.Optimizer, reason: str) -> Exception:
    state = GraphState.of(internals.outermost(tf.compat.v1.get_default_graph()))
    if StandIns.of(state) or not state.tables:
        return ColumnError(optimizer.get_name(), reason)
    return TableUseError(next(iter(state.tables)), "optimizer {!r}: {}. Nothing was trained".format(
        optimizer.get_name(), reason))


def _is_of_table(target: Any) -> bool:
    return not isinstance(target, tf.Variable) or is_table_variable(target)


def _note_updates(state: GraphState, pairs: Pairs) -> None:
    scope = tf.compat.v1.get_variable_scope().name
    StandIns.of(state).updated.update(dict.fromkeys(_updated_tables(state, pairs), scope))


def _warn_of_second_optimizer(state: GraphState, optimizer: tf.compat.v1.train.Optimizer, pairs: Pairs) -> None:
    """Warn if a second optimizer updates a table, and an optimizer trains the table because of a missing ``var_list``.

    Both update the table, as in TensorFlow: programs that alternate between two losses need this.
    """
    known = GradientState.of(state)
    for table in _updated_tables(state, pairs):
        first = known.optimizers.setdefault(table, optimizer)
        if first is not optimizer and table in known.trained_by_default and Process.current().is_first(
                "optimizers of table " + table):
            _log.warning("table %r is updated by two optimizers, %r and %r, as a variable would be, because minimize() "
                         "without var_list trains all tables. To train it by one optimizer, pass the tables of each "
                         "optimizer in var_list", table, first.get_name(), optimizer.get_name())


def _updated_tables(state: GraphState, pairs: Pairs) -> List[str]:
    of = {id(table.variable): name for name, table in state.tables.items()}
    names = (of.get(id(target)) if isinstance(target, tf.Variable) else lookup_of(target).table.table_name
             for gradient, target in pairs if gradient is not None)
    return [name for name in names if name is not None]


def _trainable() -> List[Any]:
    return [*tf.compat.v1.trainable_variables(),
            *tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.TRAINABLE_RESOURCE_VARIABLES)]


@patches.SDCA_STEP.by
def _sdca_step(self: Any, *args: Any, **kwargs: Any) -> Any:
    state = GraphState.known(tf.compat.v1.get_default_graph())
    stand_ins = StandIns.of(state) if state is not None else None
    if stand_ins:
        raise ColumnError("LinearSDCA", "it reads whole variables, but the rows of {} are in tables. Use FtrlOptimizer "
                          "or variables of TensorFlow".format(", ".join(sorted(map(repr, stand_ins)))))
    return patches.SDCA_STEP.plain(self, *args, **kwargs)


@patches.KERAS_GRADIENTS.by
def _keras_gradients(self: Any, loss: Any, params: Any) -> Any:
    state = GraphState.known(tf.compat.v1.get_default_graph())
    for variable in tf.nest.flatten(params):
        if state is not None and StandIns.of(state).of_variable(variable) is not None:
            raise ColumnError(variable.op.name, "a Keras optimizer would train it, as in tf.compat.v2.estimator, and "
                                                "has no form for tables. Use tf.compat.v1.estimator and "
                                                "tf.compat.v1.train, or raise min_buckets to keep this column in "
                                                "TensorFlow")
    return patches.KERAS_GRADIENTS.plain(self, loss, params)
