"""``get_asc_insert_func``, which returns a function for ``dataset.map`` that submits ids to the pipeline."""
import logging
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import tensorflow as tf

from ascpipe.errors import ArgumentError, FeatureError
from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf import internals
from ascpipe.tf.graph import batch_structure
from ascpipe.tf.graph.dataset_graph import DatasetGraph
from ascpipe.tf.graph.features import Feature, FeatureSpec, require_same
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.ids import Ids, are_ids, as_keys
from ascpipe.tf.running import native
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import Instance, Integer, ListOf, Text, boolean, check_all

_log = logging.getLogger(__name__)

DUMP_FOLDER = os.path.join(".", "export_graph")  #: directory for the files of ``dump_graph=True``

#: A feature and the ids of the feature.
Found = Tuple[FeatureSpec, Ids]


def get_asc_insert_func(tgt_key_specs: Union[FeatureSpec, Sequence[FeatureSpec], None] = None,
                        args_index_list: Optional[Sequence[int]] = None,
                        table_names: Optional[Sequence[str]] = None, **kwargs: Any) -> Callable[..., Any]:
    """Return a function for ``dataset.map`` that submits the ids of each batch and adds a tensor to the batch.

    Map the function sequentially, as the last stage before ``prefetch``. Omit ``num_parallel_calls``, or set it to 1.

    Args:
        tgt_key_specs: a FeatureSpec, or a non-empty list or tuple of FeatureSpecs (form A).
        args_index_list: indices into the flattened tensors of the batch (form B).
        table_names: table name for each index (form B).
        is_training: bool, default True. True selects the training channel, and False selects the evaluation channel.
        dump_graph: bool, default False. True writes the graph of the map function to
            ``./export_graph/pipeline_graph.pb``.

    Raises:
        ValueError: both forms or none of them are used, an argument has the wrong type, thresholds of a table differ,
            or a training feature has an ``eviction_threshold`` but there is no timestamp feature.
        RuntimeError: ``table_names`` is passed with form A, or is missing in form B.
        EnvironmentError: there are two timestamp features.
    """
    check_all({"is_training": boolean(), "dump_graph": boolean()}, kwargs)
    channel = TRAIN if kwargs.get("is_training", True) else EVAL
    dump_graph = kwargs.get("dump_graph", False)
    if (tgt_key_specs is None) == (args_index_list is None):
        raise ArgumentError("get_asc_insert_func() was called with {} tgt_key_specs {} args_index_list. Pass either "
                            "tgt_key_specs, or args_index_list with table_names".format(
                                *(("neither", "nor") if tgt_key_specs is None else ("both", "and"))))
    if args_index_list is None:
        if table_names is not None:
            raise ArgumentError("get_asc_insert_func() was called with both tgt_key_specs and table_names. Leave "
                                "table_names out: each FeatureSpec in tgt_key_specs names its table")
        specs = _require_specs(tgt_key_specs, channel)
        return _insert_function(channel, dump_graph, lambda batch: _find_by_spec(batch, specs))
    if table_names is None:
        raise ArgumentError("get_asc_insert_func() was called with args_index_list but without table_names. Pass one "
                            "table name for each index")
    check_all({"args_index_list": ListOf(Integer(0)), "table_names": ListOf(Text(1, 255))},
              {"args_index_list": args_index_list, "table_names": table_names})
    if len(args_index_list) != len(table_names):
        raise ArgumentError("args_index_list has {} elements, but table_names has {}. Pass one table name for each "
                            "index".format(len(args_index_list), len(table_names)))
    places = [(FeatureSpec("{}_{}".format(table, place), table_name=table), place)
              for place, table in zip(args_index_list, table_names)]
    return _insert_function(channel, dump_graph, lambda batch: _find_by_index(batch, places))


def _require_specs(specs: Any, channel: int) -> List[FeatureSpec]:
    if isinstance(specs, FeatureSpec):
        specs = [specs]
    ListOf(Instance(FeatureSpec)).check("tgt_key_specs", specs)
    repeated = [spec.label for place, spec in enumerate(specs) if any(spec is before for before in specs[:place])]
    if repeated:
        raise FeatureError("The insert function has FeatureSpec {!r} twice. Pass each FeatureSpec "
                           "once".format(repeated[0]))
    stamps = [spec.label for spec in specs if spec.is_timestamp]
    if len(stamps) > 1:
        raise FeatureError("An insert function has {} timestamp features: {}. Pass at most one".format(
            len(stamps), ", ".join(map(repr, stamps))))
    features = [spec for spec in specs if not spec.is_timestamp]
    for spec in features:
        for other in features:
            if spec.table_name == other.table_name:
                require_same(spec.table_name, spec.thresholds, "features {!r}".format(spec.label), other.thresholds,
                             repr(other.label))
        if channel == TRAIN and spec.thresholds.evicts and not stamps:
            raise FeatureError("FeatureSpec {!r} has eviction_threshold={}, which requires the time of each training "
                               "batch. Add asc.FeatureSpec(..., is_timestamp=True) to the features of the insert "
                               "function, and a scalar above 0 to each batch".format(
                                   spec.label, spec.eviction_threshold))
    return list(specs)


