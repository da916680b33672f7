"""Tables, features and lookups."""
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import tensorflow as tf

from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf.graph.expansion import LOCAL_ROWS
from ascpipe.tf.graph.features import FeatureSpec, checked_thresholds
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.ids import GivenIds, Ids, SparseIds
from ascpipe.tf.graph.lookup_request import LookupRequest
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.unseen_rows import Unseen
from ascpipe.tf.program import create_table as tables
from ascpipe.tf.program import lookup_sparse as bags
from ascpipe.tf.program import sparse_lookup as lookups
from ascpipe.tf.program.insert_function import get_asc_insert_func
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import AnyOf, Choice, Instance, Integer, ListOf, Numbers, Text, boolean, checked

INITIAL = "initial"  #: the default value that is the initial row of a key
DEFAULT = AnyOf(Numbers(), Choice(INITIAL), optional=True)


@checked(initializer=tables.INITIALIZER, average_gradients=boolean())
def create_table(name: str, dim: int, *, initializer: Any, device_vocabulary_size: Optional[int] = None,
                 host_vocabulary_size: int = 0, ssd_vocabulary_size: int = 0,
                 ssd_data_path: Union[str, Sequence[str]] = os.curdir, key_dtype: tf.DType = tf.int64,
                 is_save: bool = True, padding_keys: Sequence[int] = (), average_gradients: bool = False) -> Table:
    """Create a table of rows float32[dim] by int64 keys in the default graph.

    Keys need no vocabulary: a key gets its row when it occurs in training. The row that it begins with depends on the
    initializer's seed and the key alone.

    Args:
        name: 1 to 100 of the characters 0-9 A-Z a-z _ and . ; dots are removed, the rest is unique in the graph.
        dim: length of a row, in [1, 8192].
        initializer: instance of a TensorFlow initializer class.
        device_vocabulary_size: rows on the device, here a TensorFlow variable in host memory, in [1, 1e9]: how many
            keys the table holds, or, with host rows, how many of them at a time; those of a batch at least. Needed,
            except with ``init(use_dynamic_expansion=True)`` and within ``serving_tables``.
        host_vocabulary_size: rows of the host, in [0, 1e9], not below ``device_vocabulary_size``: how many keys the
            table holds. 0: the table lives on the device alone.
        ssd_vocabulary_size: further rows, on disk, in [0, 1e9].
        ssd_data_path: directory for these, or several, on one disk each.
        key_dtype: tf.int64 or tf.int32, of the ids; keys are int64 everywhere.
        is_save: whether checkpoints hold the table.
        padding_keys: keys whose rows are looked up and never trained.
        average_gradients: with several ranks: the gradient of a row is the average over ranks, not the sum.

    Returns:
        The table, with ``size()``, ``capacity()`` and ``variable``. With several ranks the sizes are totals.

    Raises:
        ValueError: an argument of the wrong type or out of range; no size; a name that is taken.
        TypeError: an argument that it does not have; names the nearest.
        EnvironmentError: ``init`` was not called, or ``start`` was called for this graph.
    """
    is_sized = device_vocabulary_size is not None or Process.current().configuration.use_dynamic_expansion
    if not is_sized and GraphState.of(tf.compat.v1.get_default_graph()).served is None:
        raise ValueError("table {!r} has no size: give device_vocabulary_size, the rows that it holds at a time, or "
                         "let tables grow by init(use_dynamic_expansion=True)".format(name))
    padding: Dict[str, Any] = {}
    if not isinstance(padding_keys, (list, tuple)) or padding_keys:
        padding = {"padding_keys": padding_keys, "padding_keys_mask": True, "padding_keys_len": 1}
    return tables.create_table(
        key_dtype, dim, name, initializer, 1 if device_vocabulary_size is None else device_vocabulary_size,
        host_vocabulary_size, ssd_vocabulary_size,
        [ssd_data_path] if isinstance(ssd_data_path, str) else ssd_data_path, is_save,
        all2all_gradients_op="sum_gradients_and_div_by_ranksize" if average_gradients else "sum_gradients", **padding)


