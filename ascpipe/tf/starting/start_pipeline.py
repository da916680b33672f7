"""``start_asc_pipeline``: checks a graph, starts the daemon's side and ours, and completes the graph."""
import contextlib
import functools
import logging
import uuid
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
import tensorflow as tf

from ascpipe.checkpoint.contents import Position
from ascpipe.control import messages, trainer_link
from ascpipe.errors import NotBuiltYetError
from ascpipe.layout import structs
from ascpipe.layout.words import TRAIN
from ascpipe.shm import memory
from ascpipe.tf.checkpoints.deltas import Tip
from ascpipe.tf.clean_up import end_quietly
from ascpipe.tf.graph.graph_state import GraphState, Stream
from ascpipe.tf.graph.optimizer_slots import OptimizerSlot
from ascpipe.tf.program.create_table import MAX_VOCABULARY
from ascpipe.tf.running import native
from ascpipe.tf.running.configuration import Configuration
from ascpipe.tf.running.hold_between_steps import hold
from ascpipe.tf.running.save_thread import Background
from ascpipe.tf.starting.agreement import KnownTable, known_tables, require_agreement
from ascpipe.tf.starting.first_run import watch_sessions
from ascpipe.tf.starting.graph_checks import require_startable, require_trained, warn_of_short_run_ahead
from ascpipe.tf.starting.plan_ops import complete_graph, slots_of_training_tables

_log = logging.getLogger(__name__)


class SavedPart(NamedTuple):
    """What a save is of.

    Attributes:
        tables: those that checkpoints shall hold.
        rings: numbers of the rings of training streams, by the names that the streams have in checkpoints.
    """

    tables: List[KnownTable]
    rings: Dict[str, int]


