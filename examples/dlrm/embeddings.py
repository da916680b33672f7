"""Embeddings of the model: tables of ascpipe, or plain variables for a comparison.

Both classes have the same methods, so ``loop.py`` does not depend on the class:

    ranks                        number of processes that train together
    insert(dataset, training)    change of the dataset before ``prefetch``
    lookup(batch, training)      float32[B, dim] per field
    variables()                  (dense, sparse) variables to compute gradients for
    optimizer(name, rate)        optimizer of the sparse variables
    average(tensors)             means over ranks
    gather(tensors)              rows of all ranks
    start() and close()          start and end of the session
"""
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from examples.dlrm import criteo
from examples.dlrm.lazy_adam import LazyAdam
from examples.dlrm.quiet import tf
from examples.dlrm.reader import Batch

INITIAL_RANGE = .05  #: initial rows are uniformly distributed in +- INITIAL_RANGE
INITIAL_ACCUMULATOR = 0.0001  #: initial accumulator of Adagrad and Ftrl

#: (table name, int64[n] keys) -> float32[n, dim], the initial rows of a plain table
InitialRows = Callable[[str, np.ndarray], np.ndarray]


class TableShape(NamedTuple):
    """Settings of all tables of a run."""

    dim: int
    rows: int  #: rows of each table
    shared: bool  #: whether there is one table for all fields
    seed: int

    def table_of(self, field: str) -> str:
        """Return the name of the table with the keys of ``field``."""
        return "all_fields" if self.shared else field

    def tables(self) -> List[str]:
        """Return the distinct names of the tables in the order of the fields."""
        return list(dict.fromkeys(self.table_of(field) for field in criteo.FIELDS))


class PipelineTables:
    """Tables of ascpipe, through the public ``mx_rec`` API. With several ranks, each rank has a shard of every table.
    """

    def __init__(self, shape: TableShape, *, dynamic: bool, batch_size: int, eval_batch_size: int, steps: int) -> None:
        """Create the tables. Batch sizes are the sizes of one rank's batches."""
        from mx_rec.core.asc.feature_spec import FeatureSpec
        from mx_rec.core.embedding import create_table
        from mx_rec.util.initialize import get_rank_size, init

        init(max_steps=steps, use_dynamic=dynamic)
        self.ranks = get_rank_size()
        if self.ranks > 1:
            import horovod.tensorflow as hvd

            hvd.init()
        self._shape = shape
        # The number of distinct keys of a lookup cannot exceed the number of its ids.
        self._send_counts = {True: None if dynamic else batch_size, False: None if dynamic else eval_batch_size}
        self._tables = {
            name: create_table(
                key_dtype=tf.int64, dim=tf.TensorShape([shape.dim]), name=name,
                emb_initializer=tf.compat.v1.random_uniform_initializer(-INITIAL_RANGE, INITIAL_RANGE, seed=shape.seed),
                device_vocabulary_size=shape.rows, all2all_gradients_op="sum_gradients_and_div_by_ranksize")
            for name in shape.tables()}
        self._specs = {training: [FeatureSpec(field, table_name=shape.table_of(field), index_key=field)
                                  for field in criteo.FIELDS] for training in (True, False)}

    def insert(self, dataset: tf.data.Dataset, training: bool) -> tf.data.Dataset:
        from mx_rec.core.asc.helper import get_asc_insert_func

        return dataset.map(get_asc_insert_func(tgt_key_specs=self._specs[training], is_training=training))

    def lookup(self, batch: Batch, training: bool) -> List[tf.Tensor]:
        from mx_rec.core.embedding import sparse_lookup

        return [sparse_lookup(self._tables[self._shape.table_of(field)], spec, self._send_counts[training],
                              is_train=training, name="{}_lookup".format(field), batch=batch)
                for field, spec in zip(criteo.FIELDS, self._specs[training])]

    def variables(self) -> Tuple[List[tf.Variable], List[tf.Variable]]:
        from mx_rec.util.variable import get_dense_and_sparse_variable

        dense, sparse = get_dense_and_sparse_variable()
        return list(dense), list(sparse)

    def optimizer(self, name: str, rate: float) -> tf.compat.v1.train.Optimizer:
        from mx_rec.optimizers import adagrad, ftrl, gradient_descent, lazy_adam

        if name == "adagrad":
            return adagrad.create_hash_optimizer(rate, initial_accumulator_value=INITIAL_ACCUMULATOR)
        if name == "ftrl":
            return ftrl.create_hash_optimizer(rate, initial_accumulator_value=INITIAL_ACCUMULATOR)
        module = {"lazy_adam": lazy_adam, "gradient_descent": gradient_descent}[name]
        return module.create_hash_optimizer(rate)

    def average(self, tensors: List[tf.Tensor]) -> List[tf.Tensor]:
        if self.ranks == 1:
            return tensors
        import horovod.tensorflow as hvd

        return [hvd.allreduce(tensor, op=hvd.Average) for tensor in tensors]

    def gather(self, tensors: List[tf.Tensor]) -> List[tf.Tensor]:
        if self.ranks == 1:
            return tensors
        import horovod.tensorflow as hvd

        return [hvd.allgather(tensor) for tensor in tensors]

    def start(self) -> None:
        from mx_rec.core.asc.manager import start_asc_pipeline

        start_asc_pipeline()

    def close(self) -> None:
        from mx_rec.util.initialize import terminate_config_initializer

        terminate_config_initializer()


