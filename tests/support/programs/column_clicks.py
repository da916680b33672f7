"""A program of a user: an Estimator over clicks, which knows nothing of ascpipe.

    python column_clicks.py FOLDER STEPS [KIND]

KIND is a class of Estimators of TensorFlow, wide and deep if it is not given, or one of deepctr. It trains from the
last checkpoint in FOLDER to STEPS and prints a line for each step: its number and loss; last, as JSON, what an
evaluation says. TensorFlow derives the seeds of initial values from the number of ops; here they are fixed.
"""
import json
import sys
import types

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import random_seed

from tests.support.tensorflows import use_tensorflow_1

use_tensorflow_1()

random_seed.get_seed = lambda op_seed: (1, 2) if op_seed is None else (1, op_seed)

BATCH, SAVED_EVERY = 32, 15
USERS, SITES = 700, 60


def clicks(rows, seed, users=USERS):
    random = np.random.RandomState(seed)
    user, site = random.randint(0, users, rows), random.randint(0, SITES, rows)
    features = {"user": np.char.mod("user-%d", user), "site": np.char.mod("site-%d", site),
                "age": random.uniform(0, 1, rows).astype(np.float32)}
    return features, (np.sin(user) + np.cos(site) + random.normal(0, 0.5, rows) > 0).astype(np.int64)


def training(skip):
    return tf.data.Dataset.from_tensor_slices(clicks(64 * BATCH, 1)).repeat().batch(BATCH).skip(skip)


def probing():
    return tf.data.Dataset.from_tensor_slices(clicks(8 * BATCH, 2, users=2 * USERS)).batch(BATCH)


class Printed(tf.compat.v1.estimator.SessionRunHook):
    def begin(self):
        self._loss = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]
        self._step = tf.compat.v1.train.get_global_step()

    def after_create_session(self, session, coord):
        self._number = session.run(self._step)

    def before_run(self, run_context):
        return tf.compat.v1.estimator.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        print(self._number, float(run_values.results).hex(), flush=True)
        self._number += 1


def made(kind, wide, deep, **given):
    if kind == "LinearClassifier":
        return tf.compat.v1.estimator.LinearClassifier(wide, **given)
    if kind == "DNNClassifier":
        return tf.compat.v1.estimator.DNNClassifier([8, 4], deep, **given)
    if kind == "DNNLinearCombinedClassifier":
        return tf.compat.v1.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[8, 4], **given)
    network = types.ModuleType("requests")  # by which deepctr asks for its newest version when it is imported
    network.get = lambda address: types.SimpleNamespace(status_code=None)
    network.codes = types.SimpleNamespace(ok=200)
    sys.modules.setdefault("requests", network)
    from deepctr import estimator

    return getattr(estimator, kind)(wide, deep, dnn_hidden_units=[8, 4], l2_reg_linear=0, **given)


def main():
    folder, steps = sys.argv[1], int(sys.argv[2])
    user = tf.feature_column.categorical_column_with_hash_bucket("user", 5000)
    site = tf.feature_column.categorical_column_with_hash_bucket("site", 300)
    age = tf.feature_column.numeric_column("age")
    both = tf.feature_column.crossed_column(["user", "site"], 20000)
    rows = [tf.feature_column.embedding_column(ids, 4, initializer=tf.constant_initializer(value))
            for ids, value in ((user, 0.1), (site, -0.1))]
    config = tf.compat.v1.estimator.RunConfig(
        save_checkpoints_steps=SAVED_EVERY, save_summary_steps=None, log_step_count_steps=None,
        session_config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1))
    kind = sys.argv[3] if len(sys.argv) > 3 else "DNNLinearCombinedClassifier"
    estimator = made(kind, [user, site, both], [*rows, age], model_dir=folder, config=config)
    done = int(estimator.get_variable_value("global_step")) if estimator.latest_checkpoint() else 0
    if done < steps:
        estimator.train(lambda: training(done), hooks=[Printed()], max_steps=steps)
    found = estimator.evaluate(probing)
    print(json.dumps({name: float(value) for name, value in found.items()}))


if __name__ == "__main__":
    main()
