"""Describes the tables and streams of a graph to the pipeline, its native side, and the daemon."""
import hashlib
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import tensorflow as tf

import ascpipe
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
    """What all ranks must have alike when the pipeline starts, lines "ITEM<tab>VALUE"; what differs is named.

    Steps are compared when they run: how tables are updated, and the program's collectives. What may differ, as results
    do not depend on it: folders and sizes of rows on disk, and what a machine has memory for.
    """
    lines: List[Tuple[str, Any]] = [("ascpipe", ascpipe.__version__), ("tables", [table.name for table in tables])]
    for table in tables:
        lines += [("table {!r}, {}".format(table.name, item), value) for item, value in _facts(table, state)]
    for stream in streams:
        name = "{} stream {}, ".format(CHANNEL_NAMES[stream.channel], stream.number)
        lines += [(name + "tables", stream.tables), (name + "features", list(zip(stream.names, stream.parts)))]
    return "\n".join("{}\t{}".format(item, _one_line(value)) for item, value in lines)


def collectives(graph: tf.Graph) -> str:
    """The ops of Horovod's in a graph, lines as of ``signature``: others wait for ever for one that a rank lacks."""
    return "\n".join(sorted("collective {}\t{}".format(_horovod_name(op), op.type) for op in graph.get_operations()
                            if op.type.startswith("Horovod")))


def _facts(table: TableShape, state: GraphState) -> List[Tuple[str, Any]]:
    slots = slot_specs(state.slots.get(table.name, ()))
    thresholds = state.thresholds.of(table.name)
    pool = "" if table.pool is None else hashlib.sha256(np.ascontiguousarray(table.pool)).hexdigest()[:16]
    return [("number", table.number), ("dim", table.dim), ("device_vocabulary_size per rank", table.device_rows),
            ("host_vocabulary_size per rank", "as memory allows" if table.expands else table.home_rows),
            ("optimizer slots", [tuple(slot) for slot in slots]), ("kind of initial rows", table.kind),
            ("parameters of initial rows", (table.a, table.b, table.scale)), ("seed of initial rows", table.seed),
            ("init_param of initial rows", pool), ("padding_keys", table.padding_keys),
            ("average_gradients", table.averages), ("access_threshold", thresholds.access),
            ("faae_coefficient", thresholds.coefficient), ("eviction_threshold", thresholds.eviction)]


def _one_line(value: Any) -> str:
    return " ".join(str(value).split())


def _horovod_name(op: tf.Operation) -> str:
    """The name by which Horovod brings together what ranks send."""
    try:
        return op.name.rsplit("/", 1)[-1] if op.get_attr("ignore_name_scope") else op.name
    except ValueError:  # an op without this attribute
        return op.name


def known_tables(state: GraphState) -> Dict[str, KnownTable]:
    """The tables of a graph whose optimizer slots are known, by name, in order of creation."""
    return {name: KnownTable(table.shape, table.key_dtype, table.is_save, slot_specs(state.slots.get(name, ())),
                             state.thresholds.of(name))
            for name, table in state.tables.items()}


def slot_specs(slots: Sequence[OptimizerSlot]) -> Tuple[SlotSpec, ...]:
    """Optimizer slots as checkpoints have them."""
    return tuple(SlotSpec(slot.name, slot.width, slot.initial) for slot in slots)
