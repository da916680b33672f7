"""Optimizer slots of a table, and the initial values of the slots for new keys."""
import dataclasses
import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Set

import numpy as np
import tensorflow as tf

from ascpipe.errors import OptimizerError
from ascpipe.tf import internals
from ascpipe.tf.graph.sparse_table import Table

#: Suffixes of slot names. The slots contain, per row, the sum and the number of gradients that are not applied yet.
GRADIENT_SUM = "gradient_sum"
GRADIENT_COUNT = "gradient_count"


@dataclasses.dataclass
class HomeSlots:
    """Optimizer slots of an expansion table, which are stored in the table's home rows.

    Attributes:
        initial: name of an optimizer slot -> initial value of its elements, in the order of the slots in a home row.
            Each slot is as wide as the embedding.
        summed_by: name of the optimizer that accumulates gradients, or None. In a home row, the sums are stored after
            the slots.
    """

    owner: tf.compat.v1.train.Optimizer
    initial: Dict[str, float] = dataclasses.field(default_factory=dict)
    summed_by: Optional[str] = None


class OptimizerSlot(NamedTuple):
    """Optimizer slot of a table.

    Attributes:
        name: name of the slot's folder in a checkpoint, ``<optimizer>_<state>``.
        width: floats per row.
        initial: initial value of all elements.
        variable: ref variable, float[device rows, width]. It is None for an expansion table, because its slots are in
            home rows.
    """

    name: str
    width: int
    initial: float
    variable: Optional[tf.Variable] = None


def optimizer_slots(table: Table, home_slots: Mapping[str, HomeSlots]) -> List[OptimizerSlot]:
    """Return the optimizer slots of a table, in the order of the slots in a home row.

    The function raises the same errors as ``slot_variables``.

    Args:
        home_slots: slots by name of the expansion table.
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
    """Return the op names of all variables and slot variables of tables."""
    return {variable.op.name for table in tables
            for variable in (table.variable, *(slot.variable for slot in slot_variables(table)))}


def slot_variables(table: Table) -> List[OptimizerSlot]:
    """Return the slot variables of a table in order of creation. Variables that do not have one element or vector per
    row are omitted.

    Raises:
        ValueError: a slot variable is not float32[rows, width], is a resource variable, or is not initialized with one
            known constant. ascpipe can initialize the slots of new keys only with a constant.
    """
    return [_slot(table, variable) for variable in sorted(
        table.optimizer_variables, key=lambda variable: internals.order_of(variable.op)) if _is_by_row(table, variable)]


def _is_by_row(table: Table, variable: tf.Variable) -> bool:
    return variable.shape.rank is None or variable.shape.rank > 0 and variable.shape[0].value in (
        None, table.shape.device_rows)


def _slot(table: Table, variable: tf.Variable) -> OptimizerSlot:
    if variable.shape.rank != 2 or variable.dtype.base_dtype != tf.float32:
        raise OptimizerError("Slot variable {!r} of table {!r} is {}{}; only float32[{}, width] can move with the "
                             "rows of the table".format(
                                 variable.name, table.table_name, variable.dtype.base_dtype.name, variable.shape,
                                 table.shape.device_rows))
    if not isinstance(variable, internals.RefVariable):
        raise OptimizerError("Slot variable {!r} of table {!r} is a resource variable, so its rows cannot move with "
                             "the rows of the table. Create the optimizer without resource variables".format(
                                 variable.name, table.table_name))
    # In a variable scope, the name is "<scope>/<name of the table's variable>/<name of the slot>".
    whole = variable.op.name
    _, _, name = whole.partition("{}/".format(table.variable.op.name))
    return OptimizerSlot(_checkpoint_name(name or whole), variable.shape[1].value, _initial_value(variable, table),
                         variable)


#: Last part of a slot variable's name -> folder of the slot in Rec SDK's checkpoints.
_REC_SDK_NAMES = {
    "accumulator": "Adagrad_accumulator", "accum": "ftrl_accum", "linear": "ftrl_linear",
    "momentum": "LazyAdam_momentum", "m": "LazyAdam_momentum",
    "velocity": "LazyAdam_velocity", "v": "LazyAdam_velocity"}


def _checkpoint_name(name: str) -> str:
    """Return the folder name of an optimizer slot.

    Slots of Rec SDK's optimizers have the same folder names as in Rec SDK.
    """
    return _REC_SDK_NAMES.get(name.rsplit("/", 1)[-1]) or re.sub(r"\W", "_", name)


def _initial_value(variable: tf.Variable, table: Table) -> float:
    value = _uniform_value(variable.initial_value)
    if value is None:
        raise OptimizerError("Slot variable {!r} of table {!r}: its initializer gives new rows their values and must "
                             "be one constant (zeros, ones, a constant or Fill), not {}".format(
                                 variable.name, table.table_name, variable.initial_value.op.type))
    return value


def _uniform_value(tensor: tf.Tensor) -> Optional[float]:
    """Return the value of all elements of a tensor, or None if the elements differ or are unknown before the graph
    runs.
    """
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
    if op.type == "Mul":
        factors = [_uniform_value(factor) for factor in op.inputs]
        return None if None in factors else float(np.prod(factors, dtype=np.float32))
    return None


def _constant(proto: Any) -> Optional[float]:
    if proto.tensor_content:
        values = np.frombuffer(proto.tensor_content, np.float32)
    else:
        values = np.asarray(proto.float_val, np.float32)
    if values.size == 0:
        return 0.0  # an empty TensorProto means zeros
    return float(values[0]) if (values == values[0]).all() else None
