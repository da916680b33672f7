"""Builds ops where no scope of the program reaches."""
import contextlib
from typing import Iterator

import tensorflow as tf


@contextlib.contextmanager
def outside_scopes(graph: tf.Graph) -> Iterator[None]:
    """Build ops on the CPU whatever scopes, devices, control dependencies and conditionals the program is in."""
    with tf.control_dependencies(None), graph.name_scope(None), \
            graph.colocate_with(None, ignore_existing=True), tf.device(None), tf.device("/device:CPU:0"):
        yield
