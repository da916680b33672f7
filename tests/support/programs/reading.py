"""Training on files by ``asc.data.read``; it is killed from outside, and started again until its last step.

    python -m tests.support.programs.reading CASE_AS_JSON

Fields of a case:

- ``way``: "session", "two_sessions", "monitored", "estimator", "evaluate" (train_and_evaluate) or "per_epoch"
  (``train`` per epoch).
- ``folder``: of the checkpoints. A program that finds one continues from it.
- ``files``, ``steps``: number of batches of all epochs. ``every``: steps between two saves.
- ``kills``: kinds of workers that are killed, as "table+key", and ``seed`` of the moments.
- ``step_s``: seconds between two steps. ``transform``: argument of ``asc.data.read``.
- ``until``: the last step of the session, after which it saves. ``alone``: only rank 0 restores a checkpoint.
- ``out``: file that receives the lines, with the rank as its suffix. By default, they are printed.

The program prints a line for each step: its number, the numbers of its records, and the bits of its loss. It prints
evaluations as ``eval NUMBER LOSS``. The last line is ``end``, and the first line of a file ``out`` is ``pid NUMBER``.
"""
import contextlib
import json
import os
import sys
import threading
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe import ranks
from ascpipe.checkpoint.retention import complete_checkpoints
from tests.support.programs.deaths import Killer
from tests.support.tensorflows import use_tensorflow_1

use_tensorflow_1()

v1 = tf.compat.v1
EPOCHS, BATCH = 3, 8
FEATURES = {"number": tf.io.FixedLenFeature([], tf.int64), "user": tf.io.FixedLenFeature([2], tf.int64),
            "item": tf.io.VarLenFeature(tf.int64), "label": tf.io.FixedLenFeature([], tf.float32)}
RANK, RANKS = (ranks.get_rank_id(), ranks.get_rank_size()) if ranks.launched() else (0, 1)
_case: Dict[str, Any] = {}
CONFIG = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, use_per_session_threads=True)


