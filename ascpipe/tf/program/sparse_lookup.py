"""``sparse_lookup`` of ``mx_rec``, and the lookup of FeatureSpecs."""
import dataclasses
import logging
from typing import Any, Collection, Dict, List, Mapping, Optional, Set, Union

import tensorflow as tf

from ascpipe.errors import CallOrderError, FeatureError, TableLookupError
from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph.ancestors import ops_feeding
from ascpipe.tf.graph.batch_structure import find_ids, missing, require_ids, tensors_of
from ascpipe.tf.graph.dataset_graph import GET_NEXT
from ascpipe.tf.graph.expansion import new_lookup
from ascpipe.tf.graph.features import CHANNEL_NAMES, FeatureSpec, Stream, checked_thresholds
from ascpipe.tf.graph.fed_ids import note_ids
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.ids import GivenIds, Ids
from ascpipe.tf.graph.lookup_request import LookupRequest
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.submitted_ids import change_after_submission
from ascpipe.tf.graph.table_lookup import TableLookup, require_fewer
from ascpipe.tf.program.tensor_lookups import completed, look_up_tensor, refuse_ids_of_loops
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import Instance, Integer, Numbers, Text, boolean, checked

_log = logging.getLogger(__name__)

_NO_BATCH = ("FeatureSpec {!r} is looked up for evaluation without batch=. The lookup returns initial rows for keys "
             "without a row, and these are computed from the keys. Pass what iterator.get_next() returned as batch, or "
             "numbers as default_value")
_TENSORS = (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)


@checked(hashtable=Instance(Table), ids=Instance(FeatureSpec, *_TENSORS, list, tuple),
         send_count=Integer(1, optional=True), is_train=boolean(), name=Text(1, 255, optional=True),
         modify_graph=boolean(), access_and_evict_config=Instance(dict, optional=True), is_grad=boolean(),
         serving_default_value=Numbers(optional=True))
def sparse_lookup(hashtable: Table, ids: Union[FeatureSpec, GivenIds], send_count: Optional[int] = None,
                  is_train: bool = True, name: Optional[str] = None, modify_graph: bool = False, batch: Any = None,
                  access_and_evict_config: Optional[Dict[str, Optional[int]]] = None, is_grad: bool = True,
                  serving_default_value: Any = None, **kwargs: Any) -> tf.Tensor:
    """Look up the rows of ids in a table.

    In a graph that is built for export (docs/how-to/saved_models.md), rows are read from a checkpoint. ``ids`` may then
    be computed from any tensor.

    Args:
        hashtable: a table that ``create_table`` returned.
        ids: a FeatureSpec of this table that an insert function of this channel submits, or a list with one such
            FeatureSpec. With ``modify_graph``, a Tensor, SparseTensor or RaggedTensor of integers that is computed from
            a batch.
        send_count: int in [1, 2147483647], required with static shapes (``init(use_dynamic=False)``). It is the maximum
            number of distinct keys of a batch, multiplied by the number of features of the table. With several ranks,
            only keys with the same owner in a rank's batch are counted.
        is_train: True for the training channel, or False for the evaluation channel.
        name: name of the returned tensor, 1 to 255 characters.
        modify_graph: True if ``ids`` is a tensor. ``modify_graph_and_start_emb_cache`` or ``GraphModifierHook`` moves
            the ops that compute this tensor into the dataset.
        batch: result of ``iterator.get_next()`` or its features. It is required with dynamic shapes and a FeatureSpec.
            Sparse ids in the batch must be unchanged.
        access_and_evict_config: dict with ``access_threshold``, ``eviction_threshold`` and ``faae_coefficient`` of the
            table. It is needed only if the features of the table do not set thresholds.
        is_grad: True if this lookup trains the rows.
        serving_default_value: float, scalar or [dim], the result for a key without a row and for a missing position of
            sparse ids. A key has no row if it was not admitted. In evaluation, a key that did not occur in training has
            no row either. The default is zeros.

    Returns:
        float32. The shape is the (dense) shape of the ids followed by dim.

    Raises:
        ValueError: an argument has the wrong type or is out of range. ``ids`` is a tensor without ``modify_graph``, or
            a FeatureSpec of another table. No dataset submits the ids of the FeatureSpec. ``send_count`` is missing, or
            exceeds the rows of a table with host rows. A dataset reorders batches. Thresholds of the table differ.
            There is an ``eviction_threshold`` without a timestamp feature.
        RuntimeError: ``batch`` is missing, the table already has 128 lookups, or the pipeline has already started.
        KeyError: ``batch`` does not contain the feature.
        NotBuiltYetError: the lookup is a training lookup in a graph that is built for export.
        CheckpointError: in a graph that is built for export, the table differs from the checkpoint, or the table file
            cannot be written.
    """
    ids = only_feature(hashtable, ids)
    if isinstance(ids, FeatureSpec) == modify_graph:
        raise TableLookupError("Table {!r} is looked up with {}".format(
            hashtable.table_name, "a FeatureSpec and modify_graph=True, which requires a tensor of ids. Leave "
            "modify_graph out, or pass a tensor" if modify_graph else
            "a tensor of ids but without modify_graph=True. Pass modify_graph=True, or a FeatureSpec as ids"))
    return look_up(LookupRequest(
        hashtable, ids, batch, TRAIN if is_train else EVAL, is_grad=is_grad, default_value=serving_default_value,
        send_count=send_count, thresholds=checked_thresholds(access_and_evict_config), name=name))


