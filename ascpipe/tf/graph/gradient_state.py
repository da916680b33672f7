"""State of the gradients of one graph: what the program differentiated, applied and accumulates."""
import dataclasses
from typing import Dict, List, NamedTuple, Tuple

import tensorflow as tf

from ascpipe.tf import internals
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import HomeSlots


class Accumulation(NamedTuple):
    """How the gradients of a table are accumulated.

    Attributes:
        optimizer: of ``ascpipe.tf.optimizers.accumulate``.
        steps: batches of a cycle.
    """

    optimizer: tf.compat.v1.train.Optimizer
    steps: int


@dataclasses.dataclass
class GradientState:
    """Gradients of the tables of one graph. Made by ``GradientState.of``.

    Attributes:
        losses: the tensors that the program differentiated, by name and graph.
        applied_sums: the sums of gradients of tables that were applied.
        applied: the first and last number of the ops that each ``apply_gradients`` made.
        checked_version: version of the started graph when the use of its tables was last checked.
        home_slots: by name of an expansion table, the state of an optimizer beside its rows.
        accumulated: by name of a table, how its gradients are accumulated over batches.
    """

    losses: Dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)
    applied_sums: List[tf.Operation] = dataclasses.field(default_factory=list)
    applied: List[Tuple[int, int]] = dataclasses.field(default_factory=list)
    checked_version: int = 0
    home_slots: Dict[str, HomeSlots] = dataclasses.field(default_factory=dict)
    accumulated: Dict[str, Accumulation] = dataclasses.field(default_factory=dict)

    @staticmethod
    def of(state: GraphState) -> "GradientState":
        """Return the gradients of a graph; empty the first time."""
        return internals.kept_on(state, "gradients", GradientState)
