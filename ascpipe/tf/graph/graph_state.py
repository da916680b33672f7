"""The state of one graph: its tables, streams and lookups.

TensorFlow programs build several graphs in a process (an Estimator one per mode), so nothing of this is kept per
process: ``GraphState.of`` has one for each graph.
"""
import abc
import dataclasses
from typing import Any, Dict, List, Optional, Tuple

import tensorflow as tf

from ascpipe.layout.words import TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph.dataset_graph import DatasetGraph
from ascpipe.tf.graph.features import CHANNEL_NAMES, Feature, FeatureSpec, Stream, TableThresholds
from ascpipe.tf.graph.lookup_request import LookupRequest
from ascpipe.tf.graph.optimizer_slots import OptimizerSlot
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.table_lookup import TableLookup
from ascpipe.tf.graph.tensor_requests import Requests
from ascpipe.tf.running.process import Process

_STATE = "state"

LIVE = 0  #: in the place of an instance's number: the live tables

#: What to do where a cell of a notebook runs again: the end of a sentence.
ANEW = "; to build the model again, as in a notebook, call ascpipe.tf.reset(), or build it in ascpipe.tf.pipeline()"


@dataclasses.dataclass(frozen=True)
class Attachment:
    """Ops that attach the variables of a session to the tables.

    Attributes:
        op: lets the variables of the session that runs it share the memory of the tables.
        instance: int64 scalar to feed to it: the read-only instance whose rows its evaluations then read, or ``LIVE``.
        is_live: bool scalar: whether the session reads no such instance.
    """

    op: tf.Operation
    instance: tf.Tensor
    is_live: tf.Tensor


class Served(abc.ABC):
    """Tables that a graph looks up in files, as it is made to be exported."""

    @abc.abstractmethod
    def look_up(self, request: LookupRequest) -> tf.Tensor:
        """The rows of ids, as ``look_up`` returns them."""

    @abc.abstractmethod
    def dense_path(self, prefix: str) -> str:
        """The prefix from which TensorFlow restores its part of the checkpoint ``prefix``."""


