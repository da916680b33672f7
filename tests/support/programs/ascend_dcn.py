"""A cross network whose ids come from files that are named when iterators are initialised, as programs for Ascend
servers have it; run it by ``ascpipe run``.

FeatureSpecs, or tensors (``--modify-graph``), or local rows and addresses (``--expansion``); gradients are clipped
together; the learning rate decays; an evaluation amid training goes on where it was; exit in the midst of the data.

Prints losses as JSON.
"""
import argparse
import json
import os
import sys
import warnings

warnings.simplefilter("ignore")

import numpy as np
from npu_bridge.npu_init import *

from mx_rec.constants.constants import ASCEND_SPARSE_LOOKUP_ID_OFFSET, ASCEND_SPARSE_LOOKUP_LOCAL_EMB
from mx_rec.core.asc.feature_spec import FeatureSpec
from mx_rec.core.asc.helper import get_asc_insert_func
from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.graph.merge_lookup import do_merge_lookup
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.optimizers.lazy_adam import create_hash_optimizer
from mx_rec.optimizers.lazy_adam_by_addr import create_hash_optimizer_by_address
from mx_rec.util.initialize import get_initializer, get_use_dynamic_expansion, init
from mx_rec.util.variable import get_dense_and_sparse_variable

FIELDS, DIM, LAYERS, BATCH, STEPS = 5, 4, 2, 8, 15


def write(path, rows, seed):
    random = np.random.RandomState(seed)
    with open(path, "w") as file:
        for _ in range(rows):
            ids = random.randint(0, 40, FIELDS)
            print(int(ids[0] % 3 == 0), *(hex(number)[2:] if number else "" for number in ids), sep=",", file=file)


def lines(files):
    """Batches of text lines: a label, then hexadecimal ids, some of them missing."""
    data = tf.data.Dataset.from_tensor_slices(files).interleave(
        tf.data.TextLineDataset, cycle_length=2, block_length=1, num_parallel_calls=2)
    data = data.shard(1, 0).shuffle(64, seed=3, reshuffle_each_iteration=False).repeat(2)
    data = data.batch(BATCH, drop_remainder=True)

    def split(text):
        words = tf.compat.v1.strings.split(text, sep=",", result_type="RaggedTensor")
        columns = tf.reshape(words.to_tensor(), [BATCH, 1 + FIELDS])
        ids = tf.strings.to_hash_bucket_fast(columns[:, 1:], 2 ** 60) * tf.constant([1, -1, 1, -1, 1], tf.int64)
        return ids, tf.strings.to_number(columns[:, 0])

    return data.map(split, num_parallel_calls=tf.data.experimental.AUTOTUNE)


def cross(inputs, name):
    """Cross layers: x0 * <x, w> + b + x."""
    found = inputs
    for number in range(LAYERS):
        with tf.compat.v1.variable_scope("{}_{}".format(name, number)):
            weights = tf.compat.v1.get_variable("w", [FIELDS * DIM, 1], initializer=(
                tf.compat.v1.glorot_uniform_initializer(seed=number)))
            bias = tf.compat.v1.get_variable("b", [FIELDS * DIM], initializer=tf.compat.v1.zeros_initializer())
            found = inputs * tf.matmul(found, weights) + bias + found
    return found


class Channel:
    """Batches of a channel, and the loss of each."""

    def __init__(self, table, modify_graph, is_train):
        self.files = tf.compat.v1.placeholder(tf.string, [None])
        features = [FeatureSpec("ids", table_name="ids", index_key=0)]
        data = lines(self.files)
        if not modify_graph:
            data = data.map(get_asc_insert_func(tgt_key_specs=features, is_training=is_train))
        self.iterator = tf.compat.v1.data.make_initializable_iterator(data.prefetch(3))
        batch, label = self.iterator.get_next()
        ids = batch if modify_graph else features
        rows = sparse_lookup(table, ids, None, is_train, "ids_lookup", modify_graph, batch)
        with tf.compat.v1.variable_scope("dcn", reuse=not is_train):
            inputs = tf.reshape(rows, [BATCH, FIELDS * DIM])
            logits = tf.compat.v1.layers.dense(cross(inputs, "cross"), 1, name="out", kernel_initializer=(
                tf.compat.v1.glorot_uniform_initializer(seed=8)))
        self.loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(
            labels=label, logits=tf.squeeze(logits, axis=1)))


def train_op_of(loss, modify_graph):
    if modify_graph:
        do_merge_lookup()
    dense, tables = get_dense_and_sparse_variable()
    step = tf.compat.v1.train.get_or_create_global_step()
    rate = tf.compat.v1.train.exponential_decay(0.1, step, decay_steps=3, decay_rate=0.5, staircase=True)
    if get_use_dynamic_expansion():
        rows = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_LOCAL_EMB)
        targets = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_ID_OFFSET)
        optimizer = create_hash_optimizer_by_address(learning_rate=rate)
    else:
        rows = targets = tables
        optimizer = create_hash_optimizer(learning_rate=rate)
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, rows + dense, gate_gradients=True), 0.05)
    # All gradients before any update, as variables are changed in place.
    gated = tf.tuple(gradients)
    return tf.group(optimizer.apply_gradients(list(zip(gated[:len(rows)], targets)), name="tables"),
                    tf.compat.v1.train.MomentumOptimizer(rate, 0.9).apply_gradients(
                        zip(gated[len(rows):], dense), global_step=step))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", required=True)
    parser.add_argument("--modify-graph", action="store_true")
    parser.add_argument("--expansion", action="store_true")
    args = parser.parse_args()
    paths = [os.path.join(args.files, name) for name in ("a.csv", "b.csv", "c.csv")]
    for seed, path in enumerate(paths):
        write(path, 120, seed)
    init(use_dynamic_expansion=args.expansion)
    tf.compat.v1.set_random_seed(2)
    table = create_table(tf.int64, DIM, "ids", tf.compat.v1.uniform_unit_scaling_initializer(),
                         device_vocabulary_size=400, init_param=0.5)
    train, evaluation = (Channel(table, args.modify_graph, is_train) for is_train in (True, False))
    train_op = train_op_of(train.loss, args.modify_graph)
    if args.modify_graph:
        modify_graph_and_start_emb_cache()
    else:
        start_asc_pipeline()
    told = {"train": [], "eval": []}
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
    with tf.compat.v1.Session(config=config) as sess:
        sess.run(tf.compat.v1.global_variables_initializer())
        initialisers = [get_initializer(True), get_initializer(False)] if args.modify_graph else \
            [train.iterator.initializer, evaluation.iterator.initializer]
        sess.run(initialisers[0], {train.files: paths[:2]})
        sess.run(initialisers[1], {evaluation.files: paths[2:]})
        for step in range(1, STEPS + 1):
            told["train"].append(float(sess.run([train.loss, train_op])[0]))
            if step % 4 == 0:  # goes on where it was
                told["eval"].append(float(sess.run(evaluation.loss)))
            if step == 10:
                sess.run(initialisers[0], {train.files: paths[1:]})
        told["size"] = table.size()
        print(json.dumps(told))
        sys.exit(3)  # in the midst of the data; the pipeline ends with the process


if __name__ == "__main__":
    main()
