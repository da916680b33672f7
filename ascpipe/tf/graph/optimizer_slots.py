"""The optimizer slots of a table, and the value that each begins with for new keys."""
import dataclasses
import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Set

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import variables

from ascpipe.tf import internals
from ascpipe.tf.graph.sparse_table import Table

#: Suffixes of the names of slots: for each row, the sum of gradients that are not applied yet, and their number.
GRADIENT_SUM = "gradient_sum"
GRADIENT_COUNT = "gradient_count"


@dataclasses.dataclass
class HomeSlots:
    """The state of an optimizer beside each row of an expansion table.

    Attributes:
        owner: the optimizer.
        initial: by name of the optimizer slot, in their order in a home row, what each element begins with. Each is
            as wide as the embedding.
        summed_by: name of the optimizer that accumulates gradients, or None. The sums are behind the state.
    """

    owner: tf.compat.v1.train.Optimizer
    initial: Dict[str, float] = dataclasses.field(default_factory=dict)
    summed_by: Optional[str] = None


class OptimizerSlot(NamedTuple):
    """State of an optimizer beside a table's rows.

    Attributes:
        name: its folder in a checkpoint, ``<optimizer>_<state>``.
        width: floats beside each row.
        initial: what each element begins with.
        variable: float[device rows, width], a ref variable; None of an expansion table, where it lies in home rows.
    """

    name: str
    width: int
    initial: float
    variable: Optional[tf.Variable] = None


def optimizer_slots(table: Table, home_slots: Mapping[str, HomeSlots]) -> List[OptimizerSlot]:
    """The optimizer slots of a table, in their order in a home row.

    Args:
        table: the table.
        home_slots: by name of an expansion table, what an optimizer keeps beside its rows.

    Raises:
        ValueError: as ``slot_variables``.
    """
    if not table.shape.expands:
        return slot_variables(table)
    if table.table_name not in home_slots:
        return []
    slots = home_slots[table.table_name]
    found = [OptimizerSlot(_checkpoint_name(name), table.emb_size, initial) for name, initial in slots.initial.items()]
    if slots.summed_by is not None:
        found.extend(OptimizerSlot(_checkpoint_name("{}/{}".format(slots.summed_by, name)), width, 0.0)
                     for name, width in ((GRADIENT_SUM, table.emb_size), (GRADIENT_COUNT, 1)))
    return found


def names_of_variables(tables: Iterable[Table]) -> Set[str]:
    """Names of the ops of all variables that hold rows of tables, their slot variables included."""
    return {variable.op.name for table in tables
            for variable in (table.variable, *(slot.variable for slot in slot_variables(table)))}


def slot_variables(table: Table) -> List[OptimizerSlot]:
    """Return the slot variables that optimizers have created for a table, in order of creation.

    Raises:
        ValueError: one whose initial value is not the same known number everywhere, so that rows of new keys
            could not begin with it; one that is a resource variable; one with a number for each row that is no
            float32[rows, width].
    """
    return [_slot(table, variable) for variable in sorted(
        table.optimizer_variables, key=lambda variable: internals.order_of(variable.op)) if _is_by_row(table, variable)]


def _is_by_row(table: Table, variable: tf.Variable) -> bool:
    """Whether a slot variable has something for each row, not something for the table."""
    return variable.shape.rank is None or variable.shape.rank > 0 and variable.shape[0].value in (
        None, table.shape.device_rows)


def _slot(table: Table, variable: tf.Variable) -> OptimizerSlot:
    if variable.shape.rank != 2 or variable.dtype.base_dtype != tf.float32:
        raise ValueError("slot variable {!r} of table {!r} is {}{}, and only float32[{}, width] can move with the "
                         "table's rows".format(variable.name, table.table_name, variable.dtype.base_dtype.name,
                                               variable.shape, table.shape.device_rows))
    if not isinstance(variable, variables.RefVariable):
        raise ValueError("slot variable {!r} of table {!r} is a resource variable, its rows cannot move with the "
                         "table's; make the optimizer without resource variables".format(
                             variable.name, table.table_name))
    # Below the program's variable scope, if any: "<scope>/<name of the table's variable>/<name of its own>".
    whole = variable.op.name
    _, _, name = whole.partition("{}/".format(table.variable.op.name))
    return OptimizerSlot(_checkpoint_name(name or whole), variable.shape[1].value, _initial_value(variable, table),
                         variable)


#: Names that Rec SDK gives the state of its optimizers in checkpoints, by what the state is called.
_REC_SDK_NAMES = {
    "accumulator": "Adagrad_accumulator", "accum": "ftrl_accum", "linear": "ftrl_linear",
    "momentum": "LazyAdam_momentum", "m": "LazyAdam_momentum",
    "velocity": "LazyAdam_velocity", "v": "LazyAdam_velocity"}


def _checkpoint_name(name: str) -> str:
    """The folder of an optimizer slot: that of Rec SDK for its optimizers, which does not count them."""
    return _REC_SDK_NAMES.get(name.rsplit("/", 1)[-1]) or re.sub(r"\W", "_", name)


def _initial_value(variable: tf.Variable, table: Table) -> float:
    value = _uniform_value(variable.initial_value)
    if value is None:
        raise ValueError("slot variable {!r} of table {!r}: rows of new keys shall begin as its initializer says, "
                         "which must be one constant (zeros, ones, a constant or Fill), not {}".format(
                             variable.name, table.table_name, variable.initial_value.op.type))
    return value


def _uniform_value(tensor: tf.Tensor) -> Optional[float]:
    """The one value of all elements of a tensor, where the graph's structure says so; never computes the tensor."""
    op = tensor.op
    if op.type in ("Identity", "Reshape"):
        return _uniform_value(op.inputs[0])
    if op.type == "Fill":
        return _uniform_value(op.inputs[1])
    if op.type == "ZerosLike":
        return 0.0
    if op.type == "OnesLike":
        return 1.0
    if op.type == "Const":
        return _constant(op.get_attr("value"))
    return None


def _constant(proto: Any) -> Optional[float]:
    """A TensorProto holds one value for all elements, or a value each."""
    if proto.tensor_content:
        values = np.frombuffer(proto.tensor_content, np.float32)
    else:
        values = np.asarray(proto.float_val, np.float32)
    if values.size == 0:
        return 0.0  # no value stands for zeros
    return float(values[0]) if (values == values[0]).all() else None
