"""A model as users write it: one table for each feature, plain lookups, ``tf.concat``, an MLP of 64, 32 and 1 units.

What a ``tf.Session`` loop (``bench/usual_session.py``) and an Estimator (``bench/usual_estimator.py``) have in common.
"""
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np

from bench import workloads

# Sides
OURS = "ours"
PLAIN = "plain"
CEILING = "ceiling"
ON_DISK = "on_disk"
HOME_PART = 4  #: of as many rows of a table on disk one is at home or on the device
PREFETCH = 32
RATE = .05
RANGE = .05
UNITS = (64, 32)


class Setting(NamedTuple):
    """What is trained, and how it is written.

    Attributes:
        side: OURS; ON_DISK: the same, with rows on disk; PLAIN: variables and ``tf.nn.embedding_lookup``; CEILING: the
            rows of a batch are constants, whose gradient is computed, and there is nothing to look up or to update.
        tables: how many; each has one feature of one id.
        rows: of a batch.
        dim: of the tables.
        keys: of each table.
        part: one in ``part`` of a table's rows fits on the device; 1 = all, and there are no host rows.
        exponent: of the Zipf distribution of the ids.
        optimizer: "adagrad" or "lazy_adam".
        modifies_graph: lookups have tensors, whose ids graph modification moves into the dataset.
        estimator: a ``tf.compat.v1.estimator.Estimator`` trains, not a loop over ``tf.Session.run``.
        batches: different ones, which are repeated.
        delay_ms: of ON_DISK: 0 = rows lie below the folder for temporary files; else on a disk whose reads and writes
            take so long.
        compute_ms: of ours, what each step computes besides, between its rows and its loss; no processor is busy then.
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


def names(setting: Setting) -> List[str]:
    """Of the features, and of their tables."""
    return ["C{}".format(number + 1) for number in range(setting.tables)]


def batches(setting: Setting) -> Tuple[Dict[str, np.ndarray], np.ndarray]:
    """Some batches: int64[batches, rows] by name of the feature, and the labels, float32[batches, rows]."""
    random = np.random.RandomState(1)
    features = {}
    for number, name in enumerate(names(setting)):
        ranks = workloads.Zipf(setting.keys, setting.exponent, seed=number).ranks(setting.batches * setting.rows)
        features[name] = random.permutation(setting.keys)[ranks].reshape(setting.batches, setting.rows)
    return features, random.randint(0, 2, size=(setting.batches, setting.rows)).astype(np.float32)


def tables(tf: Any, setting: Setting, directory: str = "") -> List[Any]:
    """Tables of ours, one for each feature; ``directory``: for rows on disk."""
    from mx_rec.core.embedding import create_table

    device = setting.keys // setting.part
    sizes: Dict[str, Any] = {"host_vocabulary_size": setting.keys if setting.part > 1 else 0}
    if setting.side == ON_DISK:
        home = max(2 * device, setting.keys // HOME_PART)
        sizes = {"host_vocabulary_size": home - device, "ssd_vocabulary_size": setting.keys - (home - device),
                 "ssd_data_path": [directory]}
    return [create_table(key_dtype=tf.int64, dim=setting.dim, name=name, emb_initializer=_initial_rows(tf, seed),
                         device_vocabulary_size=device, **sizes)
            for seed, name in enumerate(names(setting))]


def update_tables(tf: Any, setting: Setting, loss: Any, step: Any = None) -> Any:
    """An op that trains the dense part and the tables of ours; ``step``: a variable that counts."""
    from mx_rec.optimizers import adagrad, lazy_adam
    from mx_rec.util.variable import get_dense_and_sparse_variable

    dense, sparse = get_dense_and_sparse_variable()
    optimizer = _optimizer(tf, setting)
    pairs = optimizer.compute_gradients(loss, [*dense, *sparse])
    of_tables = {"adagrad": adagrad, "lazy_adam": lazy_adam}[setting.optimizer].create_hash_optimizer(RATE)
    return tf.group(optimizer.apply_gradients(pairs[:len(dense)], global_step=step),
                    of_tables.apply_gradients(pairs[len(dense):]))


def columns_of_variables(tf: Any, setting: Setting, features: Dict[str, Any]) -> List[Any]:
    """Rows of plain variables: float32[rows, dim] for each feature."""
    return [tf.nn.embedding_lookup(
        tf.get_variable(name, [setting.keys, setting.dim], initializer=_initial_rows(tf, seed)), features[name])
        for seed, name in enumerate(names(setting))]


def update_variables(tf: Any, setting: Setting, loss: Any, step: Any = None) -> Any:
    """An op that trains all variables."""
    return _optimizer(tf, setting).minimize(loss, global_step=step)


def columns_at_hand(tf: Any, setting: Setting) -> List[Any]:
    """Rows that nothing has to look up: float32[rows, dim] for each table."""
    random = np.random.RandomState(2)
    # Placeholders, or TensorFlow would compute with constants once and for all.
    return [tf.placeholder_with_default(
        random.uniform(-RANGE, RANGE, (setting.rows, setting.dim)).astype(np.float32), [setting.rows, setting.dim])
        for _ in range(setting.tables)]


def update_dense_part(tf: Any, setting: Setting, loss: Any, columns: List[Any], step: Any = None) -> Tuple[Any, Any]:
    """An op that trains the dense part, and a number of the gradient of each row: fetch it, or none is computed."""
    variables = tf.trainable_variables()
    gradients = tf.gradients(loss, variables + columns, gate_gradients=True)
    some = tf.add_n([gradient[0, 0] for gradient in gradients[len(variables):]])
    return _optimizer(tf, setting).apply_gradients(zip(gradients, variables), global_step=step), some


def loss_of(tf: Any, columns: List[Any], label: Any) -> Any:
    """The MLP and its loss."""
    inputs = tf.concat(columns, axis=1)
    for number, units in enumerate(UNITS):
        inputs = tf.layers.dense(inputs, units, tf.nn.relu, kernel_initializer=tf.glorot_uniform_initializer(number))
    logits = tf.layers.dense(inputs, 1, kernel_initializer=tf.glorot_uniform_initializer(len(UNITS)))
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=tf.squeeze(logits, axis=1)))


def _initial_rows(tf: Any, seed: int) -> Any:
    return tf.random_uniform_initializer(-RANGE, RANGE, seed=seed)


def _optimizer(tf: Any, setting: Setting) -> Any:
    if setting.optimizer == "adagrad":
        return tf.train.AdagradOptimizer(RATE)
    from tensorflow.contrib.opt import LazyAdamOptimizer

    return LazyAdamOptimizer(RATE)
