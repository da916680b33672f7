"""The variables of a graph, those of tables apart from the others."""
from typing import List, Tuple

import tensorflow as tf

from ascpipe.tf.running.process import Process


def get_dense_and_sparse_variable() -> Tuple[List[tf.Variable], List[tf.Variable]]:
    """Trainable variables of the default graph, and the device rows of its tables.

    Raises:
        EnvironmentError: ``init`` was not called.
    """
    graph = tf.compat.v1.get_default_graph()
    dense = graph.get_collection(tf.compat.v1.GraphKeys.TRAINABLE_VARIABLES)
    return dense, graph.get_collection(Process.current().configuration.hashtable_collection)
