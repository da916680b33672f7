"""DCN v2 over Criteo's records, which never imports TensorFlow itself; run it by ``ascpipe run``.

Lazy Adam for the table; the loss is scaled by 65536, ``_lr`` is overwritten to make up for it. Prints what it did as
JSON; the log ends with "Demo done!".
"""
import json
import logging
import os
import warnings

warnings.simplefilter("ignore")

from ascend_criteo import Config, Run, create_feature_spec_list, make_batch_and_iterator, switch
from npu_bridge.npu_init import *

import mx_rec.util as mxrec_util
from mx_rec.constants.constants import ASCEND_SPARSE_LOOKUP_ID_OFFSET, ASCEND_SPARSE_LOOKUP_LOCAL_EMB, ASCEND_TIMESTAMP
from mx_rec.core.asc.helper import FeatureSpec, get_asc_insert_func
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers.lazy_adam import create_hash_optimizer
from mx_rec.optimizers.lazy_adam_by_addr import create_hash_optimizer_by_address
from mx_rec.util.initialize import ConfigInitializer, init, terminate_config_initializer
from mx_rec.util.variable import get_dense_and_sparse_variable

npu_plugin.set_device_sat_mode(0)
logging.getLogger().setLevel(logging.INFO)

LOSS_SCALE = 65536.0
COLUMNS = {"label": (1, tf.int64), "sparse_feature": (26, tf.int64), "dense_feature": (13, tf.float32)}
initializer = tf.compat.v1.glorot_uniform_initializer


def model_forward(table, feature_list, batch, is_train, cfg):
    embedding_list = []
    for feature in feature_list:
        embedding_list.append(sparse_lookup(
            table, feature, cfg.send_count, dim=None, is_train=is_train, name=table.table_name + "_lookup",
            modify_graph=cfg.modify_graph, batch=batch, access_and_evict_config=cfg.access_and_evict_config))
    embedding = tf.reshape(tf.reduce_mean(tf.stack(embedding_list), axis=0), [cfg.batch_size, 26 * cfg.dim])
    with tf.compat.v1.variable_scope("dcn", reuse=tf.compat.v1.AUTO_REUSE, use_resource=True):
        first = tf.concat([tf.math.log1p(batch["dense_feature"]), embedding], axis=1)
        size, crossed, deep = first.shape[1], first, first
        for number in range(cfg.cross_layers):
            weights = tf.compat.v1.get_variable("cross_w_%d" % number, [size, size], initializer=initializer(seed=1))
            bias = tf.compat.v1.get_variable("cross_b_%d" % number, [size],
                                             initializer=tf.compat.v1.zeros_initializer())
            crossed = first * (tf.matmul(crossed, weights) + bias) + crossed
        for number, units in enumerate(cfg.deep):
            deep = tf.compat.v1.layers.dense(deep, units, tf.nn.relu, name="deep_%d" % number,
                                             kernel_initializer=initializer(seed=2))
        logit = tf.compat.v1.layers.dense(tf.concat([crossed, deep], axis=1), 1, name="logit",
                                          kernel_initializer=initializer(seed=3))
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.cast(batch["label"], tf.float32), logits=logit))
    return {"loss": loss, "pred": tf.sigmoid(logit)}


def build_graph(table, is_train, cfg):
    specs = None if cfg.modify_graph else create_feature_spec_list(cfg, [table])
    batch, iterator = make_batch_and_iterator(cfg, COLUMNS, specs, is_train, extract=dict)
    if cfg.modify_graph:
        feature_list = [batch["sparse_feature"] for _ in range(cfg.lookups)]
        if cfg.use_faae:
            tf.compat.v1.add_to_collection(ASCEND_TIMESTAMP, batch["timestamp"])
    else:
        feature_list = [spec for spec in specs if not spec.is_timestamp]
    return iterator, batch, model_forward(table, feature_list, batch, is_train, cfg)


def get_train_ops(cfg, loss):
    dense_variables, sparse_variables = get_dense_and_sparse_variable()
    dense_optimizer = tf.compat.v1.train.AdamOptimizer(learning_rate=cfg.learning_rate)
    dense_grads = dense_optimizer.compute_gradients(loss, var_list=dense_variables)
    scaled = loss * LOSS_SCALE
    if ConfigInitializer.get_instance().use_dynamic_expansion:
        sparse_optimizer = create_hash_optimizer_by_address(learning_rate=cfg.learning_rate)
        embeddings = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_LOCAL_EMB)
        targets = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_ID_OFFSET)
    else:
        sparse_optimizer = create_hash_optimizer(learning_rate=cfg.learning_rate)
        embeddings = targets = sparse_variables
    # It is the one attribute, whichever of the two an optimizer has.
    for attribute in ("_lr", "_learning_rate"):
        if hasattr(sparse_optimizer, attribute):
            setattr(sparse_optimizer, attribute, getattr(sparse_optimizer, attribute) / cfg.slower)
    grads = [tf.IndexedSlices(grad.values / LOSS_SCALE, grad.indices, grad.dense_shape)
             if isinstance(grad, tf.IndexedSlices) else grad / LOSS_SCALE for grad in tf.gradients(scaled, embeddings)]
    return [dense_optimizer.apply_gradients(dense_grads), sparse_optimizer.apply_gradients(list(zip(grads, targets)))]


def main():
    cfg = Config(batch_size=8192, lines=1024, epochs=(3, 1), dim=128, hbm_rows=24000000, ddr_rows=(500000, 24000000),
                 send_count=46000, cross_layers=3, deep=[1024, 1024, 512], learning_rate=0.002, slower=2.0)
    # USE_SHM_SWAP and HUGE_TLB_ENABLE are of the card's host.
    init(train_steps=cfg.train_steps, eval_steps=cfg.eval_steps, use_dynamic=cfg.use_dynamic,
         use_dynamic_expansion=cfg.use_dynamic_expansion, use_lccl=switch("USE_LCCL"),
         use_shm_swap=switch("USE_SHM_SWAP"))
    ConfigInitializer.get_instance().if_load = False
    rank_id = mxrec_util.communication.hccl_ops.get_rank_id()
    logging.info("rank %d, huge pages %s", rank_id, os.getenv("HUGE_TLB_ENABLE"))
    table = create_table(key_dtype=tf.int64, dim=tf.TensorShape([cfg.dim]), name="sparse_embeddings",
                         emb_initializer=tf.compat.v1.truncated_normal_initializer(stddev=0.05), **cfg.vocabulary)
    train = build_graph(table, True, cfg)
    evaluation = build_graph(table, False, cfg)
    train_ops = get_train_ops(cfg, train[2]["loss"])
    saver = tf.compat.v1.train.Saver()  # built, and never used
    run = Run(cfg, [table], train, evaluation, train_ops)
    run.run()
    terminate_config_initializer()
    logging.info("Demo done!")
    print(json.dumps(run.told))


if __name__ == "__main__":
    main()
