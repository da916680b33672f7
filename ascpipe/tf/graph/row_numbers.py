"""Traces the numbers of rows in the gradient of a table, ``grad.indices``, to the lookups that they come from.

They are slots, which belong to a key within one step: the next step may have another key there. So an update may use
the numbers of its own step's lookups and no other ones.
"""
from typing import List, Optional, Set

import tensorflow as tf

#: Ops whose first input holds the numbers that their outputs hold: in another shape, order, choice or integer type.
_OF_FIRST_INPUT = frozenset((
    "Cast", "DynamicPartition", "Enter", "ExpandDims", "Gather", "GatherNd", "GatherV2", "Identity", "PreventGradient",
    "RefSwitch", "Reshape", "Slice", "Snapshot", "SplitV", "Squeeze", "StopGradient", "StridedSlice", "Switch",
    "TopKV2", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", "Unpack"))
#: Of these the first output alone holds numbers; further ones are positions and counts.
_FIRST_OUTPUT = frozenset(("Merge", "TopKV2", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2"))
SUMS = ("AscLookupGrad", "AscLookupConcatGrad")  #: ops that sum the gradient of a table's lookups


def inputs_with_numbers(op: tf.Operation) -> List[tf.Tensor]:
    """The inputs whose numbers of rows an op hands on; empty: it hands on none."""
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
    """The outputs of such an op that hold numbers of rows."""
    return list(op.outputs[:1] if op.type in _FIRST_OUTPUT else op.outputs)


def origins_of(numbers: tf.Tensor) -> List[tf.Tensor]:
    """The tensors that numbers of rows come from, each once."""
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
    """The slots of the lookups whose gradient an op summed, if ``numbers`` are its rows; else None."""
    op = numbers.op
    if op.type == "AscLookupGrad" and numbers.value_index == 1:
        return op.inputs[0]
    if op.type == "AscLookupConcatGrad":
        tables = int(op.get_attr("n"))
        return op.inputs[numbers.value_index - tables] if numbers.value_index >= tables else None
    return None


def rows_of_sums(op: tf.Operation) -> List[tf.Tensor]:
    """The outputs of an op of ``SUMS`` that are numbers of rows."""
    return list(op.outputs[len(op.outputs) // 2:])
