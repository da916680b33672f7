"""``modify_graph_and_start_emb_cache``, which moves the ops that compute ids into datasets and starts the pipeline.

The modified program is equivalent to a program that declares features and maps its datasets with an insert function.
The dataset submits ids while batches are read ahead, and ``get_next`` returns the ticket with the batch.
"""
import functools
import logging
from typing import Any, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from ascpipe.errors import CallOrderError, FeatureError, GraphModificationError, MissingFromGraphError
from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf.graph.dataset_graph import DatasetGraph
from ascpipe.tf.graph.features import CHANNEL_NAMES, FeatureSpec
from ascpipe.tf.graph.fed_ids import note_ids
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.ids import Ids
from ascpipe.tf.graph.rewiring import repoint
from ascpipe.tf.graph.tensor_requests import TensorLookup
from ascpipe.tf.modify.datasets import extend_iterator, initializers_of
from ascpipe.tf.modify.id_graph import IdGraph, copy_into, id_graph, is_shared, require_movable
from ascpipe.tf.modify.iterators import extend_new_ops, make_initializer_ops, note_modified
from ascpipe.tf.program.insert_function import DUMP_FOLDER, submit
from ascpipe.tf.program.tensor_lookups import merge
from ascpipe.tf.running.process import Process
from ascpipe.tf.starting.start_pipeline import start_asc_pipeline
from ascpipe.tf.validation import Instance, boolean, checked

_log = logging.getLogger(__name__)

ONE_SHOT = "OneShotIterator"
#: Graph collections with timestamps of batches, and with initializers of iterators whose datasets were changed.
TIMESTAMP = "ASCEND_TIMESTAMP"
INITIALIZERS = "ASCEND_CUTTING_POINT_INITIALIZER"


_SEVERAL = (
    "{} depend on {!r}, and other lookups on {!r}. All lookups from one iterator, and the {} lookups of a table, must "
    "use batches of one get_next(). Share the result of one get_next(), initialize one iterator from several datasets "
    "(Iterator.from_structure), or evaluate another dataset in a separate graph that restores a checkpoint, as "
    "Estimators do")


class _Iterator:
    """Iterator that provides the ids of lookups, and the tensors that graph modification adds to the iterator's
    batches.

    Args:
        get_next: op that returns the batches with the ids.
        datasets: datasets of the graph.

    Attributes:
        get_next: the argument.
        siblings: all ``get_next`` ops of the iterator.

    Raises:
        ValueError: an error of ``initializers_of``.
    """

    def __init__(self, get_next: tf.Operation, datasets: DatasetGraph) -> None:
        op = datasets.iterator(get_next)
        initializers_of(op)
        self.get_next = get_next
        self._is_one_shot = op.type == ONE_SHOT
        self.siblings = [other for other in datasets.get_nexts() if datasets.iterator(other) is op]
        self.lookups: List[TensorLookup] = []
        self.times: List[tf.Tensor] = []
        self.sliced: List[tf.Tensor] = []
        self.carried: List[tf.Tensor] = []
        self._streams: Dict[int, List[Tuple[FeatureSpec, tf.Tensor]]] = {}

    def carry(self, tensor: tf.Tensor) -> None:
        """Add a tensor to the batch. The dataset computes the tensor together with the ids."""
        if tensor.op is not self.get_next and not any(tensor is other for other in [*self.sliced, *self.carried]):
            self.carried.append(tensor)

    def channels(self) -> List[int]:
        """Return the channels of the iterator's lookups in ascending order."""
        return sorted({lookup.channel for lookup in self.lookups})

    def features(self, channel: int) -> List[Tuple[FeatureSpec, tf.Tensor]]:
        """Return pairs (feature, tensor of the feature) for a channel.

        The last element is the timestamp, if the iterator has a timestamp.
        """
        if channel not in self._streams:
            ids = {lookup.spec: lookup.ids for lookup in self.lookups if lookup.channel == channel}
            times = [(FeatureSpec("timestamp", is_timestamp=True), time) for time in self.times]
            self._streams[channel] = [*ids.items(), *times]
        return self._streams[channel]

    def wanted(self) -> List[tf.Tensor]:
        """Return the tensors that the dataset must compute, without duplicates.

        Carried tensors are followed by ids and timestamps.
        """
        found = {tensor.name: tensor for tensor in self.carried}
        found.update({tensor.name: tensor for channel in self.channels() for _, tensor in self.features(channel)})
        return list(found.values())

    @tf.autograph.experimental.do_not_convert
    def extend(self, *batch: tf.Tensor) -> Tuple[tf.Tensor, ...]:
        """Return the tensors of an extended batch. ``map`` calls this function.

        These are the tensors of the batch, the sliced and carried tensors, and a ticket for each channel.
        """
        given = {output.name: tensor for output, tensor in zip(self.get_next.outputs, batch)}
        sliced = copy_into(self.sliced, given, "sliced", finds_tables=self._is_one_shot)
        given.update({tensor.name: copy for tensor, copy in zip(self.sliced, sliced)})
        wanted = self.wanted()
        made = dict(zip((tensor.name for tensor in wanted),
                        copy_into(wanted, given, "lookup_ids", finds_tables=self._is_one_shot)))
        tickets = [submit((self, channel), channel, [(spec, Ids.of(made[tensor.name]))
                                                     for spec, tensor in self.features(channel)])
                   for channel in self.channels()]
        return (*batch, *sliced, *(made[tensor.name] for tensor in self.carried), *tickets)


