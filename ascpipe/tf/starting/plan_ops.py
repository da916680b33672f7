"""Replacement of the provisional plan ops of a graph by final plan ops, when the optimizer slots are known."""
from typing import Dict, List, Sequence

import tensorflow as tf

from ascpipe.errors import api_names
from ascpipe.layout.words import TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph.features import CHANNEL_NAMES
from ascpipe.tf.graph.gradient_state import GradientState
from ascpipe.tf.graph.graph_state import LIVE, Attachment, GraphState
from ascpipe.tf.graph.optimizer_slots import OptimizerSlot, optimizer_slots
from ascpipe.tf.graph.rewiring import outside_scopes, repoint
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.table_lookup import TableLookup
from ascpipe.tf.graph.whole_writes import note_variables
from ascpipe.tf.program.table_changes import eviction_op
from ascpipe.tf.running import native


def slots_of_training_tables(state: GraphState) -> Dict[str, List[OptimizerSlot]]:
    """Return a dict: name of a training table -> optimizer slots of the table.

    Raise ``ValueError`` for an invalid slot variable.
    """
    return {name: optimizer_slots(state.tables[name], GradientState.of(state).home_slots)
            for name, channel in state.lookups if channel == TRAIN}


def complete_graph(state: GraphState) -> None:
    """Replace the provisional plan ops of a graph by final plan ops, and prepare the variables of all tables."""
    for lookup in state.lookups.values():
        plan = _plan_op(lookup, state.slots.get(lookup.table.table_name, []))
        for provisional, final in zip(lookup.plan, plan):
            repoint(provisional, final)
        lookup.plan = plan
    for name, table in state.tables.items():
        _refuse_restore(table, state.slots.get(name, ()))
        _refuse_broadcast(table, state.slots.get(name, ()))
        # The initializer resets the table only in graphs that train it.
        training = (name, TRAIN) in state.lookups
        internals.set_flag(table.variable.initial_value.op, "training", value=training)
        # With this flag, the variable shares the memory of its initial value, which is the table. A copy would be
        # outdated after another graph has trained the table.
        internals.set_flag(table.variable.initializer, "_grappler_relax_allocator_constraints", value=True)
    note_variables(state)
    # The eviction op is built here, because a managed session finalizes the graph.
    eviction_op(state)
    state.attachment = _attachment(state)


def _refuse_restore(table: Table, slots: Sequence[OptimizerSlot]) -> None:
    """Make restores of a table's variables by TensorFlow fail, because TensorFlow would read rows without their keys.

    Ops that restore these variables and are created later raise an error before they run (``TableUses``).
    """
    text = api_names.in_names_of_program(
        "table {!r} is restored by asc.Saver, not by TensorFlow's Saver".format(table.table_name))
    for variable in (table.variable, *(slot.variable for slot in slots if slot.variable is not None)):
        for assign in internals.reference_of(variable).consumers():
            if assign.type == "Assign" and assign.inputs[1].op.type in ("RestoreV2", "Restore", "RestoreSlice"):
                with table.building("restore"), tf.control_dependencies([tf.debugging.Assert(False, [text])]):
                    internals.rewire(assign, 1, tf.identity(assign.inputs[1]))


def _refuse_broadcast(table: Table, slots: Sequence[OptimizerSlot]) -> None:
    """Make Horovod's broadcasts of a table's variables fail.

    A broadcast would copy the rows of one rank to all ranks.
    """
    for variable in (table.variable, *(slot.variable for slot in slots if slot.variable is not None)):
        for op in internals.reference_of(variable).consumers():
            for assign in (op, *(user for output in op.outputs for user in output.consumers())):
                place = 1 if assign.type == "Assign" else 0
                if not any(tensor.op.type.startswith("HorovodBroadcast") for tensor in assign.inputs[place:]):
                    continue
                text = api_names.in_names_of_program(
                    "table {!r}: a broadcast would copy the rows of one rank into the shards of all ranks. Use "
                    "asc.broadcast_global_variables or its hook, which exclude tables".format(table.table_name))
                with table.building("broadcast"), tf.control_dependencies([tf.debugging.Assert(False, [text])]):
                    internals.rewire(assign, place, tf.identity(assign.inputs[place]))


def _attachment(state: GraphState) -> Attachment:
    """Return ops that connect the variables of a session to the memory of the tables.

    The variables do not need to be initialized.
    """
    attached = []
    graph = next(iter(state.tables.values())).variable.graph
    with outside_scopes(graph, "ascpipe/instance"):
        instance = tf.compat.v1.placeholder_with_default(tf.constant(LIVE, tf.int64), [])
        is_live = native.ops().asc_reads_live(tables=[table.shape.number for table in state.tables.values()])
    for name, table in state.tables.items():
        slots = state.slots.get(name, [])
        with table.building("attach"):
            attached.append(native.ops().asc_attach(
                instance=instance, state=_state_variables(table, slots), table=table.shape.number,
                training=(name, TRAIN) in state.lookups, slot_widths=[slot.width for slot in slots],
                slot_initial=[slot.initial for slot in slots]))
    return Attachment(tf.group(*attached), instance, is_live)


def _state_variables(table: Table, slots: List[OptimizerSlot]) -> List[tf.Tensor]:
    variables = [table.variable, *(slot.variable for slot in slots)]
    return [internals.reference_of(variable) for variable in variables if variable is not None]


def _plan_op(lookup: TableLookup, slots: List[OptimizerSlot]) -> List[tf.Tensor]:
    table = lookup.table
    training = lookup.channel == TRAIN
    slots = slots if training else []
    with table.building(CHANNEL_NAMES[lookup.channel] + "_plan"):
        slot_numbers, restore = native.ops().asc_next_plan(
            ticket=lookup.ticket, state=_state_variables(table, slots), table=table.shape.number,
            stream=lookup.stream.number, k=len(lookup.specs), training=training,
            slot_initial=[slot.initial for slot in slots],
            slot_widths=[slot.width for slot in slots if slot.variable is None], send_count=lookup.send_count or 0,
            shapes=[provisional.shape for provisional in lookup.plan[1:]])
        for provisional, final in zip(lookup.plan[1:], restore):
            final.set_shape(provisional.shape)
        return [slot_numbers, *restore]
