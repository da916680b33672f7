"""Cycle of training and serving: train, save the changes, export the model, and serve the exported model.

In this short example the server runs in this process. A separate server only needs TensorFlow and the op library.
"""
import os
import tempfile
from typing import Iterator, List, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

import ascpipe.tf as asc

tf.disable_v2_behavior()

USERS, ROUNDS, STEPS = 200, 3, 100


def batches() -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    """Yield endless batches of users and their values."""
    random = np.random.RandomState(1)
    while True:
        users = random.randint(0, USERS, 64)
        yield users, np.float32(users % 10)


def create_table() -> asc.Table:
    return asc.create_table("user", 1, device_vocabulary_size=2 * USERS, initializer=tf.zeros_initializer())


def export(prefix: str, folder: str) -> None:
    """Export the model with the tables of a checkpoint. No daemon is needed."""
    with tf.Graph().as_default(), asc.serving_tables(prefix):
        users = tf.placeholder(tf.int64, [None], "users")
        worth = tf.squeeze(asc.sparse_lookup(create_table(), users, training=False), 1, name="worth")
        with tf.Session() as session:
            tf.saved_model.simple_save(session, folder, {"users": users}, {"worth": worth},
                                                 legacy_init_op=tf.tables_initializer())


def answer(folder: str, users: List[int]) -> List[float]:
    """Load an exported model, and answer a request, like a server."""
    with tf.Session(graph=tf.Graph()) as session:
        tf.saved_model.load(session, ["serve"], folder)
        return list(session.run("worth:0", {"users:0": users}).round())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, asc.pipeline():
        spec = asc.FeatureSpec("user", index_key=0)
        dataset = tf.data.Dataset.from_generator(batches, (tf.int64, tf.float32), ([None], [None]))
        dataset = dataset.map(lambda users, worth: ((users,), worth)).map(asc.insert_function(spec)).prefetch(32)
        iterator = tf.data.make_initializable_iterator(dataset)
        features, worth = batch = iterator.get_next()
        rows = asc.sparse_lookup(create_table(), spec, batch=batch)
        loss = tf.reduce_sum(tf.square(tf.squeeze(rows, 1) - worth))
        train = asc.optimizers.LazyAdam(0.2).minimize(loss)
        saver = asc.Saver()
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), iterator.initializer])
            for turn in range(1, ROUNDS + 1):
                for _ in range(STEPS):
                    session.run(train)
                # The first save is a full checkpoint. Later saves have the changed rows only.
                prefix = str(saver.save(session, os.path.join(folder, "model"), turn * STEPS, save_delta=True))
                exported = os.path.join(folder, "exported", str(turn))
                export(prefix, exported)
                print("{}: users 3, 7, 9 are worth {}".format(os.path.basename(prefix), answer(exported, [3, 7, 9])))


if __name__ == "__main__":
    tf.logging.set_verbosity("ERROR")
    main()