@checked(full_graph=Instance(tf.Graph, optional=True), dump_graph=boolean())
def modify_graph_and_start_emb_cache(full_graph: Optional[tf.Graph] = None, dump_graph: bool = False) -> None:
    """Move the ops that compute ids of ``sparse_lookup(modify_graph=True)`` into datasets.

    The function also declares the graph complete. The pipeline then starts as with ``start_asc_pipeline``. Call this
    function after all gradients are computed and before the session is created. Iterators, initializers and batches
    remain valid. ``get_initializer`` returns the initializers. The call has no effect in a graph that is built for
    export or already modified.

    Args:
        full_graph: graph to modify. It defaults to the default graph.
        dump_graph: True to write the graph before and after the modification, and the moved ops, to ``./export_graph``.

    Raises:
        ValueError: an argument has the wrong type. Ids are not computed from exactly one iterator. The iterator is
            neither initializable nor one-shot. An op that computes ids cannot run in a dataset. The ids of a one-shot
            iterator need a lookup table without a shared name. A dataset reorders batches. In one channel, the lookups
            of a table use batches of two iterators.
        RuntimeError: the graph has no lookup with ``modify_graph=True``, training lookups are not merged
            (``do_merge_lookup``), or ``start_asc_pipeline`` raises the error.
        EnvironmentError: ``init`` was not called, or an iterator has two timestamps.
        NotBuiltYetError, AscpipeError: errors of ``start_asc_pipeline``.
    """
    graph = full_graph or tf.compat.v1.get_default_graph()
    state = GraphState.of(graph)
    if state.served is not None or state.requests.done:
        return
    with graph.as_default():
        _modify(graph, dump_graph=dump_graph)
        start_asc_pipeline()


def _modify(graph: tf.Graph, *, dump_graph: bool) -> None:
    state = GraphState.of(graph)
    _require_modifiable(graph, state)
    if dump_graph:
        _dump(graph.as_graph_def(), "old_graph")
    iterators = _iterators(graph, state)
    merge(state, EVAL)
    for iterator in iterators:
        if dump_graph:
            _dump_moved(iterator)
        _extend(state, iterator)
    make_initializer_ops(state, graph)
    state.requests.done = True
    state.requests.extend_new_ops = functools.partial(extend_new_ops, state)
    note_modified(graph)
    if dump_graph:
        _dump(graph.as_graph_def(), "new_graph")


