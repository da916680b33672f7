"""``start_asc_pipeline``: checks a graph, starts the daemon's side and ours, and completes the graph."""
import contextlib
import logging
import uuid
from typing import Any, Dict, Optional, Sequence, Tuple

import tensorflow as tf

from ascpipe.checkpoint.contents import Position
from ascpipe.control import messages, trainer_link
from ascpipe.errors import NotBuiltYetError
from ascpipe.shm import layout, memory
from ascpipe.tf import native
from ascpipe.tf.background import Background
from ascpipe.tf.completion import complete_graph, slots_of_training_tables
from ascpipe.tf.configuration import Configuration
from ascpipe.tf.deltas import Tip
from ascpipe.tf.graph_checks import require_startable, warn_of_short_run_ahead
from ascpipe.tf.graph_state import GraphState, Stream
from ascpipe.tf.known_tables import KnownTable, known_tables, not_known, require_agreement
from ascpipe.tf.slots import OptimizerSlot
from ascpipe.tf.table import MAX_VOCABULARY
from ascpipe.words import TRAIN

_log = logging.getLogger(__name__)


class Pipeline:
    """A running pipeline: the link to the daemon and the native side.

    Args:
        link: to the daemon; closed with the pipeline.
        running: the native side; stopped with the pipeline.
        tables: of the graph that started it.
        streams: what it was told of its streams.

    Attributes:
        tables: of the graph that started it; every graph has these and no others.
        training_streams: numbers of the training streams by the names that they have in checkpoints.
        run_id: unlike that of any other pipeline.
        seeds: of the initial rows, by name of the table; a restore gives a table the seed that it was saved with.
        pools: float32[rows, dim] of those whose initial rows come from a pool; likewise.
        loaded: where the last checkpoint that was loaded stood, and where this pipeline stood then, if one was.
        trained_before: batches that were trained before this pipeline began, by name of the training stream; set by a
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
        self._numbers = {stream.number for stream in streams}
        self.run_id = uuid.uuid4().hex
        self.tables = tables
        training = [stream.number for stream in streams if stream.channel == TRAIN]
        self.training_streams = {"training_{}".format(place) if place else "training": number
                                 for place, number in enumerate(training)}
        self.seeds = {name: table.shape.seed for name, table in tables.items()}
        self.pools = {name: table.shape.pool for name, table in tables.items() if table.shape.pool is not None}
        self.loaded: Optional[Tuple[Position, Position]] = None
        self.trained_before: Dict[str, int] = {}
        self.tips: Dict[str, Tip] = {}
        self.background = Background()
        self.save_log_bytes = link.settings.save_log_bytes

    def table_number(self, name: str) -> int:
        """The number of a table. Raises ``ValueError`` where there is none of that name."""
        if name not in self.tables:
            raise ValueError(not_known(name, self.tables))
        return self.tables[name].shape.number

    def join(self, state: GraphState) -> None:
        """Let another graph use the tables, too; raises as ``start_asc_pipeline``, and then changes nothing of them.

        A stream of it that is like one of an earlier graph shares that one's ring. Tickets of both then stand in one
        order, so that what one graph has submitted is trained or dropped before what the next one submits is trained.
        """
        shapes = [stream_shape(state, stream) for stream in state.streams()]
        for shape in shapes:
            if shape.channel == TRAIN and self._like(shape) is None:
                raise NotBuiltYetError(
                    "start_asc_pipeline() for a graph that trains {}".format(
                        "other features than the graph whose pipeline runs" if self.training_streams
                        else "after one that only evaluates"),
                    "begin with a graph that trains the same FeatureSpecs, or call terminate_config_initializer() and "
                    "init() between them; the rows go with it")
        require_agreement(self.tables, state)
        warn_of_short_run_ahead(state, self._link.settings.look_ahead)
        for shape in shapes:
            if shape.number not in self._numbers:  # else it came to an error after this
                self._add_stream(shape)
                self._numbers.add(shape.number)

    def _like(self, shape: native.StreamShape) -> Optional[native.StreamShape]:
        """A stream of the same channel, tables and features, if there is one."""
        return next((known for known in self._streams if _kind(known) == _kind(shape)), None)

    def _add_stream(self, shape: native.StreamShape) -> None:
        known = self._like(shape)
        if known is not None:
            self._native.share_stream(shape.number, known.number)
            return
        piece = self._link.add_stream(messages.Stream(shape.number, shape.channel, shape.tables))
        try:
            self._native.add_stream(shape, native.Memory(*piece))
        finally:
            self._link.close_segments()
        self._streams.append(shape)

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
            self.background.wait()


def start_asc_pipeline() -> None:
    """Start the pipeline of the default graph: after the optimizers' ``apply_gradients``, before the session.

    A graph that is made to be exported has none; there it does nothing.

    Afterwards tables and training lookups are complete.  ``terminate_config_initializer`` ends it.  Until then other
    graphs, as an Estimator makes one for each call, join it by a call of this: they have the same tables, with
    the rows that training has given them.

    Raises:
        EnvironmentError: ``init`` was not called.
        RuntimeError: the graph has no table, or no dataset with an insert function; it was started before; a
            training table whose lookups all have ``is_grad=False``.
        ValueError: a dataset that would reorder batches; an insert function without any table; a table in
            two streams of one channel; a slot variable whose rows cannot be begun; a table that is not as in the
            graph whose pipeline runs.
        NotBuiltYetError: the graph trains other features than the graph whose pipeline runs.
        AscpipeError: the daemon did not start, is busy, or there is too little memory.
    """
    configuration = Configuration.get_instance()
    graph = tf.compat.v1.get_default_graph()
    state = configuration.of_graph(graph)
    if state.served is not None:
        return
    if state.started:
        raise RuntimeError("start_asc_pipeline() was called before for this graph")
    if graph.finalized:
        raise RuntimeError("the graph is finalized: call start_asc_pipeline() before the session, in a hook in begin()")
    require_startable(state)
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
        pipeline.close()
        raise
    configuration.pipeline = pipeline
    configuration.at_end(pipeline.close)
    state.started = True


def _start(configuration: Configuration, state: GraphState) -> Pipeline:
    native.ops()  # a missing library is found before a daemon is started
    with contextlib.ExitStack() as undo:
        link = trainer_link.connect(configuration.daemon, layout=layout.layout_hash())
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
    key_bytes = layout.ENTRY.itemsize + 4 * shape.row_floats
    return shape._replace(home_rows=max(1, min(MAX_VOCABULARY, memory.limit_bytes() // key_bytes)))


def _table_message(shape: native.TableShape, state: GraphState) -> messages.Table:
    said = state.thresholds.of(shape.name)
    return messages.Table(shape.number, shape.name, shape.dim, shape.device_rows, shape.home_rows, shape.row_floats,
                          said.access, said.coefficient, said.eviction)


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