class GraphState:
    """Tables, streams and lookups of one graph. Made by ``GraphState.of``.

    Args:
        graph: the graph.
        process: gives the numbers of its streams.

    Attributes:
        datasets: where tickets come out of its iterators.
        tables: by name, in order of creation.
        lookups: per (table name, channel), what was looked up.
        requests: lookups of tensors, which need graph modification.
        thresholds: admission and eviction of its tables.
        slots: by name of the table, what optimizers keep beside its rows; known once the pipeline is started.
        attachment: lets the variables of a session share the memory of the tables; made when the pipeline is started.
        marked: whether ``start_asc_pipeline`` was called; there are no further tables then.
        started: whether the pipeline has started, and this graph is complete.
        served: of a graph that is made to be exported, the tables that it looks up in files; else None.
        mode: the mode in which an Estimator calls its model function for this graph; None: it is of no Estimator.
    """

    def __init__(self, graph: tf.Graph, process: Process) -> None:
        self.datasets = DatasetGraph(graph)
        self.tables: Dict[str, Table] = {}
        self.lookups: Dict[Tuple[str, int], TableLookup] = {}
        self.requests = Requests()
        self.thresholds = TableThresholds()
        self.slots: Dict[str, List[OptimizerSlot]] = {}
        self.attachment: Optional[Attachment] = None
        self.marked = False
        self.started = False
        self.served: Optional[Served] = None
        self.mode: Optional[str] = None
        self._stream_numbers = process.stream_numbers
        self._streams: Dict[Any, Stream] = {}

    @staticmethod
    def of(graph: tf.Graph) -> "GraphState":
        """The state of a graph; empty the first time. Raises ``EnvironmentError`` before ``init``."""
        process = Process.current()
        # On the graph itself, not in a dictionary here: the state refers to the graph, which would never go.
        kept: Dict[Process, GraphState] = internals.kept_on(graph, _STATE, dict)
        if process not in kept:
            kept.clear()
            kept[process] = GraphState(graph, process)
        return kept[process]

    @staticmethod
    def known(graph: tf.Graph) -> Optional["GraphState"]:
        """The state of a graph; None before ``init``."""
        return GraphState.of(graph) if Process.is_initialised() else None

    @property
    def trains(self) -> bool:
        """Whether there are training lookups; else the graph only reads its tables."""
        return any(channel == TRAIN for _, channel in self.lookups)

    def attach(self, session: tf.compat.v1.Session, instance: int = LIVE) -> None:
        """Let the variables of a session share the memory of the tables.

        Args:
            instance: the number of ``instances.instance_of``; evaluations read its rows from now on.
        """
        attachment = self._attachment()
        session.run(attachment.op, {attachment.instance: instance})

    def is_live(self, session: tf.compat.v1.Session) -> bool:
        """Whether the evaluations of a session read the live tables."""
        return bool(session.run(self._attachment().is_live))

    def _attachment(self) -> Attachment:
        if self.attachment is None:
            raise RuntimeError("the pipeline of this graph was not started: call ascpipe.tf.start(), or "
                               "start_asc_pipeline(), before")
        return self.attachment

    def streams(self) -> List[Stream]:
        """All streams, by number."""
        return list(self._streams.values())

    def enter_stream(self, insert_function: Any, channel: int, features: List[Feature],
                     timestamp: Optional[FeatureSpec] = None) -> Stream:
        """The stream of an insert function that is being traced into this graph."""
        if self.started and insert_function not in self._streams:
            raise RuntimeError("the pipeline was started: datasets are mapped with their insert functions before it" +
                               ANEW)
        if insert_function not in self._streams:
            self._streams[insert_function] = Stream(next(self._stream_numbers), channel)
        stream = self._streams[insert_function]
        if not stream.features:
            stream.features = features
        elif [feature.spec for feature in stream.features] != [feature.spec for feature in features]:
            raise ValueError("one insert function was mapped over two datasets with different features: {} and {}. "
                             "Make an insert function for each".format(
                                 _names(stream.features), _names(features)))
        else:
            stream.features = [
                Feature(old.spec, old.shape.most_specific_compatible_shape(new.shape), old.sparse or new.sparse)
                for old, new in zip(stream.features, features)]
        stream.timestamp = timestamp
        self._require_one_timestamp(channel)
        for feature in features:
            self.thresholds.note(feature.spec.table_name, feature.spec.thresholds,
                                 "feature {!r}".format(feature.spec.label))
        return stream

    def stream_of(self, spec: FeatureSpec, channel: int) -> Stream:
        """The stream that carries a feature. Raises ``ValueError`` when there is none, or more than one."""
        found = [stream for stream in self.streams() if stream.channel == channel
                 and any(feature.spec is spec for feature in stream.features)]
        if len(found) == 1:
            return found[0]
        name = CHANNEL_NAMES[channel]
        if found:
            raise ValueError("FeatureSpec {!r} is carried by {} insert functions of the {} channel; use it in one"
                             .format(spec.label, len(found), name))
        raise ValueError(
            "FeatureSpec {!r} (index_key {!r}) reaches no {} lookup: map an insert function for {} with this spec over "
            "the dataset, whose batches hold that key, before sparse_lookup".format(
                spec.label, spec.index_key, name, name))

    def require_timestamp(self, stream: Stream, table_name: str) -> None:
        """Raise ``ValueError`` where a table is evicted from and its training batches do not say when they are."""
        threshold = self.thresholds.of(table_name).eviction
        if stream.channel == TRAIN and threshold >= 0 and stream.timestamp is None:
            raise ValueError("table {!r}: eviction_threshold={} needs the time of each training batch; give its insert "
                             "function a FeatureSpec(..., is_timestamp=True), a scalar above 0 in the batch, or with "
                             "modify_graph=True add such a tensor to the collection ASCEND_TIMESTAMP".format(
                                 table_name, threshold))

    def _require_one_timestamp(self, channel: int) -> None:
        stamps = [stream.timestamp.label for stream in self.streams()
                  if stream.channel == channel and stream.timestamp is not None]
        if len(stamps) > 1:
            raise OSError("several timestamp features of the {} channel: {}; there may be one".format(
                CHANNEL_NAMES[channel], ", ".join(stamps)))


def _names(features: List[Feature]) -> List[str]:
    return [feature.spec.label for feature in features]
