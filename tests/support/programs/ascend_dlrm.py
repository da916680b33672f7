"""DLRM with optimizers of its own and a loss scale that moves, as programs for Ascend servers have it; run it by
``ascpipe run``.

Features are declared with places in a tuple; the ids of one are ragged. A managed session trains, with hooks that
evict, raise a threshold and evaluate.  A gradient that is not finite makes a step that changes nothing.

Prints the losses, the loss scale after each step, and the table's sizes, as JSON.
"""
import argparse
import json
import warnings

warnings.simplefilter("ignore")

import numpy as np
from npu_bridge.npu_init import *

from mx_rec.core.asc.helper import FeatureSpec, get_asc_insert_func
from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.core.feature_process import EvictHook
from mx_rec.optimizers.lazy_adam import CustomizedLazyAdam
from mx_rec.util.initialize import ConfigInitializer, init, terminate_config_initializer
from mx_rec.util.ops import import_host_pipeline_ops
from mx_rec.util.variable import get_dense_and_sparse_variable

BATCH, STEPS, FIELDS, DIM = 8, 24, 3, 4
FIRST_SCALE, GROWS_EACH = 1024.0, 5
INFINITE_AT = 7  #: number of the batch with an infinite input


class ScaledLazyAdam(CustomizedLazyAdam):
    """Lazy Adam of scaled losses, with bounded steps."""

    def __init__(self, learning_rate, scale):
        super().__init__(learning_rate=learning_rate, beta1=0.9, beta2=0.999, epsilon=1e-8, name="ScaledLazyAdam")
        self._scale = scale
        self._lr = learning_rate / 2  # as if the program had thought again

    def compute_gradients(self, loss, var_list=None, **kwargs):
        return [(None if gradient is None else tf.IndexedSlices(
            gradient.values / self._scale, gradient.indices, gradient.dense_shape), variable)
            for gradient, variable in super().compute_gradients(loss * self._scale, var_list=var_list, **kwargs)]

    def _apply_sparse_duplicate_indices(self, grad, var):
        bounded = tf.clip_by_value(grad.values, -1.0, 1.0)
        return super()._apply_sparse_duplicate_indices(tf.IndexedSlices(bounded, grad.indices, grad.dense_shape), var)


class Careful(tf.compat.v1.train.Optimizer):
    """Leaves a step out whose gradients are not finite, and moves the loss scale."""

    def __init__(self, dense, sparse, scale):
        super().__init__(use_locking=False, name="Careful")
        self._dense, self._sparse, self._loss_scale = dense, sparse, scale

    def compute_gradients(self, loss, var_list=None, **kwargs):
        tables = set(get_dense_and_sparse_variable()[1])
        dense = self._dense.compute_gradients(loss * self._loss_scale, [v for v in var_list if v not in tables])
        return [(gradient / self._loss_scale, variable) for gradient, variable in dense] + \
            self._sparse.compute_gradients(loss, [v for v in var_list if v in tables])

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        tables = set(get_dense_and_sparse_variable()[1])
        grads_and_vars = list(grads_and_vars)
        finite = tf.reduce_all(tf.stack([tf.reduce_all(tf.math.is_finite(
            gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient)) for gradient, _ in
            grads_and_vars]))

        def change():
            with tf.control_dependencies([
                    self._dense.apply_gradients([pair for pair in grads_and_vars if pair[1] not in tables]),
                    self._sparse.apply_gradients([pair for pair in grads_and_vars if pair[1] in tables])]):
                grows = tf.equal((global_step + 1) % GROWS_EACH, 0)
                return tf.identity(self._loss_scale.assign(self._loss_scale * tf.where(grows, 2.0, 1.0)))

        scale = tf.cond(finite, change, lambda: tf.identity(self._loss_scale.assign(self._loss_scale / 2)))
        with tf.control_dependencies([scale]):
            return tf.group(tf.compat.v1.assign_add(global_step, 1), name=name)


def dataset(specs, batches, seed, is_training):
    random = np.random.RandomState(seed)
    count = batches * BATCH
    fields = random.randint(-20, 20, (count, FIELDS)).astype(np.int32)
    numbers = random.rand(count, 2).astype(np.float32)
    if is_training:
        numbers[INFINITE_AT * BATCH, 0] = np.inf
    tags = tf.RaggedTensor.from_row_lengths(
        random.randint(100, 120, 2 * count), np.tile([0, 1, 3, 4], count)[:count])
    labels = random.randint(0, 2, count).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((fields, tags, numbers, labels)).batch(BATCH, drop_remainder=True)
    stamped = tf.data.Dataset.zip((data, tf.data.Dataset.range(1, 10 ** 6)))
    data = stamped.map(lambda batch, time: (*batch, time))
    return data.map(get_asc_insert_func(specs, is_training=is_training)).prefetch(20)


