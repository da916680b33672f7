"""An Estimator for one rank or several, as users write it: sharded tables, dense gradients that are averaged.

    horovodrun -np 2 python ranked_estimator.py FOLDER [modify] [saves] [fault=KIND,RANK,STEP] [steps=N]

Each rank trains its part of every batch, and writes the losses of all ranks' batches to FOLDER/RANK.json. With
``saves`` rank 0 alone has a folder of checkpoints, as Horovod's documentation advises: a run goes on from the newest.
A fault of a rank (``ranked_faults.py``, or its data ends) comes before a step; errors are told in RANK.error.json.
"""
import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

import ascpipe.tf
from mx_rec.core.asc.helper import FeatureSpec, get_asc_insert_func
from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.graph.modifier import GraphModifierHook
from mx_rec.optimizers.lazy_adam import create_hash_optimizer
from mx_rec.util.initialize import init, terminate_config_initializer
from mx_rec.util.variable import get_dense_and_sparse_variable
from tests.support.programs import ranked_faults

RANK, RANKS = int(os.environ.get("HOROVOD_RANK", "0")), int(os.environ.get("HOROVOD_SIZE", "1"))
FOLDER, MODIFY, SAVES = sys.argv[1], "modify" in sys.argv, "saves" in sys.argv
UNTIL = int(sys.argv[-1][6:]) if sys.argv[-1].startswith("steps=") else 40
STEPS, LINES, FIELDS, KEYS, DIM = 40, 24, 3, 60, 4
KIND, AT = "", -1  # the fault of this rank
for given in [argument[6:].split(",") for argument in sys.argv if argument.startswith("fault=")]:
    KIND, AT = (given[0], int(given[2])) if int(given[1]) == RANK else (KIND, AT)
SPEC = FeatureSpec("ids", table_name="user_table")


class Losses(tf.estimator.SessionRunHook):
    """Notes what each run gives."""

    def __init__(self):
        self.values = []

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs(run_context.session.graph.get_tensor_by_name("the_loss:0"))

    def after_run(self, run_context, run_values):
        self.values.append(float(run_values.results))


class Fault(tf.estimator.SessionRunHook):
    """Lets the fault happen; remembers when a step began."""

    def __init__(self):
        self.steps, self.begun = 0, time.time()

    def before_run(self, run_context):
        self.begun = time.time()
        if self.steps == AT and KIND == "stop_request":
            run_context.request_stop()
        elif self.steps == AT:
            ranked_faults.commit(KIND)
        self.steps += 1


def input_fn():
    random, part = np.random.RandomState(1), LINES // RANKS
    ids = random.randint(-KEYS // 2, KEYS // 2, (STEPS + 2, LINES, FIELDS))[:, RANK * part:(RANK + 1) * part]
    ids = ids.reshape(-1, FIELDS)
    dataset = tf.data.Dataset.from_tensor_slices(({"ids": ids}, np.float32(ids.sum(1) > 0))).batch(part)
    if KIND == "ends_early":
        dataset = dataset.take(AT)
    if SAVES:
        dataset = dataset.skip(trained())
    if not MODIFY:
        dataset = dataset.map(get_asc_insert_func(tgt_key_specs=[SPEC], is_training=True))
    return dataset.prefetch(10)


def trained():
    """Steps until the newest checkpoint of all runs."""
    saved = tf.train.latest_checkpoint(os.path.join(FOLDER, "model-0"))
    return 0 if saved is None else int(saved.rpartition("-")[2])


def model_fn(features, labels, mode):
    table = create_table(key_dtype=tf.int64, dim=tf.TensorShape([DIM]), name="user_table",
                         emb_initializer=tf.compat.v1.truncated_normal_initializer(stddev=0.1, seed=1),
                         device_vocabulary_size=200, all2all_gradients_op="sum_gradients_and_div_by_ranksize")
    rows = sparse_lookup(table, features["ids"] if MODIFY else SPEC, is_train=True, modify_graph=MODIFY, batch=features)
    with tf.compat.v1.variable_scope("dense", use_resource=True):
        weights = tf.compat.v1.get_variable("w", [FIELDS * DIM, 1], initializer=tf.compat.v1.constant_initializer(0.1))
    logits = tf.reshape(tf.matmul(tf.reshape(rows, [-1, FIELDS * DIM]), weights), [-1])
    loss = mean = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    dense, sparse = get_dense_and_sparse_variable()
    dense_optimizer = ascpipe.tf.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.05))
    if RANKS > 1:
        import horovod.tensorflow as hvd
        mean = hvd.allreduce(loss, op=hvd.Average)
    tf.identity(mean, name="the_loss")
    train_dense = dense_optimizer.minimize(loss, tf.compat.v1.train.get_global_step(), var_list=dense)
    train_sparse = create_hash_optimizer(learning_rate=0.1).minimize(loss, var_list=sparse)
    if not MODIFY:
        start_asc_pipeline()
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(train_dense, train_sparse))


def main():
    init(max_steps=STEPS, train_steps=-1, save_steps=-1, use_dynamic=True)
    config = tf.estimator.RunConfig(
        tf_random_seed=1, save_checkpoints_steps=10 if SAVES and RANK == 0 else None, save_checkpoints_secs=None,
        save_summary_steps=0, session_config=tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=1, inter_op_parallelism_threads=2))
    losses, fault = Losses(), Fault()
    folder = os.path.join(FOLDER, "model-{}".format(RANK)) if RANK == 0 or not SAVES else None
    estimator = tf.estimator.Estimator(model_fn, folder, config)
    try:
        estimator.train(input_fn, hooks=[
            losses, GraphModifierHook(modify_graph=MODIFY), ascpipe.tf.BroadcastGlobalVariablesHook(), fault],
            max_steps=UNTIL)
    except tf.errors.OpError as error:
        with open(os.path.join(FOLDER, "{}.error.json".format(RANK)), "w") as file:
            json.dump({"losses": losses.values, "error": error.message, "after_s": time.time() - fault.begun}, file)
        raise
    terminate_config_initializer()
    with open(os.path.join(FOLDER, "{}.json".format(RANK)), "w") as file:
        json.dump(losses.values, file)


if __name__ == "__main__":
    main()
