"""Tables, features and lookups."""
import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

import tensorflow as tf

from ascpipe.errors import TableError, TableLookupError
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

INITIAL = "initial"  #: default value that stands for the initial row of a key
DEFAULT = AnyOf(Numbers(), Choice(INITIAL), optional=True)


@checked(initializer=tables.INITIALIZER, average_gradients=boolean())
def create_table(name: str, dim: int, *, initializer: Any, device_vocabulary_size: Optional[int] = None,
                 host_vocabulary_size: int = 0, ssd_vocabulary_size: int = 0,
                 ssd_data_path: Union[str, Sequence[str]] = os.curdir, key_dtype: tf.DType = tf.int64,
                 is_save: bool = True, padding_keys: Sequence[int] = (), average_gradients: bool = False) -> Table:
    """Create a table with rows float32[dim] for int64 keys in the default graph.

    Keys need no vocabulary: a key gets a row when it first occurs in training. Its initial row depends only on the key
    and the initializer's seed.

    Args:
        name: 1 to 100 of the characters 0-9 A-Z a-z _ and . ; dots are removed, and the rest must be unique in the
            graph.
        dim: length of a row, in [1, 8192].
        initializer: instance of a TensorFlow initializer class.
        device_vocabulary_size: rows on the device, which is a TensorFlow variable in host memory, in [1, 1e9]. It must
            be at least the number of distinct keys of a batch. Without host rows, it is the maximum number of keys.
            Required, except with ``init(use_dynamic_expansion=True)`` and within ``serving_tables``.
        host_vocabulary_size: rows in host memory, in [0, 1e9] and not below ``device_vocabulary_size``: the maximum
            number of keys. 0: rows are on the device only.
        ssd_vocabulary_size: additional rows on disk, in [0, 1e9].
        ssd_data_path: directory for rows on disk, or several, on one disk each.
        key_dtype: dtype of the ids, tf.int64 or tf.int32. Keys are always int64.
        is_save: whether checkpoints contain the table.
        padding_keys: keys whose rows are looked up and never trained.
        average_gradients: with several ranks, use the average of a row's gradients over ranks instead of the sum.

    Returns:
        The table, with ``size()``, ``capacity()`` and ``variable``. With several ranks, the sizes are totals.

    Raises:
        ValueError: an argument has the wrong type or is out of range, the size is missing, or the name is taken.
        TypeError: an argument is unknown; the error suggests a similar name.
        EnvironmentError: ``init`` was not called, or ``start`` was called for this graph.
    """
    is_sized = device_vocabulary_size is not None or Process.current().configuration.use_dynamic_expansion
    if not is_sized and GraphState.of(tf.compat.v1.get_default_graph()).served is None:
        raise TableError("Table {!r} has no size. Pass device_vocabulary_size, the number of rows that it holds at a "
                         "time, or let tables grow with asc.init(use_dynamic_expansion=True)".format(name))
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
    """Return the function for ``dataset.map`` that submits the ids of each batch to the pipeline.

    Map it sequentially (without ``num_parallel_calls``), as the last stage before ``prefetch``. It adds a tensor, the
    ticket, to the batch: a dict gets the entry ``<last sorted key>_read_emb_key``; a pair (features, labels) gets it in
    its features.

    Args:
        features: FeatureSpecs of the batch. Each batch contains their ids: integers of any shape, dense, sparse or
            ragged.
        training: False: the batches are for evaluation and change no table.

    Raises:
        ValueError: features of one table have different thresholds, or an ``eviction_threshold`` has no timestamp
            feature. When mapped: the batch has none of the features.
        TypeError: an argument is unknown. When mapped: ids are not integers.
        EnvironmentError: there are two timestamp features. When mapped: ``init`` was not called.
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
        table: a table of ``create_table``.
        ids: a FeatureSpec of this table whose ids are submitted by an ``insert_function``, or a Tensor, SparseTensor or
            RaggedTensor of integers computed from a batch. ``start`` moves the ops that compute such a tensor into the
            dataset.
        batch: with a FeatureSpec, the result of ``iterator.get_next()``, or its features.
        training: False: the lookup reads rows without a gradient, and creates no rows for new keys.
        trainable: False: this lookup has no gradient, but new keys get rows. If all lookups of a table have it, rows
            keep their initial values.
        default_value: float, scalar or [dim]: the row of a key without a row (unknown in evaluation, or not admitted)
            and of a missing position of sparse ids. "initial": in evaluation and exported models, the initial row of
            the key, as a TensorFlow variable would have it; otherwise zeros. None: as "initial", or zeros if the table
            has an access threshold. With a FeatureSpec, initial rows require ``batch``.
        max_keys: maximum number of distinct keys of a batch, in [1, 2147483647]; required with
            ``init(use_dynamic=False)``.
        access_threshold: threshold of the table if ``ids`` is a tensor; otherwise its FeatureSpecs set it.
        eviction_threshold: likewise.
        name: name of the returned tensor, 1 to 255 characters.

    Returns:
        float32 of the (dense) shape of the ids followed by dim.

    Raises:
        ValueError: an argument has the wrong type or is out of range. A FeatureSpec is of another table or of no
            dataset. A dataset reorders batches. The ids are inputs of Keras, whose ``fit`` is not supported. With
            static shapes, an evaluation of a FeatureSpec has neither ``batch`` nor a number as ``default_value``.
        RuntimeError: a FeatureSpec without ``batch``, or the pipeline has started.
        KeyError: ``batch`` does not have the feature.
        TypeError: an argument is unknown; the error suggests a similar name.
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
    """Look up bags of ids, and combine the rows of each bag.

    A bag is a row of a SparseTensor or RaggedTensor of ids. Results equal ``tf.nn.embedding_lookup_sparse``: bit for
    bit for "sum" and "mean", and for "sqrtn" without weights. Unlike in TensorFlow, any integer is an id, any bag may
    be empty, and ids must be sorted by bag. An empty bag returns zeros and trains nothing.

    Args:
        table: a table of ``create_table``.
        ids: SparseTensor [bags, any] or RaggedTensor [bags, (ids)] of integers, or a FeatureSpec of this table with
            such ids in the batch.
        weights: float32, one for each id, in the form of ``ids`` and with the same indices. They get gradients.
        combiner: "sum" of rows times weights; "mean": the sum divided by the sum of the weights; "sqrtn": the sum
            divided by the root of the sum of their squares. Without ``weights``, each weight is 1.
        max_norm: maximum length of a row, above 0; longer rows are scaled before they are combined.
        batch: with a FeatureSpec, the result of ``iterator.get_next()``, or its features.
        training: see ``sparse_lookup``, also for ``trainable``, ``max_keys``, ``access_threshold``,
            ``eviction_threshold`` and ``name``.
        default_value: float, scalar or [dim]: the row of a key without a row (unknown in evaluation, or not admitted).
            "initial" and None are as in ``sparse_lookup``.

    Returns:
        float32[bags, dim].

    Raises:
        CombinerError: E250. The ids are dense or of another rank. The weights have another form, shape or dtype. The
            combiner is unknown. ``sparse_lookup`` looks up the same FeatureSpec.
        Exception: as ``sparse_lookup``.
    """
    return bags.lookup_sparse(_request(
        table, ids if isinstance(ids, FeatureSpec) else Ids.of(ids), batch, training=training,
        default_value=default_value, is_grad=trainable, send_count=max_keys, name=name,
        said={"access_threshold": access_threshold, "eviction_threshold": eviction_threshold}),
        None if weights is None else Ids.of(weights), combiner, max_norm)


def table_variables() -> List[Any]:
    """Return the trainable tensors of the default graph's tables, for ``var_list`` of an optimizer.

    The result has the variable float32[device rows, dim] of each table; for tables that grow, the rows of the batch.
    The optimizer may be of ``ascpipe.tf.optimizers`` or of TensorFlow. ``tf.trainable_variables()`` contains no tables.

    Raises:
        EnvironmentError: ``init`` was not called.
    """
    graph = tf.compat.v1.get_default_graph()
    if Process.current().configuration.use_dynamic_expansion:
        return list(graph.get_collection(LOCAL_ROWS))
    return [table.variable for table in GraphState.of(graph).tables.values()]


def _request(table: Table, ids: Union[FeatureSpec, Ids], batch: Any, *, training: bool, default_value: Any,
             said: Dict[str, Optional[int]], **others: Any) -> LookupRequest:
    """Return a request from arguments of this API. ``said``: thresholds. ``others``: attributes of the request."""
    _require_max_keys(table, others["send_count"])
    gives_initial = isinstance(default_value, str)
    # Programs of the incumbent get its default, which is zeros.
    is_usual = default_value is None and Process.current().is_plain
    return LookupRequest(
        table, ids, batch, TRAIN if training else EVAL, default_value=None if gives_initial else default_value,
        unseen=(Unseen.INITIAL if gives_initial else
                Unseen.INITIAL_UNLESS_ADMITTING if is_usual else Unseen.DEFAULT_ROW),
        thresholds=checked_thresholds({key: value for key, value in said.items() if value is not None}), **others)


def _require_max_keys(table: Table, max_keys: Optional[int]) -> None:
    if Process.current().configuration.use_static and max_keys is None:
        raise TableLookupError("Table {!r} is looked up without max_keys, which is required by static shapes "
                               "(asc.init(use_dynamic=False)). Pass the maximum number of distinct keys of a batch"
                               .format(table.table_name))
