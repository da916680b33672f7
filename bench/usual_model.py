"""Typical model: one table for each feature, plain lookups, ``tf.concat``, and an MLP of 64, 32 and 1 units.

The ``tf.Session`` loop (``bench/usual_session.py``) and the Estimator (``bench/usual_estimator.py``) use this module.
"""
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np

from bench import workloads

# Sides
OURS = "ours"
PLAIN = "plain"
CEILING = "ceiling"
FBGEMM = "fbgemm"
ON_DISK = "on_disk"
# Sources of batches
MEMORY = "memory"
RECORDS = "records"
SINGLE_RECORDS = "single_records"
SHUFFLED_RECORDS = "shuffled_records"
LINES = "lines"
PARQUET = "parquet"
LABEL = "label"
DENSE = "dense"
HOME_PART = 4  #: one in HOME_PART rows of a table on disk has a home row or is on the device
PREFETCH = 32
RATE = .05
ACCUMULATOR = .1  #: initial accumulator of Adagrad, the default of TensorFlow
RANGE = .05
UNITS = (64, 32)


class Setting(NamedTuple):
    """Setting of the training and of the program.

    Attributes:
        side: OURS, ON_DISK (ours with rows on disk), PLAIN (variables and ``tf.nn.embedding_lookup``), FBGEMM (PyTorch,
            see ``bench/usual_fbgemm.py``) or CEILING, which has constant rows: their gradient is computed, but nothing
            is looked up or updated.
        tables: number of tables. Each table has one feature with one id per row.
        rows: rows of a batch.
        dim: dim of the tables.
        keys: keys of each table.
        part: one in ``part`` rows of a table fits on the device. With 1 all rows fit, and there are no host rows.
        exponent: exponent of the Zipf distribution of the ids.
        optimizer: "adagrad" or "lazy_adam".
        modifies_graph: whether lookups get tensors. Graph modification then moves their ids into the dataset.
        estimator: whether a ``tf.estimator.Estimator`` trains, instead of a loop over ``tf.Session.run``.
        batches: number of different batches, which are repeated.
        delay_ms: latency of the disk of ON_DISK. With 0 the rows are in the folder for temporary files.
        compute_ms: duration of a wait in each of our steps, between the rows and the loss. The wait uses no processor
            time.
        source: source of the batches of a ``tf.Session`` loop: MEMORY, or a source of ``bench/usual_input.py``.
        reads: whether our side reads the file by ``asc.data.read``.
        data: path of the file of the source.
        prefetch: number of prefetched batches.
        constant: value of all elements of new rows, for comparisons of losses. With 0 they are random.
    """

    side: str
    tables: int
    rows: int
    dim: int = 16
    keys: int = 100000
    part: int = 1
    exponent: float = 1.05
    optimizer: str = "adagrad"
    modifies_graph: bool = False
    estimator: bool = False
    batches: int = 16
    delay_ms: int = 0
    compute_ms: int = 0
    source: str = MEMORY
    reads: bool = False
    data: str = ""
    prefetch: int = PREFETCH
    constant: float = 0.0


def names(setting: Setting) -> List[str]:
    """Return the names of the features, which are also the names of their tables."""
    return ["C{}".format(number + 1) for number in range(setting.tables)]


def batches(setting: Setting) -> Tuple[Dict[str, np.ndarray], np.ndarray]:
    """Return several batches: a dict from feature name to int64[batches, rows], and the labels, float32[batches, rows].
    """
    random = np.random.RandomState(1)
    features = {}
    for number, name in enumerate(names(setting)):
        ranks = workloads.Zipf(setting.keys, setting.exponent, seed=number).ranks(setting.batches * setting.rows)
        features[name] = random.permutation(setting.keys)[ranks].reshape(setting.batches, setting.rows)
    return features, random.randint(0, 2, size=(setting.batches, setting.rows)).astype(np.float32)


