"""Training on a file that continues after each interruption. It saves every 100 steps.

Run ``python examples/resume.py FOLDER``, stop it with Ctrl-C or ``kill -9``, and run it again: it prints the same
losses as without the interruption. ``ascpipe run --ranks 2 examples/resume.py FOLDER`` trains on two ranks. The number
of ranks may change between two runs.
"""
import contextlib
import os
import sys
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

import ascpipe.tf as asc

tf.disable_v2_behavior()

USERS, BATCH, EPOCHS = 1000, 64, 2


def write_clicks(path: str, records: int = 64000) -> None:
    """Write a TFRecord file of clicks. A click depends on the user only."""
    users = np.random.RandomState(1).randint(0, USERS, records)
    new = "{}.{}".format(path, os.getpid())
    with tf.io.TFRecordWriter(new) as file:
        for user in users:
            feature = {
                "user": tf.train.Feature(int64_list=tf.train.Int64List(value=[user])),
                "click": tf.train.Feature(float_list=tf.train.FloatList(value=[float(user * 2654435761 % 7 < 3)]))}
            file.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    with contextlib.suppress(FileExistsError):
        os.link(new, path)  # fails if another rank was faster
    os.remove(new)


def loss_of_batch(path: str) -> tf.Tensor:
    """Logistic regression on a row of 8 numbers for each user. Each rank reads its part of the file."""
    features = {"user": tf.io.FixedLenFeature([], tf.int64), "click": tf.io.FixedLenFeature([], tf.float32)}
    clicks = asc.data.read(path, features, BATCH, shuffle=True, seed=1, epochs=EPOCHS).prefetch(32)
    batch = tf.data.make_one_shot_iterator(clicks).get_next()
    table = asc.create_table("user", 8, device_vocabulary_size=2 * USERS, average_gradients=True,
                             initializer=tf.random_normal_initializer(stddev=0.1, seed=1))
    logits = tf.squeeze(tf.layers.dense(asc.sparse_lookup(table, batch["user"]), 1), 1)
    return tf.losses.sigmoid_cross_entropy(batch["click"], logits)


def main(folder: str) -> None:
    tf.logging.set_verbosity("ERROR")
    tf.set_random_seed(1)
    asc.init()
    path = os.path.join(folder, "clicks.tfrecord")
    if not os.path.exists(path):
        write_clicks(path)
    loss, step = loss_of_batch(path), tf.train.get_or_create_global_step()
    optimizer, hooks = asc.optimizers.Adagrad(0.1), []
    if "HOROVOD_RANK" in os.environ:  # started by `ascpipe run --ranks`
        optimizer, hooks = asc.DistributedOptimizer(optimizer), [asc.BroadcastGlobalVariablesHook(0)]
    with tf.control_dependencies([optimizer.minimize(loss, global_step=step)]):
        train = step.read_value()  # the number of this step
    asc.start()
    # The session restores the newest checkpoint of its directory, and continues with the batch after it.
    with tf.train.MonitoredTrainingSession(checkpoint_dir=os.path.join(folder, "model"), hooks=hooks,
                                           save_checkpoint_steps=100) as session:
        while not session.should_stop():
            value, number = session.run([loss, train])
            if number % 100 == 0:
                print("step {}: loss {:.6f}".format(number, value), flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
