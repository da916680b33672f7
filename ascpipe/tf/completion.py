"""Completes a graph once all its optimizer slots are known: real plan ops in the place of the provisional ones."""
from typing import Dict, List

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from ascpipe.tf import native
from ascpipe.tf.cuts import eviction_op
from ascpipe.tf.graph_state import CHANNEL_NAMES, GraphState
from ascpipe.tf.slots import OptimizerSlot, optimizer_slots
from ascpipe.tf.table import Table, outside_scopes
from ascpipe.tf.table_lookup import TableLookup
from ascpipe.words import TRAIN

#: Optimizer slots by name of the table.
Slots = Dict[str, List[OptimizerSlot]]


def slots_of_training_tables(state: GraphState) -> Slots:
    """The optimizer slots beside the rows of each table that is trained. Raises as ``slot_variables``."""
    return {name: optimizer_slots(state, state.tables[name]) for name, channel in state.lookups if channel == TRAIN}


def complete_graph(state: GraphState, slots: Slots) -> None:
    """Build the plan op of each (table, channel) and give its outputs to all who read the provisional one."""
    for lookup in state.lookups.values():
        plan = _plan_op(lookup, slots.get(lookup.table.table_name, []))
        for provisional, final in zip(lookup.plan, plan):
            _repoint(provisional, final)
        lookup.plan = plan
    for name, table in state.tables.items():
        _refuse_restore(table)
        # Running the initializer of a graph that trains the table resets it; another graph only reads.
        training = (name, TRAIN) in state.lookups
        table.variable.initial_value.op._set_attr("training", attr_value_pb2.AttrValue(b=training))
    eviction_op(state)  # now, as a managed session finalizes the graph


def _refuse_restore(table: Table) -> None:
    """A Saver would restore rows without their keys, which new keys would then overwrite: an error, not a loss.

    A Saver that is made later, and restores instead of running initializers, is refused by the plan op, as the
    variable then holds other memory than the table's.
    """
    graph = table.variable.graph
    for assign in table.variable._ref().consumers():
        if assign.type == "Assign" and assign.inputs[1].op.type in ("RestoreV2", "Restore", "RestoreSlice"):
            text = "restoring table {!r} from a checkpoint is not built yet in ascpipe".format(table.table_name)
            with outside_scopes(graph), graph.name_scope("ascpipe/{}_restore".format(table.variable.op.name)):
                with tf.control_dependencies([tf.debugging.Assert(False, [text])]):
                    assign._update_input(1, tf.identity(assign.inputs[1]))


def _plan_op(lookup: TableLookup, slots: List[OptimizerSlot]) -> List[tf.Tensor]:
    table, graph = lookup.table, lookup.table.variable.graph
    training = lookup.channel == TRAIN
    slots = slots if training else []
    variables = [table.variable, *(slot.variable for slot in slots if slot.variable is not None)]
    scope = "ascpipe/{}_{}_plan".format(table.variable.op.name, CHANNEL_NAMES[lookup.channel])
    with outside_scopes(graph), graph.name_scope(scope):
        slot_numbers, restore = native.ops().asc_next_plan(
            ticket=lookup.ticket, state=[variable._ref() for variable in variables],
            table=table.shape.number, stream=lookup.stream.number, k=len(lookup.specs), training=training,
            slot_initial=[slot.initial for slot in slots],
            slot_widths=[slot.width for slot in slots if slot.variable is None])
        for provisional, final in zip(lookup.plan[1:], restore):
            final.set_shape(provisional.shape)
        if lookup.send_count is not None:
            slot_numbers = _limited(lookup, slot_numbers)
        return [slot_numbers, *restore]


def _limited(lookup: TableLookup, slots: tf.Tensor) -> tf.Tensor:
    """The slots, once it is known that the batch has not more distinct keys than the program said."""
    limit = (lookup.send_count or 0) * len(lookup.specs)
    distinct = tf.size(slots)
    text = ("table {!r}: the batch has more distinct keys than send_count allows; enlarge send_count ({} for each of "
            "{} features). Distinct keys:".format(lookup.table.table_name, lookup.send_count, len(lookup.specs)))
    with tf.control_dependencies([tf.debugging.Assert(tf.less_equal(distinct, limit), [text, distinct])]):
        return tf.identity(slots)


def _repoint(provisional: tf.Tensor, final: tf.Tensor) -> None:
    for consumer in provisional.consumers():
        for place, source in enumerate(consumer.inputs):
            if source is provisional:
                consumer._update_input(place, final)
