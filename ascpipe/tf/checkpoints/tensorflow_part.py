"""Keeps rows of tables, and iterators that read ahead of training, out of TensorFlow's part of a checkpoint."""
import contextlib
import logging
import threading
from typing import Any, Iterator, List, Optional

import tensorflow as tf
from tensorflow.python.training.saving import saveable_object

from ascpipe.tf import internals
from ascpipe.tf.graph.dataset_graph import GET_NEXT
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.optimizer_slots import names_of_variables

#: How TensorFlow's line begins.
_RESTORING = "Restoring parameters from "


def leave_out_tables(saver: tf.compat.v1.train.Saver) -> None:
    """Take table variables and their slot variables from what a saver that is being built saves.

    Rows are worth nothing without their keys; the sparse part has both.

    Raises:
        ValueError: it would save an iterator whose batches are submitted to the pipeline.
    """
    state = GraphState.known(tf.compat.v1.get_default_graph())
    if saver.saver_def or state is None or not state.tables or state.served is not None:
        return
    theirs = names_of_variables(state.tables.values())
    parts = internals.SaverParts(saver)
    saved = internals.all_saveable_objects() if parts.items is None else parts.items
    items: List[Any] = list(saved.values()) if isinstance(saved, dict) else list(saved)
    for item in items:
        _refuse_iterator(state, item)
    if isinstance(saved, dict):
        parts.items = {name: item for name, item in saved.items() if _op_name(item) not in theirs}
    else:
        parts.items = [item for item in items if _op_name(item) not in theirs]


@contextlib.contextmanager
def logged_as(prefix: str) -> Iterator[None]:
    """While TensorFlow restores its part from where it was verified its log names ``prefix``, the checkpoint."""
    thread = threading.get_ident()

    def rename(record: logging.LogRecord) -> bool:
        if record.thread == thread and str(record.msg).startswith(_RESTORING):
            record.args = (prefix,)
        return True

    log = logging.getLogger("tensorflow")
    log.addFilter(rename)  # type: ignore[arg-type]
    try:
        yield
    finally:
        log.removeFilter(rename)  # type: ignore[arg-type]


def _op_name(item: Any) -> Optional[str]:
    """The name of a variable's op; None for other saveable objects."""
    return item.op.name if isinstance(item, tf.Variable) else None


def _refuse_iterator(state: GraphState, item: Any) -> None:
    """Refuse an iterator, which has read ahead of training; the sparse part has the position of training."""
    if not isinstance(item, saveable_object.SaveableObject) or not isinstance(item.op, tf.Tensor):
        return
    for consumer in item.op.consumers():
        if consumer.type in GET_NEXT and any(
                state.datasets.ticket_of(stream.number, consumer) is not None for stream in state.streams()):
            raise ValueError(
                "iterator {!r} cannot be saved: its batches are submitted ahead of training. Leave it out "
                "(no make_saveable_from_iterator or CheckpointInputPipelineHook): a checkpoint says how many were "
                "trained. Go on with dataset.skip(ascpipe.tf.trained_batches(path)['training']) before map(insert_fn)"
                .format(item.op.op.name))
