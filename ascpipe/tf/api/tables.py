"""Functions of ``ascpipe.tf`` for tables, features and lookups."""
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
from ascpipe.tf.validation import AnyOf, Choice, Instance, Integer, ListOf, Numbers, PathText, Text, boolean, checked

INITIAL = "initial"  #: value of ``default_value`` that selects the initial row of a key
DEFAULT = AnyOf(Numbers(), Choice(INITIAL), optional=True)


@checked(initializer=tables.INITIALIZER, average_gradients=boolean(), trainable=boolean(),
         pretrained=PathText(1, 4096, optional=True))
def create_table(name: str, dim: int, *, initializer: Any, device_vocabulary_size: Optional[int] = None,
                 host_vocabulary_size: int = 0, ssd_vocabulary_size: int = 0,
                 ssd_data_path: Union[str, Sequence[str]] = os.curdir, key_dtype: tf.DType = tf.int64,
                 is_save: bool = True, padding_keys: Sequence[int] = (), average_gradients: bool = False,
                 trainable: bool = True, pretrained: Optional[str] = None) -> Table:
    """Create a table with rows float32[dim] for int64 keys in the default graph.

    No vocabulary is needed, because a key gets a row when it first occurs in training. The initial row depends only on
    the key, the initializer and its seed.

    Args:
        name: 1 to 100 characters from 0-9, A-Z, a-z, underscore and dot. ascpipe removes the dots. The resulting name
            must be unique in the graph.
        dim: length of a row, in [1, 8192].
        initializer: a TensorFlow initializer object.
        device_vocabulary_size: rows of the device table, a TensorFlow variable in host memory, in [1, 1e9]. The size
            must be at least the number of distinct keys of a batch. Without host rows, the size is the maximum number
            of keys. The argument is required, except with ``init(use_dynamic_expansion=True)`` and within
            ``serving_tables``.
        host_vocabulary_size: rows in host memory, in [0, 1e9]. With 0, rows are only in the device table. Any other
            value is the maximum number of keys, and must be at least ``device_vocabulary_size``.
        ssd_vocabulary_size: additional rows on disk, in [0, 1e9].
        ssd_data_path: directory for rows on disk, or a sequence of directories on different disks.
        key_dtype: dtype of the ids, tf.int64 or tf.int32. Keys are always int64.
        is_save: whether checkpoints contain the table.
        padding_keys: keys whose rows can be looked up but are never trained.
        average_gradients: True to train with the average of a row's gradients over ranks instead of the sum.
        trainable: False for a table that no lookup trains. New keys still get rows, with initial values.
        pretrained: path of files with initial rows: a directory that ``export_rows`` wrote, a Parquet or TSV file, or a
            directory of Parquet or npy files. The rows are loaded when the initializer of the table runs. They are not
            loaded if a checkpoint with the table is restored.

    Returns:
        The table, with ``size()``, ``capacity()`` and ``variable``. With several ranks, the size arguments are totals
        over all ranks.

    Raises:
        ValueError: an argument has the wrong type or is out of range, the size is missing, or the name is taken. The
            variable scope has a regularizer, a constraint or a custom getter.
        TypeError: an argument is unknown. The error suggests a similar name.
        EnvironmentError: ``init`` was not called, or ``start`` was called for this graph.
    """
    is_sized = device_vocabulary_size is not None or Process.current().configuration.use_dynamic_expansion
    if not is_sized and GraphState.of(tf.compat.v1.get_default_graph()).served is None:
        raise TableError("Table {!r} has no size. Pass device_vocabulary_size, the number of rows that it holds at a "
                         "time, or let tables grow with asc.init(use_dynamic_expansion=True)".format(name))
    policy = tables.policy_of_scope(name)
    if policy is not None:
        raise TableError(policy + ". The table was not created")
    padding: Dict[str, Any] = {}
    if not isinstance(padding_keys, (list, tuple)) or padding_keys:
        padding = {"padding_keys": padding_keys, "padding_keys_mask": True, "padding_keys_len": 1}
    table = tables.create_table(
        key_dtype, dim, name, initializer, 1 if device_vocabulary_size is None else device_vocabulary_size,
        host_vocabulary_size, ssd_vocabulary_size,
        [ssd_data_path] if isinstance(ssd_data_path, str) else ssd_data_path, is_save,
        all2all_gradients_op="sum_gradients_and_div_by_ranksize" if average_gradients else "sum_gradients", **padding)
    table.trainable = trainable
    if pretrained is not None:
        GraphState.of(tf.compat.v1.get_default_graph()).note_pretrained(table.table_name, pretrained)
    return table


