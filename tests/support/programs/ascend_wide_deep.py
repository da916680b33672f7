"""Wide and deep, an Estimator as programs for Ascend servers have it; run it by ``ascpipe run``.

The wide part is a table of single weights under FTRL, whose ids are crossed in the graph; the deep part a table under
Adagrad. Serialised examples with lists of any length; slicer hooks; train, evaluate with other batches, train on,
train_and_evaluate, predict.

Prints what each session did, as JSON.
"""
import argparse
import json
import warnings

warnings.simplefilter("ignore")

import numpy as np
from npu_bridge.npu_init import *

from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.core.feature_process import EvictHook
from mx_rec.graph import GraphModifierHook, LookupSubgraphSlicerHook, OrphanLookupKeySlicerHook
from mx_rec.optimizers import adagrad, ftrl
from mx_rec.util.initialize import init, terminate_config_initializer
from mx_rec.util.variable import get_dense_and_sparse_variable

BATCH, BATCHES = 8, 30
WORDS = ["red", "green", "blue", "black", "white"]


def examples(count, seed):
    random = np.random.RandomState(seed)
    for number in range(count):
        color, price = WORDS[random.randint(len(WORDS))], random.randint(1, 9)
        feature = {
            "color": tf.train.Feature(bytes_list=tf.train.BytesList(value=[color.encode()])),
            "price": tf.train.Feature(int64_list=tf.train.Int64List(value=[price])),
            "seen": tf.train.Feature(int64_list=tf.train.Int64List(value=random.randint(0, 50, random.randint(0, 4)))),
            "label": tf.train.Feature(float_list=tf.train.FloatList(value=[float(color == "red" and price > 3)]))}
        yield number // BATCH + 1, tf.train.Example(
            features=tf.train.Features(feature=feature)).SerializeToString()


def input_fn(seed, batch=BATCH, batches=BATCHES, labels=True):
    times, texts = zip(*examples(batch * batches, seed))
    data = tf.data.Dataset.from_tensor_slices((np.array(times, np.int64), np.array(texts, object))).batch(batch)

    def parse(time, text):
        parsed = tf.io.parse_example(text, {
            "color": tf.io.FixedLenFeature([], tf.string), "price": tf.io.FixedLenFeature([], tf.int64),
            "seen": tf.io.VarLenFeature(tf.int64), "label": tf.io.FixedLenFeature([], tf.float32)})
        features = {"color": parsed["color"], "price": parsed["price"], "time": tf.reduce_max(time),
                    "seen": tf.sparse.to_dense(parsed["seen"], default_value=-1)}
        return (features, parsed["label"]) if labels else features

    return data.map(parse, num_parallel_calls=2).prefetch(tf.data.experimental.AUTOTUNE)


