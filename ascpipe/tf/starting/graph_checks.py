"""Checks of a graph before its pipeline starts."""
import logging
from typing import Dict, Tuple

from ascpipe.errors import DatasetError, FeatureError, GraphModificationError, MissingFromGraphError
from ascpipe.layout.words import TRAIN
from ascpipe.tf.graph.features import CHANNEL_NAMES, Stream
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.process import Process

_log = logging.getLogger(__name__)

_NEUTRAL_SLOT = "Adagrad_accumulator"  #: slot of Adagrad, which does not change rows whose gradient is zero

def require_startable(state: GraphState) -> None:
    """Raise ``RuntimeError`` or ``ValueError`` if the tables, streams and datasets of a graph are inconsistent."""
    if not state.tables:
        raise MissingFromGraphError("The default graph has no table. Call asc.create_table() before asc.start()")
    if not state.streams():
        raise MissingFromGraphError("No dataset of the default graph submits ids. Before asc.start(), call "
                                    "dataset.map() with the result of asc.insert_function()")
    _require_a_table_each(state)
    _require_one_stream_per_channel(state)
    _require_ordered_datasets(state)
    _require_whole_batches(state)
    for stream in state.streams():
        for name in stream.table_names():
            state.require_timestamp(stream, name)


def warn_of_unknown_tables(state: GraphState) -> None:
    """Warn about features that are not submitted because their tables do not exist."""
    for stream in state.streams():
        for feature in stream.features:
            if feature.spec.table_name not in state.tables:
                _log.warning("FeatureSpec %r is ignored: its table %r was not created",
                             feature.spec.label, feature.spec.table_name)


def warn_of_lookups_in_branches(state: GraphState) -> None:
    """Warn about lookups in conditionals, if the optimizer of their table changes rows whose gradient is zero.

    In a step that takes another branch, TensorFlow applies a gradient of zero to all rows of a variable. A table gets a
    gradient of zero for the rows of the batch.
    """
    names = sorted(name for name in state.in_branches
                   if any(slot.name != _NEUTRAL_SLOT for slot in state.slots.get(name, ())))
    if names and Process.current().is_first("lookups in branches"):
        _log.warning("table%s %s: a branch of tf.cond or tf.case looks rows up. In steps that take another branch, the "
                     "optimizer updates the rows of the batch with a gradient of zero, and TensorFlow would update all "
                     "rows. Look up before the conditional, and read the rows in the branch",
                     "s" if len(names) > 1 else "", ", ".join(map(repr, names)))


def warn_of_short_run_ahead(state: GraphState, wanted: int) -> None:
    """Warn if a dataset prefetches fewer than ``wanted`` batches.

    Plans then cannot take the keys of later batches into account.
    """
    for stream in state.streams():
        hosted = [name for name in stream.table_names() if name in state.tables and state.tables[name].shape.home_rows]
        if stream.channel != TRAIN or not hosted:
            continue
        for get_next in state.datasets.get_nexts():
            if state.datasets.ticket_of(stream.number, get_next) is None:
                continue
            ahead = state.datasets.run_ahead(get_next)
            if ahead is not None and ahead < wanted:
                _log.warning(
                    "tables %s have host rows, but only %d batches are read ahead of training; plans can use %d. Rows "
                    "that are needed soon may be swapped out and in again. End the dataset with .prefetch(%d)",
                    ", ".join(map(repr, hosted)), ahead, wanted, wanted)


def _require_a_table_each(state: GraphState) -> None:
    for stream in state.streams():
        if not any(name in state.tables for name in stream.table_names()):
            raise FeatureError("An insert function submits ids of {} only, which were not created. The graph has "
                               "{}".format(
                                   ", ".join(map(repr, stream.table_names())),
                                   ", ".join(sorted(map(repr, state.tables)))))


def _require_one_stream_per_channel(state: GraphState) -> None:
    carrier: Dict[Tuple[str, int], Stream] = {}
    for stream in state.streams():
        for name in stream.table_names():
            other = carrier.setdefault((name, stream.channel), stream)
            if other is not stream:
                raise DatasetError("Table {!r} is in two streams of the {} channel. Pass all its features of this "
                                   "channel to one asc.insert_function()".format(name, CHANNEL_NAMES[stream.channel]))


def _require_whole_batches(state: GraphState) -> None:
    """Raise ``GraphModificationError`` for ``get_next_as_optional``.

    TensorFlow does not check the number of tensors that it returns for a modified dataset.
    """
    for iterator in state.requests.extensions:
        for op in iterator.outputs[0].consumers():
            if op.type == "IteratorGetNextAsOptional":
                raise GraphModificationError("Iterator {!r}: op {!r} takes batches by get_next_as_optional(), which "
                                             "graph modification cannot extend. Use get_next(), or look tables up "
                                             "with FeatureSpecs".format(iterator.name, op.name))


def _require_ordered_datasets(state: GraphState) -> None:
    training = {stream.number for stream in state.streams() if stream.channel == TRAIN}
    readers: Dict[int, str] = {}
    for get_next in state.datasets.get_nexts():
        iterator = state.datasets.iterator(get_next).name
        for number in set(state.datasets.tickets(get_next).values()) & training:
            other = readers.setdefault(number, iterator)
            if other != iterator:
                raise DatasetError("Iterators {!r} and {!r} both take batches of one training insert function, and "
                                   "these batches have one order. Call asc.insert_function() for each iterator".format(
                                       other, iterator))