@checked(features=AnyOf(Instance(FeatureSpec), ListOf(Instance(FeatureSpec))), training=boolean())
def insert_function(features: Union[FeatureSpec, Sequence[FeatureSpec]], *,
                    training: bool = True) -> Callable[..., Any]:
    """Return a function for ``dataset.map`` that submits the ids of each batch to the pipeline.

    Map the function sequentially (without ``num_parallel_calls``), as the last stage before ``prefetch``. The function
    adds a tensor, the ticket, to the batch. In a dict, the ticket is the entry ``<last sorted key>_read_emb_key``. In a
    pair (features, labels), the ticket is added to the features.

    Args:
        features: FeatureSpecs of the batch. Each batch must contain the ids of these features. Ids are integers of any
            shape, and may be dense, sparse or ragged.
        training: False if the batches are for evaluation. Batches for evaluation change no table.

    Raises:
        ValueError: features of one table have different thresholds, or ``eviction_threshold`` is set without a
            timestamp feature. The returned function raises the error if the batch has none of the features.
        TypeError: an argument is unknown. The returned function raises the error if ids are not integers.
        EnvironmentError: there are two timestamp features. The returned function raises the error if ``init`` was not
            called.
    """
    return get_asc_insert_func(features, is_training=training)


@checked(table=Instance(Table), ids=Instance(FeatureSpec, tf.Tensor, tf.SparseTensor, tf.RaggedTensor, list, tuple),
         training=boolean(), trainable=boolean(), default_value=DEFAULT, max_keys=Integer(1, optional=True),
         name=Text(1, 255, optional=True))
def sparse_lookup(table: Table, ids: Union[FeatureSpec, GivenIds], *, batch: Any = None, training: bool = True,
                  trainable: bool = True, default_value: Any = None, max_keys: Optional[int] = None,
                  access_threshold: Optional[int] = None, eviction_threshold: Optional[int] = None,
                  name: Optional[str] = None) -> tf.Tensor:
    """Look up the rows of ids in a table.

    Args:
        table: a table of ``create_table``.
        ids: FeatureSpec of this table whose ids are submitted by an ``insert_function``, or a Tensor, SparseTensor or
            RaggedTensor of integers that the program computes from a batch. ``start`` moves the ops that compute such a
            tensor into the dataset.
        batch: result of ``iterator.get_next()`` or its features, if ``ids`` is a FeatureSpec.
        training: if False, the lookup reads rows without a gradient, and creates no rows for new keys.
        trainable: if False, this lookup has no gradient, but new keys get rows. Rows keep their initial values if
            ``trainable`` is False in all lookups of the table.
        default_value: result for a key without a row, and for a missing position of sparse ids. A key has no row if it
            was not admitted. In evaluation, a key that did not occur in training has no row either. The value is a
            float scalar, a float vector [dim], "initial" or None. "initial" means the initial row of the key in
            evaluation and exported models, and zeros in training. None means "initial", or zeros if the table has an
            access threshold. With a FeatureSpec, initial rows require ``batch``.
        max_keys: maximum number of distinct keys of a batch, in [1, 2147483647]. It is required with
            ``init(use_dynamic=False)``.
        access_threshold: access threshold of the table, if ``ids`` is a tensor. Otherwise, the threshold is set by
            FeatureSpecs.
        eviction_threshold: eviction threshold of the table, like ``access_threshold``.
        name: name of the returned tensor, 1 to 255 characters.

    Returns:
        float32. The shape is the (dense) shape of the ids followed by dim.

    Raises:
        ValueError: an argument has the wrong type or is out of range. A FeatureSpec belongs to another table, or no
            dataset submits its ids. A dataset reorders batches. The ids are inputs of Keras, whose ``fit`` is not
            supported. With static shapes, an evaluation of a FeatureSpec has neither ``batch`` nor a number as
            ``default_value``.
        RuntimeError: ``batch`` is missing for a FeatureSpec, or the pipeline has already started.
        KeyError: ``batch`` does not contain the feature.
        TypeError: an argument is unknown. The error suggests a similar name.
    """
    return lookups.look_up(_request(
        table, lookups.only_feature(table, ids), batch, training=training, default_value=default_value,
        said={"access_threshold": access_threshold, "eviction_threshold": eviction_threshold}, is_grad=trainable,
        send_count=max_keys, name=name))