class Pipeline:
    """A running pipeline: the link to the daemon and the native side.

    Args:
        link: to the daemon; closed with the pipeline.
        running: the native side; stopped with the pipeline.
        tables: of the graph that started it.
        streams: what it was told of its streams.

    Attributes:
        tables: of all its graphs, by name, in the order of their numbers.
        run_id: unlike that of any other pipeline.
        seeds: of the initial rows, by name of the table; a restore gives a table the seed that it was saved with.
        pools: float32[rows, dim] of those whose initial rows come from a pool; likewise.
        loaded: where the last checkpoint that was loaded stood, and where this pipeline stood then, if one was.
        trained_before: batches that were trained before this pipeline began, by the number of the ring; set by a
            restore, less what this pipeline had trained until then.
        tips: the newest save of this pipeline, by ``deltas.name_of`` its directory and base.
        background: the save that goes on while training does.
        save_log_bytes: memory that such a save may take for images of rows that training changes.
    """

    def __init__(self, link: trainer_link.TrainerLink, running: native.NativePipeline,
                 tables: Dict[str, KnownTable], streams: Sequence[native.StreamShape]) -> None:
        self._link = link
        self._native = running
        self._streams = list(streams)
        self._rings = {stream.number: stream.number for stream in streams}
        self.run_id = uuid.uuid4().hex
        self.tables: Dict[str, KnownTable] = {}
        self.seeds: Dict[str, int] = {}
        self.pools: Dict[str, np.ndarray] = {}
        for name, table in tables.items():
            self._note_table(name, table)
        self.loaded: Optional[Tuple[Position, Position]] = None
        self.trained_before: Dict[int, int] = {}
        self.tips: Dict[str, Tip] = {}
        self.background = Background()
        self.save_log_bytes = link.settings.save_log_bytes

    def join(self, state: GraphState) -> None:
        """Let another graph use the tables, too, and bring some; raises as ``start_asc_pipeline``, and then changes
        nothing that was trained.

        A training stream shares the ring of an earlier one that has all its tables, an evaluation stream that of one
        with the same features. Tickets of both then stand in one order, so that what one graph has submitted is trained
        or dropped before what the next one submits is trained.
        """
        trained = self._trained()
        require_agreement(self.tables, trained, state)
        shapes = [stream_shape(state, stream) for stream in state.streams()]
        rings = [self._ring_for(shape, trained) for shape in shapes]
        shared = [ring.number for shape, ring in zip(shapes, rings) if ring is not None and shape.channel == TRAIN]
        if len(set(shared)) < len(shared):
            raise _not_together("{} datasets train what one dataset of the graphs before trained together".format(
                len(shared)))
        begun = {number for shape in shapes if shape.channel == TRAIN for number in shape.tables} - trained
        self._require_empty(begun)
        warn_of_short_run_ahead(state, self._link.settings.look_ahead)
        for name, table in state.tables.items():
            if name not in self.tables or table.shape.number in begun:
                self._add_table(state, name)
        for shape, ring in zip(shapes, rings):
            if shape.number not in self._rings:  # else it came to an error after this
                self._add_stream(shape, ring)

    def saved_part(self, state: GraphState) -> SavedPart:
        """What a save is of that a session of this graph asks for: what the graph trains with, or all."""
        if state.trains:
            tables = [self.tables[name] for name in state.tables]
            numbers = [stream.number for stream in state.streams() if stream.channel == TRAIN]
        else:
            tables = list(self.tables.values())
            numbers = [stream.number for stream in self._streams if stream.channel == TRAIN]
        return SavedPart([table for table in tables if table.is_save],
                         {"training_{}".format(place) if place else "training": self._rings[number]
                          for place, number in enumerate(numbers)})

    def _trained(self) -> Set[int]:
        """Numbers of the tables that are in a training stream."""
        return {number for stream in self._streams if stream.channel == TRAIN for number in stream.tables}

    def _require_empty(self, begun: Set[int]) -> None:
        """Refuse to begin to train what was restored without its optimizer slots."""
        with hold(alone=False) as held:
            for name, table in self.tables.items():
                if table.shape.number in begun and held.table(table.shape.number).header["entries_used"]:
                    raise NotBuiltYetError(
                        "start_asc_pipeline() for a graph that trains table {!r}, which a graph before has restored "
                        "and does not train,".format(name),
                        "begin with the graph that trains it, or call terminate_config_initializer() and init() "
                        "between them; the rows go with it")

    def _ring_for(self, shape: native.StreamShape, trained: Set[int]) -> Optional[native.StreamShape]:
        """The stream whose ring another one can share; None: it gets one of its own."""
        if shape.channel != TRAIN:
            return next((known for known in self._streams if _kind(known) == _kind(shape)), None)
        for known in self._streams:
            if known.channel == TRAIN and set(shape.tables) <= set(known.tables):
                return known
        if trained.intersection(shape.tables):
            names = {table.shape.number: name for name, table in self.tables.items()}
            raise _not_together("one dataset trains {} together with other tables, as no graph before did".format(
                ", ".join(repr(names[number]) for number in shape.tables if number in trained)))
        return None

    def _add_table(self, state: GraphState, name: str) -> None:
        shape = _with_homes(state.tables[name].shape, state.slots.get(name, ()))
        piece = self._link.add_table(_table_message(shape, state))
        try:
            self._native.add_table(shape, native.Memory(*piece))
        finally:
            self._link.close_segments()
        self._note_table(name, known_tables(state)[name])

    def _note_table(self, name: str, table: KnownTable) -> None:
        self.tables[name] = table
        self.seeds[name] = table.shape.seed
        self.pools.pop(name, None)
        if table.shape.pool is not None:
            self.pools[name] = table.shape.pool

    def _add_stream(self, shape: native.StreamShape, ring: Optional[native.StreamShape]) -> None:
        if ring is not None:
            places = [ring.tables.index(number) for number in shape.tables]
            parts = tuple(part if part == native.NO_TABLE else places[part] for part in shape.parts)
            self._native.share_stream(shape._replace(tables=ring.tables, parts=parts), ring.number)
            self._rings[shape.number] = ring.number
            return
        piece = self._link.add_stream(messages.Stream(shape.number, shape.channel, shape.tables))
        try:
            self._native.add_stream(shape, native.Memory(*piece))
        finally:
            self._link.close_segments()
        self._streams.append(shape)
        self._rings[shape.number] = shape.number

    def table_size(self, number: int) -> int:
        """Trained keys of a table that have a row."""
        return self._native.table_size(number)

    def table_capacity(self, number: int) -> int:
        """Keys of a table that may have a row; of an expansion table, rows that have memory."""
        return self._native.table_capacity(number)

    @property
    def daemon_pid(self) -> int:
        """Process id of the supervisor."""
        return self._link.daemon_pid

    def status(self) -> Dict[str, Any]:
        """What ``ascpipe status --json`` prints."""
        return self._link.status()

    def close(self) -> None:
        """Let a save end, cancel every wait, and end our part of the daemon, or the daemon if it is a private one.

        Raises:
            NotSavedError: the last save, in the background, has failed; all is ended.
        """
        with contextlib.ExitStack() as ends:
            ends.callback(self._link.close)
            ends.callback(self._native.stop)
            self.background.close()


def start_asc_pipeline() -> None:
    """Say that the tables of the default graph are all there: its pipeline starts with the first run of a session.

    Until that run further lookups may be made, gradients be applied and Savers be made, in any order; no tables. A
    session that finalizes the graph starts the pipeline then, a save or a restore when it is called. A second call for
    a graph does nothing, and so does one for a graph that is made to be exported, which has no pipeline.

    ``terminate_config_initializer`` ends the pipeline.  Until then other graphs, as an Estimator makes one for each
    call, join it by a call of this: they have the same tables, with the rows that training has given them, and may
    bring further ones.

    Raises:
        EnvironmentError: ``init`` was not called.
        RuntimeError: the graph has no table, or no dataset with an insert function; it is finalized. When the pipeline
            starts: a training table whose lookups all have ``is_grad=False``.
        ValueError: a dataset that would reorder batches; an insert function without any table; a table in
            two streams of one channel. When the pipeline starts: a slot variable whose rows cannot be begun; a table
            that is not as in the graph whose pipeline runs.
        NotBuiltYetError: when the pipeline starts: one dataset trains tables together that the graphs before trained
            apart, or the other way round; it trains a table that a graph before has restored and does not train.
        AscpipeError: when the pipeline starts: the daemon did not start, is busy, or there is too little memory.
    """
    configuration = Configuration.get_instance()
    graph = tf.compat.v1.get_default_graph()
    state = configuration.of_graph(graph)
    if state.served is not None or state.marked:
        return
    if graph.finalized:
        raise RuntimeError("the graph is finalized: call start_asc_pipeline() before the session, in a hook in begin()")
    require_startable(state)
    state.marked = True
    configuration.deferred.mark(graph, functools.partial(_start_graph, configuration))
    watch_sessions()


