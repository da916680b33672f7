"""Says which attributes of TensorFlow are replaced in a plain program, and in one that uses more and more of it.

Prints a line of JSON for each of the APIs ``ascpipe`` and ``mx_rec``: by what the program has used, the attributes.
Each program is forked before it imports its API.
"""
import importlib
import json
import os
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from tests.support.tensorflow_attributes import attributes, changed  # noqa: E402
from tests.support.tensorflows import use_tensorflow_1  # noqa: E402

use_tensorflow_1()

v1 = tf.compat.v1
v1.logging.set_verbosity(v1.logging.ERROR)
v1.estimator.Estimator  # noqa: B018  TensorFlow 2.15 replaces attributes of its own when it loads Estimators
BEFORE = attributes()

def train(asc, folder):
    """A table, a dataset, an optimizer and a Saver, in a loop of a session and in a managed session."""
    spec = asc.FeatureSpec("ids", table_name="t")
    data = tf.data.Dataset.from_tensors({"ids": np.arange(4)}).repeat().map(asc.insert_function(spec)).prefetch(2)
    batch = v1.data.make_one_shot_iterator(data).get_next()
    table = asc.create_table("t", 4, initializer=tf.zeros_initializer(), device_vocabulary_size=10)
    rows = asc.sparse_lookup(table, spec, batch=batch)
    step = v1.train.get_or_create_global_step()
    update = asc.optimizers.Adagrad(0.1).minimize(tf.reduce_sum(rows), step, var_list=[table.variable])
    asc.start()
    saver = v1.train.Saver()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(update)
        saver.save(session, folder + "/model", step)
    with v1.train.MonitoredTrainingSession(checkpoint_dir=folder) as session:
        session.run(update)


def run(api):
    """Run the program of an API, and print what it has found."""
    asc = importlib.import_module("ascpipe.tf")
    if api == "mx_rec":
        module = importlib.import_module("mx_rec.util.initialize")
        init, terminate = module.init, module.terminate_config_initializer
    else:
        init, terminate = asc.init, asc.shutdown
    said = {}

    def note(what):
        said[what] = changed(BEFORE, attributes())

    with tempfile.TemporaryDirectory() as folder:
        note("nothing")
        init()
        note("init")
        train(asc, folder)
        note("plain")
        if api == "mx_rec":
            importlib.import_module("mx_rec.util.ops")
            note("host ops")
        tf.keras.Sequential()
        note("Keras")
        v1.estimator.Estimator(lambda features, labels, mode: None, folder)
        note("Estimators")
        asc.feature_column.linear_weights(tf.feature_column.categorical_column_with_identity("x", 9))
        note("columns")
        terminate()
        note("the end")
        init()
        note("another init")
        asc.reset()
        note("reset")
    sys.stdout.write(json.dumps(said) + "\n")


for api in ("ascpipe", "mx_rec"):
    child = os.fork()
    if child == 0:
        run(api)
        sys.exit()
    if os.waitpid(child, 0)[1] != 0:
        sys.exit("the program of {} failed".format(api))
