"""What tests of Estimators and monitored sessions share."""
import contextlib

import tensorflow as tf


class Losses(tf.compat.v1.train.SessionRunHook):
    """Notes the loss of each step in ``values``; ``loss`` is the tensor, set when the graph is built."""

    def __init__(self):
        self.values, self.loss = [], None

    def before_run(self, run_context):
        return tf.compat.v1.train.SessionRunArgs(self.loss)

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results)


@contextlib.contextmanager
def event_files():
    """TensorFlow keeps its event files open."""
    try:
        yield
    finally:
        tf.compat.v1.summary.FileWriterCache.clear()
