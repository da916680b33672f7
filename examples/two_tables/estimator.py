"""Training with an ``NPUEstimator``."""
import itertools
import logging
from typing import Any, Callable, Dict

import tensorflow.compat.v1 as tf
from npu_bridge.npu_init import NPUEstimator, NPURunConfig, npu_hooks_append

from mx_rec.core.feature_process import EvictHook
from mx_rec.graph.modifier import GraphModifierHook

from config import HOUR, Config, sess_config
from dataset import create_feature_spec_list, make_dataset
from graph import build_model
from losses import LossFile, LossHook
from model import create_hash_tables
from optimizer import average, create_train_ops

TRAIN = tf.estimator.ModeKeys.TRAIN


def get_model_fn(cfg: Config, losses: LossFile, specs: Dict[bool, Any]) -> Callable[..., tf.estimator.EstimatorSpec]:
    """Return the model function. ``specs`` are the features of training and of evaluation."""
    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> tf.estimator.EstimatorSpec:
        is_train = mode == TRAIN
        hash_table_list = list(create_hash_tables(cfg))
        model = build_model(cfg, hash_table_list, features, labels, is_train, specs[is_train])
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={
                "task_{}".format(task): prediction for task, prediction in enumerate(model.predictions)})
        hooks = [LossHook(losses, mode, average(model.loss_list))]
        train_op = create_train_ops(cfg, model.loss_list) if is_train else None
        return tf.estimator.EstimatorSpec(mode, loss=tf.add_n(model.loss_list), train_op=train_op,
                                          training_hooks=hooks, evaluation_hooks=hooks)

    return model_fn


def train_with_estimator(cfg: Config, losses: LossFile) -> None:
    """Train, and save and evaluate every ``train_interval`` steps. Then predict a batch."""
    specs = {True: None, False: None} if cfg.modify_graph else \
        {True: create_feature_spec_list(cfg), False: create_feature_spec_list(cfg)}

    def input_fn(is_training: bool) -> Any:
        batch_number = cfg.steps if is_training else cfg.eval_steps
        dataset = make_dataset(cfg, is_training, specs[is_training], batch_number)
        return dataset.make_one_shot_iterator().get_next() if cfg.one_shot else dataset

    def hooks() -> Any:
        return npu_hooks_append([GraphModifierHook(dump_graph=cfg.dump_graph, modify_graph=cfg.modify_graph)])

    run_config = NPURunConfig(model_dir=cfg.saved_model, tf_random_seed=cfg.seed, session_config=sess_config(),
                              save_checkpoints_steps=cfg.train_interval, log_step_count_steps=cfg.train_interval)
    est = NPUEstimator(model_fn=get_model_fn(cfg, losses, specs), config=run_config, params={})
    train_hooks = hooks()
    if cfg.access_and_evict:
        train_hooks.append(EvictHook(evict_enable=True, evict_time_interval=24 * HOUR,
                                     evict_step_interval=cfg.evict_interval))
    tf.estimator.train_and_evaluate(
        est,
        tf.estimator.TrainSpec(input_fn=lambda: input_fn(True), max_steps=cfg.steps, hooks=train_hooks),
        tf.estimator.EvalSpec(input_fn=lambda: input_fn(False), steps=cfg.eval_steps, hooks=hooks(),
                              start_delay_secs=0, throttle_secs=0))
    predictions = est.predict(input_fn=lambda: input_fn(False), hooks=hooks())
    for prediction in itertools.islice(predictions, cfg.batch_size):
        logging.info("prediction %s", prediction)
