"""``sparse_lookup(modify_graph=True)``, which creates provisional ops that are later merged into one op per table.

The gradient of a table contains, for each row, the sum over all lookups of the table. The number of lookups is unknown
until the program requests gradients. Until the merge, a provisional op has the shape of the rows. Running or
differentiating a provisional op raises an error.
"""
from typing import Any, Collection, List, Tuple

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from ascpipe.errors import CallOrderError, ColumnError, MissingFromGraphError, TableLookupError
from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph.expansion import ExpansionLookup, collect, new_lookup
from ascpipe.tf.graph.features import CHANNEL_NAMES, Feature, FeatureSpec, Stream
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.ids import Ids, are_ids, as_keys
from ascpipe.tf.graph.lookup_request import LookupRequest
from ascpipe.tf.graph.rewiring import repoint
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.stand_ins import StandIns
from ascpipe.tf.graph.table_lookup import TableLookup, require_fewer
from ascpipe.tf.graph.tensor_requests import Requests, TensorLookup
from ascpipe.tf.graph.unseen_rows import Unseen
from ascpipe.tf.running import native
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import boolean

_UNMERGED = "AscUnmergedLookup"


class _LookupsMade:
    """Record of whether a graph of this process has lookups of id tensors."""

    lookups: bool = False

    @classmethod
    def of(cls, process: Process) -> "_LookupsMade":
        return internals.stored_on(process, "tensor_lookups", cls)


def look_up_tensor(state: GraphState, request: LookupRequest, given: Ids) -> tf.Tensor:
    """Return the rows of a tensor of ids, as ``sparse_lookup`` does. Sparse ids are converted to their dense form.

    Args:
        state: state of the default graph.
        request: lookup that the program requested.
        given: the ids.

    Raises:
        ValueError: the ids are not integers, belong to another graph, or are a scalar with static shapes. The table has
            FeatureSpec lookups in this channel, or lookups with different thresholds.
        RuntimeError: the pipeline has started, the lookups of the table are merged, or the table already has 128
            lookups.
        ColumnError: the lookup belongs to a column, and the pipeline has started.
    """
    table = request.table
    ids = given.values
    trains = request.trains  # also True for an open lookup, which is closed or refused below
    if not are_ids(ids.dtype):
        raise TableLookupError("The ids {!r} of table {!r} have dtype {}, but ids must be integers{}".format(
            ids.name, table.table_name, ids.dtype.name, ". Pass tf.strings.to_hash_bucket_fast(ids, 2 ** 63 - 1)"
            if ids.dtype == tf.string else ""))
    if ids.graph is not table.variable.graph:
        raise TableLookupError("The ids {!r} are not in the graph of table {!r}. Create the table in the graph of its "
                               "lookups".format(ids.name, table.table_name))
    if request.is_open and (table.table_name, TRAIN) in state.requests.merged:
        request = request.closed(EVAL)  # no more training lookups can be added to the table
    _require_open(state, table, request.channel)
    _LookupsMade.of(Process.current()).lookups = True
    others = state.requests.of(table.table_name, request.channel)
    name = request.name or "sparse_lookup_{}".format(len(others) + 1)
    state.thresholds.note(table.table_name, request.thresholds, "sparse_lookup {!r}".format(name))
    spec = _spec_of(table, ids, name)
    rows = _stand_in(table, as_keys(ids), state.requests, trains=request.trains)
    state.requests.lookups.append(TensorLookup(request, name, ids, spec, rows.op))
    if not given.is_dense:
        rows = given.dense_rows(rows, request.default_value)
    return tf.identity(rows, name=name) if trains else tf.stop_gradient(rows, name=name)


def refuse_ids_of_loops(table: Table, ids: tf.Tensor) -> None:
    """Raise ``TableLookupError`` if the ids are computed in the body of a loop or function, or in a branch.

    Such ids are not known before the step. In a branch that is not taken, they have no value.
    """
    is_in_function = ids.graph is not table.variable.graph and internals.outermost(ids.graph) is table.variable.graph
    if is_in_function or internals.is_in_loop(ids.op):
        raise TableLookupError(
            "The ids {!r} of table {!r} are computed in the body of {}, so they are not known before their step. "
            "Nothing was added to the graph. Look up all ids outside the body, and use their rows in the body: rows = "
            "asc.sparse_lookup(table, ids), then tf.map_fn(function, rows)".format(
                ids.name, table.table_name, "a function" if is_in_function else
                "a loop (tf.while_loop, tf.map_fn, tf.scan or an RNN)"))
    if control_flow_util.GetContainingCondContext(control_flow_util.GetOutputContext(ids.op)) is not None:
        raise TableLookupError(
            "The ids {!r} of table {!r} are computed in a branch of tf.cond or tf.case, so they have no value in a "
            "batch that takes another branch. Nothing was added to the graph. Compute the ids before the conditional, "
            "and look them up before it or in the branch. If the branches differ only in the ids, pass the result of "
            "the conditional: asc.sparse_lookup(table, tf.cond(condition, lambda: ids, lambda: others))".format(
                ids.name, table.table_name))


