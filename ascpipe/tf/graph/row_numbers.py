"""Functions that trace the row numbers of a table's gradient (``grad.indices``) back to the lookups.

Row numbers are slots. A slot may belong to another key in the next step, so an update may use only row numbers from
lookups of the same step.
"""
from typing import List, Optional, Set

import tensorflow as tf

#: Ops that reshape, reorder, select or cast the row numbers in their first input.
_OF_FIRST_INPUT = frozenset((
    "Cast", "DynamicPartition", "Enter", "ExpandDims", "Gather", "GatherNd", "GatherV2", "Identity", "PreventGradient",
    "RefSwitch", "Reshape", "Slice", "Snapshot", "SplitV", "Squeeze", "StopGradient", "StridedSlice", "Switch",
    "TopKV2", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", "Unpack"))
#: Ops of which only the first output contains row numbers.
_FIRST_OUTPUT = frozenset(("Merge", "TopKV2", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2"))
SUM = "AscLookupGrad"  #: type of the ops that sum the gradient of a table's lookups


def inputs_with_numbers(op: tf.Operation) -> List[tf.Tensor]:
    """Return the inputs from which an op copies row numbers to its outputs."""
    inputs = list(op.inputs)
    if op.type in _OF_FIRST_INPUT:
        return inputs[:1]
    if op.type in ("Merge", "Pack"):
        return inputs
    if op.type == "ConcatV2":
        return inputs[:-1]
    if op.type in ("Concat", "Select", "SelectV2"):
        return inputs[1:]
    return inputs[1:2] if op.type == "Split" else []


def outputs_with_numbers(op: tf.Operation) -> List[tf.Tensor]:
    """Return the outputs to which an op copies row numbers from its inputs."""
    return list(op.outputs[:1] if op.type in _FIRST_OUTPUT else op.outputs)


def origins_of(numbers: tf.Tensor) -> List[tf.Tensor]:
    """Return the tensors from which row numbers were computed, without duplicates."""
    found: List[tf.Tensor] = []
    seen: Set[str] = set()
    waiting = [numbers]
    while waiting:
        tensor = waiting.pop()
        if tensor.name in seen:
            continue
        seen.add(tensor.name)
        before = inputs_with_numbers(tensor.op)
        if before and any(tensor is output for output in outputs_with_numbers(tensor.op)):
            waiting.extend(before)
        else:
            found.append(tensor)
    return found


def slots_summed_by(numbers: tf.Tensor) -> Optional[tf.Tensor]:
    """Return the slots of the op that returned ``numbers``, or None if this op is not of type ``SUM``."""
    return numbers.op.inputs[0] if numbers.op.type == SUM and numbers.value_index == 1 else None


def sums_each_row(op: tf.Operation) -> bool:
    """Return True if an op of type ``SUM`` returns each row only once.

    An op that sums occurrences may return a row several times, because it has one slot per occurrence.
    """
    return op.type == SUM and not is_choice(op.inputs[0].op)


def is_choice(op: tf.Operation) -> bool:
    """Return True if ascpipe created an op to select the slot of each occurrence."""
    return op.type.startswith("Gather") and op.name.startswith("ascpipe/")
