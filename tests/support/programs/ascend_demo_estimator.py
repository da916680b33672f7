"""The Estimator demo, in the order in which programs for Ascend servers do it; run it by ``ascpipe run``.

Its switches are variables of the environment (``ascend_demo_config``), RUN_MODE, ENABLE_SLICER_TEST and
USE_EXPORT_SAVED_MODEL among them, and some flags. Prints what it did as JSON; the log ends with "Demo done!".
"""
import argparse
import json
import logging
import os
import warnings

warnings.simplefilter("ignore")

import tensorflow as tf
from ascend_demo_config import Config, add_timestamp_func, as_tuple, create_feature_spec_list, generate_dataset, switch
from ascend_demo_estimator_model import get_model_fn
from tf_adapter import DumpConfig, NPUEstimator, NPURunConfig, npu_hooks_append

from mx_rec.constants.constants import ASCEND_TIMESTAMP, BaseEnum
from mx_rec.core.asc.helper import get_asc_insert_func
from mx_rec.core.feature_process import EvictHook
from mx_rec.graph.hooks import LookupSubgraphSlicerHook, OrphanLookupKeySlicerHook
from mx_rec.graph.modifier import GraphModifierHook
from mx_rec.util.initialize import ConfigInitializer, init, terminate_config_initializer

logging.getLogger().setLevel(logging.INFO)


class RunMode(BaseEnum):
    TRAIN = "train"
    PREDICT = "predict"
    TRAIN_AND_EVALUATE = "train_and_evaluate"


class Watch(tf.estimator.SessionRunHook):
    """Notes the losses of each step."""

    def __init__(self, told):
        self.told = told

    def begin(self):
        self.losses = tf.compat.v1.get_collection("demo_losses")

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs(self.losses)

    def after_run(self, run_context, run_values):
        self.told.append([float(loss) for loss in run_values.results])


def make_batch_and_iterator(cfg, params, create_fs_params, is_training):
    dataset = generate_dataset(cfg, params.max_data_generate_steps if is_training else cfg.eval_batch_num,
                               seed=1 if is_training else 2)
    if cfg.use_timestamp:
        dataset = dataset.map(add_timestamp_func)
    if not cfg.modify_graph:
        # Anew for each graph; the model function takes them from here.
        feature_spec_list = create_fs_params["feature_spec_list"] = create_feature_spec_list(cfg)
        dataset = dataset.map(get_asc_insert_func(tgt_key_specs=feature_spec_list, is_training=is_training,
                                                  dump_graph=True))
    if cfg.use_tuple:
        dataset = dataset.map(as_tuple)
    dataset = dataset.prefetch(100)
    if cfg.use_one_shot:
        return tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
    return dataset


def hooks_of(cfg, is_training, *more):
    hooks_list = [*more]
    if cfg.use_timestamp and is_training:
        hooks_list.append(EvictHook(evict_enable=True, evict_time_interval=10))
    if cfg.enable_slicer_test and cfg.modify_graph:
        hooks_list += [OrphanLookupKeySlicerHook(), LookupSubgraphSlicerHook(op_types=["StringToNumber"])]
    hooks_list.append(GraphModifierHook(modify_graph=cfg.modify_graph))
    return npu_hooks_append(hooks_list=hooks_list)


def serving_input_receiver_fn(cfg):
    features = {"user_ids": tf.compat.v1.placeholder(tf.int64, [None, 8], "user_ids"),
                "item_ids": tf.compat.v1.placeholder(tf.int64, [None, 16], "item_ids"),
                "category_ids": tf.compat.v1.placeholder(tf.int64, [None, 3], "category_ids")}
    return tf.estimator.export.ServingInputReceiver(features, dict(features))


def main(params, cfg):
    mode = RunMode.mapping(os.getenv("RUN_MODE"))
    init(train_steps=params.train_steps, eval_steps=params.eval_steps, save_steps=params.save_checkpoints_steps,
         max_steps=params.max_steps, use_dynamic=cfg.use_dynamic, use_dynamic_expansion=cfg.use_dynamic_expansion)
    create_fs_params, told = {}, {"train": [], "eval": [], "sizes": [], "tables": 0}
    run_config = NPURunConfig(
        model_dir=params.model_dir, save_summary_steps=50, save_checkpoints_steps=params.save_checkpoints_steps,
        keep_checkpoint_max=5, log_step_count_steps=100, iterations_per_loop=1, precision_mode="must_keep_origin_dtype",
        enable_data_pre_proc=True, op_precision_mode="op_impl_mode.ini", HCCL_algorithm="level0:fullmesh",
        op_compiler_cache_mode="enable", op_compiler_cache_dir="/tmp", jit_compile=True,
        deterministic=1 if cfg.use_deterministic else 0, dump_config=None,
        session_config=tf.compat.v1.ConfigProto(allow_soft_placement=True, inter_op_parallelism_threads=cfg.threads,
                                                intra_op_parallelism_threads=cfg.threads))
    est = NPUEstimator(model_fn=get_model_fn(create_fs_params, cfg, told), params=params, model_dir=params.model_dir,
                       config=run_config)

    def input_fn(is_training):
        return lambda: make_batch_and_iterator(cfg, params, create_fs_params, is_training)

    if mode is RunMode.TRAIN:
        est.train(input_fn=input_fn(True), max_steps=params.max_steps, hooks=hooks_of(cfg, True, Watch(told["train"])))
    elif mode is RunMode.TRAIN_AND_EVALUATE:
        train_spec = tf.estimator.TrainSpec(input_fn=input_fn(True), max_steps=params.max_steps,
                                            hooks=hooks_of(cfg, True, Watch(told["train"])))
        eval_spec = tf.estimator.EvalSpec(input_fn=input_fn(False), steps=params.eval_steps, start_delay_secs=0,
                                          throttle_secs=0, hooks=hooks_of(cfg, False, Watch(told["eval"])))
        tf.estimator.train_and_evaluate(est, train_spec=train_spec, eval_spec=eval_spec)
    else:
        results = est.predict(input_fn=input_fn(False), hooks=hooks_of(cfg, False), yield_single_examples=False)
        told["predictions"] = [[float(value) for value in result["task_0"]] for result in results]
    if cfg.use_export_saved_model:
        est.export_saved_model("model_path", lambda: serving_input_receiver_fn(cfg))
    terminate_config_initializer()
    logging.info("Demo done!")
    print(json.dumps(told))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", type=str, default="./_rank")
    parser.add_argument("--learning_rate", type=float, default=0.0008)
    parser.add_argument("--max_data_generate_steps", type=int, default=200)
    parser.add_argument("--max_steps", type=int, default=200)
    parser.add_argument("--train_steps", type=int, default=100)
    parser.add_argument("--eval_steps", type=int, default=10)
    parser.add_argument("--save_checkpoints_steps", type=int, default=100)
    config = Config()
    config.enable_slicer_test = switch("ENABLE_SLICER_TEST")
    config.use_export_saved_model = switch("USE_EXPORT_SAVED_MODEL")
    main(parser.parse_args(), config)
