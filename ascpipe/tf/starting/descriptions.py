"""Describes the tables and streams of a graph to the pipeline, its native side, and the daemon."""
from typing import Dict, Sequence, Tuple

from ascpipe.checkpoint.contents import SlotSpec
from ascpipe.control import messages
from ascpipe.layout import structs
from ascpipe.shm import memory
from ascpipe.tf.graph.features import CHANNEL_NAMES, Stream
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import OptimizerSlot
from ascpipe.tf.running.shapes import MAX_VOCABULARY, NO_TABLE, KnownTable, StreamShape, TableShape


def with_homes(shape: TableShape, slots: Sequence[OptimizerSlot]) -> TableShape:
    """A row's home holds what the optimizer keeps beside it, too; expansion tables grow as far as memory does."""
    shape = shape._replace(row_floats=shape.dim + sum(slot.width for slot in slots))
    if not shape.expands:
        return shape
    key_bytes = structs.ENTRY.itemsize + 4 * shape.row_floats
    return shape._replace(home_rows=max(1, min(MAX_VOCABULARY, memory.limit_bytes() // key_bytes)))


def table_message(shape: TableShape, state: GraphState) -> messages.Table:
    """The daemon's description of a table."""
    said = state.thresholds.of(shape.name)
    return messages.Table(shape.number, shape.name, shape.dim, shape.device_rows, shape.home_rows, shape.row_floats,
                          said.access, said.coefficient, said.eviction, shape.disk_rows, shape.directories)


def stream_shape(state: GraphState, stream: Stream) -> StreamShape:
    """The native side's description of a stream of a graph whose tables are complete."""
    names = [name for name in stream.table_names() if name in state.tables]
    places: Dict[str, int] = {name: place for place, name in enumerate(names)}
    return StreamShape(
        number=stream.number, channel=stream.channel,
        tables=tuple(state.tables[name].shape.number for name in names),
        parts=tuple(places.get(feature.spec.table_name, NO_TABLE) for feature in stream.features),
        names=tuple(feature.spec.name for feature in stream.features))


def signature(state: GraphState, tables: Sequence[TableShape], streams: Sequence[StreamShape]) -> str:
    """What all ranks must have in common, a line for each table and stream; the first that differs is named."""
    lines = []
    for table in tables:
        slots = slot_specs(state.slots.get(table.name, ()))
        lines.append("table {!r}: number {}, dim {}, rows {} and {}, optimizer slots {}, initial rows {} {} {} {} of "
                     "seed {}, padding keys {}, averages {}, thresholds {}".format(
                         table.name, table.number, table.dim, table.device_rows, table.home_rows,
                         [tuple(slot) for slot in slots], table.kind, table.a, table.b, table.scale, table.seed,
                         table.padding_keys, table.averages, tuple(state.thresholds.of(table.name))))
    for stream in streams:
        lines.append("{} stream {}: tables {}, features {}".format(
            CHANNEL_NAMES[stream.channel], stream.number, stream.tables, list(zip(stream.names, stream.parts))))
    return "\n".join(lines)


def known_tables(state: GraphState) -> Dict[str, KnownTable]:
    """The tables of a graph whose optimizer slots are known, by name, in order of creation."""
    return {name: KnownTable(table.shape, table.key_dtype, table.is_save, slot_specs(state.slots.get(name, ())),
                             state.thresholds.of(name))
            for name, table in state.tables.items()}


def slot_specs(slots: Sequence[OptimizerSlot]) -> Tuple[SlotSpec, ...]:
    """Optimizer slots as checkpoints have them."""
    return tuple(SlotSpec(slot.name, slot.width, slot.initial) for slot in slots)