def look_up(request: LookupRequest) -> tf.Tensor:
    """Look up the rows of a request. In a graph that is built for export, the rows are read from the checkpoint.

    The function raises the same errors as ``sparse_lookup``.
    """
    configuration = Process.current().configuration
    table = request.table
    ids = request.ids
    state = GraphState.of(tf.compat.v1.get_default_graph())
    if isinstance(ids, FeatureSpec):
        _require_feature_of(table, ids)
    if state.served is None:
        _refuse_inputs_of_keras(table, tensors_of(request.batch if isinstance(ids, FeatureSpec) else ids.given))
    if configuration.use_static:
        _require_send_count(table, request.send_count, configuration.rank_size)
    elif isinstance(ids, FeatureSpec):
        _require_in_batch(ids, request.batch)
    request = dataclasses.replace(
        request.in_graph(), is_grad=request.is_grad and table.trainable,
        send_count=request.send_count if configuration.use_static else None)
    if not isinstance(ids, FeatureSpec) and state.served is None:
        refuse_ids_of_loops(table, ids.values)
    if state.tables.get(table.table_name) is not table:
        raise TableLookupError("Table {!r} was created in another graph or before asc.init(), so it cannot be looked "
                               "up in this graph. Create the table in the graph of the lookup".format(table.table_name))
    if state.served is not None:
        return state.served.look_up(request)
    table.is_differentiated |= request.trains
    if request.trains and internals.is_in_control_flow(tf.compat.v1.get_default_graph()):
        state.in_branches.add(table.table_name)
    newest = internals.newest_order(table.variable.graph)
    rows = _look_up_feature(state, request, ids) if isinstance(ids, FeatureSpec) else look_up_tensor(
        state, request, ids)
    before = _waited_for(rows, newest)
    if before:
        state.waiting.append((table.table_name, before))
    return rows


def _waited_for(rows: tf.Tensor, newest: int) -> List[tf.Operation]:
    """Return the control inputs of the ops that a lookup has created. These ops have numbers above ``newest``."""
    found: List[tf.Operation] = []
    seen: Set[tf.Operation] = set()
    waiting = [rows.op]
    while waiting:  # only through the created ops: a search of the whole graph for each lookup would take long
        op = waiting.pop()
        if op not in seen and internals.order_of(op) > newest:
            seen.add(op)
            found.extend(before for before in op.control_inputs if internals.order_of(before) <= newest)
            waiting.extend(tensor.op for tensor in op.inputs)
    return found