def model_fn(features, labels, mode, params):
    is_train = mode == tf.estimator.ModeKeys.TRAIN
    thresholds = {"access_threshold": 1, "eviction_threshold": 6}
    wide = create_table(key_dtype=tf.int64, dim=tf.TensorShape([1]), name="wide", device_vocabulary_size=200,
                        host_vocabulary_size=0, emb_initializer=tf.compat.v1.zeros_initializer())
    deep = create_table(key_dtype=tf.int64, dim=6, name="deep", device_vocabulary_size=params["rows"],
                        host_vocabulary_size=params["host_rows"],
                        emb_initializer=tf.compat.v1.random_normal_initializer(stddev=0.1))
    tf.compat.v1.add_to_collection("ASCEND_TIMESTAMP", features["time"])
    color = tf.strings.to_hash_bucket_fast(features["color"], 1000)
    crossed = tf.strings.to_hash_bucket_fast(
        tf.strings.join([features["color"], tf.strings.as_string(features["price"])], "_x_"), 2 ** 40)

    def look_up(table, ids, name, **kwargs):
        return sparse_lookup(table, ids, is_train=is_train, name=name, modify_graph=True, batch=features, **kwargs)

    weights = look_up(wide, tf.stack([color, crossed], axis=1), "crossed_lookup")
    bias = look_up(wide, tf.constant([[12345]], tf.int64), "bias_lookup")
    seen = look_up(deep, features["seen"], "seen_lookup", access_and_evict_config=thresholds)
    beside = look_up(deep, tf.where(tf.equal(color % 2, 0), features["price"] + 1000, color + 2000), "beside_lookup",
                     access_and_evict_config=thresholds)
    present = tf.cast(tf.not_equal(features["seen"], -1), tf.float32)[:, :, tf.newaxis]
    hidden = tf.compat.v1.layers.dense(
        tf.concat([tf.reduce_sum(seen * present, axis=1), beside, tf.one_hot(color % 4, 4)], axis=1), 8, tf.nn.relu,
        kernel_initializer=tf.compat.v1.glorot_uniform_initializer(seed=4))
    logits = tf.compat.v1.layers.dense(hidden, 1, kernel_initializer=tf.compat.v1.glorot_uniform_initializer(seed=5))
    logits = tf.squeeze(logits, axis=1) + tf.reduce_sum(weights, axis=[1, 2]) + tf.squeeze(bias)
    odds = tf.sigmoid(logits)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return NPUEstimatorSpec(mode, predictions={"odds": odds})
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits), name="mean_loss")
    metrics = {"auc": tf.compat.v1.metrics.auc(labels, odds), "mean": tf.compat.v1.metrics.mean(loss)}
    if not is_train:
        return NPUEstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    tables = {variable.op.name: variable for variable in get_dense_and_sparse_variable()[1]}
    step = tf.compat.v1.train.get_global_step()
    updates = [
        tf.compat.v1.train.AdamOptimizer(0.01).minimize(loss, global_step=step),
        ftrl.create_hash_optimizer(0.1, l1_regularization_strength=0.001).minimize(loss, var_list=[tables["wide"]]),
        adagrad.create_hash_optimizer(0.1, initial_accumulator_value=0.1).minimize(loss, var_list=[tables["deep"]])]
    tf.compat.v1.summary.scalar("loss_of_training", loss)
    return NPUEstimatorSpec(mode, loss=loss, train_op=tf.group(updates), eval_metric_ops=metrics)


class Losses(tf.estimator.SessionRunHook):
    """Notes the loss of each step."""

    def __init__(self):
        self.values = []

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs(run_context.session.graph.get_tensor_by_name("mean_loss:0"))

    def after_run(self, run_context, run_values):
        self.values.append(float(run_values.results))


def slicers():
    return [LookupSubgraphSlicerHook(["StringToHashBucketFast"]), OrphanLookupKeySlicerHook(),
            GraphModifierHook(dump_graph=False)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--host-rows", type=int, default=0)
    args = parser.parse_args()
    init(max_steps=50, train_steps=3, eval_steps=100, save_steps=17)
    config = NPURunConfig(
        save_checkpoints_steps=6, tf_random_seed=5, keep_checkpoint_max=3, save_summary_steps=5,
        session_config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1))
    est = NPUEstimator(model_fn=model_fn, model_dir=args.model, config=config,
                       params={"rows": 60 if args.host_rows else 200, "host_rows": args.host_rows})
    losses = Losses()

    def hooks(*more):
        return npu_hooks_append([*more, *slicers()])

    def evict():
        return EvictHook(evict_enable=True, evict_time_interval=3600, evict_step_interval=4)

    def evaluation_input():
        return input_fn(9, batch=5, batches=4)

    found = [est.train(input_fn=lambda: input_fn(1), steps=7, hooks=hooks(losses, evict())).evaluate(
        input_fn=evaluation_input, hooks=hooks(), steps=3, name="other")]
    est.train(input_fn=lambda: input_fn(2), steps=5, hooks=hooks(losses, evict()))
    found.append(tf.estimator.train_and_evaluate(
        est,
        tf.estimator.TrainSpec(input_fn=lambda: input_fn(3), max_steps=18, hooks=hooks(losses, evict())),
        tf.estimator.EvalSpec(input_fn=evaluation_input, steps=None, hooks=hooks(), start_delay_secs=0,
                              throttle_secs=0))[0])
    told = {"evaluations": [{name: float(value) for name, value in values.items()} for values in found]}
    told["predictions"] = [float(found["odds"]) for found in est.predict(
        input_fn=lambda: input_fn(9, batch=5, batches=2, labels=False), hooks=hooks())]
    told["losses"], told["step"] = losses.values, int(est.get_variable_value("global_step"))
    terminate_config_initializer()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
