"""Functions that load initial rows of tables from files, for the argument ``pretrained`` of ``create_table``."""
import contextlib
import functools
import logging
from typing import Any, Callable, Dict, Iterator, List, Mapping

import tensorflow as tf

from ascpipe.checkpoint.contents import TableSpec
from ascpipe.checkpoint.reader import Checkpoint
from ascpipe.layout.words import TRAIN
from ascpipe.logs import counted
from ascpipe.rows.file_table import FileTable
from ascpipe.rows.opening import open_source
from ascpipe.tf.checkpoints.loading import Load, begun, load_tables, other_ranks, require_loaded
from ascpipe.tf.clean_up import interruptible
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.asking import working
from ascpipe.tf.running.hold_between_steps import hold
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.process import Process

_log = logging.getLogger(__name__)

LOAD_FILES = "load of files"  #: name of the request to the other ranks


def starts(graph: tf.Graph) -> Dict[str, int]:
    """Return a dict: name of a table with pretrained rows -> number of runs of the table's initializer."""
    state = GraphState.known(graph)
    if state is None or not state.pretrained or not state.started:
        return {}
    native_side = Process.current().running_pipeline().native_side
    return {name: native_side.table_starts(state.tables[name].shape.number) for name in state.pretrained}


def load_started(session: tf.compat.v1.Session, before: Mapping[str, int]) -> None:
    """Load the pretrained rows of tables whose initializers have run since ``starts`` returned ``before``.

    If the graph does not train a table, its initializer does not empty the table. Rows are then loaded only if no
    graph trains the table and the table is empty.

    Raises:
        RowsNotImportedError: the rows do not fit the table, or a value is invalid. The table is empty.
        DamagedRowsError: a file is damaged or cannot be read. The table is empty.
        ParquetMissingError: pyarrow is not installed.
        tf.errors.OpError: a table has too little space.
    """
    after = starts(session.graph) if before else before
    if after == before:  # the usual case
        return
    state = GraphState.of(session.graph)
    pipeline = Process.current().running_pipeline()
    trained = pipeline.trained_tables()
    paths = {}
    for name, path in state.pretrained.items():
        number = state.tables[name].shape.number
        is_emptied = (name, TRAIN) in state.lookups
        is_empty = number not in trained and pipeline.native_side.table_size(number) == 0
        if after[name] != before[name] and (is_emptied or is_empty):
            paths[name] = path
    if paths:
        _load(pipeline, paths, functools.partial(state.attach, session))


def complete(state: GraphState, pipeline: Pipeline, checkpoint: Checkpoint, saved_names: Mapping[str, str],
             attach: Callable[..., Any]) -> None:
    """Load the pretrained rows of empty tables that a restored checkpoint does not contain.

    Args:
        saved_names: name of each restored table -> its name in the checkpoint.
        attach: ``GraphState.attach`` of the session.

    Raises:
        The same errors as ``load_started``.
    """
    paths = {}
    for name, path in state.pretrained.items():
        if saved_names.get(name) in checkpoint.tables:
            if name not in pipeline.logged:
                pipeline.logged.add(name)
                _log.info("table %r has the rows of %s. Its pretrained rows in %s are not loaded", name,
                          checkpoint.prefix, path)
        elif pipeline.native_side.table_size(state.tables[name].shape.number) == 0:
            paths[name] = path
    if paths:
        _load(pipeline, paths, attach)


def follow(pipeline: Pipeline, number: int, asked: Mapping[str, Any]) -> str:
    """Load this rank's share of the rows at the request of rank 0."""
    with _opened(pipeline, {name: path for name, (path, _) in asked["sources"].items()}) as loads, \
            hold(alone=True) as held:
        pipeline.loaded = None
        for load in loads:
            if not load.shape.home_rows:  # otherwise the slots are in home rows
                held.create_slots(load.shape.number, pipeline.tables[load.shape.name].slots)
        load_tables(pipeline, held, loads)
    return ""


def _load(pipeline: Pipeline, paths: Mapping[str, str], attach: Callable[..., Any]) -> None:
    """Replace the contents of tables with the rows of files. Rank 0 also requests that the other ranks load the files.
    """
    if pipeline.rank != 0:
        attach()
        return
    pipeline.background.settle()
    with _opened(pipeline, paths) as loads:
        attach()
        what = {"what": LOAD_FILES, "sources": {name: (path, name) for name, path in paths.items()}}
        with hold(alone=True) as held, other_ranks(pipeline, what) as others, working(pipeline.ranks):
            load_tables(pipeline, held, loads)
            require_loaded(others, ", ".join(sorted(paths.values())))
            pipeline.loaded = None
            pipeline.begin_history()
    for load in loads:
        _log.info("table %r starts with %s of %s", load.shape.name, counted(load.spec.rows, "row"),
                  paths[load.shape.name])


@interruptible
def _opened(pipeline: Pipeline, paths: Mapping[str, str]) -> Iterator[List[Load]]:
    """Open and check files. The context manager yields a ``Load`` for each table."""
    with contextlib.ExitStack() as opened:
        loads = []
        for name, path in paths.items():
            table = pipeline.tables[name]
            spec = TableSpec(name, table.shape.dim, table.key_dtype.name, tuple(table.slots), 0, 0, None, None)
            rows = FileTable(opened.enter_context(open_source(path, spec)), spec)
            loads.append(begun(rows, table.shape, table.slots, name, with_slots=True))
        yield loads
