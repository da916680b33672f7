"""``start_asc_pipeline``, which marks a graph, and the start of the graph's pipeline at the first run of a session."""
import contextlib
import functools
import logging
import sys
from typing import Set

import tensorflow as tf

from ascpipe import names
from ascpipe.control import trainer_link
from ascpipe.control.planned_program import stop_if_planned
from ascpipe.errors import CallOrderError
from ascpipe.layout import structs
from ascpipe.layout.words import TRAIN
from ascpipe.logs import counted
from ascpipe.shm import segment
from ascpipe.tf import internals
from ascpipe.tf.checkpoints.following import follow
from ascpipe.tf.checkpoints.live_rows import LiveRows
from ascpipe.tf.clean_up import end_quietly
from ascpipe.tf.graph.gradient_state import GradientState
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.occurrences import read_occurrences
from ascpipe.tf.program.dense_variables import warn_of_separate_training
from ascpipe.tf.program.tensor_lookups import decide_unseen
from ascpipe.tf.running import horovod, native
from ascpipe.tf.running.pipeline import Pipeline, ring_messages
from ascpipe.tf.running.process import Process
from ascpipe.tf.starting.column_reads import warn_of_column_reads
from ascpipe.tf.starting.descriptions import (
    collectives,
    known_tables,
    signature,
    sizes_of,
    stream_shape,
    table_message,
    with_homes,
)
from ascpipe.tf.starting.graph_checks import (
    require_startable,
    warn_of_lookups_in_branches,
    warn_of_short_run_ahead,
    warn_of_unknown_tables,
)
from ascpipe.tf.starting.joining import join
from ascpipe.tf.starting.plan_ops import complete_graph, slots_of_training_tables
from ascpipe.tf.starting.tables_left_out import warn_of_object_checkpoints, warn_of_tables_left_out
from ascpipe.tf.starting.training_checks import require_safe_training, warn_of_losses_without_tables

_log = logging.getLogger(__name__)

_START_LINE = "ascpipe: daemon {0} (pid {1}) feeds {2}; to watch it: ascpipe top --name {0}\n"
_DASHBOARD_LINE = "ascpipe: dashboard of daemon {0}: {1}\n"


def start_asc_pipeline() -> None:
    """Declare that the default graph contains all its tables. The first run of a session starts the graph's pipeline.

    Until that run, the program may add lookups, apply gradients and create Savers, but not create tables. The pipeline
    starts earlier if a session finalizes the graph, or if the program saves, restores or evicts. The call has no effect
    if it was already made for the graph, or if the graph is built for export.

    Until ``terminate_config_initializer``, other graphs, such as the graphs of an Estimator, join the pipeline when
    this function is called for them. They share the trained tables and may add tables.

    Raises:
        EnvironmentError: ``init`` was not called.
        RuntimeError: the graph has no table or no dataset with an insert function, or the graph is finalized.
        ValueError: a dataset would reorder batches, an insert function has no table, or a table is in two streams of
            one channel.

    The first ``session.run`` starts the pipeline. It raises other errors:

    - RuntimeError: all training lookups of a table have ``is_grad=False``.
    - UntrainedTableError (E252): no optimizer updates a table that a loss depends on.
    - TableUseError (E253): an op uses rows of a table after the step that read the rows.
    - ValueError: rows of a slot variable cannot be initialized, or a table differs from the table with the same name in
      an earlier graph.
    - NotBuiltYetError (E600): datasets group tables differently than in earlier graphs, or the graph trains a table
      that an earlier graph only restored.
    - AscpipeError: the daemon did not start or is busy, or memory is insufficient.
    """
    process = Process.current()
    graph = tf.compat.v1.get_default_graph()
    state = GraphState.of(graph)
    if state.served is not None or state.marked:
        return
    if graph.finalized:
        raise CallOrderError("The graph is finalized, so the pipeline cannot be added. A tf.train.Supervisor "
                             "finalizes the graph when it is created: call asc.start() before. A MonitoredSession or "
                             "an Estimator finalizes it when its session begins: call asc.start() in begin() of a "
                             "hook")
    require_startable(state)
    state.marked = True
    process.deferred.mark(graph, functools.partial(_start_graph, process), functools.partial(_is_next, process))


def _is_next(process: Process, graph: tf.Graph) -> bool:
    """Return whether the numbers of a graph's new tables follow the numbers of the pipeline's tables."""
    known = {} if process.pipeline is None else process.pipeline.tables
    numbers = [table.shape.number for name, table in GraphState.of(graph).tables.items() if name not in known]
    return numbers == list(range(len(known), len(known) + len(numbers)))


def _start_graph(process: Process, graph: tf.Graph) -> None:
    state = GraphState.of(graph)
    state.requests.extend_new_ops()
    require_startable(state)
    warn_of_unknown_tables(state)
    read_occurrences(state)
    require_safe_training(state)
    warn_of_losses_without_tables(state)
    warn_of_tables_left_out(state)
    warn_of_column_reads(state)
    warn_of_separate_training(graph)
    state.slots = slots_of_training_tables(state)
    warn_of_lookups_in_branches(state)
    decide_unseen(state, _admitting(process, state))
    if process.pipeline is not None:
        join(process.pipeline, state)
        _accumulate(process.pipeline.native_side, state)
        complete_graph(state)
        _note_reads(process.pipeline, state)
        _mark_started(state, graph)
        return
    pipeline = _start(process, state, graph)
    try:
        _accumulate(pipeline.native_side, state)
        complete_graph(state)
        _note_reads(pipeline, state)
    except BaseException:
        end_quietly(pipeline.close, "a pipeline that did not start")
        raise
    process.pipeline = pipeline
    process.at_end(pipeline.close)
    _mark_started(state, graph)


