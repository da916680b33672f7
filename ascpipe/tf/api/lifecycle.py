"""Functions that start and end the use of ascpipe: ``init``, ``start``, ``shutdown``, ``reset`` and ``pipeline``."""
import os
from typing import Any, Dict, Iterator, Optional

import tensorflow as tf

from ascpipe import config
from ascpipe.errors import CallOrderError, api_names
from ascpipe.tf import internals
from ascpipe.tf.api import installing
from ascpipe.tf.clean_up import cleaning_up, interruptible
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.modify.hooks import GraphModifierHook
from ascpipe.tf.modify.modifier import modify_graph_and_start_emb_cache
from ascpipe.tf.running import native, process
from ascpipe.tf.starting.start_pipeline import start_asc_pipeline
from ascpipe.tf.validation import Instance, checked


@checked(fast_input=Instance(bool, optional=True))
def init(*, daemon: Optional[str] = None, use_dynamic: bool = True, use_dynamic_expansion: bool = False,
         is_incremental_checkpoint: bool = False, save_checkpoint_due_time: Optional[int] = None,
         save_delta_checkpoints_secs: Optional[int] = None, recent_key_count_threshold: int = 0,
         restore_model_version: Optional[int] = None, fast_input: Optional[bool] = None) -> None:
    """Initialize ascpipe in this process. Call this function once, before ``create_table``.

    After this call, Savers, Estimators, optimizers, iterators and sessions of TensorFlow support tables.

    Args:
        daemon: name of a running daemon (``ascpipe start --name ...``), 1 to 48 characters. The default is
            ``$ASCPIPE_NAME``. Without this variable, ascpipe uses the daemon ``default`` if it is free. Otherwise,
            ascpipe starts a private daemon, which exits when the program exits.
        use_dynamic: if False, all batches have the same shape, and each lookup requires ``max_keys``.
        use_dynamic_expansion: if True, tables have no fixed size. They grow in host memory, and rows are updated there.
        is_incremental_checkpoint: if True, hooks save deltas between full checkpoints. The two intervals are then
            required.
        save_checkpoint_due_time: interval between full checkpoints in seconds, in [1, 2147483647].
        save_delta_checkpoints_secs: interval between deltas in seconds, in [1, 2147483647].
        recent_key_count_threshold: minimum number of occurrences of a key since the last save. A delta omits keys with
            fewer occurrences. With 0, a delta omits no keys.
        restore_model_version: step of the checkpoint that the first restore loads. None means the step in the path.
        fast_input: if False, datasets parse records with TensorFlow's ops, one record at a time if the program does so.
            ``init`` stores the value in ``$ASCPIPE_FAST_INPUT``. None means the value of this environment variable, or
            True.

    Raises:
        ValueError: an argument has the wrong type or is out of range.
        TypeError: an argument is unknown. The error suggests a similar name.
        EnvironmentError: ``init`` was called before, without ``shutdown`` or ``reset``.
        NotRunningError: E212. No daemon with this name runs.
    """
    given: Dict[str, Any] = {
        "daemon": daemon, "use_dynamic": use_dynamic, "use_dynamic_expansion": use_dynamic_expansion,
        "is_incremental_checkpoint": is_incremental_checkpoint, "save_checkpoint_due_time": save_checkpoint_due_time,
        "save_delta_checkpoints_secs": save_delta_checkpoints_secs,
        "recent_key_count_threshold": recent_key_count_threshold, "restore_model_version": restore_model_version}
    process.init(**given)
    if fast_input is not None:
        os.environ[config.FAST_INPUT] = str(int(fast_input))
    process.Process.current().is_plain = True
    api_names.use(rec_sdk=False)
    native.begin_program()
    installing.install()


def start() -> None:
    """Declare the default graph complete. The pipeline of the graph starts with the first run of a session.

    Call ``start`` after the optimizers are applied and before the session is created. ``start`` moves the ops that
    compute ids for lookups from a batch into the dataset. A second call for a graph has no effect. For Estimators, use
    ``StartHook``.

    Raises:
        EnvironmentError: ``init`` was not called.
        RuntimeError: the graph has no table, no dataset submits ids, or the graph is finalized.
        ValueError: a dataset reorders batches, ids are not computed from an iterator, or ids are computed by ops that
            cannot run in a dataset.
        UntrainedTableError: E252. No optimizer updates a table that a loss depends on. The first run raises this error.
        TableUseError: E253. An op uses rows of a table after the step that read the rows. The first run raises this
            error.
        AscpipeError: the daemon does not start or is busy, or memory is insufficient. The first run raises this error.
    """
    if GraphState.of(tf.compat.v1.get_default_graph()).requests.lookups:
        modify_graph_and_start_emb_cache()
    else:
        start_asc_pipeline()


def shutdown() -> None:
    """End the pipeline and discard the tables. ``shutdown`` may be called repeatedly, and ``init`` may be called again.

    A private daemon exits. A named daemon is free for the next program. Rows that were not saved are lost.
    """
    if process.Process.is_initialised():
        process.terminate_config_initializer()


def reset() -> None:
    """Call ``shutdown`` and clear the default graph. Cells of a notebook can then build the model again.

    Raises:
        RuntimeError: ``reset`` was called inside a block ``with graph.as_default()``, where it cannot clear the default
            graph. Nothing was changed.
    """
    if internals.is_in_graph_block():
        raise CallOrderError("asc.reset() was called inside `with graph.as_default()` or `with asc.pipeline()`, where "
                             "it cannot clear the default graph. Nothing was changed. Call it outside the block")
    shutdown()
    tf.compat.v1.reset_default_graph()


@interruptible
def pipeline(**init_arguments: Any) -> Iterator[tf.Graph]:
    """Context manager that creates a default graph and calls ``init`` before the block, and calls ``shutdown`` after
    the block.

    A notebook cell can run the block repeatedly. The pipeline starts with the first run of a session, if the graph has
    lookups. The pipeline ends at the end of the block, even if the block raises an error::

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
        Exception: an error of ``init`` or of the block.
    """
    with tf.Graph().as_default() as graph:
        init(**init_arguments)
        with cleaning_up(shutdown, "the pipeline"):
            process.Process.current().deferred.mark_on_demand = start_if_it_has_lookups
            yield graph


class StartHook(GraphModifierHook):
    """Hook that calls ``start``.

    It can be passed to ``train``, ``evaluate`` and ``predict`` of Estimators and to monitored sessions. ``begin``
    raises the same errors as ``start``.
    """

    def __init__(self) -> None:
        super().__init__()

    def begin(self) -> None:
        """Call ``start`` before the graph is finalized."""
        start()


def start_if_it_has_lookups(graph: tf.Graph) -> None:
    """Call ``start`` for a graph with lookups, unless ``start`` was already called or the graph reads table files."""
    state = GraphState.of(graph)
    if not state.marked and state.served is None and (state.lookups or state.requests.lookups):
        with graph.as_default():
            start()