def do_merge_lookup(is_train: bool = True) -> None:
    """For each table in a channel of the default graph, merge the lookups with ``modify_graph=True``.

    Call this function before ``tf.gradients``. ``compute_gradients`` and ``minimize`` of an optimizer call it for
    training. ``modify_graph_and_start_emb_cache`` calls it for evaluation. Lookups of FeatureSpecs and merged lookups
    do not change. A merged table cannot be looked up again in this channel.

    Args:
        is_train: True for the training channel, or False for the evaluation channel.

    Raises:
        ValueError: an argument has the wrong type.
        RuntimeError: the program uses ``modify_graph=True``, but the default graph has no lookup in this channel.
    """
    boolean().check("is_train", is_train)
    if not Process.is_initialised():
        return
    state = GraphState.of(tf.compat.v1.get_default_graph())
    channel = TRAIN if is_train else EVAL
    if not _LookupsMade.of(Process.current()).lookups or state.served is not None:
        return
    if not any(lookup.channel == channel for lookup in state.requests.lookups):
        if state.lookups and not state.requests.lookups:
            return  # this graph is in FeatureSpec mode
        raise MissingFromGraphError("do_merge_lookup(is_train={}) was called in a graph without {} lookups. Call "
                                    "sparse_lookup(..., is_train={}, modify_graph=True) before it".format(
                                        is_train, CHANNEL_NAMES[channel], is_train))
    for lookup in state.requests.lookups:
        if lookup.is_open and is_train:
            lookup.close(TRAIN)
    merge(state, channel)


def merge(state: GraphState, channel: int) -> None:
    """Build one op for each table that was looked up in a channel, and connect the lookups to this op.

    Open lookups and their tables do not change.
    """
    requests = state.requests
    names = {lookup.table.table_name: lookup.table for lookup in requests.unmerged(channel) if not lookup.is_open}
    for name, table in names.items():
        lookups = requests.of(name, channel)
        merged = _table_lookup(table, channel, lookups)
        if isinstance(merged, ExpansionLookup) and name in requests.local:
            merged.replace(*requests.local[name])
        for lookup in lookups:
            merged.count_call(lookup.request.send_count)
            found = merged.embedding(lookup.spec, lookup.request.default_value, None)
            if lookup.request.evaluates_unseen:
                found = completed(state, merged, lookup.spec, found, Ids.of(lookup.ids), lookup.request.unseen)
            internals.rewire(lookup.rows, 0, found)
            if lookup.request.is_grad:
                merged.note_gradient(lookup.spec)
        state.lookups[name, channel] = merged
        requests.merged.add((name, channel))


def completed(state: GraphState, lookup: TableLookup, spec: FeatureSpec, rows: tf.Tensor, ids: Ids,
              unseen: Unseen) -> tf.Tensor:
    """Return a copy of ``rows`` that contains the initial row for each key without a row.

    For ``INITIAL_UNLESS_ADMITTING``, initial rows or zeros are selected when the pipeline starts.
    """
    found = lookup.completed(spec, rows, ids)
    if unseen is Unseen.INITIAL_UNLESS_ADMITTING:
        _undecided(state).append((lookup.table.table_name, found, rows))
    return found


def decide_unseen(state: GraphState, admitting: Collection[str]) -> None:
    """Select initial rows or zeros for lookups with ``INITIAL_UNLESS_ADMITTING``.

    Tables with an access threshold get zeros.

    Args:
        state: state of the graph.
        admitting: names of tables with an access threshold in this graph or an earlier graph.
    """
    for table_name, found, rows in _undecided(state):
        if table_name in admitting:
            repoint(found, rows)
    _undecided(state).clear()