@checked(features=AnyOf(Instance(FeatureSpec), ListOf(Instance(FeatureSpec))), training=boolean())
def insert_function(features: Union[FeatureSpec, Sequence[FeatureSpec]], *,
                    training: bool = True) -> Callable[..., Any]:
    """The function for ``dataset.map`` that hands the ids of each batch to the pipeline.

    Map it sequentially (``num_parallel_calls`` left out), as the last stage before ``prefetch``. It returns the batch
    with one more tensor, the ticket: a dict gets the entry ``<last sorted key>_read_emb_key``, a pair
    (features, labels) gets it in its features.

    Args:
        features: the FeatureSpecs of the batch; each batch has the ids, integers of any shape, dense, sparse or ragged.
        training: False: batches for evaluation, which change no table.

    Raises:
        ValueError: features of one table with different thresholds; an ``eviction_threshold`` without a timestamp
            feature. When mapped: the batch has none of the features.
        TypeError: an argument that it does not have; when mapped: ids that are no integers.
        EnvironmentError: two timestamp features. When mapped: ``init`` was not called.
    """
    return get_asc_insert_func(features, is_training=training)


@checked(table=Instance(Table), ids=Instance(FeatureSpec, tf.Tensor, tf.SparseTensor, tf.RaggedTensor, list, tuple),
         training=boolean(), trainable=boolean(), default_value=DEFAULT, max_keys=Integer(1, optional=True),
         name=Text(1, 255, optional=True))
def sparse_lookup(table: Table, ids: Union[FeatureSpec, GivenIds], *, batch: Any = None, training: bool = True,
                  trainable: bool = True, default_value: Any = None, max_keys: Optional[int] = None,
                  access_threshold: Optional[int] = None, eviction_threshold: Optional[int] = None,
                  name: Optional[str] = None) -> tf.Tensor:
    """Look up the rows of ids.

    Args:
        table: from ``create_table``.
        ids: a FeatureSpec of this table, whose ids an ``insert_function`` submits; or a tensor of integers made from a
            batch, also a SparseTensor or RaggedTensor: ``start`` moves what makes it into the dataset.
        batch: with a FeatureSpec: what ``iterator.get_next()`` returned, or the features of it.
        training: False: rows are read, no key gets one, and no gradient goes through this lookup.
        trainable: False: no gradient goes through this lookup; keys get rows. In all lookups of a table it keeps the
            rows as they began.
        default_value: float, scalar or [dim]: what a key without a row gives, in evaluation or because it was not
            admitted, and a missing position of sparse ids. "initial": in evaluation and in exported models, the row
            that the key would begin training with, as a variable of TensorFlow would have it; in training and at a
            missing position zeros. None: as "initial", and zeros if the table has an access threshold. With a
            FeatureSpec, initial rows need ``batch``.
        max_keys: distinct keys of a batch at most, in [1, 2147483647]; needed with ``init(use_dynamic=False)``.
        access_threshold: of the table, where ids are a tensor, as FeatureSpec has it; else its FeatureSpecs say it.
        eviction_threshold: likewise.
        name: of the returned tensor, 1 to 255 characters.

    Returns:
        float32 of the (dense) shape of the ids followed by dim.

    Raises:
        ValueError: an argument of the wrong type or out of range; a FeatureSpec of another table, or that no dataset
            carries; a dataset that would reorder batches; inputs of Keras, whose ``fit`` is not supported; with static
            shapes, evaluation of a FeatureSpec without ``batch`` and without numbers as ``default_value``.
        RuntimeError: a FeatureSpec without ``batch``; a new lookup after the pipeline was started.
        KeyError: ``batch`` does not have the feature.
        TypeError: an argument that it does not have; names the nearest.
    """
    return lookups.look_up(_request(
        table, lookups.only_feature(table, ids), batch, training=training, default_value=default_value,
        said={"access_threshold": access_threshold, "eviction_threshold": eviction_threshold}, is_grad=trainable,
        send_count=max_keys, name=name))


@checked(table=Instance(Table), training=boolean(), trainable=boolean(), default_value=DEFAULT,
         max_keys=Integer(1, optional=True), name=Text(1, 255, optional=True))
