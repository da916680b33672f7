"""A session demo as programs for Ascend servers have it; run it by ``ascpipe run``.

Prints "Demo done!", then what it did as JSON: the losses of each run, those of evaluations, and the steps it trained.
"""
import argparse
import json
import logging
import os
import warnings

warnings.simplefilter("ignore")

import numpy as np
from npu_bridge.npu_init import *
from rec_sdk_common.communication.hccl.hccl_info import get_rank_id

from mx_rec.core.asc.feature_spec import FeatureSpec
from mx_rec.core.asc.helper import get_asc_insert_func
from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers.lazy_adam import create_hash_optimizer
from mx_rec.util.initialize import init, terminate_config_initializer
from mx_rec.util.ops import import_host_pipeline_ops
from mx_rec.util.variable import get_dense_and_sparse_variable

tf.compat.v1.disable_eager_execution()
rank_id = get_rank_id()
BATCH_SIZE, FIELDS, DIM = 8, 3, 4


def sess_config():
    session_config = npu_config_proto(tf.compat.v1.ConfigProto(
        inter_op_parallelism_threads=1, intra_op_parallelism_threads=1))
    custom_op = session_config.graph_options.rewrite_options.custom_optimizers.add()
    custom_op.name = "NpuOptimizer"
    custom_op.parameter_map["use_off_line"].b = True
    custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("allow_mix_precision")
    session_config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    return session_config


def make_batch_and_iterator(feature_spec_list, is_training, batch_number):
    random = np.random.RandomState(1)
    rows = batch_number * BATCH_SIZE
    dataset = tf.data.Dataset.from_tensor_slices({
        "user_ids": random.randint(0, 30, (rows, FIELDS)), "item_ids": random.randint(0, 30, (rows, FIELDS)),
        "label_0": random.randint(0, 2, rows).astype(np.float32), "label_1": random.rand(rows).astype(np.float32)})
    dataset = dataset.batch(BATCH_SIZE, drop_remainder=True)
    dataset = dataset.map(get_asc_insert_func(tgt_key_specs=feature_spec_list, is_training=is_training,
                                              dump_graph=False))
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset.prefetch(10))
    return iterator.get_next(), iterator


def model_forward(feature_list, hash_table_list, batch, is_train):
    embedding_list = []
    for feature, hash_table in zip(feature_list, hash_table_list):
        embedding = sparse_lookup(hash_table, feature, BATCH_SIZE * FIELDS, is_train=is_train,
                                  access_and_evict_config=None, name=hash_table.table_name + "_lookup",
                                  modify_graph=False, batch=batch)
        embedding_list.append(tf.reduce_sum(embedding, axis=1, keepdims=False))
    with tf.compat.v1.variable_scope("dense", reuse=tf.compat.v1.AUTO_REUSE):
        weights = tf.compat.v1.get_variable(
            "weights", [3 * DIM, 2], initializer=tf.compat.v1.constant_initializer(0.1))
        logits = tf.matmul(tf.concat(embedding_list, axis=1), weights)
        labels = tf.stack([batch["label_0"], batch["label_1"]], axis=1)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--saved", required=True)
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument("--batches", type=int, default=20)
    args = parser.parse_args()

    # The step counts are wrong on purpose.
    init(max_steps=3, train_steps=7, eval_steps=2, save_steps=5, use_dynamic=True, use_dynamic_expansion=False)
    tf.compat.v1.set_random_seed(1)

    def specs():
        return [FeatureSpec("user_ids", table_name="user_table", index_key="user_ids"),
                FeatureSpec("item_ids", table_name="item_table", index_key="item_ids"),
                FeatureSpec("item_ids", table_name="user_table", index_key="item_ids")]

    tables = {name: create_table(key_dtype=tf.int64, dim=tf.TensorShape([DIM]), name=name,
                                 emb_initializer=tf.compat.v1.truncated_normal_initializer(),
                                 device_vocabulary_size=300, host_vocabulary_size=0)
              for name in ("user_table", "item_table")}
    hash_tables = [tables["user_table"], tables["item_table"], tables["user_table"]]
    train_specs, eval_specs = specs(), specs()
    train_batch, train_iterator = make_batch_and_iterator(train_specs, True, args.batches)
    train_loss = model_forward(train_specs, hash_tables, train_batch, is_train=True)
    eval_batch, eval_iterator = make_batch_and_iterator(eval_specs, False, 3)
    eval_loss = model_forward(eval_specs, hash_tables, eval_batch, is_train=False)

    dense_variables, sparse_variables = get_dense_and_sparse_variable()
    global_step = tf.compat.v1.train.get_or_create_global_step()
    dense_optimizer = tf.compat.v1.train.AdamOptimizer(learning_rate=0.01)
    sparse_optimizer = create_hash_optimizer(learning_rate=0.01)
    grads = tf.gradients(train_loss, dense_variables + sparse_variables)
    train_ops = tf.group(
        dense_optimizer.apply_gradients(zip(grads[:len(dense_variables)], dense_variables), global_step=global_step),
        sparse_optimizer.apply_gradients(zip(grads[len(dense_variables):], sparse_variables)))
    import_host_pipeline_ops().clear_channel(1)

    saver = tf.compat.v1.train.Saver()
    start_asc_pipeline()
    told = {"losses": [], "evaluations": []}
    with tf.compat.v1.Session(config=sess_config()) as sess:

        def evaluate():
            sess.run(eval_iterator.initializer)
            losses = []
            while True:
                try:
                    losses.append(float(sess.run(eval_loss)))
                except tf.errors.OutOfRangeError:
                    return losses

        sess.run(train_iterator.initializer)
        sess.run(tf.compat.v1.global_variables_initializer())
        if args.iterations > 1:
            train_ops = util.set_iteration_per_loop(sess, train_ops, args.iterations)
        saver.save(sess, os.path.join(args.saved, "model-{}".format(rank_id)), global_step=0)
        for i in range(args.iterations, 201, args.iterations):
            logging.info("training at step %d", i)
            try:
                _, loss = sess.run([train_ops, train_loss])
            except tf.errors.OutOfRangeError:
                break
            told["losses"].append(float(loss))
            if i % 10 == 0:
                told["evaluations"].append(evaluate())
                saver.save(sess, os.path.join(args.saved, "model-{}".format(rank_id)), global_step=i)
        told["steps"] = int(sess.run(global_step))
        told["sizes"] = [table.size() for table in tables.values()]
    terminate_config_initializer()
    print("Demo done!")
    print(json.dumps(told))


if __name__ == "__main__":
    main()