class Steps(v1.train.SessionRunHook):
    """Prints a line after each step."""

    def __init__(self, case: Dict[str, Any]) -> None:
        self._pause_s = case.get("step_s", 0.0)
        self.fetches: List[tf.Tensor] = []
        self.done = 0

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        return v1.train.SessionRunArgs(self.fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.took(*run_values.results)

    def took(self, step: int, numbers: np.ndarray, loss: np.ndarray) -> None:
        say("{} {} {}".format(step, ",".join(map(str, numbers)), loss.tobytes().hex()))
        self.done += 1
        threading.Event().wait(self._pause_s)


def say(line: str) -> None:
    """Print a line at once."""
    with contextlib.ExitStack() as opened:
        file = sys.stdout
        if "out" in _case:
            file = opened.enter_context(open("{}.{}".format(_case["out"], RANK), "a"))
        file.write(line + "\n")
        file.flush()


def other_users(batch: Dict[str, Any]) -> Dict[str, Any]:
    """A ``transform`` that changes ids of the batch."""
    return {**batch, "user": (batch["user"] + 5) % 41}


def specs() -> List[asc.FeatureSpec]:
    return [asc.FeatureSpec("user", table_name="user"), asc.FeatureSpec("item", table_name="item")]


def dataset(case: Dict[str, Any], used: List[asc.FeatureSpec], epochs: int, training: bool = True) -> tf.data.Dataset:
    """Batches with labels."""
    read = asc.data.read(case["files"], FEATURES, BATCH, shuffle=training, seed=3, epochs=epochs, readers=2,
                         transform=case.get("transform"))
    return read.map(asc.insert_function(used, training=training)).map(
        lambda batch: (batch, batch["label"])).prefetch(4)


def model(used: List[asc.FeatureSpec], features: Dict[str, Any], labels: tf.Tensor, training: bool) -> tf.Tensor:
    """Loss of a batch. Most rows of the tables are in the host memory."""
    tables = [asc.create_table(name=name, dim=4, initializer=v1.random_normal_initializer(stddev=0.1, seed=7),
                               device_vocabulary_size=rows * RANKS, host_vocabulary_size=300)
              for name, rows in (("user", 20), ("item", 36))]
    users = tf.reduce_sum(asc.sparse_lookup(tables[0], used[0], batch=features, training=training), 1)
    items = asc.lookup_sparse(tables[1], used[1], None, "sum", batch=features, training=training)
    weights = v1.get_variable("weights", [8, 1], initializer=v1.constant_initializer(0.2))
    logits = tf.reshape(tf.matmul(tf.concat([users, items], 1), weights), [-1])
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def graph(case: Dict[str, Any], steps: Steps) -> Tuple[Any, tf.Operation]:
    """The iterator and the training op of a program with a session."""
    used = specs()
    iterator = v1.data.make_initializable_iterator(dataset(case, used, EPOCHS))
    features, labels = iterator.get_next()
    loss = model(used, features, labels, training=True)
    step = v1.train.get_or_create_global_step()
    optimizer = asc.optimizers.Adagrad(0.3)
    train = (asc.DistributedOptimizer(optimizer) if RANKS > 1 else optimizer).minimize(loss, global_step=step)
    with tf.control_dependencies([train]):
        steps.fetches[:] = [step.read_value() if hasattr(step, "read_value") else tf.identity(step), features["number"],
                            loss]
    return iterator, train


def in_session(case: Dict[str, Any], steps: Steps) -> None:
    """Saves in the foreground and in the background by turns."""
    iterator, train = graph(case, steps)
    saver = asc.Saver()
    broadcast = asc.broadcast_global_variables(0) if RANKS > 1 else tf.no_op()
    asc.start()
    model_path = os.path.join(case["folder"], "model")
    with v1.Session(config=CONFIG) as session, killing(case, steps):
        session.run([v1.global_variables_initializer(), iterator.initializer])
        found = complete_checkpoints(case["folder"])
        if found:
            if RANK == 0 or not case.get("alone"):
                saver.restore(session, found[-1].prefix)
            session.run(broadcast)
            if found[-1].step == case["steps"]:
                return
            number = found[-1].step
        while True:
            try:
                step, *taken = session.run([*steps.fetches, train])[:-1]
            except tf.errors.OutOfRangeError:
                break
            number = int(step)
            steps.took(number, *taken)
            if number == case.get("until"):
                break
            if number % case["every"] == 0:
                saver.save(session, model_path, global_step=number, background=number % (2 * case["every"]) == 0)
        asc.wait_for_save()
        saver.save(session, model_path, global_step=number)


def in_two_sessions(case: Dict[str, Any], steps: Steps) -> None:
    """The second graph continues after step ``until`` of the first one. Only rank 0 restores the checkpoint."""
    in_session(case, steps)
    with tf.Graph().as_default():
        v1.set_random_seed(1)
        in_session({**case, "until": None, "alone": True}, steps)


def in_monitored_session(case: Dict[str, Any], steps: Steps) -> None:
    iterator, train = graph(case, steps)
    asc.start()
    scaffold = v1.train.Scaffold(local_init_op=tf.group(iterator.initializer, v1.local_variables_initializer()))
    with v1.train.MonitoredTrainingSession(
            checkpoint_dir=case["folder"], scaffold=scaffold, config=CONFIG, save_checkpoint_steps=case["every"],
            save_summaries_steps=None, save_summaries_secs=None, log_step_count_steps=None,
            hooks=[steps, v1.train.StopAtStepHook(last_step=case["steps"])]) as session, killing(case, steps):
        while not session.should_stop():
            session.run(train)


def in_estimator(case: Dict[str, Any], steps: Steps) -> None:
    used = specs()

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        training = mode == tf.estimator.ModeKeys.TRAIN
        loss = model(used, features, labels, training)
        train = None
        if training:
            step = v1.train.get_global_step()
            train = asc.optimizers.Adagrad(0.3).minimize(loss, global_step=step)
            with tf.control_dependencies([train]):
                steps.fetches[:] = [step.read_value(), features["number"], loss]
        else:
            v1.losses.add_loss(loss)
        asc.start()
        return v1.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    config = v1.estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=case["every"], save_summary_steps=None,
                                    session_config=CONFIG, keep_checkpoint_max=3)
    estimator = v1.estimator.Estimator(model_fn, case["folder"], config)
    if case["way"] == "evaluate":
        v1.estimator.train_and_evaluate(
            estimator,
            v1.estimator.TrainSpec(lambda: dataset(case, used, EPOCHS), max_steps=case["steps"], hooks=[steps]),
            v1.estimator.EvalSpec(lambda: dataset(case, used, 1, training=False), steps=5, throttle_secs=0,
                                  hooks=[Evaluations(estimator)]))
        return
    epochs = 1 if case["way"] == "per_epoch" else EPOCHS
    while trained(estimator) < case["steps"]:
        estimator.train(lambda: dataset(case, used, epochs), max_steps=case["steps"], hooks=[steps])


class Evaluations(v1.train.SessionRunHook):
    """Prints the loss of an evaluation, and the step of its checkpoint."""

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator
        self._losses: List[str] = []

    def begin(self) -> None:
        self._losses = []

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        (loss,) = v1.get_collection(v1.GraphKeys.LOSSES)
        return v1.train.SessionRunArgs(loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._losses.append(run_values.results.tobytes().hex())

    def end(self, session: Any) -> None:
        say("eval {} {}".format(session.run(v1.train.get_global_step()), "+".join(self._losses)))


def trained(estimator: Any) -> int:
    newest = estimator.latest_checkpoint()
    return 0 if newest is None else int(newest.rsplit("-", 1)[1])


@contextlib.contextmanager
def killing(case: Dict[str, Any], steps: Steps) -> Iterator[None]:
    """Kill workers while the block runs, if the case has kills."""
    if not case.get("kills"):
        yield
        return
    kinds = case["kills"].split("+")
    with Killer(kinds, len(kinds), case["seed"], lambda: steps.done) as killer:
        yield
    say("killed {}".format(killer.killed))


def train(case: Dict[str, Any]) -> None:
    """Train from the newest checkpoint, or from the first record, to the last step."""
    _case.update(case)
    os.makedirs(case["folder"], exist_ok=True)
    if "out" in case:
        say("pid {}".format(os.getpid()))
    steps = Steps(case)
    ways = {"session": in_session, "two_sessions": in_two_sessions, "monitored": in_monitored_session}
    with tf.Graph().as_default():
        v1.set_random_seed(1)
        asc.init()
        try:
            ways.get(case["way"], in_estimator)(case, steps)
        finally:
            asc.shutdown()
    say("end")


if __name__ == "__main__":
    train(json.loads(sys.argv[1]))
