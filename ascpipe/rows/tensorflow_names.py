"""Names of optimizer slots in TensorFlow's checkpoints and in tables. The functions are pure.

TensorFlow names a slot ``V/Adagrad``, where V is the variable. In a variable scope, the name is ``scope/V/Adagrad``. If
V is partitioned, each part has its own slot ``V/<any text>/Adagrad``, whose entry contains the slice of the part.
"""
import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence

from ascpipe.rows.bundle_format import Entry


class TableSlot(NamedTuple):
    """Optimizer slot of a table.

    Attributes:
        name: name in checkpoints of ascpipe.
        initial: value of new rows by default. A program uses the value of its optimizer.
    """

    name: str
    initial: float


#: Last part of a slot's name in TensorFlow -> slot of a table. The values have the same meaning.
_TABLE_SLOTS = {
    "Adagrad": TableSlot("Adagrad_accumulator", 0.1),
    "Adam": TableSlot("LazyAdam_momentum", 0.0), "Adam_1": TableSlot("LazyAdam_velocity", 0.0),
    "Ftrl": TableSlot("ftrl_accum", 0.1), "Ftrl_1": TableSlot("ftrl_linear", 0.0),
    "RMSProp": TableSlot("RMSProp", 1.0),
}
#: Last part of a slot's name under an optimizer of TensorFlow -> last part of the name under an optimizer of ascpipe
_OPTIMIZERS = {"Adagrad": "Adagrad_0", "Adam": "LazyAdam_0", "Adam_1": "LazyAdam_0_1", "Ftrl": "Ftrl_0",
               "Ftrl_1": "Ftrl_0_1"}
_POWER = re.compile(r"(?:.*/)?beta[12]_power\Z", re.DOTALL)


def slots_of(variable: str, tensors: Dict[str, Entry]) -> Dict[str, List[str]]:
    """Return the optimizer slots of a variable as a dict: last part of the slot's name -> names of the slot's tensors.

    Tensors with another number of rows, such as a power of Adam, are not slots.
    """
    rows = tensors[variable].shape[:1]
    found: Dict[str, List[str]] = {}
    for name in sorted(tensors):
        if _owner(name, tensors) == variable and tensors[name].shape[:1] == rows:
            found.setdefault(name.rpartition("/")[2], []).append(name)
    return found


def _owner(name: str, tensors: Dict[str, Entry]) -> Optional[str]:
    """Return the variable to which a slot belongs. If the slot's name contains several variables' names, the longest
    name is chosen.
    """
    parts = name.split("/")[:-1]
    for count in range(len(parts), 0, -1):
        for start in (0, len(parts) - count):  # "V/<part>/slot", then "scope/V/slot"
            variable = "/".join(parts[start:start + count])
            if variable in tensors:
                return variable
    return None


def table_slot(name: str) -> TableSlot:
    """Return the table slot that corresponds to TensorFlow's slot ``name``, which is the last part of the slot's full
    name.
    """
    return _TABLE_SLOTS.get(name) or TableSlot(re.sub(r"\W", "_", name), 0.0)


def tensorflow_slot(name: str) -> str:
    """Return the last part of the name that TensorFlow uses for a table slot."""
    return {slot.name: theirs for theirs, slot in _TABLE_SLOTS.items()}.get(name, name)


def equal_slot(name: str) -> Optional[str]:
    """Return the slot name that another optimizer uses for the same values, or None if there is no such name.

    ``asc.optimizers.Adagrad`` and ``tf.train.AdagradOptimizer`` name the same values differently, for example.
    """
    theirs = tensorflow_slot(name)
    return theirs if theirs != name else _TABLE_SLOTS[name].name if name in _TABLE_SLOTS else None


def aliases(names: Iterable[str]) -> Dict[str, str]:
    """Return a dict: alias of a tensor -> name of the tensor. Programs that use optimizers of ascpipe need the aliases.

    ``asc.optimizers.Adagrad`` names the slot of a variable V ``V/Adagrad_0``. If TensorFlow's Adam trains variables and
    feature columns, ascpipe creates the powers of Adam twice, with equal values.
    """
    found = {}
    for name in names:
        scope, _, last = name.rpartition("/")
        if scope and last in _OPTIMIZERS:
            found["{}/{}".format(scope, _OPTIMIZERS[last])] = name
        if _POWER.match(name):
            found[name + "_1"] = name
    return found


def reverse_aliases(names: Iterable[str]) -> Dict[str, str]:
    """Return a dict for the slots of ascpipe's optimizers: TensorFlow's name of the slot -> ascpipe's name.
    """
    theirs = {ours: name for name, ours in _OPTIMIZERS.items()}
    found = {}
    for name in names:
        scope, _, last = name.rpartition("/")
        if scope and last in theirs:
            found["{}/{}".format(scope, theirs[last])] = name
    return found


def names_like(variable: str, slot: str, dense: Sequence[str]) -> List[str]:
    """Return the names that TensorFlow may give to a slot of a variable. The names are derived from the slots of other
    variables.

    The first name is ``V/slot``. The other names contain a scope, or a text in the middle, as in the slots of other
    variables.
    """
    found = {"{}/{}".format(variable, slot): None}
    known = set(dense)
    for name in dense:
        head, _, last = name.rpartition("/")
        if last != slot or not head:
            continue
        parts = head.split("/")
        for count in range(len(parts) - 1, 0, -1):
            if "/".join(parts[:count]) in known:
                found["/".join([variable, *parts[count:], slot])] = None
                break
            if "/".join(parts[-count:]) in known:
                found["/".join([*parts[:-count], variable, slot])] = None
                break
    return list(found)
