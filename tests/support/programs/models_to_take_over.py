"""Models with feature columns, which plain TensorFlow trains first.

::

    python models_to_take_over.py FOLDER STEPS KIND...

The program trains each KIND in ``FOLDER/KIND`` until it has ``STEPS`` steps, and prints the losses of this run by KIND
and step as JSON. A new model is first trained half of the steps, and ``FOLDER/KIND-half`` becomes a copy.
"""
import glob
import json
import os
import shutil
import sys

import numpy as np
import tensorflow as tf

BATCH, USERS, ITEMS, FEW = 64, 400, 300, 12

train = tf.compat.v1.train
canned = tf.compat.v1.estimator
ADAGRAD, ADAM = (lambda: train.AdagradOptimizer(0.1)), (lambda: train.AdamOptimizer(0.01))


def input_fn(users):
    """Batches of an endless dataset. With few users, each batch has all ids, so Adam changes no other rows."""
    random = np.random.RandomState(3)
    ids = random.randint(0, users, (300, BATCH))
    items = random.randint(0, min(users, ITEMS), (300, BATCH))
    if users == FEW:
        ids[:, :FEW] = np.arange(FEW)
        items[:, :FEW] = np.arange(FEW)
    ids, items = ids.ravel(), items.ravel()
    features = {"user": ids, "item": np.array(["item-{}".format(item) for item in items]),
                "x": np.float32(random.rand(len(ids)))}
    data = tf.data.Dataset.from_tensor_slices((features, np.int64((ids + items) % 3 == 0)))
    return data.repeat().batch(BATCH).prefetch(8)


def model(kind, folder):
    """Estimator, and its number of users."""
    users = FEW if "Adam" in kind else USERS
    user = tf.feature_column.categorical_column_with_identity("user", users)
    item = tf.feature_column.categorical_column_with_vocabulary_list(
        "item", ["item-{}".format(number) for number in range(ITEMS)]) if users == USERS else (
            tf.feature_column.categorical_column_with_vocabulary_list(
                "item", ["item-{}".format(number) for number in range(FEW)]))
    embeddings = [tf.feature_column.embedding_column(each, 8) for each in (user, item)]
    deep = [*embeddings, tf.feature_column.numeric_column("x")]
    config = tf.estimator.RunConfig(folder, tf_random_seed=1, save_summary_steps=1)
    optimizer = ADAM if "Adam" in kind else ADAGRAD
    if kind == "DNNParts":
        return canned.DNNClassifier([8], deep, optimizer=optimizer(), config=config,
                                    input_layer_partitioner=tf.compat.v1.fixed_size_partitioner(3)), users
    if kind.startswith("DNNLinear"):
        linear = ADAM if kind.endswith("AdamAdam") else (lambda: train.FtrlOptimizer(0.1))
        return canned.DNNLinearCombinedClassifier(
            linear_feature_columns=[user, item], linear_optimizer=linear(), dnn_feature_columns=deep,
            dnn_optimizer=optimizer(), dnn_hidden_units=[8], config=config), users
    if kind.startswith("DNN"):
        return canned.DNNClassifier([8], deep, optimizer=optimizer(), config=config), users
    if kind.startswith("Linear"):
        return canned.LinearClassifier([user, item], optimizer=train.FtrlOptimizer(
            0.1, l2_regularization_strength=0.01), config=config), users
    return tf.estimator.Estimator(deep_fm([user, item], embeddings, optimizer), config=config), users


def deep_fm(ids, embeddings, optimizer):
    """``model_fn`` of DeepFM, written by hand."""
    def model_fn(features, labels, mode):
        with tf.compat.v1.variable_scope("fm"):
            first = tf.compat.v1.feature_column.linear_model(features, ids)
            rows = [tf.compat.v1.feature_column.input_layer(features, [column]) for column in embeddings]
            second = 0.5 * tf.reduce_sum(tf.square(tf.add_n(rows)) - tf.add_n([tf.square(row) for row in rows]), 1,
                                         keepdims=True)
        hidden = tf.compat.v1.layers.dense(tf.concat(rows, 1), 8, tf.nn.relu, name="hidden")
        logits = first + second + tf.compat.v1.layers.dense(hidden, 1, name="deep")
        loss = tf.compat.v1.losses.sigmoid_cross_entropy(labels[:, tf.newaxis], logits)
        tf.compat.v1.summary.scalar("loss", loss)
        step = tf.compat.v1.train.get_or_create_global_step()
        with tf.compat.v1.variable_scope("training"):
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer().minimize(loss, step))

    return model_fn


def losses(folder):
    """step -> loss, of all runs in a folder."""
    found = {}
    for file in glob.glob(os.path.join(folder, "events*")):
        for event in tf.compat.v1.train.summary_iterator(file):
            found.update((event.step, value.simple_value) for value in event.summary.value if value.tag == "loss")
    return found


def run(folder, steps, kind):
    """Train, and return the losses of the last run."""
    whole = os.path.join(folder, kind)
    estimator, users = model(kind, whole)
    if not os.path.exists(whole):
        estimator.train(lambda: input_fn(users), max_steps=steps // 2)
        shutil.copytree(whole, whole + "-half", ignore=shutil.ignore_patterns("events*"))
    estimator.train(lambda: input_fn(users), max_steps=steps)
    return losses(whole)


if __name__ == "__main__":
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    if not tf.__version__.startswith("1."):
        tf.compat.v1.disable_v2_behavior()
    sys.stdout.write(json.dumps({kind: run(sys.argv[1], int(sys.argv[2]), kind) for kind in sys.argv[3:]}))
