"""``start_asc_pipeline``: checks a graph, starts the daemon's side and ours, and completes the graph."""
import contextlib
import logging
import uuid
from typing import Any, Dict, Sequence

import tensorflow as tf

from ascpipe.control import messages, trainer_link
from ascpipe.shm import layout, memory
from ascpipe.tf import native
from ascpipe.tf.background import Background
from ascpipe.tf.completion import complete_graph, slots_of_training_tables
from ascpipe.tf.configuration import Configuration
from ascpipe.tf.deltas import Tip
from ascpipe.tf.graph_checks import require_startable, warn_of_short_run_ahead
from ascpipe.tf.graph_state import GraphState, Stream
from ascpipe.tf.not_built import NotBuiltYetError
from ascpipe.tf.slots import OptimizerSlot
from ascpipe.tf.table import MAX_VOCABULARY

_log = logging.getLogger(__name__)


class Pipeline:
    """A running pipeline: the link to the daemon and the native side.

    Args:
        link: to the daemon; closed with the pipeline.
        running: the native side; stopped with the pipeline.
        tables: what it was told of its tables.

    Attributes:
        run_id: unlike that of any other pipeline.
        seeds: of the initial rows, by name of the table; a restore gives a table the seed that it was saved with.
        pools: float32[rows, dim] of those whose initial rows come from a pool; likewise.
        trained_before: batches that were trained before this pipeline began, by name of the training stream; set by a
            restore, less what this pipeline had trained until then.
        tips: the newest save of this pipeline, by ``deltas.name_of`` its directory and base.
        background: the save that goes on while training does.
        save_log_bytes: memory that such a save may take for images of rows that training changes.
    """

    def __init__(self, link: trainer_link.TrainerLink, running: native.NativePipeline,
                 tables: Sequence[native.TableShape]) -> None:
        self._link = link
        self._native = running
        self.run_id = uuid.uuid4().hex
        self.seeds = {table.name: table.seed for table in tables}
        self.pools = {table.name: table.pool for table in tables if table.pool is not None}
        self.trained_before: Dict[str, int] = {}
        self.tips: Dict[str, Tip] = {}
        self.background = Background()
        self.save_log_bytes = link.settings.save_log_bytes

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

    Afterwards tables and training lookups are complete.  ``terminate_config_initializer`` ends it.

    Raises:
        EnvironmentError: ``init`` was not called.
        RuntimeError: the graph has no table, or no dataset with an insert function; it was started before; a
            training table whose lookups all have ``is_grad=False``.
        ValueError: a dataset that would reorder batches; an insert function without any table; a table in
            two streams of one channel; a slot variable whose rows cannot be begun.
        NotBuiltYetError: the pipeline of another graph runs.
        AscpipeError: the daemon did not start, is busy, or there is too little memory.
    """
    configuration = Configuration.get_instance()
    graph = tf.compat.v1.get_default_graph()
    state = configuration.of_graph(graph)
    if state.started:
        raise RuntimeError("start_asc_pipeline() was called before for this graph")
    if configuration.frozen:
        raise NotBuiltYetError("start_asc_pipeline() for a second graph while the pipeline of the first one runs",
                               "call terminate_config_initializer() and init() between them; trained rows go with it")
    if graph.finalized:
        raise RuntimeError("the graph is finalized: call start_asc_pipeline() before the session, in a hook in begin()")
    require_startable(state)
    state.slots = slots_of_training_tables(state)
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
        streams = [_stream_shape(state, stream) for stream in state.streams()]
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
    return Pipeline(link, running, tables)


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


def _stream_shape(state: GraphState, stream: Stream) -> native.StreamShape:
    names = [name for name in stream.table_names() if name in state.tables]
    places: Dict[str, int] = {name: place for place, name in enumerate(names)}
    return native.StreamShape(
        number=stream.number, channel=stream.channel,
        tables=tuple(state.tables[name].shape.number for name in names),
        parts=tuple(places.get(feature.spec.table_name, native.NO_TABLE) for feature in stream.features),
        names=tuple(feature.spec.name for feature in stream.features))