def _look_up_feature(state: GraphState, request: LookupRequest, spec: FeatureSpec) -> tf.Tensor:
    table = request.table
    lookup = _table_lookup(state, request, spec)
    name = request.name or "sparse_lookup_{}".format(lookup.calls + 1)
    state.thresholds.note(table.table_name, request.thresholds, "sparse_lookup {!r}".format(name))
    state.require_timestamp(lookup.stream, table.table_name)
    require_fewer(table, request.channel, lookup.calls)
    lookup.count_call(request.send_count)
    given = _ids_in(request.batch, spec)
    if given is not None:
        _require_submitted_ids(state, lookup.stream, spec, given)
    rows = lookup.embedding(spec, request.default_value, request.batch, values_alone=request.values_alone)
    note_ids(state, table.table_name, [*([] if given is None else tensors_of(given.given)), lookup.ticket])
    if request.evaluates_unseen:
        ids = require_ids(request.batch, spec, TableLookupError(_NO_BATCH.format(spec.label)))
        rows = completed(state, lookup, spec, rows, ids, request.unseen)
    if not request.trains:
        return tf.stop_gradient(rows, name=name)
    lookup.note_gradient(spec)
    return tf.identity(rows, name=name)


def only_feature(table: Table, ids: Any) -> Union[FeatureSpec, Ids]:
    """Return the FeatureSpec or ids that were passed, possibly as the only element of a list.

    Raises:
        ValueError: the list does not have exactly one element.
    """
    if not isinstance(ids, (list, tuple)):
        return ids if isinstance(ids, FeatureSpec) else Ids.of(ids)
    if len(ids) != 1 or not isinstance(ids[0], (FeatureSpec, *_TENSORS)):
        raise TableLookupError("Table {!r} is looked up with a list of {} ids, expected a list of one FeatureSpec or "
                               "tensor. Call asc.sparse_lookup() for each feature".format(table.table_name, len(ids)))
    return only_feature(table, ids[0])


def _require_feature_of(table: Table, spec: FeatureSpec) -> None:
    if spec.table_name != table.table_name:
        raise TableLookupError("FeatureSpec {!r} belongs to table {!r}, but is looked up in table {!r}. Pass "
                               "table_name={!r} to asc.FeatureSpec, or look it up in table {!r}".format(
                                   spec.label, spec.table_name, table.table_name, table.table_name, spec.table_name))


def _require_send_count(table: Table, send_count: Optional[int], ranks: int) -> None:
    argument = "max_keys" if Process.current().is_plain else "send_count"
    if send_count is None:
        raise TableLookupError("Table {!r} is looked up without {}, which is required by static shapes "
                               "(asc.init(use_dynamic=False)). Pass the maximum number of distinct keys of a batch"
                               .format(table.table_name, argument))
    rows = min(table.shape.device_rows, table.shape.home_rows)
    if table.shape.home_rows > 0 and send_count * ranks > rows:
        each, share = (" from each of {} ranks".format(ranks), ", of each rank") if ranks > 1 else ("", "")
        raise TableLookupError("Table {!r} is looked up with {} {}{}, which exceeds device_vocabulary_size {} or "
                               "host_vocabulary_size {}{}. With host rows, both must hold all keys of a batch. "
                               "Increase the sizes, or decrease {}".format(
                                   table.table_name, argument, send_count, each, table.shape.device_rows,
                                   table.shape.home_rows, share, argument))


def _ids_in(batch: Any, spec: FeatureSpec) -> Optional[Ids]:
    """Return the ids of a feature in a batch, or None if the batch contains no ids of the feature."""
    try:
        return None if batch is None else find_ids(batch, spec)
    except FeatureError:
        return None


def _require_submitted_ids(state: GraphState, stream: Stream, spec: FeatureSpec, ids: Ids) -> None:
    """Raise ``FeatureError`` if a batch has other ids than the insert function submitted.

    In a program with Rec SDK's API, log a warning instead.
    """
    change = change_after_submission(state.datasets, stream, spec, ids)
    if change is None:
        return
    text = ("FeatureSpec {!r}: the batch= of a lookup has other ids than its insert function submitted, because {}. A "
            "lookup returns the rows of the submitted ids. Compute the ids before the insert function, or look up the "
            "tensor without a FeatureSpec".format(spec.label, change))
    if Process.current().is_plain:
        raise FeatureError(text)
    if Process.current().is_first("ids changed after their submission"):
        _log.warning(text)


