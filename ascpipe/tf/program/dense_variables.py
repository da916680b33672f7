"""Training of dense variables on several ranks: averaging of gradients and broadcast of initial values.

Horovod's functions would treat tables as dense variables. They would gather row numbers that are not valid on other
ranks, and copy the rows of one rank to all shards. The functions of this module do not change tables, and have no
effect with one rank.
"""
import logging
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import tensorflow as tf

from ascpipe.tf.graph.ancestors import ops_behind
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import names_of_variables
from ascpipe.tf.graph.stand_ins import StandIns
from ascpipe.tf.running.horovod import Started, joined
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import Instance, Integer, Text, checked

_log = logging.getLogger(__name__)

#: Maximum size of a fused tensor, as in Horovod. A larger gradient is averaged separately.
PACKED_BYTES = 1 << 26

MAX_RANK = 4094

_BROADCAST = "HorovodBroadcast"
_APPLIES = ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")  # first words of types of ops


class DistributedOptimizer(tf.compat.v1.train.Optimizer):
    """Optimizer that averages gradients of dense variables over ranks, and leaves gradients of tables unchanged.

    Gradients of the same dtype are averaged in groups of up to ``PACKED_BYTES``, with one exchange per group. Unlike
    with Horovod's fusion, the order of sums does not depend on timing. Gradients of tables are summed by the owners of
    the keys (``all2all_gradients_op`` of ``create_table``). The optimizer starts Horovod if it is not running. All
    ranks must make the same calls in the same order::

        optimizer = ascpipe.tf.DistributedOptimizer(tf.train.AdamOptimizer(0.001))
        train_op = optimizer.minimize(loss, var_list=dense_variables)

    Args:
        optimizer: optimizer that computes and applies gradients.
        name: name of the ops. It defaults to the name of ``optimizer``.

    Raises:
        HorovodMissingError, RanksError: Horovod is not installed or does not start.
    """

    @checked(optimizer=Instance(tf.compat.v1.train.Optimizer), name=Text(1, 255, optional=True))
    def __init__(self, optimizer: tf.compat.v1.train.Optimizer, name: Optional[str] = None) -> None:
        super().__init__(use_locking=False, name=name or optimizer.get_name())
        self._optimizer = optimizer
        self._joined = joined()

    def compute_gradients(self, *args: Any, **kwargs: Any) -> List[Tuple[Any, tf.Variable]]:
        """Return the wrapped optimizer's pairs (gradient, variable). Gradients of dense variables are averaged."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        if self._joined is None:
            return pairs
        shards = _shards(tf.compat.v1.get_default_graph())
        dense = [place for place, (gradient, variable) in enumerate(pairs)
                 if gradient is not None and variable.op.name not in shards]
        averaged = dict(zip(dense, _averaged(self._joined, [pairs[place][0] for place in dense])))
        return [(averaged.get(place, gradient), variable) for place, (gradient, variable) in enumerate(pairs)]

    def apply_gradients(self, grads_and_vars: Iterable[Tuple[Any, tf.Variable]], *args: Any,
                        **kwargs: Any) -> tf.Operation:
        """Apply gradients with the wrapped optimizer, without averaging."""
        return self._optimizer.apply_gradients(grads_and_vars, *args, **kwargs)

    def get_slot(self, var: tf.Variable, name: str) -> Optional[tf.Variable]:
        """Return a slot variable of the wrapped optimizer."""
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> List[str]:
        """Return the slot names of the wrapped optimizer."""
        return self._optimizer.get_slot_names()

    def variables(self) -> List[tf.Variable]:
        """Return the variables of the wrapped optimizer."""
        return self._optimizer.variables()


@checked(root_rank=Integer(0, MAX_RANK))
def broadcast_global_variables(root_rank: int = 0) -> tf.Operation:
    """Return an op that copies the dense variables of one rank to all ranks.

    Rows of tables and their optimizer slots are not copied. The function starts Horovod if it is not running. Call the
    function after all variables are created.

    Raises:
        HorovodMissingError, RanksError: Horovod is not installed or does not start.
    """
    horovod = joined()
    if horovod is None:
        return tf.no_op()
    shards = _shards(tf.compat.v1.get_default_graph())
    dense = [variable for variable in tf.compat.v1.global_variables() if variable.op.name not in shards]
    return horovod.module.broadcast_variables(dense, root_rank) if dense else tf.no_op()


class BroadcastGlobalVariablesHook(tf.estimator.SessionRunHook):
    """Hook that runs ``broadcast_global_variables`` in each new session.

    Dense variables are then equal on all ranks, even after a restore.

    Args:
        root_rank: rank whose values are copied to all ranks.
    """

    @checked(root_rank=Integer(0, MAX_RANK))
    def __init__(self, root_rank: int = 0) -> None:
        self._root_rank = root_rank
        self._broadcast: Optional[tf.Operation] = None

    def begin(self) -> None:
        if self._broadcast is None or self._broadcast.graph is not tf.compat.v1.get_default_graph():
            self._broadcast = broadcast_global_variables(self._root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._broadcast)


def warn_of_separate_training(graph: tf.Graph) -> None:
    """Log a warning on rank 0 if no op combines the ranks' gradients of dense variables. The dense variables would then
    differ between ranks.

    An op of Horovod other than a broadcast combines ranks, if the update of the variable depends on its result. A
    reduction of a metric combines nothing.
    """
    configuration = Process.current().configuration
    if configuration.rank_size == 1 or configuration.rank_id != 0:
        return
    names = separate_variables(graph)
    if names and Process.current().is_first("separate dense variables"):
        _log.warning("Each of the %d ranks trains its own values of the dense variables (%s%s), because no op of the "
                     "graph combines their gradients. Wrap the optimizer with asc.DistributedOptimizer "
                     "(docs/how-to/running_ranks.md)", configuration.rank_size, ", ".join(names[:3]),
                     ", ..." * (len(names) > 3))


def separate_variables(graph: tf.Graph) -> List[str]:
    """Return the names of the dense variables whose updates do not depend on an op that combines values of several
    ranks.
    """
    ops = graph.get_operations()
    combined = ops_behind((op for op in ops if op.type.startswith("Horovod") and not op.type.startswith(_BROADCAST)),
                          by_control=False)
    dense = {variable.op.name for variable in graph.get_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES)}
    updated = {op.inputs[0].op.name for op in ops if op.type.startswith(_APPLIES) and op not in combined}
    return sorted((dense & updated) - _shards(graph))


def _averaged(horovod: Started, gradients: Sequence[Any]) -> List[Any]:
    found: Dict[int, Any] = {}
    for pack in _packs(gradients):
        if len(pack) == 1:
            found[pack[0]] = horovod.module.allreduce(gradients[pack[0]], op=horovod.module.Average)
            continue
        tensors = [gradients[place] for place in pack]
        together = horovod.module.allreduce(tf.concat([tf.reshape(one, [-1]) for one in tensors], axis=0),
                                            op=horovod.module.Average)
        parts = tf.split(together, [one.shape.num_elements() for one in tensors])
        found.update((place, tf.reshape(part, one.shape)) for place, part, one in zip(pack, parts, tensors))
    return [found[place] for place in range(len(gradients))]


def _packs(gradients: Sequence[Any]) -> List[List[int]]:
    """Divide gradients into groups that are averaged as one tensor. Return the indices of the gradients in each group.
    """
    packs: List[List[int]] = []
    open_packs: Dict[tf.DType, Tuple[List[int], int]] = {}  # dtype -> the last pack and its bytes
    for place, gradient in enumerate(gradients):
        if isinstance(gradient, tf.IndexedSlices) or not gradient.shape.is_fully_defined():
            packs.append([place])
            continue
        size = gradient.shape.num_elements() * gradient.dtype.size
        pack, before = open_packs.get(gradient.dtype, ([], PACKED_BYTES))
        if before + size > PACKED_BYTES:
            pack = []
            before = 0
            packs.append(pack)
        pack.append(place)
        open_packs[gradient.dtype] = (pack, before + size)
    return packs


def _shards(graph: tf.Graph) -> Set[str]:
    """Return the names of variables that contain rows of tables, and the names of column variables that tables replace.
    """
    state = GraphState.known(graph)
    return set() if state is None else names_of_variables(state.tables.values()).union(StandIns.of(state))