def specs():
    thresholds = {"access_threshold": 1, "eviction_threshold": 4}
    return [FeatureSpec("fields", table_name="all", index_key=0, **thresholds),
            FeatureSpec("tags", table_name="all", index_key=1, **thresholds),
            FeatureSpec("time", index_key=4, is_timestamp=True)]


def model(table, features, batch, is_train):
    fields, tags = (sparse_lookup(table, spec, is_train=is_train, batch=batch) for spec in features[:2])
    with tf.compat.v1.variable_scope("dlrm", reuse=tf.compat.v1.AUTO_REUSE):
        bottom = tf.compat.v1.layers.dense(batch[2], DIM, tf.nn.relu, name="bottom", kernel_initializer=(
            tf.compat.v1.glorot_uniform_initializer(seed=1)))
        vectors = tf.concat([bottom[:, tf.newaxis], fields, tf.reduce_sum(tags, axis=1, keepdims=True)], axis=1)
        products = tf.reshape(tf.matmul(vectors, vectors, transpose_b=True), [BATCH, (FIELDS + 2) ** 2])
        logits = tf.compat.v1.layers.dense(tf.concat([bottom, products], axis=1), 1, name="top", kernel_initializer=(
            tf.compat.v1.glorot_uniform_initializer(seed=2)))
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(
            labels=batch[3], logits=tf.squeeze(logits, axis=1)))


class Watch(tf.estimator.SessionRunHook):
    """Notes losses and the scale; raises the threshold and evaluates on the way."""

    def __init__(self, table, loss, scale, eval_loss, eval_iterator):
        self.table, self.fetches = table, [loss, scale]
        self.eval_loss, self.eval_iterator = eval_loss, eval_iterator
        self.told = {"losses": [], "scales": [], "sizes": [], "evaluations": []}

    def begin(self):
        self.raise_threshold = import_host_pipeline_ops().set_threshold(
            tf.constant(3), emb_name="all", ids_name="all_lookup")

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs(self.fetches)

    def after_run(self, run_context, run_values):
        loss, scale = run_values.results
        self.told["losses"].append(float(loss))
        self.told["scales"].append(float(scale))
        self.told["sizes"].append(self.table.size())
        step = len(self.told["losses"])
        if step == 10:
            run_context.session.run(self.raise_threshold)
        if step % 12 == 0:
            run_context.session.run(self.eval_iterator.initializer)
            self.told["evaluations"].append([float(run_context.session.run(self.eval_loss)) for _ in range(2)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--saved", required=True)
    parser.add_argument("--host-rows", type=int, default=0)
    args = parser.parse_args()
    init(train_steps=-1, eval_steps=-1, save_steps=-1)
    ConfigInitializer.get_instance().train_params_config.ascend_global_hashtable_collection = "OUR_TABLES"
    tf.compat.v1.set_random_seed(3)
    table = create_table(tf.int64, DIM, "all", tf.compat.v1.random_uniform_initializer(-0.1, 0.1),
                         device_vocabulary_size=50 if args.host_rows else 200, host_vocabulary_size=args.host_rows)
    features, eval_features = specs(), specs()
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset(features, STEPS, 1, True))
    tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    loss = model(table, features, iterator.get_next(), True)
    eval_iterator = tf.compat.v1.data.make_initializable_iterator(dataset(eval_features, 2, 2, False))
    eval_loss = model(table, eval_features, eval_iterator.get_next(), False)
    scale = tf.compat.v1.get_variable("loss_scale", initializer=FIRST_SCALE, trainable=False)
    dense_variables, sparse_variables = get_dense_and_sparse_variable()
    step = tf.compat.v1.train.get_or_create_global_step()
    optimizer = Careful(tf.compat.v1.train.AdagradOptimizer(0.05), ScaledLazyAdam(0.1, scale), scale)
    train_op = optimizer.minimize(loss, global_step=step, var_list=dense_variables + sparse_variables)
    start_asc_pipeline()
    watch = Watch(table, loss, scale, eval_loss, eval_iterator)
    hooks = [watch, EvictHook(evict_enable=True, evict_time_interval=3600, evict_step_interval=6),
             tf.estimator.StopAtStepHook(last_step=STEPS)]
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
    with tf.compat.v1.train.MonitoredTrainingSession(
            checkpoint_dir=args.saved, hooks=npu_hooks_append(hooks), save_checkpoint_steps=12,
            config=config) as session:
        while not session.should_stop():
            session.run(train_op)
    terminate_config_initializer()
    print(json.dumps(watch.told))


if __name__ == "__main__":
    main()
