"""A model with experts, gates and two towers, as programs for Ascend servers have it; run it by ``ascpipe run``.

Lookups of tensors (graph modification); dense gradients through ``hccl_ops.allreduce``, each task with updates of its
own; dropout; a padding key; a lookup that does not train; several iterations in one run; two sessions.

Prints what it did as JSON.
"""
import argparse
import json
import os
import warnings

warnings.simplefilter("ignore")

import numpy as np
from npu_bridge.hccl import hccl_ops
from npu_bridge.npu_init import *

from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.graph.merge_lookup import do_merge_lookup
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.optimizers.adagrad import create_hash_optimizer
from mx_rec.util.initialize import clear_channel, get_initializer, get_rank_size, init, terminate_config_initializer
from mx_rec.util.ops import import_host_pipeline_ops
from mx_rec.util.variable import get_dense_and_sparse_variable

BATCH, STEPS, EVAL_STEPS = 16, 16, 3
PADDING = 0
EXPERTS, UNITS = 3, 6


def dataset(batches, seed):
    random = np.random.RandomState(seed)
    clicked = random.randint(0, 2, (batches, BATCH)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices({
        "user": random.randint(1, 60, (batches, BATCH)), "seen": random.randint(0, 80, (batches, BATCH, 5)),
        "item": random.randint(1, 80, (batches, BATCH)), "click": clicked,
        "buy": clicked * random.randint(0, 2, (batches, BATCH)).astype(np.float32)})


def layer(inputs, units, name, activation=None):
    return tf.compat.v1.layers.dense(inputs, units, activation, name=name,
                                     kernel_initializer=tf.compat.v1.glorot_normal_initializer(seed=3))


def model(tables, batch, is_train):
    user = sparse_lookup(tables["user"], tf.expand_dims(batch["user"], 1), BATCH, is_train=is_train, name="user_lookup",
                         modify_graph=True, batch=batch)
    seen = sparse_lookup(tables["item"], batch["seen"], 5 * BATCH, is_train=is_train, name="seen_lookup",
                         modify_graph=True, batch=batch)
    item = sparse_lookup(tables["item"], batch["item"] % 40, BATCH, is_train=is_train, name="item_lookup",
                         modify_graph=True, batch=batch)
    # Neighbours of the item lend their rows and are not trained by that.
    beside = sparse_lookup(tables["item"], tf.stack([batch["item"] - 1, batch["item"] + 1], axis=1), 2 * BATCH,
                           is_train=is_train, name="beside_lookup", modify_graph=True, batch=batch, is_grad=False)
    present = tf.cast(tf.not_equal(batch["seen"], PADDING), tf.float32)[:, :, tf.newaxis]
    with tf.compat.v1.variable_scope("experts", reuse=tf.compat.v1.AUTO_REUSE, use_resource=True):
        inputs = tf.concat([tf.squeeze(user, axis=1), tf.reduce_sum(seen * present, axis=1), item,
                            tf.reduce_mean(beside, axis=1)], axis=1)
        if is_train:
            inputs = npu_ops.dropout(inputs, keep_prob=0.9, seed=5)
        experts = tf.stack([layer(inputs, UNITS, "expert_%d" % i, tf.nn.relu) for i in range(EXPERTS)], axis=1)
        losses = []
        for task in ("click", "buy"):
            gate = tf.nn.softmax(layer(inputs, EXPERTS, "gate_" + task))
            mixed = tf.reduce_sum(experts * gate[:, :, tf.newaxis], axis=1)
            logits = tf.squeeze(layer(mixed, 1, "tower_" + task), axis=1)
            losses.append(tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=batch[task], logits=logits)))
    return losses


def train_ops_of(losses):
    dense_variables, sparse_variables = get_dense_and_sparse_variable()
    do_merge_lookup(is_train=True)
    dense_optimizer = tf.compat.v1.train.AdamOptimizer(0.01)
    sparse_optimizer = create_hash_optimizer(learning_rate=0.1, initial_accumulator_value=0.5)
    train_ops = []
    of_tasks = [tf.gradients(loss, dense_variables + sparse_variables) for loss in losses]
    for gradients in of_tasks:
        with tf.control_dependencies(train_ops):  # the second task's updates come after those of the first
            pairs = []
            for gradient, variable in zip(gradients[:len(dense_variables)], dense_variables):
                if gradient is not None:  # towers of the other task
                    pairs.append((hccl_ops.allreduce(gradient, "sum") / float(get_rank_size()), variable))
            train_ops = [dense_optimizer.apply_gradients(pairs), sparse_optimizer.apply_gradients(
                list(zip(gradients[len(dense_variables):], sparse_variables)))]
    step = tf.compat.v1.train.get_or_create_global_step()
    with tf.control_dependencies(train_ops):
        return tf.compat.v1.assign_add(step, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--saved", required=True)
    parser.add_argument("--iterations", type=int, default=4)
    args = parser.parse_args()
    saved = args.saved
    init(max_steps=STEPS, train_steps=4, eval_steps=EVAL_STEPS, save_steps=4, use_dynamic=False)
    tf.compat.v1.set_random_seed(7)
    tables = {name: create_table(
        key_dtype=tf.int64, dim=tf.TensorShape([dim]), name=name + ".table", device_vocabulary_size=100,
        emb_initializer=tf.compat.v1.variance_scaling_initializer(), host_vocabulary_size=host, **padding)
        for name, dim, host, padding in (
            ("user", 6, 0, {}),
            ("item", 4, 500, {"padding_keys": [PADDING], "padding_keys_mask": True, "padding_keys_len": 1}))}
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset(STEPS, 1).prefetch(32))
    losses = model(tables, iterator.get_next(), is_train=True)
    eval_iterator = tf.compat.v1.data.make_initializable_iterator(dataset(EVAL_STEPS, 2).prefetch(32))
    eval_losses = model(tables, eval_iterator.get_next(), is_train=False)
    train_op = train_ops_of(losses)
    clear_channel(is_train_channel=False), import_host_pipeline_ops().clear_channel(0)  # made, never run
    saver = tf.compat.v1.train.Saver(max_to_keep=2)
    modify_graph_and_start_emb_cache()
    told = {"losses": [], "evaluations": [], "sizes": []}
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)

    def evaluate(sess):
        sess.run(get_initializer(False))
        told["evaluations"].append([[float(loss) for loss in sess.run(eval_losses)] for _ in range(EVAL_STEPS)])

    with tf.compat.v1.Session(config=npu_config_proto(config)) as sess:
        sess.run(get_initializer(True))
        sess.run(tf.compat.v1.global_variables_initializer())
        loop = util.set_iteration_per_loop(sess, train_op, args.iterations)
        for _ in range(STEPS // args.iterations):
            told["losses"].append([float(loss) for loss in sess.run([loop, *losses])[1:]])
            told["sizes"].append([tables[name].size() for name in ("user", "item")])
            saver.save(sess, os.path.join(saved, "model"), global_step=int(sess.run(
                tf.compat.v1.train.get_global_step())))
        try:
            sess.run(loop)
            raise SystemExit("there were more batches than expected")
        except tf.errors.OutOfRangeError:
            pass
        evaluate(sess)
    with tf.compat.v1.Session(config=npu_config_proto(config)) as sess:
        saver.restore(sess, tf.train.latest_checkpoint(saved))
        evaluate(sess)
    told["table"] = [tables["user"].table_name, tables["item"].table_name]
    told["saved"] = sorted(name for name in os.listdir(saved) if name.startswith("sparse-"))
    terminate_config_initializer()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
