"""Descriptions of the tables and streams of a graph for the pipeline, the native library and the daemon."""
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
    """Return the shape of a table with ``row_floats`` set. A home row includes the embedding and the optimizer slots.

    For an expansion table, also set the maximum number of home rows, which is limited only by memory.
    """
    shape = shape._replace(row_floats=shape.dim + sum(slot.width for slot in slots))
    if not shape.expands:
        return shape
    key_bytes = structs.ENTRY.itemsize + 4 * shape.row_floats
    return shape._replace(home_rows=max(1, min(MAX_VOCABULARY, memory.limit_bytes() // key_bytes)))


def table_message(shape: TableShape, state: GraphState) -> messages.Table:
    """Return the description of a table for the daemon."""
    said = state.thresholds.of(shape.name)
    return messages.Table(shape.number, shape.name, shape.dim, shape.device_rows, shape.home_rows, shape.row_floats,
                          said.access, said.coefficient, said.eviction, shape.disk_rows, shape.directories)


def sizes_of(shape: TableShape) -> Dict[str, Any]:
    """Return name and sizes of a table, for `ascpipe plan`."""
    return {"name": shape.name, "dim": shape.dim, "row_floats": shape.row_floats, "device_rows": shape.device_rows,
            "home_rows": shape.home_rows, "disk_rows": shape.disk_rows, "directories": shape.directories,
            "expands": shape.expands}


def stream_shape(state: GraphState, stream: Stream) -> StreamShape:
    """Return the description of a stream for the native library. All tables must exist."""
    names = [name for name in stream.table_names() if name in state.tables]
    places: Dict[str, int] = {name: place for place, name in enumerate(names)}
    return StreamShape(
        number=stream.number, channel=stream.channel,
        tables=tuple(state.tables[name].shape.number for name in names),
        parts=tuple(places.get(feature.spec.table_name, NO_TABLE) for feature in stream.features),
        names=tuple(feature.spec.name for feature in stream.features))


def signature(state: GraphState, tables: Sequence[TableShape], streams: Sequence[StreamShape]) -> str:
    """Return the properties that must be equal on all ranks at the start, as lines "ITEM<tab>VALUE".

    Table updates and collectives are compared in each step. Directories, sizes of rows on disk and available memory may
    differ between ranks, because results do not depend on them.
    """
    lines: List[Tuple[str, Any]] = [("ascpipe", ascpipe.__version__), ("tables", [table.name for table in tables])]
    for table in tables:
        lines += [("table {!r}, {}".format(table.name, item), value) for item, value in _facts(table, state)]
    for stream in streams:
        name = "{} stream {}, ".format(CHANNEL_NAMES[stream.channel], stream.number)
        lines += [(name + "tables", stream.tables), (name + "features", list(zip(stream.names, stream.parts)))]
    return "\n".join("{}\t{}".format(item, _one_line(value)) for item, value in lines)


def collectives(graph: tf.Graph) -> str:
    """Return the Horovod ops of a graph, one per line, in the format of ``signature``.

    The ranks compare these lines. Otherwise, they would wait forever for an op that is missing on one rank.
    """
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
    """Return the name by which Horovod matches the ops of several ranks."""
    try:
        return op.name.rsplit("/", 1)[-1] if op.get_attr("ignore_name_scope") else op.name
    except ValueError:  # the op has no such attribute
        return op.name


def known_tables(state: GraphState) -> Dict[str, KnownTable]:
    """Return the tables of a graph as a dict, name -> table, in order of creation. Known optimizer slots are included.
    """
    return {name: KnownTable(table.shape, table.key_dtype, table.is_save, slot_specs(state.slots.get(name, ())),
                             state.thresholds.of(name), table.column)
            for name, table in state.tables.items()}


def slot_specs(slots: Sequence[OptimizerSlot]) -> Tuple[SlotSpec, ...]:
    """Return the descriptions of optimizer slots for checkpoints."""
    return tuple(SlotSpec(slot.name, slot.width, slot.initial) for slot in slots)