def tables(tf: Any, setting: Setting, directory: str = "") -> List[Any]:
    """Return our tables, one for each feature. ``directory`` is for rows on disk."""
    from mx_rec.core.embedding import create_table

    device = setting.keys // setting.part
    sizes: Dict[str, Any] = {"host_vocabulary_size": setting.keys if setting.part > 1 else 0}
    if setting.side == ON_DISK:
        home = max(2 * device, setting.keys // HOME_PART)
        sizes = {"host_vocabulary_size": home - device, "ssd_vocabulary_size": setting.keys - (home - device),
                 "ssd_data_path": [directory]}
    return [create_table(key_dtype=tf.int64, dim=setting.dim, name=name, device_vocabulary_size=device,
                         emb_initializer=_initial_rows(tf, setting, seed), **sizes)
            for seed, name in enumerate(names(setting))]


def update_tables(tf: Any, setting: Setting, loss: Any, step: Any = None) -> Any:
    """Return an op that trains the dense part and our tables. ``step`` is the variable of the global step."""
    from mx_rec.optimizers import adagrad, lazy_adam
    from mx_rec.util.variable import get_dense_and_sparse_variable

    dense, sparse = get_dense_and_sparse_variable()
    optimizer = _optimizer(tf, setting)
    pairs = optimizer.compute_gradients(loss, [*dense, *sparse])
    of_tables = (adagrad.create_hash_optimizer(RATE, initial_accumulator_value=ACCUMULATOR)
                 if setting.optimizer == "adagrad" else lazy_adam.create_hash_optimizer(RATE))
    return tf.group(optimizer.apply_gradients(pairs[:len(dense)], global_step=step),
                    of_tables.apply_gradients(pairs[len(dense):]))


def columns_of_variables(tf: Any, setting: Setting, features: Dict[str, Any]) -> List[Any]:
    """Return rows of plain variables: float32[rows, dim] for each feature."""
    shape = [setting.keys, setting.dim]
    return [tf.nn.embedding_lookup(tf.get_variable(name, shape, initializer=_initial_rows(tf, setting, seed)),
                                   features[name]) for seed, name in enumerate(names(setting))]


def update_variables(tf: Any, setting: Setting, loss: Any, step: Any = None) -> Any:
    """Return an op that trains all variables. ``step`` is the variable of the global step."""
    return _optimizer(tf, setting).minimize(loss, global_step=step)


def columns_at_hand(tf: Any, setting: Setting) -> List[Any]:
    """Return rows without a lookup: float32[rows, dim] for each table."""
    random = np.random.RandomState(2)
    # The rows are placeholders, because TensorFlow would evaluate constants only once.
    return [tf.placeholder_with_default(
        random.uniform(-RANGE, RANGE, (setting.rows, setting.dim)).astype(np.float32), [setting.rows, setting.dim])
        for _ in range(setting.tables)]


def update_dense_part(tf: Any, setting: Setting, loss: Any, columns: List[Any], step: Any = None) -> Tuple[Any, Any]:
    """Return an op that trains the dense part, and the sum of one element of each row gradient. The row gradients are
    computed only if the sum is fetched.
    """
    variables = tf.trainable_variables()
    gradients = tf.gradients(loss, variables + columns, gate_gradients=True)
    some = tf.add_n([gradient[0, 0] for gradient in gradients[len(variables):]])
    return _optimizer(tf, setting).apply_gradients(zip(gradients, variables), global_step=step), some


def loss_of(tf: Any, columns: List[Any], label: Any) -> Any:
    """Return the loss of the MLP."""
    inputs = tf.concat(columns, axis=1)
    *hidden, last = [tf.constant_initializer(kernel) for kernel in kernels(int(inputs.shape[1]))]
    for units, kernel in zip(UNITS, hidden):
        inputs = tf.layers.dense(inputs, units, tf.nn.relu, kernel_initializer=kernel)
    logits = tf.layers.dense(inputs, 1, kernel_initializer=last)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=tf.squeeze(logits, axis=1)))


def with_dense(columns: List[Any], batch: Dict[str, Any]) -> List[Any]:
    """Return the inputs of the MLP: the rows, and the dense feature if the batch has one."""
    return [*columns, batch[DENSE]] if DENSE in batch else columns


def kernels(inputs: int) -> List[np.ndarray]:
    """Return the initial weights of the MLP, Glorot's uniform distribution: float32[inputs, units] for each layer."""
    random = np.random.RandomState(3)
    shapes = list(zip((inputs, *UNITS), (*UNITS, 1)))
    return [random.uniform(-1, 1, shape).astype(np.float32) * np.float32(np.sqrt(6 / sum(shape))) for shape in shapes]


def _initial_rows(tf: Any, setting: Setting, seed: int) -> Any:
    if setting.constant:
        return tf.constant_initializer(setting.constant)
    return tf.random_uniform_initializer(-RANGE, RANGE, seed=seed)


def _optimizer(tf: Any, setting: Setting) -> Any:
    if setting.optimizer == "adagrad":
        return tf.train.AdagradOptimizer(RATE)
    from tensorflow.contrib.opt import LazyAdamOptimizer

    return LazyAdamOptimizer(RATE)
