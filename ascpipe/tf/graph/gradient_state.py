"""State of the gradients of one graph: losses, applied gradients and accumulation."""
import dataclasses
from typing import Dict, List, NamedTuple, Set, Tuple

import tensorflow as tf

from ascpipe.tf import internals
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import HomeSlots


class Accumulation(NamedTuple):
    """Accumulation of the gradients of a table.

    Attributes:
        optimizer: optimizer that ``ascpipe.tf.optimizers.accumulate`` returned.
        steps: batches per cycle.
    """

    optimizer: tf.compat.v1.train.Optimizer
    steps: int


@dataclasses.dataclass
class GradientState:
    """Records about the gradients of tables in one graph. ``GradientState.of`` creates an object.

    Attributes:
        losses: tensors whose gradients the program computed, by the tensor's name. If the graph of the tensor is a
            function body, the ``id()`` of the graph precedes the name.
        without_tables: the name of the optimizer and the loss of each ``compute_gradients`` for all trainable
            variables, but for no table.
        apart: names of tables whose gradients the program also computes apart from those of variables.
        applied_sums: ops that sum gradients and whose results were passed to ``apply_gradients``.
        given_sums: names of all ops that sum gradients and whose results the program passed to ``apply_gradients``.
        applied: orders of the graph's newest op before and after each ``apply_gradients``, as pairs.
        checked_order: order of the newest op at the last check of the uses of tables (``internals.newest_order``).
        home_slots: optimizer slots of expansion tables, by table name.
        accumulated: accumulation by table name.
        optimizers: the first optimizer that updates a table, by table name.
        trained_by_default: names of tables whose gradients an optimizer without ``var_list`` computed.
    """

    losses: Dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)
    without_tables: List[Tuple[str, tf.Tensor]] = dataclasses.field(default_factory=list)
    apart: Set[str] = dataclasses.field(default_factory=set)
    applied_sums: List[tf.Operation] = dataclasses.field(default_factory=list)
    given_sums: Set[str] = dataclasses.field(default_factory=set)
    applied: List[Tuple[int, int]] = dataclasses.field(default_factory=list)
    checked_order: int = 0
    home_slots: Dict[str, HomeSlots] = dataclasses.field(default_factory=dict)
    accumulated: Dict[str, Accumulation] = dataclasses.field(default_factory=dict)
    optimizers: Dict[str, tf.compat.v1.train.Optimizer] = dataclasses.field(default_factory=dict)
    trained_by_default: Set[str] = dataclasses.field(default_factory=set)

    @staticmethod
    def of(state: GraphState) -> "GradientState":
        """Return the ``GradientState`` of a graph."""
        return internals.stored_on(state, "gradients", GradientState)
