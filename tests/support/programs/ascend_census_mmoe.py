"""Experts with a gate for each of two tasks, over census records; run it by ``ascpipe run``.

Data ends by ``eos_map``; nothing is scaled. Prints what it did as JSON; the log ends with "Demo done!".
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
from mx_rec.optimizers.lazy_adam import create_hash_optimizer
from mx_rec.optimizers.lazy_adam_by_addr import create_hash_optimizer_by_address
from mx_rec.util.initialize import ConfigInitializer, init, terminate_config_initializer
from mx_rec.util.ops import import_host_pipeline_ops
from mx_rec.util.variable import get_dense_and_sparse_variable

npu_plugin.set_device_sat_mode(0)
logging.basicConfig(level=logging.INFO)

COLUMNS = {"label": (2, tf.int64), "sparse_feature": (29, tf.int64), "dense_feature": (11, tf.float32)}
TASKS = ("income", "married")


def get_npu_run_config():
    return NPURunConfig(save_summary_steps=1000, save_checkpoints_steps=100, iterations_per_loop=1,
                        precision_mode="must_keep_origin_dtype", op_precision_mode="op_impl_mode.ini")


def layer(inputs, units, name, activation=None):
    return tf.compat.v1.layers.dense(inputs, units, activation, name=name,
                                     kernel_initializer=tf.compat.v1.glorot_uniform_initializer(seed=1))


def model_forward(table, feature_list, batch, is_train, cfg):
    embeddings = [sparse_lookup(table, feature, cfg.send_count, dim=None, is_train=is_train,
                                name=table.table_name + "_lookup", modify_graph=cfg.modify_graph, batch=batch,
                                access_and_evict_config=cfg.access_and_evict_config) for feature in feature_list]
    embedding = tf.reshape(tf.add_n(embeddings), [cfg.batch_size, 29 * cfg.dim])
    inputs = tf.concat([embedding, batch["dense_feature"]], axis=1)
    losses, predictions = [], []
    with tf.compat.v1.variable_scope("mmoe", reuse=tf.compat.v1.AUTO_REUSE, use_resource=True):
        experts = tf.stack([layer(inputs, cfg.expert, "expert_{}".format(number), tf.nn.relu)
                            for number in range(cfg.experts)], axis=1)
        for number, task in enumerate(TASKS):
            gate = tf.nn.softmax(layer(inputs, cfg.experts, "gate_" + task))
            mixed = tf.reduce_sum(experts * tf.expand_dims(gate, 2), axis=1)
            logit = tf.squeeze(layer(layer(mixed, cfg.tower, "tower_" + task, tf.nn.relu), 1, "logit_" + task), axis=1)
            label = tf.cast(batch["label"][:, number], tf.float32)
            losses.append(tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logit)))
            predictions.append(tf.sigmoid(logit))
    return {"loss": losses, "pred": tf.stack(predictions, axis=1)}


def with_end(is_training):
    channel_id = ConfigInitializer.get_instance().train_params_config.get_training_mode_channel_id(is_training)
    librec = import_host_pipeline_ops(LIBREC_EOS_OPS_SO)
    return lambda dataset: dataset.eos_map(librec, channel_id, -1, 1500)


def build_graph(table, is_train, cfg):
    specs = None if cfg.modify_graph else create_feature_spec_list(cfg, [table])
    batch, iterator = make_batch_and_iterator(cfg, COLUMNS, specs, is_train, before_batch=with_end(is_train),
                                              extract=dict)
    if cfg.modify_graph:
        feature_list = [batch["sparse_feature"]] * cfg.lookups
        if cfg.use_faae:
            tf.compat.v1.add_to_collection(ASCEND_TIMESTAMP, batch["timestamp"])
    else:
        feature_list = specs[:cfg.lookups]
    return iterator, batch, model_forward(table, feature_list, batch, is_train, cfg)


def get_train_ops(cfg, losses):
    dense_variables, sparse_variables = get_dense_and_sparse_variable()
    dense_optimizer = tf.compat.v1.train.AdamOptimizer(learning_rate=cfg.learning_rate)
    if ConfigInitializer.get_instance().use_dynamic_expansion:
        sparse_optimizer = create_hash_optimizer_by_address(learning_rate=cfg.learning_rate)
        embeddings = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_LOCAL_EMB)
        targets = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_ID_OFFSET)
    else:
        sparse_optimizer = create_hash_optimizer(learning_rate=cfg.learning_rate)
        embeddings = targets = sparse_variables
    loss = tf.add_n(losses)
    dense_grads = dense_optimizer.compute_gradients(loss, var_list=dense_variables)
    sparse_grads = tf.gradients(loss, embeddings)
    return [dense_optimizer.apply_gradients(dense_grads),
            sparse_optimizer.apply_gradients(list(zip(sparse_grads, targets)))]


def main():
    cfg = Config(batch_size=32, lines=1, epochs=(100, 100), dim=144, hbm_rows=1000, ddr_rows=(1000, 1000),
                 send_count=928, experts=8, expert=16, tower=8, learning_rate=0.001)
    init(train_steps=cfg.train_steps, eval_steps=cfg.eval_steps, use_dynamic=cfg.use_dynamic,
         use_dynamic_expansion=cfg.use_dynamic_expansion)
    logging.info("rank %d", mxrec_util.communication.hccl_ops.get_rank_id())
    table = create_table(key_dtype=tf.int64, dim=tf.TensorShape([cfg.dim]), name="sparse_embeddings",
                         emb_initializer=tf.compat.v1.truncated_normal_initializer(stddev=0.05), is_dp=cfg.use_dp,
                         **cfg.vocabulary)
    train = build_graph(table, True, cfg)
    evaluation = build_graph(table, False, cfg)
    run = Run(cfg, [table], train, evaluation, get_train_ops(cfg, train[2]["loss"]))
    run.run()
    terminate_config_initializer()
    logging.info("Demo done!")
    print(json.dumps(run.told))


if __name__ == "__main__":
    main()