def _insert_function(channel: int, dump_graph: bool, find: Callable[[Any], List[Found]]) -> Callable[..., Any]:

    @tf.autograph.experimental.do_not_convert
    def insert(*args: Any) -> Any:
        batch = args[0] if len(args) == 1 else args
        extended = batch_structure.add_ticket(batch, submit(insert, channel, find(batch)))
        if dump_graph:
            tf.io.write_graph(tf.compat.v1.get_default_graph().as_graph_def(), DUMP_FOLDER, "pipeline_graph.pb",
                              as_text=False)
        return extended

    return insert


def submit(insert: Any, channel: int, found: List[Found]) -> tf.Tensor:
    """Create the op that submits the ids of a batch. The inputs of the op are sorted by the names of the tables.

    Args:
        insert: key of the stream, for example the insert function.
        channel: TRAIN or EVAL.
        found: pairs of a feature and its ids. The timestamp feature with its tensor may be included.

    Returns:
        The ticket, an int64 scalar.
    """
    configuration = Process.current().configuration
    for spec, ids in found:
        spec.require_timestamp(ids.given)
    stamps = [(spec, ids) for spec, ids in found if spec.is_timestamp]
    found = sorted((pair for pair in found if not pair[0].is_timestamp),
                   key=lambda pair: (pair[0].table_name, pair[0].name))
    features = []
    for spec, ids in found:
        if configuration.use_static and ids.is_dense:
            spec.set_static_shape(ids.values)
        features.append(Feature(spec, ids.values.shape, sparse=not ids.is_dense))
    state = GraphState.of(_outermost_graph(tf.compat.v1.get_default_graph()))
    stream = state.enter_stream(insert, channel, features, stamps[0][0] if stamps else None)
    with tf.device("/device:CPU:0"):
        return native.ops().asc_submit(
            ids=[as_keys(ids.values) for _, ids in found],
            timestamp=[tf.cast(time.given, tf.int64) for _, time in stamps],
            position=_positions(channel, state.datasets, [ids.values for _, ids in found]), stream=stream.number)


def _positions(channel: int, datasets: DatasetGraph, ids: List[tf.Tensor]) -> List[tf.Tensor]:
    """Return a list that contains the position of a batch in the dataset.

    The list is empty if the graph has no dataset that reads files. The op that reads the position searches the memory
    of the given tensors. If the ids are computed, only another tensor of the batch has the position, for example the
    labels. Therefore, the op gets all inputs of the function that is being traced.
    """
    if channel != TRAIN or not datasets.has_reads():
        return []
    inputs = getattr(tf.compat.v1.get_default_graph(), "inputs", [])
    of_memory = [tensor for tensor in [*ids, *inputs] if tensor.dtype not in (tf.variant, tf.resource)]
    return [native.ops().asc_read_position(of_memory)]


def _outermost_graph(graph: tf.Graph) -> tf.Graph:
    """Return the outermost graph around a function that is being traced, for example by ``dataset.map``."""
    around = internals.graph_around(graph)
    return graph if around is None else _outermost_graph(around)


def _find_by_spec(batch: Any, specs: List[FeatureSpec]) -> List[Found]:
    found = []
    _require_own_ids(batch, specs)
    for spec in specs:
        ids = batch_structure.find_ids(batch, spec)
        if ids is None:
            _log.info("%s. The feature is skipped", batch_structure.missing(batch, spec))
        else:
            found.append((spec, ids))
    if all(spec.is_timestamp for spec, _ in found):
        features = [spec for spec in specs if not spec.is_timestamp] or specs
        raise FeatureError("The batch has none of the features. {}".format(
            ". ".join(batch_structure.missing(batch, spec) for spec in features)))
    return found


def _require_own_ids(batch: Any, specs: List[FeatureSpec]) -> None:
    """Raise ``FeatureError`` if two features of a table use the same ids, unless both features set ``index_key``."""
    taken: Dict[Tuple[str, Union[str, int]], FeatureSpec] = {}
    for spec in specs:
        key = batch_structure.key_of(batch, spec)
        if key is None or spec.is_timestamp:
            continue
        other = taken.setdefault((spec.table_name, key), spec)
        if other is not spec and not key == spec.index_key == other.index_key:
            raise FeatureError("FeatureSpecs {!r} and {!r} of table {!r} would both use the ids {!r}, because one of "
                               "their index_keys, {!r} and {!r}, is missing. The batch is {}. Pass each FeatureSpec "
                               "the index_key of its ids".format(
                                   other.label, spec.label, spec.table_name, key, other.index_key, spec.index_key,
                                   batch_structure.describe(batch)))


def _find_by_index(batch: Any, places: List[Tuple[FeatureSpec, int]]) -> List[Found]:
    tensors = batch_structure.tensors_of(batch)
    found = []
    for spec, place in places:
        if place >= len(tensors):
            raise FeatureError("args_index_list contains index {}, but the number of tensors in the batch is {}".format(
                place, len(tensors)))
        if not are_ids(tensors[place].dtype):
            raise FeatureError("args_index_list contains index {}, but this tensor of the batch has dtype {}. Ids must "
                               "be integers".format(place, tensors[place].dtype.name))
        found.append((spec, Ids.of(tensors[place])))
    return found
