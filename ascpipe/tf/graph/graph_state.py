"""State of one graph: its tables, streams and lookups.

ascpipe keeps a state per graph, because a program may build several graphs in a process. For example, an Estimator
builds one graph per mode.
"""
import abc
import dataclasses
import os
from typing import Any, Dict, List, Optional, Set, Tuple

import tensorflow as tf

from ascpipe.errors import CallOrderError, DatasetError, FeatureError
from ascpipe.layout.words import TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph.dataset_graph import DatasetGraph
from ascpipe.tf.graph.features import CHANNEL_NAMES, Feature, FeatureSpec, Stream, TableThresholds
from ascpipe.tf.graph.ids import Ids
from ascpipe.tf.graph.lookup_request import LookupRequest
from ascpipe.tf.graph.optimizer_slots import OptimizerSlot
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.table_lookup import TableLookup
from ascpipe.tf.graph.tensor_requests import Requests
from ascpipe.tf.running.process import Process

_STATE = "state"
_SAVED_TABLES = "saved_tables"  #: attribute of a graph: names of the tables that were created in the graph

LIVE = 0  #: instance number that selects the live tables

#: End of an error message: advice for the case that a notebook cell is run again.
REBUILD_ADVICE = ". To build the model again, as in a notebook, call asc.reset(), or build it in `with asc.pipeline()`"


@dataclasses.dataclass(frozen=True)
class Attachment:
    """Ops that connect the variables of a session to the memory of the tables.

    Attributes:
        op: op that connects the variables.
        instance: int64 scalar, input of ``op``. Evaluations of the session read this instance, or the live tables if it
            is ``LIVE``.
        is_live: bool scalar, True if evaluations of the session read the live tables.
    """

    op: tf.Operation
    instance: tf.Tensor
    is_live: tf.Tensor


class Served(abc.ABC):
    """Interface of the tables that an exported graph reads from files."""

    @abc.abstractmethod
    def look_up(self, request: LookupRequest) -> tf.Tensor:
        """Look up the rows of ids, as ``ascpipe.tf.program.sparse_lookup.look_up`` does for live tables."""

    @abc.abstractmethod
    def combined(self, table_name: str, rows: tf.Tensor, ids: Ids, weights: Optional[Ids], combiner: str,
                 max_norm: Optional[float]) -> tf.Tensor:
        """Return one row for each bag of ids, as ``ascpipe.tf.graph.bags.combined`` does for live tables.

        Args:
            rows: float32[n, dim], one row per id of the bags.

        Raises:
            CombinerError: the ids do not form bags, or the weights do not match the ids.
        """

    @abc.abstractmethod
    def version(self) -> tf.Tensor:
        """Return the training step of the rows, an int64 scalar."""

    @abc.abstractmethod
    def dense_path(self, prefix: str) -> str:
        """Return the path prefix of the dense part of the checkpoint ``prefix``. TensorFlow restores from this path."""


