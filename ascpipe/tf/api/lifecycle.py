"""Start and end of a program: ``init``, ``start``, ``shutdown``, ``reset``, and ``pipeline`` for one block."""
import contextlib
from typing import Any, Dict, Iterator, Optional

import tensorflow as tf

from ascpipe.errors import CallOrderError, api_names
from ascpipe.tf import internals
from ascpipe.tf.api import installing
from ascpipe.tf.clean_up import cleaning_up
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
    """Initialize ascpipe in this process, once and before ``create_table``.

    After this call, Savers, Estimators, optimizers, iterators and sessions of TensorFlow support tables.

    Args:
        daemon: name of a running daemon (``ascpipe start --name ...``), 1 to 48 characters. None: ``$ASCPIPE_NAME``,
            else the daemon named ``default`` if it is free, else a private daemon that ends with the program.
        use_dynamic: False: all batches have one shape, and each lookup requires ``max_keys``.
        use_dynamic_expansion: tables have no size: they grow in host memory, where rows are updated.
        is_incremental_checkpoint: hooks save deltas between full checkpoints; requires the two intervals.
        save_checkpoint_due_time: seconds between full checkpoints, in [1, 2147483647].
        save_delta_checkpoints_secs: seconds between deltas, in [1, 2147483647].
        recent_key_count_threshold: a delta omits keys that occurred fewer times since the last save. 0: omit none.
        restore_model_version: step of the checkpoint that the first restore loads. None: the step in the path.

    Raises:
        ValueError: an argument has the wrong type or is out of range.
        TypeError: an argument is unknown; the error suggests a similar name.
        EnvironmentError: ``init`` was called before, without ``shutdown`` or ``reset``.
        NotRunningError: E212. No daemon with this name runs.
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
    """Declare the default graph complete. Its pipeline starts with the first run of a session.

    Call it after the optimizers are applied and before the session. The ops that compute looked-up tensors of ids are
    moved into the dataset. A second call for a graph does nothing. For Estimators, use ``StartHook``.

    Raises:
        EnvironmentError: ``init`` was not called.
        RuntimeError: the graph has no table, no dataset submits ids, or the graph is finalized.
        ValueError: a dataset reorders batches. Ids come from no iterator, or from ops that cannot run in a dataset.
        UntrainedTableError: E252, raised by the first run: no optimizer updates a table that a loss depends on.
        TableUseError: E253, raised by the first run: an op uses rows of a table outside their step.
        AscpipeError: raised by the first run: the daemon does not start or is busy, or memory is insufficient.
    """
    if GraphState.of(tf.compat.v1.get_default_graph()).requests.lookups:
        modify_graph_and_start_emb_cache()
    else:
        start_asc_pipeline()


def shutdown() -> None:
    """End the pipeline and forget the tables. It may be called twice, and ``init`` may be called again.

    A private daemon ends; a named daemon is free for the next program. Rows that were not saved are lost.
    """
    if process.Process.is_initialised():
        process.terminate_config_initializer()


def reset() -> None:
    """Call ``shutdown`` and clear the default graph, so that cells of a notebook can build the model again.

    Raises:
        RuntimeError: it was called inside ``with graph.as_default()``, which only the block itself can leave. Nothing
            was done.
    """
    if internals.is_in_graph_block():
        raise CallOrderError("asc.reset() was called inside `with graph.as_default()` or `with asc.pipeline()`, where "
                             "it cannot clear the default graph. Nothing was changed. Call it outside the block")
    shutdown()
    tf.compat.v1.reset_default_graph()


@contextlib.contextmanager
def pipeline(**init_arguments: Any) -> Iterator[tf.Graph]:
    """Call ``init``, ``start`` and ``shutdown`` for a block with its own graph. A notebook cell can run it again.

    The pipeline starts with the first run of a session of a graph with lookups. It ends with the block, even if the
    block raises::

        with asc.pipeline():
            table = asc.create_table("users", 8, initializer=tf.zeros_initializer(), device_vocabulary_size=1000)
            ...
            with tf.compat.v1.Session() as session:
                ...

    Args:
        init_arguments: arguments of ``init``.

    Yields:
        The graph, which is the default graph in the block.

    Raises:
        Exception: as ``init``, and any error of the block.
    """
    with tf.Graph().as_default() as graph:
        init(**init_arguments)
        with cleaning_up(shutdown, "the pipeline"):
            process.Process.current().deferred.mark_on_demand = start_if_it_has_lookups
            yield graph


class StartHook(GraphModifierHook):
    """Hook that calls ``start``, for ``train``, ``evaluate`` and ``predict`` of Estimators and for monitored sessions.

    ``begin`` raises the errors of ``start``.
    """

    def __init__(self) -> None:
        super().__init__()

    def begin(self) -> None:
        """Call ``start`` before the graph is finalized."""
        start()


def start_if_it_has_lookups(graph: tf.Graph) -> None:
    """Call ``start`` once for a graph that has lookups."""
    state = GraphState.of(graph)
    if not state.marked and state.served is None and (state.lookups or state.requests.lookups):
        with graph.as_default():
            start()
