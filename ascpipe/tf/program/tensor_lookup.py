"""``sparse_lookup(modify_graph=True)``: notes a lookup of a tensor, and returns a stand-in for its rows."""
from typing import Optional

import tensorflow as tf

from ascpipe.layout.words import TRAIN
from ascpipe.tf.graph.batch_structure import Ids, values_of
from ascpipe.tf.graph.default_rows import dense_rows
from ascpipe.tf.graph.feature_spec import FeatureSpec
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.ids import are_ids, as_keys
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.streams import CHANNEL_NAMES
from ascpipe.tf.graph.tensor_requests import TensorLookup
from ascpipe.tf.program.merging import stand_in
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.shapes import Thresholds


def look_up_tensor(state: GraphState, table: Table, given: Ids, *, channel: int, name: Optional[str],
                   default_row: Optional[tf.Tensor], is_grad: bool, send_count: Optional[int],
                   thresholds: Thresholds, max_lookups: int) -> tf.Tensor:
    """The rows of a tensor of ids, as ``sparse_lookup`` returns them; of sparse ids in their dense form.

    Raises:
        ValueError: ids that are no integers, or with static shapes a scalar; ids of another graph; a table that is
            looked up with a FeatureSpec in this channel, too; thresholds that differ within the table.
        RuntimeError: the pipeline was started; the lookups of the table were merged already; too many of them.
    """
    ids = values_of(given)
    if not are_ids(ids.dtype):
        raise ValueError("table {!r}: ids {!r} have dtype {}, ids are integers".format(
            table.table_name, ids.name, ids.dtype.name))
    if ids.graph is not table.variable.graph:
        raise ValueError("table {!r}: ids {!r} are in another graph than the table".format(table.table_name, ids.name))
    _require_open(state, table, channel, max_lookups)
    Process.current().looks_up_tensors = True
    others = state.requests.of(table.table_name, channel)
    name = name or "sparse_lookup_{}".format(len(others) + 1)
    state.thresholds.note(table.table_name, thresholds, "sparse_lookup {!r}".format(name))
    spec = _spec_of(table, ids, name)
    rows = stand_in(table, as_keys(ids), state.requests, trains=is_grad and channel == TRAIN)
    state.requests.lookups.append(TensorLookup(
        name, table, channel, ids, spec, default_row, is_grad, send_count, rows.op))
    if ids is not given:
        rows = dense_rows(rows, given, default_row)
    if not is_grad:
        return tf.stop_gradient(rows, name=name)
    return tf.identity(rows, name=name)


def _require_open(state: GraphState, table: Table, channel: int, max_lookups: int) -> None:
    key = (table.table_name, channel)
    words = (table.table_name, CHANNEL_NAMES[channel])
    if state.started or state.requests.done:
        raise RuntimeError("table {!r}: the pipeline was started, {} lookups with modify_graph=True come before it"
                           .format(*words))
    if key in state.requests.merged:
        raise RuntimeError("table {!r}: its {} lookups were made one op already, by compute_gradients(), minimize() or "
                           "do_merge_lookup(); look tables up before that".format(*words))
    if key in state.lookups:
        raise ValueError("table {!r}: its {} lookups have FeatureSpecs; a table is looked up with FeatureSpecs or with "
                         "tensors (modify_graph=True), not with both".format(*words))
    if len(state.requests.of(*key)) >= max_lookups:
        raise RuntimeError("table {!r} is looked up more than {} times in the {} channel".format(
            table.table_name, max_lookups, CHANNEL_NAMES[channel]))


def _spec_of(table: Table, ids: tf.Tensor, name: str) -> FeatureSpec:
    spec = FeatureSpec(name[:255], table_name=table.table_name)
    if Process.current().configuration.use_static:
        spec.set_static_shape(ids)
    return spec
