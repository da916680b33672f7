"""Hooks that modify graphs in monitored sessions and Estimators, or that move additional ops into the dataset."""
import csv
import os
from typing import Any, Iterator, List, Sequence, Tuple

import tensorflow as tf

from ascpipe.errors import CallOrderError, GraphModificationError
from ascpipe.layout.words import TRAIN
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.tensor_requests import TensorLookup
from ascpipe.tf.modify.id_graph import id_graph
from ascpipe.tf.modify.modifier import INITIALIZERS, modify_graph_and_start_emb_cache
from ascpipe.tf.modify.open_lookups import close_open_lookups
from ascpipe.tf.modify.watched_graphs import waits
from ascpipe.tf.program.tensor_lookups import merge
from ascpipe.tf.starting.start_pipeline import start_asc_pipeline
from ascpipe.tf.validation import ListOf, Text, boolean, checked

#: Ops whose type or name contains one of these strings are never moved.
_REFUSED_TYPES = ("Dataset", "Summary")
_REFUSED_NAMES = ("save", "report_", "loss")


class GraphModifierHook(tf.estimator.SessionRunHook):
    """Hook for ``train``, ``evaluate`` and ``predict`` that modifies the graph and starts the pipeline.

    Args:
        dump_graph: the same as in ``modify_graph_and_start_emb_cache``.
        modify_graph: False to start the pipeline without graph modification, because lookups use FeatureSpecs.

    Raises:
        ValueError: an argument has the wrong type. ``begin`` raises the errors of ``modify_graph_and_start_emb_cache``.
    """

    @checked(dump_graph=boolean(), modify_graph=boolean())
    def __init__(self, dump_graph: bool = False, modify_graph: bool = True) -> None:
        self._dump = dump_graph
        self._modify = modify_graph

    def begin(self) -> None:
        """Modify the graph, and mark the graph as complete. The pipeline starts when the graph is finalized."""
        if self._modify:
            modify_graph_and_start_emb_cache(dump_graph=self._dump)
        else:
            start_asc_pipeline()

    def after_create_session(self, session: tf.compat.v1.Session, coord: Any) -> None:
        """Initialize the iterators, because in some programs the Estimator does not initialize them."""
        initializers = session.graph.get_collection(INITIALIZERS)
        if initializers:
            session.run(initializers)


class _Slicer(tf.estimator.SessionRunHook):
    """Base class of hooks that select ops to move, and write a report to a folder of the working directory."""

    _folder = ""

    def begin(self) -> None:
        """Select ops before ``GraphModifierHook`` moves them."""
        graph = tf.compat.v1.get_default_graph()
        requests = GraphState.of(graph).requests
        if requests.done:
            raise CallOrderError("{}: the graph is already modified. List this hook before "
                                 "asc.GraphModifierHook".format(type(self).__name__))
        moved = list(self._slice(graph, requests.lookups))
        tf.io.write_graph(graph.as_graph_def(), self._folder, "unsliced_graph.pbtxt")
        with open(os.path.join(self._folder, "slicing_summary.csv"), "w", newline="") as report:
            lines = csv.writer(report)
            lines.writerow(["lookup", "table", "tensor", "op", "type"])
            lines.writerows([lookup.name, lookup.table.table_name, tensor.name, tensor.op.name, tensor.op.type]
                            for lookup, tensor in moved)

    def after_create_session(self, session: tf.compat.v1.Session, coord: Any) -> None:
        """Write the modified graph to the folder of the report."""
        tf.io.write_graph(session.graph.as_graph_def(), self._folder, "sliced_graph.pbtxt")

    def _slice(self, graph: tf.Graph, lookups: Sequence[TensorLookup]) -> Iterator[Tuple[TensorLookup, tf.Tensor]]:
        raise NotImplementedError


