"""Training and serving at the same time: training writes what changed, and a server applies it without a restart.

The program measures the time from a training step until the server answers with the rows of this step.
"""
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

import ascpipe.tf as asc

tf.disable_v2_behavior()

#: A server needs TensorFlow and the op library. This server requests rows in a loop.
SERVER = """
import sys, time
import tensorflow.compat.v1 as tf
tf.load_op_library(sys.argv[1])
with tf.Session(graph=tf.Graph()) as session:
    tf.saved_model.load(session, ["serve"], sys.argv[2])
    step = 0
    while step < 600:
        before = step
        step, worth = session.run(["version:0", "worth:0"], {"users:0": [3, 7, 9]})
        if step != before:
            print(time.time(), *worth.round(), flush=True)
"""


def create_table() -> asc.Table:
    return asc.create_table("user", 1, device_vocabulary_size=400, initializer=tf.zeros_initializer())


def start_server(prefix: str, folder: str) -> Any:
    """Export a model that applies updates, and start a process that serves it."""
    with tf.Graph().as_default(), asc.serving_tables(prefix, watch=os.path.join(folder, "updates"), every_s=0.1):
        users = tf.placeholder(tf.int64, [None], "users")
        worth = tf.squeeze(asc.sparse_lookup(create_table(), users, training=False), 1, name="worth")
        outputs = {"worth": worth, "version": tf.identity(asc.served_version(), name="version")}
        with tf.Session() as session:
            tf.saved_model.simple_save(session, os.path.join(folder, "exported"), {"users": users}, outputs,
                                       legacy_init_op=tf.tables_initializer())
    library = subprocess.check_output([os.path.join(os.path.dirname(sys.executable), "ascpipe"), "library"], text=True)
    return subprocess.Popen([sys.executable, "-W", "ignore", "-c", SERVER, library.strip(),
                             os.path.join(folder, "exported")], stdout=subprocess.PIPE, text=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, asc.pipeline():
        dataset = tf.data.Dataset.from_tensor_slices(np.random.RandomState(1).randint(0, 200, [10000, 64])).repeat()
        spec = asc.FeatureSpec("user", index_key=0)
        dataset = dataset.map(lambda users: ((users,), users % 10)).map(asc.insert_function(spec)).prefetch(32)
        _, values = batch = tf.data.make_one_shot_iterator(dataset).get_next()
        rows = tf.squeeze(asc.sparse_lookup(create_table(), spec, batch=batch), 1)
        train = asc.optimizers.LazyAdam(0.2).minimize(tf.reduce_sum(tf.square(rows - tf.cast(values, tf.float32))))
        saver = asc.Saver()
        server: Any = None
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for step in range(100, 601, 100):
                for _ in range(100):
                    session.run(train)
                trained = time.time()
                prefix = str(saver.save(session, os.path.join(folder, "model"), step, save_delta=True))
                asc.export_delta(prefix, os.path.join(folder, "updates"))
                server = server or start_server(prefix, folder)
                served, *worth = server.stdout.readline().split()
                print("step {}: users 3, 7, 9 are worth {}, served after {:.2f} s".format(
                    step, ", ".join(worth), float(served) - trained))
        server.wait()


if __name__ == "__main__":
    tf.logging.set_verbosity("ERROR")
    main()
