"""Estimator with one table. It trains, evaluates, predicts, and resumes from its checkpoints."""
import tempfile
from typing import Any, Dict

import numpy as np
import tensorflow.compat.v1 as tf

import ascpipe.tf as asc

tf.disable_v2_behavior()

USERS, BATCH = 500, 100
SPECS = {True: asc.FeatureSpec("user"), False: asc.FeatureSpec("user")}  # by whether batches are trained


def input_fn(training: bool, examples: int = 20000) -> tf.data.Dataset:
    """Return generated clicks. A click depends on the user only."""
    users = np.random.RandomState(1).randint(0, USERS, examples)
    clicks = np.float32((users * 2654435761) % 7 < 3)
    dataset = tf.data.Dataset.from_tensor_slices(({"user": users}, clicks))
    dataset = dataset.repeat() if training else dataset
    # The last stage before prefetch passes the ids of each batch to ascpipe.
    return dataset.batch(BATCH).map(asc.insert_function(SPECS[training], training=training)).prefetch(32)


def model_fn(features: Dict[str, tf.Tensor], labels: Any, mode: str) -> tf.estimator.EstimatorSpec:
    """Logistic regression on a row of 8 numbers for each user."""
    training = mode == tf.estimator.ModeKeys.TRAIN
    table = asc.create_table("user", 8, device_vocabulary_size=2 * USERS,
                             initializer=tf.random_normal_initializer(stddev=0.1, seed=1))
    rows = asc.sparse_lookup(table, SPECS[training], batch=features, training=training)  # float32[BATCH, 8]
    logits = tf.squeeze(tf.layers.dense(rows, 1), 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"click": tf.sigmoid(logits), "user": features["user"]})
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    metrics = {"auc": tf.metrics.auc(labels, tf.sigmoid(logits))}
    if not training:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    # One optimizer for the table and the dense layer.
    train_op = asc.optimizers.Adagrad(0.3).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main() -> None:
    tf.logging.set_verbosity("ERROR")
    asc.init()
    with tempfile.TemporaryDirectory() as folder:
        estimator = tf.estimator.Estimator(model_fn, folder, tf.estimator.RunConfig(tf_random_seed=1))
        hooks = [asc.StartHook()]  # starts the pipeline when a session starts
        estimator.train(lambda: input_fn(True), hooks, steps=400)
        auc = estimator.evaluate(lambda: input_fn(False, 5000), hooks=hooks)["auc"]
        first = next(estimator.predict(lambda: input_fn(False, BATCH), hooks=hooks, yield_single_examples=False))
    print("auc {:.3f}".format(auc))
    print("user {}: click {:.2f}".format(first["user"][0], first["click"][0]))
    asc.shutdown()


if __name__ == "__main__":
    main()