def _require_modifiable(graph: tf.Graph, state: GraphState) -> None:
    if state.started:
        raise CallOrderError("The pipeline of this graph has already started. Call "
                             "modify_graph_and_start_emb_cache() before it starts")
    if graph.finalized:
        raise CallOrderError("The graph is finalized, so it cannot be modified. A tf.train.Supervisor finalizes the "
                             "graph when it is created: call asc.start() before. A MonitoredSession or an Estimator "
                             "finalizes it when the session begins: add asc.GraphModifierHook() to the hooks")
    if not state.requests.lookups:
        raise MissingFromGraphError("The graph has no lookup of a tensor, sparse_lookup(..., modify_graph=True), so "
                                    "there is nothing to modify. With FeatureSpecs, call start_asc_pipeline()")
    for lookup in state.requests.unmerged(TRAIN):
        if lookup.is_open:  # the program requested no gradient
            lookup.close(EVAL)
    unmerged = sorted({lookup.table.table_name for lookup in state.requests.unmerged(TRAIN)})
    if unmerged and Process.current().is_plain:
        merge(state, TRAIN)  # the program requested no gradient, which is checked when the pipeline starts
    elif unmerged:
        raise CallOrderError("The training lookups of tables {} are not merged. Call compute_gradients() or "
                             "minimize() of an optimizer, or do_merge_lookup() before tf.gradients()".format(
                                 ", ".join(map(repr, unmerged))))


def _iterators(graph: tf.Graph, state: GraphState) -> List[_Iterator]:
    """Return one ``_Iterator`` for each iterator that provides the ids of lookups."""
    found: Dict[tf.Operation, _Iterator] = {}
    batch_of: Dict[Any, tf.Operation] = {}  # (table, channel) -> ``get_next``
    orphans = []
    for lookup in state.requests.lookups:
        what = "sparse_lookup {!r} of table {!r}: ids {!r}".format(
            lookup.name, lookup.table.table_name, lookup.ids.name)
        ids = id_graph([lookup.ids])
        if not ids.get_nexts and state.requests.moves_ids_without_iterator:
            require_movable(ids, what)
            orphans.append(lookup)
            continue
        get_next = _source(ids, what)
        note_ids(state, lookup.table.table_name, [
            lookup.ids, *(tensor for each in ids.ops for tensor in [*each.outputs, *each.inputs])])
        op = state.datasets.iterator(get_next)
        if op not in found:
            found[op] = _Iterator(get_next, state.datasets)
        for other in (found[op].get_next, batch_of.setdefault((lookup.table.table_name, lookup.channel), get_next)):
            if other is not get_next:
                raise GraphModificationError(
                    _SEVERAL.format(what, get_next.name, other.name, CHANNEL_NAMES[lookup.channel]))
        found[op].lookups.append(lookup)
        if lookup.request.evaluates_unseen:
            found[op].carry(lookup.ids)  # otherwise the ids would be computed both in the dataset and in the step
    for lookup in orphans:
        _assign_orphan(state, found, lookup)
    for tensor in state.requests.sliced:
        get_next = _source(id_graph([tensor]), "{!r} (LookupSubgraphSlicerHook)".format(tensor.name))
        found[state.datasets.iterator(get_next)].sliced.append(tensor)
    for tensor in state.requests.carried:
        get_next = _source(id_graph([tensor]), "{!r}, beside ids,".format(tensor.name))
        found[state.datasets.iterator(get_next)].carry(tensor)
    for time in graph.get_collection(TIMESTAMP):
        get_next = _source(id_graph([time]), "{!r} in the collection {}".format(time.name, TIMESTAMP))
        iterator = found.get(state.datasets.iterator(get_next))
        if iterator is None:
            _log.warning("%r in the collection %s is ignored: no lookup uses its batches", time.name, TIMESTAMP)
        elif not any(time is other for other in iterator.times):
            iterator.times.append(time)
            if len(iterator.times) > 1:
                raise FeatureError("Iterator {!r}: the collection {} has several timestamps: {}. Use only one".format(
                                       state.datasets.iterator(get_next).name, TIMESTAMP,
                                       ", ".join(repr(other.name) for other in iterator.times)))
    for op, iterator in found.items():
        _require_reachable(op, id_graph([*iterator.wanted(), *iterator.sliced]).lookup_tables)
    return list(found.values())