@checked(table=Instance(Table), training=boolean(), trainable=boolean(), default_value=DEFAULT,
         max_keys=Integer(1, optional=True), name=Text(1, 255, optional=True))
def lookup_sparse(table: Table, ids: Union[FeatureSpec, SparseIds], weights: Optional[SparseIds] = None,
                  combiner: Optional[str] = None, max_norm: Optional[float] = None, *, batch: Any = None,
                  training: bool = True, trainable: bool = True, default_value: Any = None,
                  max_keys: Optional[int] = None, access_threshold: Optional[int] = None,
                  eviction_threshold: Optional[int] = None, name: Optional[str] = None) -> tf.Tensor:
    """Look up bags of ids, and combine the rows of each bag.

    A bag is a row of a SparseTensor or RaggedTensor of ids. The results are the same as the results of
    ``tf.nn.embedding_lookup_sparse`` with the same combiner. They are bitwise equal for "sum" and "mean", and for
    "sqrtn" without weights. Unlike in TensorFlow, any integer is a valid id, any bag may be empty, and ids must be
    sorted by bag. The result for an empty bag is zeros. Unlike ``tf.nn.safe_embedding_lookup_sparse``, the lookup
    keeps ids below 0 and weights that are not positive; ``tf.sparse.retain`` removes them.

    The arguments ``training``, ``trainable``, ``max_keys``, ``access_threshold``, ``eviction_threshold`` and ``name``
    are the same as in ``sparse_lookup``.

    Args:
        table: a table of ``create_table``.
        ids: SparseTensor [bags, any] or RaggedTensor [bags, (ids)] of integers, or a FeatureSpec of this table with
            such ids in the batch.
        weights: float32, one weight for each id, in the same form and with the same indices as ``ids``. Weights get
            gradients.
        combiner: "sum" is the sum of rows times weights. "mean" is this sum divided by the sum of the weights. "sqrtn"
            is this sum divided by the square root of the sum of the squared weights. Without ``weights``, each weight
            is 1. None means "sum", and a warning is logged: TensorFlow's default is "mean".
        max_norm: maximum L2 norm of a row, greater than 0. Rows with a larger norm are scaled to ``max_norm`` before
            they are combined.
        batch: result of ``iterator.get_next()`` or its features, if ``ids`` is a FeatureSpec.
        default_value: row of a key without a row, as in ``sparse_lookup``.

    Returns:
        float32[bags, dim].

    Raises:
        CombinerError: E250. The ids are dense or do not have rank 2. The weights differ from the ids in form or shape,
            or are not float32. The combiner is unknown. ``sparse_lookup`` already looks up the same FeatureSpec.
        Exception: an error of ``sparse_lookup``.
    """
    return bags.lookup_sparse(_request(
        table, ids if isinstance(ids, FeatureSpec) else Ids.of(ids), batch, training=training,
        default_value=default_value, is_grad=trainable, send_count=max_keys, name=name,
        said={"access_threshold": access_threshold, "eviction_threshold": eviction_threshold}),
        None if weights is None else Ids.of(weights), bags.combiner_of(table.table_name, combiner), max_norm)


def table_variables() -> List[Any]:
    """Return the trainable tensors of the default graph's tables, for the argument ``var_list`` of an optimizer.

    The result contains the variable of each trainable table, float32[device rows, dim]. For tables that grow, the
    result contains the rows of the batch instead. The optimizer may belong to ``ascpipe.tf.optimizers`` or to
    TensorFlow. ``tf.trainable_variables()`` contains no tables.

    Raises:
        EnvironmentError: ``init`` was not called.
    """
    graph = tf.compat.v1.get_default_graph()
    if Process.current().configuration.use_dynamic_expansion:
        return list(graph.get_collection(LOCAL_ROWS))
    return [table.variable for table in GraphState.of(graph).tables.values() if table.trainable]


def _request(table: Table, ids: Union[FeatureSpec, Ids], batch: Any, *, training: bool, default_value: Any,
             said: Dict[str, Optional[int]], **others: Any) -> LookupRequest:
    """Convert the arguments of ``sparse_lookup`` or ``lookup_sparse`` to a ``LookupRequest``.

    ``said`` contains the thresholds, and ``others`` contains the other attributes of the request.
    """
    _require_max_keys(table, others["send_count"])
    gives_initial = isinstance(default_value, str)
    # Rec SDK's default is zeros, so programs that use its API get zeros.
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
