"""DLRM over Criteo's records, with a sparse optimizer of its own; run it by ``ascpipe run``.

The optimizer is both TensorFlow's gradient descent and a ``CustomizedOptimizer``; the loss is scaled by 1024, and the
learning rates are overwritten to make up for it. Prints what it did as JSON; the log ends with "Demo done!".
"""
import json
import warnings

warnings.simplefilter("ignore")

import tensorflow as tf
from ascend_criteo import Config, Run, create_feature_spec_list, make_batch_and_iterator
from npu_bridge.estimator.npu.npu_config import NPURunConfig
from npu_bridge.npu_init import *
from tensorflow.python.training.gradient_descent import GradientDescentOptimizer

import mx_rec.util as mxrec_util
from mx_rec.constants.constants import ASCEND_SPARSE_LOOKUP_ID_OFFSET, ASCEND_SPARSE_LOOKUP_LOCAL_EMB
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers import lazy_adam
from mx_rec.optimizers.base import CustomizedOptimizer
from mx_rec.optimizers.gradient_descent_by_addr import create_hash_optimizer_by_addr
from mx_rec.util.initialize import ConfigInitializer, init, terminate_config_initializer
from mx_rec.util.log import logger
from mx_rec.util.variable import get_dense_and_sparse_variable

npu_plugin.set_device_sat_mode(0)

LOSS_SCALE = 1024.0
WEIGHT_DECAY = 0.0001
COLUMNS = {"label": (1, tf.int64), "sparse_feature": (26, tf.int64), "dense_feature": (13, tf.float32)}


def get_npu_run_config():
    return NPURunConfig(save_summary_steps=1000, save_checkpoints_steps=100, keep_checkpoint_max=5,
                        log_step_count_steps=1000, precision_mode="allow_mix_precision", enable_data_pre_proc=True,
                        iterations_per_loop=1, op_precision_mode="op_impl_mode.ini")


class SGDWithWeightDecay(GradientDescentOptimizer, CustomizedOptimizer):
    """``var -= rate * (gradient + decay * var)`` for the rows of a batch."""

    def __init__(self, learning_rate, weight_decay, use_locking=False, name="SGDWithWeightDecay"):
        self._weight_decay = weight_decay
        self.optimizer_type = "gradient_descent_with_weight_decay"
        super()._get_name(name=name)
        super().__init__(learning_rate=learning_rate, use_locking=use_locking,
                                                 name=self.unique_name)

    def _apply_sparse_duplicate_indices(self, grad, var):
        rate = tf.cast(self._learning_rate_tensor, var.dtype.base_dtype)
        decay = tf.cast(self._weight_decay, var.dtype.base_dtype)
        rows = tf.gather(var, grad.indices)
        change = -rate * (grad.values + decay * rows)
        return tf.compat.v1.scatter_nd_add(var, tf.expand_dims(grad.indices, 1), change, use_locking=self._use_locking)

    def _apply_dense(self, grad, var):
        raise NotImplementedError("this optimizer is for the rows of tables")


class LossScaleOptimizer:
    """Gradients of a scaled loss; the optimizer's learning rate makes up for the scale."""

    def __init__(self, opt, loss_scale):
        if not isinstance(opt, tf.compat.v1.train.Optimizer):
            raise ValueError("not an optimizer: {!r}".format(opt))
        self.opt, self.loss_scale = opt, loss_scale
        if hasattr(opt, "_learning_rate"):
            opt._learning_rate = opt._learning_rate / loss_scale
        elif hasattr(opt, "_lr"):
            opt._lr = opt._lr / loss_scale
        else:
            raise RuntimeError("an optimizer without a learning rate: {!r}".format(opt))

    def compute_gradients(self, loss, var_list):
        return self.opt.compute_gradients(loss * self.loss_scale, var_list=var_list)

    def gradients(self, loss, tensors):
        return tf.gradients(loss * self.loss_scale, tensors)

    def apply_gradients(self, grads_and_vars, **kwargs):
        return self.opt.apply_gradients(grads_and_vars, **kwargs)


