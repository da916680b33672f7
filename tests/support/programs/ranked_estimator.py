"""An Estimator for one rank or several, as users write it: sharded tables, dense gradients that are averaged.

    horovodrun -np 2 python ranked_estimator.py FOLDER [modify] [saves | shared] [calls=CALL,...] [warm=CHECKPOINT]
        [fault=KIND,RANK,STEP[,CALL]] [steps=N] [pretrained=FILES]

A call is train, evaluate, predict, both (train_and_evaluate) or export; ``0`` behind it: rank 0 alone does it. Each
rank gets its part of every batch, and writes to FOLDER/RANK.json the losses of all ranks' batches, the metrics and the
predictions of its own. With ``saves`` rank 0 alone has a folder of checkpoints, as Horovod's documentation advises,
with ``shared`` all ranks have the same one: a run goes on from the newest. A fault of a rank (``ranked_faults.py``, or
its data ends) comes before a step of a call; errors are told in RANK.error.json.
"""
import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

import ascpipe.tf
from ascpipe import ranks
from ascpipe.tf.graph.graph_state import GraphState
from mx_rec.core.asc.helper import FeatureSpec, get_asc_insert_func
from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.graph.modifier import GraphModifierHook
from mx_rec.optimizers.lazy_adam import create_hash_optimizer
from mx_rec.util.initialize import init, terminate_config_initializer
from mx_rec.util.variable import get_dense_and_sparse_variable
from tests.support.programs import ranked_faults
from tests.support.tensorflows import use_tensorflow_1

use_tensorflow_1()

RANK, RANKS = (ranks.get_rank_id(), ranks.get_rank_size()) if ranks.launched() else (0, 1)
FOLDER, MODIFY, SAVES, SHARED = sys.argv[1], "modify" in sys.argv, "saves" in sys.argv, "shared" in sys.argv
GIVEN = dict(argument.split("=", 1) for argument in sys.argv[2:] if "=" in argument)
UNTIL, CALLS = int(GIVEN.get("steps", 40)), GIVEN.get("calls", "train").split(",")
STEPS, EVALUATED, LINES, FIELDS, KEYS, DIM = 40, 4, 24, 3, 60, 4
KIND, AT, FAULTY = "", -1, ""  # the fault of this rank
if "fault" in GIVEN:
    kind, rank, at, *call = GIVEN["fault"].split(",")
    KIND, AT, FAULTY = (kind, int(at), *(call or ["train"])) if int(rank) == RANK else (KIND, AT, FAULTY)
SPECS = {}


class Losses(tf.compat.v1.estimator.SessionRunHook):
    """Notes what each run gives."""

    def __init__(self):
        self.values = []

    def before_run(self, run_context):
        return tf.compat.v1.estimator.SessionRunArgs(run_context.session.graph.get_tensor_by_name("the_loss:0"))

    def after_run(self, run_context, run_values):
        self.values.append(float(run_values.results))


class Fault(tf.compat.v1.estimator.SessionRunHook):
    """Lets the fault happen, if it is one of this call; remembers when a step began."""

    begun = time.time()

    def __init__(self, call):
        self.steps, self._at = 0, AT if call == FAULTY else -1

    def before_run(self, run_context):
        Fault.begun = time.time()
        self.steps += 1
        if self.steps - 1 != self._at:
            return None
        if KIND == "nan":
            return tf.compat.v1.estimator.SessionRunArgs(None, feed_dict={"the_scale:0": float("nan")})
        if KIND == "stop_request":
            run_context.request_stop()
        else:
            ranked_faults.commit(KIND)
        return None