class PlainTables:
    """Tables in variables of TensorFlow, with one row per known key. Rows are found by binary search.

    In evaluation the lookup of an unknown key returns zeros. In training all keys must be known.
    """

    ranks = 1

    def __init__(self, shape: TableShape, vocabulary: Dict[str, np.ndarray],
                 initial_rows: Optional[InitialRows] = None) -> None:
        """Create the tables. ``vocabulary`` has sorted distinct int64 keys by field. Without ``initial_rows``
        the rows are random.
        """
        self._shape = shape
        self._keys = {  # sorted, because the number of the field is in the upper bits
            name: np.concatenate([vocabulary[field] for field in criteo.FIELDS if shape.table_of(field) == name])
            for name in shape.tables()}
        self._variables = {name: self._variable(name, initial_rows) for name in shape.tables()}

    def _variable(self, name: str, initial_rows: Optional[InitialRows]) -> tf.Variable:
        keys = self._keys[name]
        if initial_rows is None:
            random = np.random.RandomState(self._shape.seed)
            values = random.uniform(-INITIAL_RANGE, INITIAL_RANGE, size=(len(keys), self._shape.dim)).astype(np.float32)
        else:
            values = initial_rows(name, keys)
        return tf.compat.v1.get_variable(name, initializer=tf.constant(values), trainable=False)

    def insert(self, dataset: tf.data.Dataset, training: bool) -> tf.data.Dataset:
        return dataset

    def lookup(self, batch: Batch, training: bool) -> List[tf.Tensor]:
        rows, known = self._find(tf.stack([batch[field] for field in criteo.FIELDS]))
        tables = [self._variables[self._shape.table_of(field)] for field in criteo.FIELDS]
        embeddings = [tf.nn.embedding_lookup(table, part) for table, part in zip(tables, tf.unstack(rows))]
        if not training:
            return [part * tf.cast(is_known, tf.float32)[:, tf.newaxis]
                    for part, is_known in zip(embeddings, tf.unstack(known))]
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(known), ["a trained key is not known"])]):
            return [tf.identity(part) for part in embeddings]

    def _find(self, keys: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        """Return the row of each key in its field's table, and whether the row belongs to the key: int32 and
        bool [fields, B].

        The search covers the keys of all tables, which are sorted together.
        """
        every = np.concatenate(list(self._keys.values()))
        sizes = {name: len(known) for name, known in self._keys.items()}
        starts = dict(zip(sizes, np.cumsum([0] + list(sizes.values()))))
        names = [self._shape.table_of(field) for field in criteo.FIELDS]
        first = tf.constant([[starts[name]] for name in names], tf.int32)
        last = tf.constant([[starts[name] + sizes[name] - 1] for name in names], tf.int32)
        places = tf.reshape(tf.searchsorted(tf.constant(every), tf.reshape(keys, [-1])), tf.shape(keys))
        places = tf.clip_by_value(places, first, last)  # an unknown key may be in the range of another field
        return places - first, tf.equal(tf.gather(every, places), keys)

    def variables(self) -> Tuple[List[tf.Variable], List[tf.Variable]]:
        return list(tf.compat.v1.trainable_variables()), list(self._variables.values())

    def optimizer(self, name: str, rate: float) -> tf.compat.v1.train.Optimizer:
        return plain_optimizer(name, rate)

    def average(self, tensors: List[tf.Tensor]) -> List[tf.Tensor]:
        return tensors

    def gather(self, tensors: List[tf.Tensor]) -> List[tf.Tensor]:
        return tensors

    def start(self) -> None:
        """Do nothing. There is no pipeline to start."""

    def close(self) -> None:
        """Do nothing. There is no pipeline to close."""


def plain_optimizer(name: str, rate: float) -> tf.compat.v1.train.Optimizer:
    """Return TensorFlow's optimizer with this name. Sparse rows use lazy Adam instead of Adam."""
    train = tf.compat.v1.train
    if name == "adagrad":
        return train.AdagradOptimizer(rate, initial_accumulator_value=INITIAL_ACCUMULATOR)
    if name == "ftrl":
        return train.FtrlOptimizer(rate, initial_accumulator_value=INITIAL_ACCUMULATOR)
    if name == "gradient_descent":
        return train.GradientDescentOptimizer(rate)
    return LazyAdam(rate)