def _undecided(state: GraphState) -> List[Tuple[str, tf.Tensor, tf.Tensor]]:
    """Return the lookups that wait for ``decide_unseen``.

    Each item is (table name, result with initial rows, result with zeros).
    """
    return internals.stored_on(state, "undecided", list)


def _require_open(state: GraphState, table: Table, channel: int) -> None:
    key = (table.table_name, channel)
    words = (table.table_name, CHANNEL_NAMES[channel])
    if state.started or state.requests.done:
        for variable, stand_in in StandIns.of(state).items():
            if stand_in.table is table:
                raise ColumnError(variable, "another layer uses the column after the pipeline of this graph has "
                                  "started (by asc.start() or the first run of a session). Build all towers, including "
                                  "towers for evaluation, before the start")
        raise CallOrderError("Table {!r} cannot be looked up for {}, because the pipeline has already started. Move "
                             "the lookup before asc.start()".format(*words))
    if key in state.requests.merged:
        raise CallOrderError("Table {!r} cannot be looked up for {}, because {} has already merged its lookups into "
                             "one op. Move the lookup before that call".format(*words, _merges()))
    if key in state.lookups:
        raise TableLookupError("Table {!r} cannot be looked up with a tensor for {}, because it is also looked up with "
                               "FeatureSpecs. Use either FeatureSpecs or tensors for all {} lookups of a table".format(
                                   *words, words[1]))
    require_fewer(table, channel, len(state.requests.of(*key)))


def _merges() -> str:
    """Return the names of the calls that merge lookups, for error messages."""
    return "compute_gradients() or minimize()" if _is_plain() else (
        "compute_gradients(), minimize() or do_merge_lookup()")


def _is_plain() -> bool:
    return Process.is_initialised() and Process.current().is_plain


def _spec_of(table: Table, ids: tf.Tensor, name: str) -> FeatureSpec:
    spec = FeatureSpec(name[:255], table_name=table.table_name)
    if Process.current().configuration.use_static:
        spec.set_static_shape(ids)
    return spec


def _stand_in(table: Table, ids: tf.Tensor, requests: Requests, *, trains: bool) -> tf.Tensor:
    """Return an Identity tensor of shape [*ids, dim]. ``merge`` later sets the input of the Identity op to the rows.

    If the lookup trains an expansion table, this function adds provisional local rows and handles to the collections,
    because programs may read the collections before they request gradients.
    """
    graph = table.variable.graph
    with table.building("unmodified"):
        slots, _ = native.ops().asc_provisional_plan(
            ticket=tf.zeros([], tf.int64), table=table.shape.number, stream=0, k=1)
        source = internals.reference_of(table.variable)
        if table.shape.expands and trains:
            if table.table_name not in requests.local:
                requests.local[table.table_name] = (
                    tf.identity(tf.gather(source, slots)), tf.identity(tf.cast(slots, tf.int64)))
                collect(*requests.local[table.table_name])
            source = requests.local[table.table_name][0]
        with graph.gradient_override_map({"Identity": _UNMERGED}):
            rows = tf.identity(source)
        with tf.control_dependencies([slots]):
            return tf.identity(tf.gather(rows, ids))


@tf.RegisterGradient(_UNMERGED)
def _gradient_of_stand_in(op: tf.Operation, _gradient: Any) -> None:
    what = "The gradient of rows {!r} was requested before the lookups of their table were merged. ".format(
        op.inputs[0].op.name)
    if _is_plain():
        raise CallOrderError(what + "Instead of tf.gradients(), use compute_gradients(loss, var_list) of an optimizer, "
                             "which merges the lookups. asc.table_variables() returns the tables for var_list")
    raise CallOrderError(what + "Call do_merge_lookup() (mx_rec.graph.merge_lookup) before tf.gradients(), or use "
                         "compute_gradients() or minimize() of an optimizer, which merge the lookups")


def _table_lookup(table: Table, channel: int, lookups: List[TensorLookup]) -> TableLookup:
    """Create the merged lookup of a table. The stream of this lookup is provisional, because the final stream is not
    known yet.
    """
    shapes = {lookup.spec: lookup.ids.shape for lookup in lookups}
    # The features must have the same order as in AscSubmit.
    features = [Feature(spec, shape) for spec, shape in sorted(shapes.items(), key=lambda pair: pair[0].name)]
    with table.building("ticket"):
        ticket = tf.zeros([], tf.int64)
    return new_lookup(table, channel, Stream(0, channel, features), ticket)
