"""Lets the first run of a session of a marked graph start its pipeline; or ``finalize``, where that comes before."""
from typing import Any

import tensorflow as tf
from tensorflow.python.client import session as session_module

from ascpipe.tf.configuration import Configuration

#: TensorFlow's own, before ``watch_sessions``.
_plain_extend_graph, _plain_finalize = session_module.BaseSession._extend_graph, tf.Graph.finalize


def watch_sessions() -> None:
    """From now on sessions and graphs of this process start what is marked. May be called twice."""
    session_module.BaseSession._extend_graph = _extend_graph
    tf.Graph.finalize = _finalize


def _extend_graph(self: Any) -> None:
    """What each way of running a session calls, before it tells the runtime of new ops."""
    _start(self.graph)
    _plain_extend_graph(self)


def _finalize(self: tf.Graph) -> None:
    _start(self)
    _plain_finalize(self)


def _start(graph: tf.Graph) -> None:
    if Configuration.is_initialised():
        Configuration.get_instance().deferred.start(graph)
