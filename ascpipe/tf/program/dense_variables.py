"""Several ranks: dense variables are the same on each, so gradients of them are averaged, and first values broadcast.

What Horovod has for that takes tables for dense variables: it would gather numbers of rows that mean nothing on other
ranks, and put the rows of one rank into the shards of all. What is here leaves tables alone. With one rank it does
nothing.
"""
from typing import Any, Iterable, List, Optional, Set, Tuple

import tensorflow as tf

from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import names_of_variables
from ascpipe.tf.running.horovod import joined


class DistributedOptimizer(tf.compat.v1.train.Optimizer):
    """An optimizer whose gradients of dense variables are the average over ranks; those of tables stay as they are.

    Owners of keys sum the gradients of tables (``all2all_gradients_op`` of ``create_table``). The first one starts
    Horovod, unless the program has. All ranks must make the same calls in the same order::

        optimizer = ascpipe.tf.DistributedOptimizer(tf.train.AdamOptimizer(0.001))
        train_op = optimizer.minimize(loss, var_list=dense_variables)

    Args:
        optimizer: what computes gradients and applies them.
        name: of the ops; by default that of ``optimizer``.

    Raises:
        HorovodMissingError, RanksError: Horovod is not there, or does not start.
    """

    def __init__(self, optimizer: tf.compat.v1.train.Optimizer, name: Optional[str] = None) -> None:
        super().__init__(use_locking=False, name=name or optimizer.get_name())
        self._optimizer = optimizer
        self._joined = joined()

    def compute_gradients(self, *args: Any, **kwargs: Any) -> List[Tuple[Any, tf.Variable]]:
        """Pairs (gradient, variable) of the optimizer, averaged."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        if self._joined is None:
            return pairs
        average, shards = self._joined.module.Average, _shards(tf.compat.v1.get_default_graph())
        return [(gradient if gradient is None or variable.op.name in shards
                 else self._joined.module.allreduce(gradient, op=average), variable) for gradient, variable in pairs]

    def apply_gradients(self, grads_and_vars: Iterable[Tuple[Any, tf.Variable]], *args: Any,
                        **kwargs: Any) -> tf.Operation:
        """As the optimizer does; gradients are not averaged here."""
        return self._optimizer.apply_gradients(grads_and_vars, *args, **kwargs)

    def get_slot(self, var: tf.Variable, name: str) -> Optional[tf.Variable]:
        """The optimizer's."""
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> List[str]:
        """The optimizer's."""
        return self._optimizer.get_slot_names()

    def variables(self) -> List[tf.Variable]:
        """The optimizer's."""
        return self._optimizer.variables()


def broadcast_global_variables(root_rank: int = 0) -> tf.Operation:
    """An op that gives all ranks the variables of one; rows of tables and of their optimizer slots stay where they are.

    It starts Horovod, unless the program has. Call it when all variables are there.

    Raises:
        HorovodMissingError, RanksError: Horovod is not there, or does not start.
    """
    horovod = joined()
    if horovod is None:
        return tf.no_op()
    shards = _shards(tf.compat.v1.get_default_graph())
    dense = [variable for variable in tf.compat.v1.global_variables() if variable.op.name not in shards]
    return horovod.module.broadcast_variables(dense, root_rank) if dense else tf.no_op()


class BroadcastGlobalVariablesHook(tf.estimator.SessionRunHook):
    """Runs ``broadcast_global_variables`` in each new session: after a restore, all ranks go on with rank 0's values.

    Args:
        root_rank: rank whose values all ranks get.
    """

    def __init__(self, root_rank: int = 0) -> None:
        self._root_rank = root_rank
        self._broadcast: Optional[tf.Operation] = None

    def begin(self) -> None:
        if self._broadcast is None or self._broadcast.graph is not tf.compat.v1.get_default_graph():
            self._broadcast = broadcast_global_variables(self._root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._broadcast)


def _shards(graph: tf.Graph) -> Set[str]:
    """Names of variables that hold rows of tables."""
    state = GraphState.known(graph)
    return set() if state is None else names_of_variables(state.tables.values())
