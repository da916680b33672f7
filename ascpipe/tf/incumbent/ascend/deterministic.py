"""Deterministic sessions, which a session configuration can request.

A deterministic session has one intra-op thread. With several threads, the rounding of sums would depend on timing. A
pass over the graph of each step (``tfops/src/graph/variable_order.cc``) makes updates of a variable wait for its reads,
and fixes the order of sums of tensors.
"""
import functools
import logging
import os
from typing import Any, Iterator, Optional, Tuple

import tensorflow as tf
from tensorflow_estimator.python.estimator import run_config

from ascpipe import program_log
from ascpipe.tf import patches
from ascpipe.tf.running import native
from ascpipe.tf.running.thread_pools import without_shared_thread_pool

_log = logging.getLogger(__name__)

_CARD = "NpuOptimizer"
_PARAMETER = "deterministic"
#: Optimizer name that enables the pass of ``variable_order.cc``. TensorFlow ignores unknown names.
_ORDERED = "AscpipeDeterministic"

#: True if sessions share the thread pool of this process's first session. None before the first session.
_threads_are_shared: Optional[bool] = None


def install() -> None:
    """Patch ``tf.Session`` to support the ``deterministic`` parameter of ``NpuOptimizer``. Repeated calls have no
    further effect.
    """
    patches.ACCELERATOR_OPTIONS.use()
    patches.SESSION_INIT.put()  # before ``init``, ``use`` does not apply patches


def asking(config: Optional[tf.compat.v1.ConfigProto]) -> tf.compat.v1.ConfigProto:
    """Return a copy of a session configuration that requests deterministic sessions.

    None means the default configuration of Estimators.
    """
    copy = run_config.get_default_session_config()
    if config is not None:
        copy.CopyFrom(config)
    card = copy.graph_options.rewrite_options.custom_optimizers.add()
    card.name = _CARD
    card.parameter_map[_PARAMETER].i = 1
    return copy


@patches.SESSION_INIT.by
@functools.wraps(patches.SESSION_INIT.plain)
def _init(self: Any, target: str = "", graph: Optional[tf.Graph] = None, config: Any = None) -> None:
    global _threads_are_shared
    ignored = _ignored(config)
    if ignored:
        _log_ignored(ignored)
    if _is_asked(config):
        if _threads_are_shared:
            _log.warning("Two runs of this deterministic session may differ, because the first session of this "
                         "process was not deterministic, and later sessions use its threads. Set deterministic in the "
                         "first session, too")
        ordered = tf.compat.v1.ConfigProto()
        ordered.CopyFrom(config)
        ordered.intra_op_parallelism_threads = 1
        ordered.graph_options.rewrite_options.custom_optimizers.add().name = _ORDERED
        native.ops()  # load the library, which contains the pass
        with without_shared_thread_pool():
            patches.SESSION_INIT.plain(self, target, graph, ordered)
        _threads_are_shared = bool(_threads_are_shared)
        return
    patches.SESSION_INIT.plain(self, target, graph, config)
    if _threads_are_shared is None:
        _threads_are_shared = os.environ.get("TF_OVERRIDE_GLOBAL_THREADPOOL", "0").lower() not in ("1", "true") and (
            getattr(config, "intra_op_parallelism_threads", 0) != 1)


def _cards(config: Any) -> Iterator[Any]:
    if isinstance(config, tf.compat.v1.ConfigProto):
        yield from (one for one in config.graph_options.rewrite_options.custom_optimizers if one.name == _CARD)


def _is_asked(config: Any) -> bool:
    values = [card.parameter_map[_PARAMETER] for card in _cards(config) if _PARAMETER in card.parameter_map]
    return any(value.i or value.b or value.s.lower() in (b"1", b"true") for value in values)


def _ignored(config: Any) -> Tuple[str, ...]:
    return tuple(sorted({name for card in _cards(config) for name in card.parameter_map if name != _PARAMETER}))


@functools.lru_cache(maxsize=None)  # each session of a program has the same parameters
def _log_ignored(names: Tuple[str, ...]) -> None:
    program_log.program_logger().info("%s: these parameters have no effect without an Ascend card: %s", _CARD,
                                      ", ".join(names))
