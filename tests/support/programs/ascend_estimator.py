"""An Estimator as programs for Ascend servers have it; run it by ``ascpipe run``.

Prints the last step, and the loss that a hook sees after each run, as JSON.
"""
import argparse
import json
import warnings

warnings.simplefilter("ignore")

import numpy as np
import tensorflow as tf
from npu_bridge.estimator.npu.npu_config import NPURunConfig
from npu_bridge.npu_init import DumpConfig, npu_hooks_append
from tf_adapter import NPUEstimator

from mx_rec.core.asc.helper import FeatureSpec, get_asc_insert_func
from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers.adagrad import create_hash_optimizer
from mx_rec.util.initialize import init, terminate_config_initializer
from mx_rec.util.variable import get_dense_and_sparse_variable

SPEC = FeatureSpec("ids", table_name="user_table")


class Losses(tf.estimator.SessionRunHook):
    """Notes what each run gives."""

    def __init__(self):
        self.values = []

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs(run_context.session.graph.get_tensor_by_name("the_loss:0"))

    def after_run(self, run_context, run_values):
        self.values.append(float(run_values.results))


def input_fn():
    ids = np.random.RandomState(1).randint(0, 50, (160, 3))
    dataset = tf.data.Dataset.from_tensor_slices(({"ids": ids}, np.float32(ids.sum(1) > 75))).batch(8)
    return dataset.map(get_asc_insert_func(tgt_key_specs=[SPEC], is_training=True)).prefetch(10)


def model_fn(features, labels, mode, params):
    table = create_table(key_dtype=tf.int64, dim=tf.TensorShape([4]), name="user_table",
                         emb_initializer=tf.compat.v1.truncated_normal_initializer(seed=1),
                         device_vocabulary_size=100)
    logits = tf.reduce_sum(sparse_lookup(table, SPEC, is_train=True, batch=features), axis=[1, 2])
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    loss = tf.identity(loss, name="the_loss")
    _, sparse_variables = get_dense_and_sparse_variable()
    train_op = create_hash_optimizer(learning_rate=params["learning_rate"]).minimize(
        loss, tf.compat.v1.train.get_global_step(), var_list=sparse_variables)
    start_asc_pipeline()
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument("--warm-start", nargs="+")
    args = parser.parse_args()
    init(max_steps=12, train_steps=-1, save_steps=6)
    config = NPURunConfig(
        iterations_per_loop=args.iterations, save_checkpoints_steps=6, keep_checkpoint_max=2, tf_random_seed=1,
        session_config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1),
        precision_mode="allow_mix_precision", hcom_parallel=True, enable_data_pre_proc=True, mix_compile_mode=False,
        dump_config=DumpConfig(enable_dump=False, dump_path="./", dump_step="0|5", dump_mode="all"))
    warm_settings = None
    if args.warm_start:
        warm_settings = tf.estimator.WarmStartSettings(
            ckpt_to_initialize_from=args.warm_start, vars_to_warm_start=[".*"] + [["user_table"]] * (
                len(args.warm_start) - 1),
            var_name_to_vocab_info=None, var_name_to_prev_var_name=[{}] * len(args.warm_start))
    losses = Losses()
    est = NPUEstimator(
        model_fn=model_fn,
        params={"learning_rate": 0.1},
        model_dir=args.model,
        config=config,
        warm_start_from=warm_settings
    )
    est.train(input_fn=input_fn, max_steps=12, hooks=npu_hooks_append(hooks_list=[losses]))
    terminate_config_initializer()
    print(json.dumps({"step": int(est.get_variable_value("global_step")), "losses": losses.values}))


if __name__ == "__main__":
    main()