class GraphState:
    """Tables, streams and lookups of one graph. ``GraphState.of`` creates an object.

    Args:
        process: process that assigns the stream numbers.

    Attributes:
        datasets: object that finds tickets among the outputs of iterators.
        tables: tables by name, in order of creation.
        pretrained: absolute path of the files with the initial rows of a table, by table name.
        lookups: lookups by (table name, channel).
        requests: lookups that need graph modification.
        thresholds: admission and eviction thresholds.
        in_branches: names of tables with a training lookup in a conditional.
        waiting: for each lookup within control dependencies or a conditional, the name of its table, and the ops that
            the lookup waits for.
        slots: optimizer slots by table name. The start of the pipeline fills the dict.
        attachment: ops that the start of the pipeline creates, or None before the start.
        marked: True after ``start_asc_pipeline``. No tables can be added afterwards.
        started: True if the pipeline has started and this graph is complete.
        served: tables that an exported graph reads from files, or None for other graphs.
        mode: mode for which an Estimator builds this graph, or None if no Estimator builds it.
    """

    def __init__(self, graph: tf.Graph, process: Process) -> None:
        self.datasets = DatasetGraph(graph)
        self.tables: Dict[str, Table] = {}
        self.pretrained: Dict[str, str] = {}
        self.lookups: Dict[Tuple[str, int], TableLookup] = {}
        self.requests = Requests()
        self.thresholds = TableThresholds()
        self.in_branches: Set[str] = set()
        self.waiting: List[Tuple[str, List[tf.Operation]]] = []
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
        """Return the state of a graph. The first call creates the state. Raise ``EnvironmentError`` if ``init`` was not
        called.
        """
        process = Process.current()
        # The state refers to the graph, so a dictionary in this module would keep both alive forever.
        kept: Dict[Process, GraphState] = internals.stored_on(graph, _STATE, dict)
        if process not in kept:
            kept.clear()
            kept[process] = GraphState(graph, process)
        return kept[process]

    @staticmethod
    def known(graph: tf.Graph) -> Optional["GraphState"]:
        """Return the state of a graph, or None if ``init`` was not called."""
        return GraphState.of(graph) if Process.is_initialised() else None

    def add(self, table: Table, graph: tf.Graph) -> None:
        """Add a table to the graph of this state."""
        self.tables[table.table_name] = table
        if self.served is None and table.is_save:
            saved: List[str] = internals.stored_on(graph, _SAVED_TABLES, list)
            saved.append(table.table_name)

    @staticmethod
    def require_not_ended(graph: tf.Graph, advice: str) -> None:
        """Raise ``RuntimeError`` if ``shutdown`` has discarded tables of a graph that a Saver saves.

        Discarded tables are allowed if the graph also has tables that were created after the last ``init``.

        Args:
            advice: end of the error message.
        """
        state = GraphState.known(graph)
        ended = internals.stored_on(graph, _SAVED_TABLES, list)
        if ended and (state is None or not state.tables):
            raise CallOrderError("A Saver was used after asc.shutdown(), which discarded the tables {} of its graph. {}"
                                 .format(", ".join(map(repr, ended)), advice))

    @property
    def trains(self) -> bool:
        """Return whether the graph has training lookups. Without training lookups, the graph only reads its tables."""
        return any(channel == TRAIN for _, channel in self.lookups)

    def note_pretrained(self, table: str, path: str) -> None:
        """Record the path of a table's initial rows.

        Do nothing in an exported model, whose rows come from a checkpoint.
        """
        if self.served is None:
            self.pretrained[table] = os.path.abspath(path)

    def attach(self, session: tf.compat.v1.Session, instance: int = LIVE) -> None:
        """Connect the variables of a session to the memory of the tables.

        Args:
            instance: instance number from ``instances.instance_of``. Evaluations of the session then read the rows of
                the instance.
        """
        attachment = self._attachment()
        session.run(attachment.op, {attachment.instance: instance})

    def is_live(self, session: tf.compat.v1.Session) -> bool:
        """Return whether the evaluations of a session read the live tables."""
        return bool(session.run(self._attachment().is_live))

    def _attachment(self) -> Attachment:
        if self.attachment is None:
            raise CallOrderError("The pipeline of this graph was not started. Call asc.start() before")
        return self.attachment

    def streams(self) -> List[Stream]:
        """Return all streams in the order of their numbers."""
        return list(self._streams.values())

    def enter_stream(self, insert_function: Any, channel: int, features: List[Feature],
                     timestamp: Optional[FeatureSpec] = None) -> Stream:
        """Create or update the stream of an insert function while TensorFlow traces the function. Return the stream.

        Raises:
            RuntimeError: the stream is new, but the pipeline has started.
            ValueError: the insert function was traced with other features before, or two features set different
                thresholds for a table.
            OSError: the channel has several timestamp features.
        """
        if self.started and insert_function not in self._streams:
            raise CallOrderError("The pipeline has already started. Map datasets with their insert functions before "
                                 "asc.start()" + REBUILD_ADVICE)
        if insert_function not in self._streams:
            self._streams[insert_function] = Stream(next(self._stream_numbers), channel)
        stream = self._streams[insert_function]
        if not stream.features:
            stream.features = features
        elif [feature.spec for feature in stream.features] != [feature.spec for feature in features]:
            raise DatasetError("One insert function was mapped over two datasets with different features: {} and {}. "
                               "Create an insert function for each".format(_names(stream.features), _names(features)))
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
        """Return the stream to which a feature belongs in a channel.

        Raise ``ValueError`` if no stream or several streams of the channel contain the feature.
        """
        found = [stream for stream in self.streams() if stream.channel == channel
                 and any(feature.spec is spec for feature in stream.features)]
        if len(found) == 1:
            return found[0]
        name = CHANNEL_NAMES[channel]
        if found:
            raise FeatureError("FeatureSpec {!r} is used by {} insert functions of the {} channel. Use it in only "
                               "one".format(spec.label, len(found), name))
        raise FeatureError("FeatureSpec {!r} (index_key {!r}) has no insert function for {}. Before "
                           "asc.sparse_lookup(), map an insert function for {} with this FeatureSpec over a dataset "
                           "whose batches have that key".format(spec.label, spec.index_key, name, name))

    def require_timestamp(self, stream: Stream, table_name: str) -> None:
        """Raise ``ValueError`` if a table has an eviction threshold and its training batches have no timestamp."""
        threshold = self.thresholds.of(table_name).eviction
        if stream.channel == TRAIN and threshold >= 0 and stream.timestamp is None:
            tensors = "program looks up tensors" if Process.current().is_plain else "lookups have modify_graph=True"
            raise FeatureError("Table {!r}: eviction_threshold={} needs the time of each training batch, a scalar "
                               "above 0. Add FeatureSpec(..., is_timestamp=True) to its insert function. If the {}, "
                               "call tf.compat.v1.add_to_collection(\"ASCEND_TIMESTAMP\", batch[\"time\"])".format(
                                   table_name, threshold, tensors))

    def _require_one_timestamp(self, channel: int) -> None:
        stamps = [stream.timestamp.label for stream in self.streams()
                  if stream.channel == channel and stream.timestamp is not None]
        if len(stamps) > 1:
            raise FeatureError("The {} channel has several timestamp features: {}. Use only one".format(
                                   CHANNEL_NAMES[channel], ", ".join(stamps)))


def _names(features: List[Feature]) -> List[str]:
    return [feature.spec.label for feature in features]