def _start_graph(configuration: Configuration, graph: tf.Graph) -> None:
    """Start the pipeline of a marked graph, the default one, which is complete now."""
    state = configuration.of_graph(graph)
    require_startable(state)
    require_trained(state)
    state.slots = slots_of_training_tables(state)
    if configuration.pipeline is not None:
        configuration.pipeline.join(state)
        complete_graph(state)
        state.started = True
        return
    pipeline = _start(configuration, state)
    try:
        complete_graph(state)
    except BaseException:
        end_quietly(pipeline.close, "a pipeline that did not start")
        raise
    configuration.pipeline = pipeline
    configuration.at_end(pipeline.close)
    state.started = True


def _start(configuration: Configuration, state: GraphState) -> Pipeline:
    native.ops()  # a missing library is found before a daemon is started
    with contextlib.ExitStack() as undo:
        link = trainer_link.connect(configuration.daemon, layout=structs.layout_hash(),
                                    begun=configuration.take_begun())
        undo.callback(link.close)
        streams = [stream_shape(state, stream) for stream in state.streams()]
        tables = [_with_homes(table.shape, state.slots.get(table.table_name, ())) for table in state.tables.values()]
        warn_of_short_run_ahead(state, link.settings.look_ahead)
        segments = link.start([messages.Stream(s.number, s.channel, s.tables) for s in streams],
                              [_table_message(table, state) for table in tables])
        running = native.NativePipeline(link.run, segments.session[0], link.lifeline_fd, link.settings.spin_us,
                                        link.settings.wait_timeout_s)
        undo.callback(running.stop)
        for table in tables:
            running.add_table(table, native.Memory(*segments.tables[table.number]))
        for stream in streams:
            running.add_stream(stream, native.Memory(*segments.streams[stream.number]))
        running.start()
        link.close_segments()  # all are mapped; a forked child would keep the descriptors, and with them the memory
        undo.pop_all()
    _log.info("pipeline of %d tables and %d streams runs, daemon %s (pid %d)", len(tables), len(streams), link.name,
              link.daemon_pid)
    return Pipeline(link, running, known_tables(state), streams)


def _with_homes(shape: native.TableShape, slots: Sequence[OptimizerSlot]) -> native.TableShape:
    """A row's home holds what the optimizer keeps beside it, too; expansion tables grow as far as memory does."""
    shape = shape._replace(row_floats=shape.dim + sum(slot.width for slot in slots))
    if not shape.expands:
        return shape
    key_bytes = structs.ENTRY.itemsize + 4 * shape.row_floats
    return shape._replace(home_rows=max(1, min(MAX_VOCABULARY, memory.limit_bytes() // key_bytes)))


def _table_message(shape: native.TableShape, state: GraphState) -> messages.Table:
    said = state.thresholds.of(shape.name)
    return messages.Table(shape.number, shape.name, shape.dim, shape.device_rows, shape.home_rows, shape.row_floats,
                          said.access, said.coefficient, said.eviction)


def _not_together(what: str) -> NotBuiltYetError:
    return NotBuiltYetError(
        "start_asc_pipeline() for a graph in which " + what + ",",
        "train the same tables by one get_asc_insert_func() in all graphs, or call terminate_config_initializer() and "
        "init() between them and restore what was saved")


def _kind(shape: native.StreamShape) -> native.StreamShape:
    """What streams that can share a ring have in common: names of features end with a number, new in each graph."""
    return shape._replace(number=0, names=tuple(name.rsplit("_", 1)[0] for name in shape.names))


def stream_shape(state: GraphState, stream: Stream) -> native.StreamShape:
    """What the native side must know of a stream of a graph whose tables are complete."""
    names = [name for name in stream.table_names() if name in state.tables]
    places: Dict[str, int] = {name: place for place, name in enumerate(names)}
    return native.StreamShape(
        number=stream.number, channel=stream.channel,
        tables=tuple(state.tables[name].shape.number for name in names),
        parts=tuple(places.get(feature.spec.table_name, native.NO_TABLE) for feature in stream.features),
        names=tuple(feature.spec.name for feature in stream.features))