def _require_in_batch(spec: FeatureSpec, batch: Any) -> None:
    if batch is None:
        raise TableLookupError("FeatureSpec {!r} is looked up without batch=, which is required by dynamic shapes. "
                               "Pass what iterator.get_next() returned as batch".format(spec.label))
    if isinstance(batch, Mapping) and not any(key in batch for key in spec.index_keys):
        raise FeatureError(missing(batch, spec))


def _table_lookup(state: GraphState, request: LookupRequest, spec: FeatureSpec) -> TableLookup:
    table = request.table
    channel = request.channel
    if state.started and channel == TRAIN:
        raise CallOrderError("Table {!r} cannot be looked up for training, because the pipeline has already started. "
                             "Move the lookup before asc.start()".format(table.table_name))
    stream = state.stream_of(spec, channel)
    key = (table.table_name, channel)
    ticket = _ticket(state, stream, spec, request.batch)
    if key not in state.lookups:
        if state.started:
            raise CallOrderError("Table {!r} cannot be looked up for evaluation for the first time, because the "
                                 "pipeline has already started. Move the first evaluation lookup before asc.start()"
                                 .format(table.table_name))
        state.lookups[key] = new_lookup(table, channel, stream, ticket)
    lookup = state.lookups[key]
    if lookup.stream is not stream or lookup.ticket is not ticket:
        raise TableLookupError("The {} lookups of table {!r} use the batches of several get_next() calls. Call "
                               "iterator.get_next() once, and use its batch in all of these lookups".format(
                                   CHANNEL_NAMES[channel], table.table_name))
    return lookup


def _ticket(state: GraphState, stream: Stream, spec: FeatureSpec, batch: Any) -> tf.Tensor:
    """Return the ticket of a batch. The ticket is an output of the ``get_next`` op that returned the batch."""
    sources = state.datasets.get_nexts() if batch is None else _get_nexts_of(tensors_of(batch))
    tickets = [ticket for ticket in (state.datasets.ticket_of(stream.number, source) for source in sources)
               if ticket is not None]
    if len(tickets) == 1:
        return tickets[0]
    if batch is None:
        raise TableLookupError("FeatureSpec {!r} is looked up without batch=, but {} get_next() calls return batches "
                               "of its insert function. Pass what iterator.get_next() returned as batch".format(
                                   spec.label, len(tickets) or "no"))
    raise TableLookupError("The batch= of FeatureSpec {!r} comes from {} get_next() calls of a dataset that was "
                           "mapped with its insert function, expected one. Pass what one iterator.get_next() returned, "
                           "and create the iterator's initializer before asc.sparse_lookup()".format(
                               spec.label, len(tickets) or "no"))


@tf.autograph.experimental.do_not_convert  # TensorFlow 2.15's AutoGraph calls the argument of `map` wrongly
def _refuse_inputs_of_keras(table: Table, given: List[Any]) -> None:
    """Raise ``TableLookupError`` if ids are computed from placeholders that Keras feeds.

    Such ids are not known before the step.
    """
    tensors = tensors_of(given)
    placeholders = _sources_of(tensors, ("Placeholder",))
    if placeholders and (internals.is_in_layer_of_keras() or any(map(internals.is_of_keras, tensors))):
        raise TableLookupError(
            "The ids of table {!r} come from {!r}, an input of a Keras model. fit, evaluate and predict of Keras are "
            "not supported: ids must come from the iterator of a tf.data dataset, so that they are known before their "
            "step. Call layers as functions of what iterator.get_next() returned, and train in a session or an "
            "Estimator (docs/tutorial/first_program.md, Keras)".format(table.table_name, placeholders[0].name))


def _get_nexts_of(tensors: List[tf.Tensor]) -> List[tf.Operation]:
    return _sources_of(tensors, GET_NEXT)


def _sources_of(tensors: List[tf.Tensor], types: Collection[str]) -> List[tf.Operation]:
    """Return the ops of the given types from which the tensors are computed."""
    return [op for op in ops_feeding(tensors, types) if op.type in types]