class LookupSubgraphSlicerHook(_Slicer):
    """Hook that moves ops of the given types completely into the dataset. Only ops that compute ids are moved.

    Ops that compute ids are always copied into the dataset. With this hook, all consumers of the selected ops read the
    outputs from the batch, so the outputs are computed only once. Names of moved ops begin with ``sliced/``. List this
    hook before ``GraphModifierHook``. ``begin`` writes a report to ``./lookup_slicing``.

    Args:
        op_types: types of ops, a non-empty list.

    Raises:
        ValueError: an argument has the wrong type. ``begin`` raises this error if an op cannot be moved. Such an op has
            control inputs, or returns a resource or variant. An op also cannot be moved if its type or name shows that
            it belongs to a dataset, summary, loss or Saver.
    """

    _folder = os.path.join(".", "lookup_slicing")

    @checked(op_types=ListOf(Text(1, 255)))
    def __init__(self, op_types: List[str]) -> None:
        self._types = frozenset(op_types)

    def _slice(self, graph: tf.Graph, lookups: Sequence[TensorLookup]) -> Iterator[Tuple[TensorLookup, tf.Tensor]]:
        sliced = GraphState.of(graph).requests.sliced
        for lookup in lookups:
            for op in id_graph([lookup.ids]).ops:
                if op.type not in self._types:
                    continue
                _require_sliceable(op)
                for tensor in op.outputs:
                    if not any(tensor is other for other in sliced):
                        sliced.append(tensor)
                    yield lookup, tensor


class OrphanLookupKeySlicerHook(_Slicer):
    """Hook for ids that are not computed from an iterator, for example constants.

    The hook selects an iterator, whose dataset then submits the ids with each batch. The hook uses the first iterator
    that exists in this list:

    - the iterator of the table's other lookups in the channel
    - the iterator of other lookups in the channel
    - in training: the first iterator of the graph
    - in evaluation: the last iterator of the graph

    List this hook before ``GraphModifierHook``. ``begin`` writes a report to ``./orphan_slicing``.
    """

    _folder = os.path.join(".", "orphan_slicing")

    def _slice(self, graph: tf.Graph, lookups: Sequence[TensorLookup]) -> Iterator[Tuple[TensorLookup, tf.Tensor]]:
        GraphState.of(graph).requests.moves_ids_without_iterator = True
        for lookup in lookups:
            if not id_graph([lookup.ids]).get_nexts:
                yield lookup, lookup.ids


class ACGPushOpsToDatasetHook(OrphanLookupKeySlicerHook):
    """Alias of ``OrphanLookupKeySlicerHook`` in older versions of Rec SDK.

    Args:
        dump_graph: has no effect, because the report in ``./orphan_slicing`` contains the graph before and after the
            modification.
    """

    @checked(dump_graph=boolean())
    def __init__(self, dump_graph: bool = False) -> None:
        pass


def merge_lookups(loss: Any) -> None:
    """Merge the training lookups of each table of the default graph, if they are not merged yet.

    Args:
        loss: the argument of ``compute_gradients``. Lookups of feature columns are training lookups if this loss
            depends on them.
    """
    graph = tf.compat.v1.get_default_graph()
    if waits(graph):
        state = GraphState.of(graph)
        close_open_lookups(state, loss)
        merge(state, TRAIN)


def _require_sliceable(op: tf.Operation) -> None:
    why = None
    if op.control_inputs:
        why = "has control inputs: {}".format(", ".join(repr(other.name) for other in op.control_inputs))
    elif any(tensor.dtype in (tf.resource, tf.variant) for tensor in op.outputs):
        why = "returns a resource or variant"
    elif any(part in op.type for part in _REFUSED_TYPES) or any(part in op.name for part in _REFUSED_NAMES):
        why = "is part of a dataset, a summary, a loss, or a Saver, by its type or name"
    if why is not None:
        raise GraphModificationError("LookupSubgraphSlicerHook: op {!r} ({}) cannot be moved: it {}".format(
                                         op.name, op.type, why))
