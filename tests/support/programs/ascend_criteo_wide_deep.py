"""Wide and deep over Criteo's lines: two tables, looked up with dense and sparse columns together; run it by
``ascpipe run``.

The model unpacks the static shape of what it looked up. Data ends by ``eos_map``. Prints what it did as JSON; the log
ends with "Demo done!".
"""
import json
import logging
import warnings

warnings.simplefilter("ignore")

import tensorflow as tf
from ascend_criteo import Config, Run, create_feature_spec_list, make_batch_and_iterator
from npu_bridge.estimator.npu.npu_config import NPURunConfig
from npu_bridge.npu_init import *

import mx_rec.util as mxrec_util
from mx_rec.constants.constants import (
    ASCEND_SPARSE_LOOKUP_ID_OFFSET,
    ASCEND_SPARSE_LOOKUP_LOCAL_EMB,
    ASCEND_TIMESTAMP,
    LIBREC_EOS_OPS_SO,
)
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers.base import CustomizedOptimizer
from mx_rec.optimizers.lazy_adam import create_hash_optimizer
from mx_rec.optimizers.lazy_adam_by_addr import create_hash_optimizer_by_address
from mx_rec.util.initialize import ConfigInitializer, init, terminate_config_initializer
from mx_rec.util.ops import import_host_pipeline_ops
from mx_rec.util.variable import get_dense_and_sparse_variable

npu_plugin.set_device_sat_mode(0)
logging.basicConfig(level=logging.INFO)

LOSS_SCALE = 1.0
COLUMNS = {"label": (1, tf.int64), "sparse": (26, tf.int64), "dense": (13, tf.int64)}


def get_npu_run_config():
    return NPURunConfig(save_summary_steps=1000, save_checkpoints_steps=100, iterations_per_loop=1,
                        precision_mode="must_keep_origin_dtype", op_precision_mode="op_impl_mode.ini")


def extract(columns):
    ids = tf.concat([columns["dense"], columns["sparse"]], axis=1)
    return {"sparse_feature": ids, "label": tf.cast(columns["label"], tf.float32)}


def with_end(is_training):
    channel_id = ConfigInitializer.get_instance().train_params_config.get_training_mode_channel_id(is_training)
    librec = import_host_pipeline_ops(LIBREC_EOS_OPS_SO)
    return lambda dataset: dataset.eos_map(librec, channel_id, 1270, 1080)


def look_up(table, features, batch, is_train, cfg):
    found = [sparse_lookup(table, feature, cfg.send_count, dim=None, is_train=is_train,
                           name=table.table_name + "_lookup", modify_graph=cfg.modify_graph, batch=batch,
                           access_and_evict_config=cfg.access_and_evict_config) for feature in features]
    return tf.add_n(found) / len(found)


def model_forward(tables, feature_lists, batch, is_train, cfg):
    wide, deep = (look_up(table, features, batch, is_train, cfg) for table, features in zip(tables, feature_lists))
    batch_size, fields, dim = deep.shape
    with tf.compat.v1.variable_scope("wide_deep", reuse=tf.compat.v1.AUTO_REUSE, use_resource=True):
        hidden = tf.reshape(deep, [batch_size, fields * dim])
        for number, units in enumerate(cfg.deep):
            hidden = tf.compat.v1.layers.dense(hidden, units, tf.nn.relu, name="deep_{}".format(number),
                                               kernel_initializer=tf.compat.v1.glorot_uniform_initializer(seed=1))
        logit = tf.compat.v1.layers.dense(hidden, 1, name="logit",
                                          kernel_initializer=tf.compat.v1.glorot_uniform_initializer(seed=2))
        logit += tf.reshape(tf.reduce_sum(wide, axis=[1, 2]), [batch_size, 1])
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=batch["label"], logits=logit))
    return {"loss": loss, "pred": tf.sigmoid(logit)}


def build_graph(tables, is_train, cfg):
    specs = None if cfg.modify_graph else create_feature_spec_list(cfg, tables)
    batch, iterator = make_batch_and_iterator(cfg, COLUMNS, specs, is_train, before_batch=with_end(is_train),
                                              extract=extract)
    if cfg.modify_graph:
        feature_lists = [[batch["sparse_feature"]] * cfg.lookups for _ in tables]
        if cfg.use_faae:
            tf.compat.v1.add_to_collection(ASCEND_TIMESTAMP, batch["timestamp"])
    else:
        feature_lists = [specs[:cfg.lookups], specs[cfg.lookups:2 * cfg.lookups]]
    return iterator, batch, model_forward(tables, feature_lists, batch, is_train, cfg)


def scale(optimizer):
    """Overwrites the learning rate, under the names that an optimizer has for it."""
    if hasattr(optimizer, "_lr"):
        optimizer._lr = optimizer._lr / LOSS_SCALE
    elif hasattr(optimizer, "_learning_rate"):
        optimizer._learning_rate = optimizer._learning_rate / LOSS_SCALE
    return optimizer


def get_train_ops(cfg, loss):
    dense_variables, sparse_variables = get_dense_and_sparse_variable()
    dense_optimizer = scale(tf.compat.v1.train.AdamOptimizer(learning_rate=cfg.learning_rate))
    if ConfigInitializer.get_instance().use_dynamic_expansion:
        sparse_optimizer = create_hash_optimizer_by_address(learning_rate=cfg.learning_rate)
        embeddings = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_LOCAL_EMB)
        targets = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_ID_OFFSET)
    else:
        sparse_optimizer = create_hash_optimizer(learning_rate=cfg.learning_rate)
        if not isinstance(sparse_optimizer, CustomizedOptimizer):
            raise TypeError("not an optimizer for tables: {!r}".format(sparse_optimizer))
        embeddings = targets = sparse_variables
    ConfigInitializer.get_instance().optimizer_config.optimizer_instance = sparse_optimizer
    dense_grads = dense_optimizer.compute_gradients(loss * LOSS_SCALE, var_list=dense_variables)
    sparse_grads = tf.gradients(loss * LOSS_SCALE, embeddings)
    return [dense_optimizer.apply_gradients(dense_grads),
            scale(sparse_optimizer).apply_gradients(list(zip(sparse_grads, targets)))]


def main():
    cfg = Config(batch_size=4096, lines=1, epochs=(1, 9), dim=8, hbm_rows=14000000, ddr_rows=(500000, 24000000),
                 send_count=46000, deep=[1024, 512, 256], learning_rate=0.001)
    init(train_steps=cfg.train_steps, eval_steps=cfg.eval_steps, use_dynamic=cfg.use_dynamic,
         use_dynamic_expansion=cfg.use_dynamic_expansion)
    ConfigInitializer.get_instance().if_load = False
    logging.info("rank %d", mxrec_util.communication.hccl_ops.get_rank_id())
    tables = [create_table(key_dtype=tf.int64, dim=tf.TensorShape([cfg.dim]), name=name,
                           emb_initializer=tf.compat.v1.truncated_normal_initializer(stddev=0.05), **cfg.vocabulary)
              for name in ("wide_embeddings", "deep_embeddings")]
    train = build_graph(tables, True, cfg)
    evaluation = build_graph(tables, False, cfg)
    run = Run(cfg, tables, train, evaluation, get_train_ops(cfg, train[2]["loss"]))
    saver = tf.compat.v1.train.Saver()  # built, and never used
    run.run()
    terminate_config_initializer()
    logging.info("Demo done!")
    print(json.dumps(run.told))


if __name__ == "__main__":
    main()
