"""Builds ops where no scope of the program reaches."""
import contextlib
from typing import Iterator, Optional

import tensorflow as tf


@contextlib.contextmanager
def outside_scopes(graph: tf.Graph, scope: Optional[str] = None) -> Iterator[None]:
    """Build ops on the CPU whatever scopes, devices, control dependencies and conditionals the program is in.

    Args:
        graph: of the ops.
        scope: name scope of the ops; None: they have none.
    """
    with tf.control_dependencies(None), graph.name_scope(None), \
            graph.colocate_with(None, ignore_existing=True), tf.device(None), tf.device("/device:CPU:0"), \
            graph.name_scope(scope):
        yield