def model_forward(table, feature_list, batch, is_train, cfg):
    embeddings = [sparse_lookup(table, feature, cfg.send_count, dim=None, is_train=is_train,
                                name=table.table_name + "_lookup", modify_graph=cfg.modify_graph, batch=batch,
                                access_and_evict_config=cfg.access_and_evict_config) for feature in feature_list]
    embedding = tf.add_n(embeddings)
    with tf.compat.v1.variable_scope("dlrm", reuse=tf.compat.v1.AUTO_REUSE, use_resource=True):
        bottom = tf.math.log1p(batch["dense_feature"])
        for number, units in enumerate([*cfg.bottom, cfg.dim]):
            bottom = layer(bottom, units, "bottom_{}".format(number), tf.nn.relu)
        features = tf.concat([tf.expand_dims(bottom, 1), embedding], axis=1)
        products = tf.matmul(features, features, transpose_b=True)
        number = 26 + 1
        upper = tf.boolean_mask(products, [[column > row for column in range(number)] for row in range(number)], axis=1)
        top = tf.concat([bottom, tf.reshape(upper, [cfg.batch_size, number * (number - 1) // 2])], axis=1)
        for number, units in enumerate(cfg.top):
            top = layer(top, units, "top_{}".format(number), tf.nn.relu)
        logit = layer(top, 1, "logit")
    label = tf.cast(batch["label"], tf.float32)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logit))
    return {"loss": loss, "pred": tf.sigmoid(logit)}


def layer(inputs, units, name, activation=None):
    return tf.compat.v1.layers.dense(inputs, units, activation, name=name,
                                     kernel_initializer=tf.compat.v1.glorot_uniform_initializer(seed=1))


def build_graph(table, is_train, cfg):
    specs = None if cfg.modify_graph else create_feature_spec_list(cfg, [table])
    batch, iterator = make_batch_and_iterator(cfg, COLUMNS, specs, is_train, extract=dict)
    if cfg.use_faae and cfg.modify_graph:
        tf.compat.v1.add_to_collection("ASCEND_TIMESTAMP", batch["timestamp"])
    feature_list = [batch["sparse_feature"]] * cfg.lookups if cfg.modify_graph else specs[:cfg.lookups]
    return iterator, batch, model_forward(table, feature_list, batch, is_train, cfg)


def get_dense_and_sparse_optimizer(cfg):
    dense_optimizer = GradientDescentOptimizer(learning_rate=cfg.dense_lr)
    if ConfigInitializer.get_instance().use_dynamic_expansion:
        sparse_optimizer = create_hash_optimizer_by_addr(learning_rate=cfg.sparse_lr, weight_decay=WEIGHT_DECAY)
    elif cfg.sparse_optimizer == "lazy_adam":
        sparse_optimizer = lazy_adam.create_hash_optimizer(learning_rate=cfg.sparse_lr)
    else:
        sparse_optimizer = SGDWithWeightDecay(learning_rate=cfg.sparse_lr, weight_decay=WEIGHT_DECAY)
        ConfigInitializer.get_instance().optimizer_config.optimizer_instance = sparse_optimizer
    return LossScaleOptimizer(dense_optimizer, LOSS_SCALE), LossScaleOptimizer(sparse_optimizer, LOSS_SCALE)


def get_train_ops(cfg, loss):
    dense_variables, sparse_variables = get_dense_and_sparse_variable()
    dense_optimizer, sparse_optimizer = get_dense_and_sparse_optimizer(cfg)
    global_step = tf.compat.v1.train.get_or_create_global_step()
    dense_grads = dense_optimizer.compute_gradients(loss, dense_variables)
    if mxrec_util.communication.hccl_ops.get_rank_size() > 1:
        dense_grads = [(hccl_ops.allreduce(grad, "sum"), variable) for grad, variable in dense_grads]
    if ConfigInitializer.get_instance().use_dynamic_expansion:
        embeddings = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_LOCAL_EMB)
        targets = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_ID_OFFSET)
    else:
        embeddings = targets = sparse_variables
    sparse_grads = sparse_optimizer.gradients(loss, embeddings)
    return [dense_optimizer.apply_gradients(dense_grads, global_step=global_step),
            sparse_optimizer.apply_gradients(list(zip(sparse_grads, targets)))]


def main():
    cfg = Config(batch_size=8192, lines=1024, epochs=(3, 1), dim=128, hbm_rows=24000000, ddr_rows=(500000, 24000000),
                 send_count=46000, bottom=[512, 256], top=[1024, 1024, 512, 256], dense_lr=10.0, sparse_lr=10.0,
                 sparse_optimizer="sgd")
    init(train_steps=cfg.train_steps, eval_steps=cfg.eval_steps, use_dynamic=cfg.use_dynamic,
         use_dynamic_expansion=cfg.use_dynamic_expansion)
    ConfigInitializer.get_instance().if_load = False
    logger.info("rank %s of %s", mxrec_util.communication.hccl_ops.get_rank_id(),
                mxrec_util.communication.hccl_ops.get_rank_size())
    table = create_table(key_dtype=tf.int64, dim=tf.TensorShape([cfg.dim]), name="sparse_embeddings",
                         emb_initializer=tf.compat.v1.truncated_normal_initializer(stddev=0.05), **cfg.vocabulary)
    train = build_graph(table, True, cfg)
    evaluation = build_graph(table, False, cfg)
    run = Run(cfg, [table], train, evaluation, get_train_ops(cfg, train[2]["loss"]))
    saver = tf.compat.v1.train.Saver()  # built, and never used
    run.run()
    terminate_config_initializer()
    logger.info("Demo done!")
    print(json.dumps(run.told))


if __name__ == "__main__":
    main()
