"""Begin and end: ``init``, ``start``, ``shutdown``, ``reset``, and ``pipeline``, which is all of them for a block."""
import contextlib
from typing import Any, Dict, Iterator, Optional

import tensorflow as tf

from ascpipe.errors import api_names
from ascpipe.tf import internals
from ascpipe.tf.api import installing
from ascpipe.tf.clean_up import ended_by
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.modify.hooks import GraphModifierHook
from ascpipe.tf.modify.modifier import modify_graph_and_start_emb_cache
from ascpipe.tf.running import native, process
from ascpipe.tf.starting.start_pipeline import start_asc_pipeline
from ascpipe.tf.validation import checked


@checked()
def init(*, daemon: Optional[str] = None, use_dynamic: bool = True, use_dynamic_expansion: bool = False,
         is_incremental_checkpoint: bool = False, save_checkpoint_due_time: Optional[int] = None,
         save_delta_checkpoints_secs: Optional[int] = None, recent_key_count_threshold: int = 0,
         restore_model_version: Optional[int] = None) -> None:
    """Begin to use tables in this process; once, before ``create_table``.

    From now on Savers, Estimators, optimizers, iterators and sessions of TensorFlow know tables.

    Args:
        daemon: name of the daemon to use, 1 to 48 characters; it must run (``ascpipe start --name ...``). None:
            ``$ASCPIPE_NAME``, else the daemon named ``default`` if it is free, else one of its own that ends with the
            program.
        use_dynamic: False: batches have one shape, and each lookup says its ``max_keys``.
        use_dynamic_expansion: tables have no size: they grow in host memory, and rows are used there.
        is_incremental_checkpoint: hooks save deltas between full checkpoints; needs the two intervals.
        save_checkpoint_due_time: seconds between full checkpoints, in [1, 2147483647].
        save_delta_checkpoints_secs: seconds between deltas, in [1, 2147483647].
        recent_key_count_threshold: keys that occurred fewer times since the last save stay out of a delta; 0: none.
        restore_model_version: the step that the first restore takes; None: the one in the path.

    Raises:
        ValueError: an argument of the wrong type or out of range.
        TypeError: an argument that it does not have; names the nearest.
        EnvironmentError: ``init`` was called before, and not ended by ``shutdown`` or ``reset``.
        NotRunningError: no daemon of this name runs (E212).
    """
    given: Dict[str, Any] = {
        "daemon": daemon, "use_dynamic": use_dynamic, "use_dynamic_expansion": use_dynamic_expansion,
        "is_incremental_checkpoint": is_incremental_checkpoint, "save_checkpoint_due_time": save_checkpoint_due_time,
        "save_delta_checkpoints_secs": save_delta_checkpoints_secs,
        "recent_key_count_threshold": recent_key_count_threshold, "restore_model_version": restore_model_version}
    process.init(**given)
    process.Process.current().is_plain = True
    api_names.use(rec_sdk=False)
    native.begin_program()
    installing.install()


def start() -> None:
    """Say that the default graph has its tables and lookups: its pipeline starts with the first run of a session.

    Call it after the optimizers and before the session. Where lookups take tensors, it first moves what makes these
    into the dataset. A second call for a graph does nothing. Estimators start by ``StartHook``.

    Raises:
        EnvironmentError: ``init`` was not called.
        RuntimeError: the graph has no table, or nothing submits ids; it is finalized.
        ValueError: a dataset that would reorder batches; ids that come from no iterator, or are made by ops that cannot
            run in a dataset.
        UntrainedTableError, TableUseError: with the first run of a session: no optimizer updates a table that a loss
            depends on (E252), or an op uses rows of a table beyond their step (E253).
        AscpipeError: with the first run of a session: the daemon did not start, is busy, or there is too little memory.
    """
    if GraphState.of(tf.compat.v1.get_default_graph()).requests.lookups:
        modify_graph_and_start_emb_cache()
    else:
        start_asc_pipeline()


def shutdown() -> None:
    """End the pipeline and forget the tables. ``init`` may be called again. May be called twice.

    A daemon of the program's own ends; one with a name is free for the next program. Rows that were not saved are lost.
    """
    if process.Process.is_initialised():
        process.terminate_config_initializer()


def reset() -> None:
    """``shutdown``, and clear the default graph: a notebook's cells can build and train the model again.

    Raises:
        RuntimeError: called inside ``with graph.as_default()``, whose graph only its owner can leave; nothing was done.
    """
    if internals.is_in_graph_block():
        raise RuntimeError("reset() clears the default graph and was called inside `with graph.as_default()` or `with "
                           "asc.pipeline()`: leave the block, and call it there. Nothing was done")
    shutdown()
    tf.compat.v1.reset_default_graph()


@contextlib.contextmanager
def pipeline(**init_arguments: Any) -> Iterator[tf.Graph]:
    """``init``, ``start`` and ``shutdown`` for a block with a graph of its own: a cell of a notebook can run again.

    The pipeline starts with the first run of a session of a graph that has lookups, and ends with the block, also where
    that raises::

        with asc.pipeline():
            table = asc.create_table("users", 8, initializer=tf.zeros_initializer(), device_vocabulary_size=1000)
            ...
            with tf.compat.v1.Session() as session:
                ...

    Args:
        init_arguments: as of ``init``.

    Yields:
        The graph, which is the default one in the block.

    Raises:
        Exception: as ``init``; and what the block raises.
    """
    with tf.Graph().as_default() as graph:
        init(**init_arguments)
        with ended_by(shutdown, "the pipeline"):
            process.Process.current().deferred.mark_on_demand = start_if_it_looks_up
            yield graph


class StartHook(GraphModifierHook):
    """``start`` for Estimators and monitored sessions: give it to ``train``, ``evaluate`` and ``predict`` as a hook.

    ``begin`` raises what ``start`` raises.
    """

    def __init__(self) -> None:
        super().__init__()

    def begin(self) -> None:
        """Start before the graph is finalized."""
        start()


def start_if_it_looks_up(graph: tf.Graph) -> None:
    """``start`` for a graph that has lookups, once."""
    state = GraphState.of(graph)
    if not state.marked and state.served is None and (state.lookups or state.requests.lookups):
        with graph.as_default():
            start()
