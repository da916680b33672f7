"""A model with feature columns on several ranks, or on one rank with the batches of all ranks.

::

    python ranked_columns.py FOLDER STEPS one|ascpipe|horovod|separate

The program trains the model in ``FOLDER/model`` until it has ``STEPS`` steps. With several ranks, rank r trains every
r-th line of each batch. Each rank writes its losses to ``FOLDER/RANK.json``. With ``horovod``, plain TensorFlow trains
the model in ``FOLDER/model-RANK``. With ``separate``, nothing averages the gradients of dense variables. Only rank 0
writes summaries.
"""
import json
import os
import sys

import numpy as np
import tensorflow as tf

LINES, USERS, ITEMS = 64, 200, 150

canned = tf.compat.v1.estimator
fc = tf.feature_column


class EachLoss(tf.estimator.SessionRunHook):
    """Collects the loss of each step."""

    def __init__(self):
        self.values = []
        self.reduce = None

    def begin(self):
        if self.reduce is not None:
            self.reduce(tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[0], name="metric")

    def before_run(self, run_context):
        losses = run_context.session.graph.get_collection(tf.compat.v1.GraphKeys.LOSSES)
        return tf.estimator.SessionRunArgs(losses[0])

    def after_run(self, run_context, run_values):
        self.values.append(float(run_values.results))


def input_fn(rank, ranks):
    """Each batch has the lines ``rank``, ``rank + ranks`` and so on of the batch of all ranks."""
    random = np.random.RandomState(3)
    users = random.randint(0, USERS, LINES * 100)
    items = random.randint(0, ITEMS, LINES * 100)
    lines = np.arange(len(users)) % ranks == rank
    features = {"user": users[lines], "item": items[lines]}
    labels = np.int64((users + items) % 3 == 0)[lines]
    return tf.data.Dataset.from_tensor_slices((features, labels)).batch(LINES // ranks).prefetch(4)


def classifier(folder, wrap, rank):
    columns = [fc.embedding_column(fc.categorical_column_with_identity(name, buckets), 4)
               for name, buckets in (("user", USERS), ("item", ITEMS))]
    return canned.DNNClassifier(
        [4], columns, folder, optimizer=wrap(tf.compat.v1.train.AdagradOptimizer(0.1)),
        loss_reduction=tf.compat.v1.losses.Reduction.SUM_OVER_BATCH_SIZE,
        config=tf.estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=1000, **({} if rank == 0 else {
            "save_summary_steps": None, "log_step_count_steps": None})))


def main(folder, steps, how):
    rank, ranks, hooks, wrap = 0, 1, [EachLoss()], lambda optimizer: optimizer
    if how != "one":
        import horovod.tensorflow as hvd

        hvd.init()
        rank, ranks = hvd.rank(), hvd.size()
    if how == "horovod":
        wrap = hvd.DistributedOptimizer
        hooks.append(hvd.BroadcastGlobalVariablesHook(0))
    if how in ("ascpipe", "separate"):
        import ascpipe.tf as asc

        wrap = asc.DistributedOptimizer if how == "ascpipe" else wrap
        hooks.append(asc.BroadcastGlobalVariablesHook())
    if how == "separate":  # a reduction of a metric averages no gradient
        hooks[0].reduce = hvd.allreduce
    model = os.path.join(folder, "model-{}".format(rank) if how == "horovod" else "model")
    classifier(model, wrap, rank).train(lambda: input_fn(rank, ranks), hooks, max_steps=steps)
    with open(os.path.join(folder, "{}.json".format(rank)), "w") as file:
        json.dump(hooks[0].values, file)


if __name__ == "__main__":
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