def lookup_sparse(table: Table, ids: Union[FeatureSpec, SparseIds], weights: Optional[SparseIds] = None,
                  combiner: str = "sum", max_norm: Optional[float] = None, *, batch: Any = None, training: bool = True,
                  trainable: bool = True, default_value: Any = None, max_keys: Optional[int] = None,
                  access_threshold: Optional[int] = None, eviction_threshold: Optional[int] = None,
                  name: Optional[str] = None) -> tf.Tensor:
    """Look up bags of ids, and combine the rows of each bag to one.

    A bag is a row of a SparseTensor or RaggedTensor of ids. Sums are those of ``tf.nn.embedding_lookup_sparse``, in its
    order: bit for bit in "sum" and "mean", and in "sqrtn" without weights. Unlike there, any integer is an id, a bag
    without ids gives zeros wherever it stands and trains nothing, and the ids of rows must be in order.

    Args:
        table: from ``create_table``.
        ids: SparseTensor [bags, any] or RaggedTensor [bags, (ids)] of integers; or a FeatureSpec of this table whose
            ids in the batch are that.
        weights: float32, one for each id: in the form of ``ids``, with the same places. They get gradients.
        combiner: "sum", of rows times weights; "mean": that divided by the sum of the weights; "sqrtn": divided by the
            root of the sum of their squares. Without weights each is 1.
        max_norm: rows that are longer are scaled to this length before they are combined; above 0.
        batch: with a FeatureSpec: what ``iterator.get_next()`` returned, or the features of it.
        training: as of ``sparse_lookup``; so are ``trainable``, ``max_keys``, ``access_threshold``,
            ``eviction_threshold`` and ``name``.
        default_value: float, scalar or [dim]: what stands for the row of a key that has none, in evaluation or because
            it was not admitted. Or "initial", or None, as of ``sparse_lookup``.

    Returns:
        float32[bags, dim].

    Raises:
        CombinerError: ids that are dense or of another rank; weights of another form, shape or dtype; an unknown
            combiner; a FeatureSpec that ``sparse_lookup`` looks up, too (E250).
        Exception: what ``sparse_lookup`` raises.
    """
    return bags.lookup_sparse(_request(
        table, ids if isinstance(ids, FeatureSpec) else Ids.of(ids), batch, training=training,
        default_value=default_value, is_grad=trainable, send_count=max_keys, name=name,
        said={"access_threshold": access_threshold, "eviction_threshold": eviction_threshold}),
        None if weights is None else Ids.of(weights), combiner, max_norm)


def table_variables() -> List[Any]:
    """What the optimizers of ``ascpipe.tf.optimizers`` train of the tables of the default graph, for ``var_list``.

    Of each table its variable float32[device rows, dim]; of tables that grow the rows of the batch. An optimizer of
    TensorFlow may have them in its ``var_list``, too, beside ``tf.trainable_variables()``, which has no tables.

    Raises:
        EnvironmentError: ``init`` was not called.
    """
    graph = tf.compat.v1.get_default_graph()
    if Process.current().configuration.use_dynamic_expansion:
        return list(graph.get_collection(LOCAL_ROWS))
    return [table.variable for table in GraphState.of(graph).tables.values()]


def _request(table: Table, ids: Union[FeatureSpec, Ids], batch: Any, *, training: bool, default_value: Any,
             said: Dict[str, Optional[int]], **others: Any) -> LookupRequest:
    """A lookup in the words of this API; ``said``: thresholds; ``others``: attributes of the request as they are."""
    _require_max_keys(table, others["send_count"])
    gives_initial = isinstance(default_value, str)
    # In programs of the incumbent, the default is that of the incumbent: zeros.
    is_usual = default_value is None and Process.current().is_plain
    return LookupRequest(
        table, ids, batch, TRAIN if training else EVAL, default_value=None if gives_initial else default_value,
        unseen=(Unseen.INITIAL if gives_initial else
                Unseen.INITIAL_UNLESS_ADMITTING if is_usual else Unseen.DEFAULT_ROW),
        thresholds=checked_thresholds({key: value for key, value in said.items() if value is not None}), **others)


def _require_max_keys(table: Table, max_keys: Optional[int]) -> None:
    if Process.current().configuration.use_static and max_keys is None:
        raise ValueError("table {!r}: static shapes (use_dynamic=False) need max_keys, the distinct keys of a batch at "
                         "most".format(table.table_name))