def _require_reachable(iterator: tf.Operation, lookup_tables: Sequence[tf.Operation]) -> None:
    """Raise ``GraphModificationError`` for lookup tables that the dataset of a one-shot iterator cannot find.

    The dataset finds lookup tables by their shared names.
    """
    lookup_tables = [table for table in lookup_tables if not is_shared(table)]
    if lookup_tables and iterator.type == ONE_SHOT:
        raise GraphModificationError("Iterator {!r} is a one-shot iterator. Its dataset cannot find the lookup "
                                     "tables {}, which compute ids of its batches and have no shared_name. Use "
                                     "make_initializable_iterator(), and run its initializer and "
                                     "tables_initializer()".format(
                                         iterator.name, ", ".join(repr(table.name) for table in lookup_tables)))


def _assign_orphan(state: GraphState, found: Dict[tf.Operation, _Iterator], lookup: TensorLookup) -> None:
    """Select an iterator for a lookup whose ids are not computed from an iterator.

    The function uses the first iterator that exists in this list:

    - the iterator of other lookups of the same table and channel
    - the iterator of other lookups of the same channel
    - in training: the first iterator of the graph
    - in evaluation: the last iterator of the graph
    """
    iterators = list(found.values())
    same_table = [each for each in iterators for other in each.lookups
                  if other.channel == lookup.channel and other.table is lookup.table]
    same_channel = [each for each in iterators if lookup.channel in each.channels()]
    if not same_table and not same_channel:
        get_nexts = state.datasets.get_nexts()
        if not get_nexts:
            raise GraphModificationError("asc.sparse_lookup {!r} of table {!r}: no iterator of the graph has batches "
                                         "with the ids {!r}".format(
                                             lookup.name, lookup.table.table_name, lookup.ids.name))
        get_next = get_nexts[0 if lookup.channel == TRAIN else -1]
        same_channel = [found.setdefault(state.datasets.iterator(get_next), _Iterator(get_next, state.datasets))]
    (same_table or same_channel)[0].lookups.append(lookup)


def _source(ids: IdGraph, what: str) -> tf.Operation:
    require_movable(ids, what)
    if not ids.get_nexts:
        raise GraphModificationError("{} do not depend on an iterator. Look up tensors that are computed from a "
                                     "batch, or add asc.OrphanLookupKeySlicerHook() to the hooks before "
                                     "asc.GraphModifierHook".format(what))
    if len(ids.get_nexts) > 1:
        raise GraphModificationError("{} depend on several get_next(): {}. They must be computed from one batch".format(
                                         what, ", ".join(repr(op.name) for op in ids.get_nexts)))
    return ids.get_nexts[0]


def _extend(state: GraphState, iterator: _Iterator) -> None:
    """Add tickets to the batches of an iterator, and connect the tickets to the lookups."""
    op = state.datasets.iterator(iterator.get_next)
    before = len(iterator.get_next.outputs)
    state.requests.extensions[op] = extend_iterator(state.datasets, iterator.siblings, iterator.extend)
    state.datasets = DatasetGraph(op.graph)  # read the graph again, because the iterator has a new dataset
    initializers = initializers_of(op)
    added = iterator.get_next.outputs[before:]
    moved = [*iterator.sliced, *iterator.carried]
    for tensor, carried in zip(moved, added):
        repoint(tensor, carried)
    for channel, ticket in zip(iterator.channels(), added[len(moved):]):
        state.requests.initializers.setdefault(channel, []).append(initializers)
        for name in {lookup.table.table_name for lookup in iterator.lookups if lookup.channel == channel}:
            lookup = state.lookups[name, channel]
            lookup.stream = state.stream_of(lookup.specs[0], channel)
            lookup.take_ticket(ticket)
    for initializer in initializers:
        iterator.get_next.graph.add_to_collection(INITIALIZERS, initializer)


def _dump_moved(iterator: _Iterator) -> None:
    moved = tf.compat.v1.GraphDef()
    moved.node.extend(op.node_def for op in id_graph(iterator.wanted()).ops)
    _dump(moved, "cut_graph_{}".format(iterator.get_next.name.replace("/", "_")))


def _dump(definition: Any, name: str) -> None:
    tf.io.write_graph(definition, DUMP_FOLDER, name + ".pbtxt")