def input_fn(call, is_training, skipped=0):
    random, part = np.random.RandomState(1 if is_training else 2), LINES // RANKS
    ids = random.randint(-KEYS // 2, KEYS // 2, (STEPS + 2 if is_training else EVALUATED, LINES, FIELDS))
    ids = ids[:, RANK * part:(RANK + 1) * part].reshape(-1, FIELDS)
    dataset = tf.data.Dataset.from_tensor_slices(({"ids": ids}, np.float32(ids.sum(1) > 0))).batch(part)
    if KIND == "ends_early" and call == FAULTY:
        dataset = dataset.take(AT)
    dataset = dataset.skip(skipped)
    if not MODIFY:
        SPECS["ids"] = FeatureSpec("ids", table_name="user_table")
        dataset = dataset.map(get_asc_insert_func(tgt_key_specs=[SPECS["ids"]], is_training=is_training))
    return dataset.prefetch(10)


def trained():
    """Steps until the newest checkpoint of all runs."""
    saved = tf.train.latest_checkpoint(os.path.join(FOLDER, "model" if SHARED else "model-0"))
    return 0 if saved is None else int(saved.rpartition("-")[2])


def receive():
    features = {"ids": tf.compat.v1.placeholder(tf.int64, [None, FIELDS], "ids")}
    return tf.compat.v1.estimator.export.ServingInputReceiver(features, features)


def model_fn(features, labels, mode):
    trains = mode == tf.compat.v1.estimator.ModeKeys.TRAIN
    table = create_table(key_dtype=tf.int64, dim=tf.TensorShape([DIM]), name="user_table",
                         emb_initializer=tf.compat.v1.truncated_normal_initializer(stddev=0.1, seed=1),
                         device_vocabulary_size=200, all2all_gradients_op="sum_gradients_and_div_by_ranksize")
    if "pretrained" in GIVEN:  # an argument of asc.create_table
        GraphState.of(tf.compat.v1.get_default_graph()).pretrained["user_table"] = GIVEN["pretrained"]
    rows = sparse_lookup(table, features["ids"] if MODIFY else SPECS["ids"], is_train=trains, modify_graph=MODIFY,
                         batch=features)
    scale = tf.compat.v1.placeholder_with_default(np.float32(1), [], "the_scale")
    rows = tf.debugging.check_numerics(tf.reshape(rows, [-1, FIELDS * DIM]) * scale, "the rows")
    with tf.compat.v1.variable_scope("dense", use_resource=True):
        weights = tf.compat.v1.get_variable("w", [FIELDS * DIM, 1], initializer=tf.compat.v1.constant_initializer(0.1))
    logits = tf.reshape(tf.matmul(rows, weights), [-1])
    if not trains and not MODIFY:
        start_asc_pipeline()
    if mode == tf.compat.v1.estimator.ModeKeys.PREDICT:
        return tf.compat.v1.estimator.EstimatorSpec(mode, {"logit": logits, "row": rows})
    loss = mean = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    if not trains:
        return tf.compat.v1.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={
            "accuracy": tf.compat.v1.metrics.accuracy(labels, tf.cast(logits > 0, tf.float32)),
            "logit": tf.compat.v1.metrics.mean(logits)})
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
    return tf.compat.v1.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(train_dense, train_sparse))


def run(estimator, call, told):
    """One call of the Estimator."""
    def hooks(*more):
        return [*more, GraphModifierHook(modify_graph=MODIFY), *broadcasts, Fault(call)]

    losses, skipped = Losses(), trained() if SAVES or SHARED else 0
    broadcasts = [] if SHARED and call != "train" else [ascpipe.tf.BroadcastGlobalVariablesHook()]
    told["losses"] = losses.values if call in ("train", "both") else told["losses"]
    if call == "train":
        estimator.train(lambda: input_fn(call, True, skipped), hooks(losses), max_steps=UNTIL)
    elif call == "evaluate":
        told["evaluations"].append({name: float(value) for name, value in estimator.evaluate(
            lambda: input_fn(call, False), hooks=hooks()).items()})
    elif call == "predict":
        told["predictions"] = [{name: value.tolist() for name, value in line.items()} for line in estimator.predict(
            lambda: input_fn(call, False), hooks=hooks())]
    elif call == "both":
        metrics, _ = tf.compat.v1.estimator.train_and_evaluate(
            estimator, tf.compat.v1.estimator.TrainSpec(lambda: input_fn(call, True, skipped), UNTIL, hooks(losses)),
            tf.compat.v1.estimator.EvalSpec(lambda: input_fn("evaluate", False), None, hooks=hooks(), throttle_secs=0,
                                  start_delay_secs=0))
        told["evaluations"].append({name: float(value) for name, value in metrics.items()})
    elif call == "export":
        estimator.export_saved_model(os.path.join(FOLDER, "exported"), receive)


def main():
    init(max_steps=STEPS, train_steps=-1, save_steps=-1, use_dynamic=True)
    config = tf.compat.v1.estimator.RunConfig(
        tf_random_seed=1, save_checkpoints_steps=10 if SHARED or (SAVES and RANK == 0) else None,
        save_checkpoints_secs=None, save_summary_steps=0, session_config=tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=1, inter_op_parallelism_threads=2))
    folder = os.path.join(FOLDER, "model-{}".format(RANK)) if RANK == 0 or not SAVES else None
    estimator = tf.compat.v1.estimator.Estimator(model_fn, os.path.join(FOLDER, "model") if SHARED else folder, config,
                                       warm_start_from=GIVEN.get("warm"))
    told = {"losses": [], "evaluations": [], "predictions": []}
    try:
        for call in CALLS:
            if RANK == 0 or not call.endswith("0"):
                run(estimator, call.rstrip("0"), told)
    except tf.errors.OpError as error:
        with open(os.path.join(FOLDER, "{}.error.json".format(RANK)), "w") as file:
            json.dump({**told, "error": error.message, "after_s": time.time() - Fault.begun}, file)
        raise
    terminate_config_initializer()
    with open(os.path.join(FOLDER, "{}.json".format(RANK)), "w") as file:
        json.dump(told, file)


if __name__ == "__main__":
    main()