def _note_reads(pipeline: Pipeline, state: GraphState) -> None:
    """Record the datasets whose positions are saved in checkpoints."""
    for stream in state.streams():
        if stream.channel == TRAIN:
            reads = pipeline.reads.setdefault(pipeline.rings[stream.number], [])
            reads += [read for read in state.datasets.reads(stream.number) if read not in reads]


def _accumulate(running: native.NativePipeline, state: GraphState) -> None:
    """Set the number of batches per cycle for each training table (ADR 58), starting with the next batch."""
    if Process.current().configuration.rank_size > 1:
        return  # accumulate() does not support several ranks
    for name, channel in state.lookups:
        if channel == TRAIN:
            known = GradientState.of(state).accumulated.get(name)
            running.accumulate(state.tables[name].shape.number, 1 if known is None else known.steps)


def _admitting(process: Process, state: GraphState) -> Set[str]:
    known = {} if process.pipeline is None else process.pipeline.tables
    return {name for name in state.tables if state.thresholds.of(name).access >= 0 or (
        name in known and known[name].thresholds.access >= 0)}


def _mark_started(state: GraphState, graph: tf.Graph) -> None:
    state.started = True
    GradientState.of(state).checked_order = internals.newest_order(graph)


def _start(process: Process, state: GraphState, graph: tf.Graph) -> Pipeline:
    native.ops()  # if the library is missing, raise the error before a daemon is started
    ranks = process.configuration.rank_size
    streams = [stream_shape(state, stream) for stream in state.streams()]
    tables = [with_homes(table.shape, state.slots.get(table.table_name, ())) for table in state.tables.values()]
    rings = {stream.number: ring_messages(stream, ranks) for stream in streams}
    stop_if_planned(list(map(sizes_of, tables)), sum(map(len, rings.values())))
    with contextlib.ExitStack() as undo:
        link = trainer_link.connect(process.configuration.daemon, layout=structs.layout_hash(),
                                    begun=process.take_begun())
        undo.callback(link.close)
        warn_of_short_run_ahead(state, link.settings.read_ahead)
        joined = horovod.started() if ranks > 1 else None
        rank, size = (0, 1) if joined is None else (joined.rank, joined.size)
        segments = link.start([ring for of_stream in rings.values() for ring in of_stream],
                              [table_message(table, state) for table in tables])
        running = native.NativePipeline(link.run, segments.session[0], link.lifeline_fd, link.settings.spin_us,
                                        link.settings.wait_timeout_s)
        undo.callback(running.stop)
        for table in tables:
            running.add_table(table, segments.tables[table.number])
        if joined is not None:
            alike = signature(state, tables, streams), collectives(graph)
            running.set_ranks(joined.rank, joined.size, joined.library, alike, segments.exchange_spans)
        if segments.reading_spans[0] >= 0:
            running.record_reading(rank, size, segments.reading_spans)
        for stream in streams:
            running.add_stream(stream, segments.streams[stream.number])
            for ring in rings[stream.number][1:]:
                running.add_local_stream(stream, ring.stream, segments.streams[ring.stream])
        running.start()
        session = segment.map(*segments.session)
        link.close_segments()  # all segments are mapped, and a forked child would keep the descriptors and the memory
        undo.pop_all()
    _log.info("pipeline of %s and %s runs, daemon %s (pid %d)", counted(len(tables), "table"),
              counted(len(streams), "stream"), link.name, link.daemon_pid)
    if link.settings.start_line and process.configuration.rank_id == 0:
        sys.stderr.write(_START_LINE.format(link.name, link.daemon_pid, counted(len(tables), "table")))
        address = names.dashboard_of(names.run_dir(link.name))
        if address:
            sys.stderr.write(_DASHBOARD_LINE.format(link.name, address))
        sys.stderr.flush()
    pipeline = Pipeline(link, running, known_tables(state), streams, session, rank, size)
    pipeline.live_rows = LiveRows(pipeline)
    if rank != 0:
        pipeline.follower = follow(pipeline)
    return pipeline


def start_marked(graph: tf.Graph) -> None:
    """Start the pipeline of a graph if the graph is marked."""
    if Process.is_initialised():
        Process.current().deferred.start(graph)


def check_new_ops(graph: tf.Graph) -> None:
    """Check the ops that were added to a graph after its pipeline started, and extend new ops of iterators."""
    state = GraphState.known(graph)
    if state is not None and state.started and GradientState.of(state).checked_order != internals.newest_order(graph):
        state.requests.extend_new_ops()
        read_occurrences(state)
        require_safe_training(state)
        warn_of_object_checkpoints(state, graph)
        GradientState.of(state).checked_order = internals.newest_order(graph)
