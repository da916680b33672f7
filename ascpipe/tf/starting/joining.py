"""``join``, which adds another graph to the running pipeline.

Graphs share rings and tables of the same name. The new graph may add tables.
"""
from typing import Any, Collection, Dict, List, Optional, Set, Tuple

from ascpipe.errors import NotBuiltYetError, TableError
from ascpipe.layout.words import TRAIN
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.running.column_choice import Columns
from ascpipe.tf.running.hold_between_steps import hold
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.shapes import KnownTable, StreamShape
from ascpipe.tf.starting.descriptions import known_tables, slot_specs, stream_shape, table_message, with_homes
from ascpipe.tf.starting.graph_checks import warn_of_short_run_ahead

#: Advice for programs that use only feature columns. With Estimators, ascpipe follows this advice automatically.
_CURE_FOR_COLUMNS = ("Between graphs whose columns differ, call asc.shutdown() and asc.use_for_feature_columns(), and "
                     "restore the checkpoint")

#: (name of a property, value in the pipeline, value in the graph)
Fact = Tuple[str, Any, Any]


def join(pipeline: Pipeline, state: GraphState) -> None:
    """Connect another graph to the tables of a pipeline, and add the new tables of the graph to the pipeline.

    If an error is raised, trained tables are unchanged. A training stream shares the ring of an earlier training stream
    that contains all its tables. An evaluation stream shares the ring of an evaluation stream with the same features.
    The tickets of a ring have one common order. Therefore, earlier batches of one graph must be trained or dropped
    before later batches of another graph are trained.

    Raises:
        ValueError, NotBuiltYetError, AscpipeError: the same errors as in ``start_asc_pipeline``.
    """
    trained = pipeline.trained_tables()
    _require_agreement(pipeline.tables, trained, state)
    shapes = [stream_shape(state, stream) for stream in state.streams()]
    rings = [_ring_for(pipeline, shape, trained) for shape in shapes]
    shared = [ring.number for shape, ring in zip(shapes, rings) if ring is not None and shape.channel == TRAIN]
    if len(set(shared)) < len(shared):
        raise _different_grouping("{} datasets train tables that one dataset of earlier graphs trained together".format(
            len(shared)))
    begun = {number for shape in shapes if shape.channel == TRAIN for number in shape.tables} - trained
    _require_empty(pipeline, begun)
    warn_of_short_run_ahead(state, pipeline.read_ahead)
    for name, table in state.tables.items():
        if name not in pipeline.tables or table.shape.number in begun:
            shape = with_homes(table.shape, state.slots.get(name, ()))
            pipeline.add_table(known_tables(state)[name], shape, table_message(shape, state))
    for stream, ring in zip(shapes, rings):
        if stream.number in pipeline.rings:
            continue  # an earlier start of this graph failed after adding this stream
        if ring is None:
            pipeline.add_stream(stream)
        else:
            pipeline.share_ring(stream, ring)


def _require_empty(pipeline: Pipeline, begun: Set[int]) -> None:
    """Raise ``NotBuiltYetError`` if a table has keys but no optimizer slots, because no earlier graph trains the table.

    ``begun`` contains the numbers of tables that the new graph trains and no earlier graph trains.
    """
    with hold(alone=False) as held:
        for name, table in pipeline.tables.items():
            if table.shape.number in begun and held.table(table.shape.number).header["entries_used"]:
                raise NotBuiltYetError(
                    "asc.start() for a graph that trains table {!r}, which an earlier graph restored without training "
                    "it,".format(name),
                    "start the graph that trains it first, or call asc.shutdown() and asc.init() between the graphs, "
                    "which discards the rows")


def _ring_for(pipeline: Pipeline, shape: StreamShape, trained: Set[int]) -> Optional[StreamShape]:
    """Return an earlier stream whose ring the new stream can share, or None if a new ring is necessary."""
    if shape.channel != TRAIN:
        return next((known for known in pipeline.streams if _kind(known) == _kind(shape)), None)
    for known in pipeline.streams:
        if known.channel == TRAIN and set(shape.tables) <= set(known.tables):
            return known
    if trained.intersection(shape.tables):
        names = {table.shape.number: name for name, table in pipeline.tables.items()}
        raise _different_grouping("one dataset trains {} together with other tables, unlike earlier graphs".format(
            ", ".join(repr(names[number]) for number in shape.tables if number in trained)))
    return None


def _different_grouping(what: str) -> NotBuiltYetError:
    cure = ("train the same tables by one asc.insert_function() in all graphs, or call asc.shutdown() and asc.init() "
            "between the graphs and restore the checkpoint")
    return NotBuiltYetError("asc.start() for a graph in which " + what + ",",
                            cure if Columns.of(Process.current()).choice is None else _CURE_FOR_COLUMNS)


def _kind(shape: StreamShape) -> StreamShape:
    """Return a copy of a stream without the stream's numbers. Streams with different numbers may share a ring."""
    return shape._replace(number=0, names=tuple(name.rsplit("_", 1)[0] for name in shape.names))


def _require_agreement(known: Dict[str, KnownTable], trained: Collection[int], state: GraphState) -> None:
    """Raise ``ValueError`` if a graph's tables do not match the tables of the pipeline.

    Args:
        known: tables of the pipeline by name. The numbers of new tables must follow the numbers of these tables.
        trained: numbers of trained tables.
    """
    news = [table.shape.number for name, table in state.tables.items() if name not in known]
    if news != list(range(len(known), len(known) + len(news))):
        raise TableError("Tables {} were created before asc.start() of another graph, so they have numbers of tables "
                         "of that graph. Start each graph before you create the tables of the next one".format(
                             ", ".join(repr(name) for name in state.tables if name not in known)))
    cure = ". " + _CURE_FOR_COLUMNS if Columns.of(Process.current()).choice is not None else ""
    for name, table in state.tables.items():
        if name not in known:
            continue
        facts = _facts(known[name], table)
        if (name, TRAIN) in state.lookups and known[name].shape.number in trained:
            facts += _training_facts(known[name], state, table)
        for what, before, now in facts:
            if before != now:
                raise TableError("Table {!r}: the graph whose pipeline runs has {} {}, but this graph has {}. A "
                                 "table is the same in all graphs{}".format(name, what, before, now, cure))


def _facts(known: KnownTable, table: Table) -> List[Fact]:
    before = known.shape
    now = table.shape
    return [("dim", before.dim, now.dim),
            ("key_dtype", known.key_dtype.name, table.key_dtype.name),
            ("device_vocabulary_size", before.device_rows, now.device_rows),
            ("host_vocabulary_size", before.home_rows, now.home_rows),
            ("host_vocabulary_size and ssd_vocabulary_size together", before.disk_rows, now.disk_rows),
            ("the number (create tables in one order in all graphs that are built before asc.start())",
             before.number, now.number)]


def _training_facts(known: KnownTable, state: GraphState, table: Table) -> List[Fact]:
    """Return the properties of a table that must be equal in all graphs that train the table.

    The seed is not included, because a restore may have changed it.
    """
    before = known.shape
    now = table.shape
    return [("the optimizer slots", known.slots, slot_specs(state.slots.get(table.table_name, ()))),
            ("padding_keys", before.padding_keys, now.padding_keys),
            ("initial rows (kind, parameters, init_param)", (before.kind, before.a, before.b, before.scale),
             (now.kind, now.a, now.b, now.scale)),
            ("thresholds", known.thresholds, state.thresholds.of(table.table_name))]
