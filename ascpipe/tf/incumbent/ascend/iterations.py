"""Several training iterations per call of ``Session.run``.

An Ascend card repeats the step by itself. In ascpipe, each iteration is a separate step with a new batch and plan.
``load_iterations`` therefore replaces the method ``run`` of a session. The new method repeats a run if its fetches need
the op of ``loop_op``.
"""
from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Set, Union

import tensorflow as tf
from tensorflow.python.client import session as session_module

from ascpipe.errors import ArgumentError, CallOrderError
from ascpipe.tf import internals, patches
from ascpipe.tf.validation import Instance, Integer, wrong_type

_TRAIN_OP = Instance(tf.Operation, tf.Tensor)
_ITERATIONS = Integer(1)


def set_iteration_per_loop(sess: Any, train_op: Union[tf.Operation, tf.Tensor],
                           iterations_per_loop: int = 1) -> tf.Operation:
    """Return an op that trains several iterations per run of one session.

    All iterations except the last iteration run only the op, with the same ``feed_dict``. The last iteration runs all
    fetches and returns their values. Ops that depend on the returned op have the same effect as the returned op. At the
    end of the data, ``OutOfRangeError`` is raised, and earlier iterations remain trained. In other sessions, the op
    trains one iteration.

    Args:
        sess: session that trains. Its graph must not be finalized.
        train_op: op that trains one iteration.
        iterations_per_loop: int in [1, 2147483647].

    Raises:
        ValueError: an argument has the wrong type or is out of range.
    """
    _ITERATIONS.check("iterations_per_loop", iterations_per_loop)
    loop = loop_op(train_op)
    load_iterations(sess, loop, iterations_per_loop)
    return loop


class IterationPerLoop:
    """Alternative to ``set_iteration_per_loop``, with separate methods to create the op and to set the iterations.

    Managed sessions finalize the graph, so the program must create the op before the session.
    """

    def __init__(self) -> None:
        self._loop: Optional[tf.Operation] = None

    def create_iteration_per_loop_var(self, train_op: Union[tf.Operation, tf.Tensor]) -> tf.Operation:
        """Return an op that trains one iteration by default. Raise ``ValueError`` if ``train_op`` has the wrong type.
        """
        self._loop = loop_op(train_op)
        return self._loop

    def load_iteration_per_loop_var(self, sess: Any, iterations_per_loop: int = 1) -> None:
        """Set the number of iterations that the created op trains per run of a session.

        Args:
            iterations_per_loop: int in [1, 2147483647].

        Raises:
            ValueError: an argument has the wrong type or is out of range.
            RuntimeError: ``create_iteration_per_loop_var`` was not called before.
        """
        _ITERATIONS.check("iterations_per_loop", iterations_per_loop)
        if self._loop is None:
            raise CallOrderError("load_iteration_per_loop_var() was called before create_iteration_per_loop_var(). "
                                 "Call create_iteration_per_loop_var(train_op) first")
        load_iterations(sess, self._loop, iterations_per_loop)


def loop_op(train_op: Union[tf.Operation, tf.Tensor]) -> tf.Operation:
    """Return an op that runs ``train_op``. ``load_iterations`` sets the number of iterations of this op.

    Raise ``ValueError`` if ``train_op`` has the wrong type.
    """
    train_op = internals.op_of_assignment(train_op)
    _TRAIN_OP.check("train_op", train_op)
    with train_op.graph.as_default(), tf.control_dependencies(None):
        return tf.group(train_op, name="iterations_per_loop")


def load_iterations(session: Any, loop: tf.Operation, count: int) -> None:
    """Set the number of iterations that a session or managed session trains per run of ``loop``.

    Raises:
        ValueError: ``session`` is not a session.
    """
    if isinstance(session, tf.compat.v1.train.MonitoredSession):
        session = internals.session_within(session)
    if not isinstance(session, session_module.SessionInterface):
        raise wrong_type("sess", session, "tf.Session or MonitoredSession")
    loops = internals.stored_on(session, "iterations", lambda: _Loops(session))
    loops.counts[loop] = count


class _Loops:
    """Replacements for the methods ``run`` and ``make_callable`` of one session. ``run`` repeats training ops.

    Attributes:
        counts: op of ``loop_op`` -> number of iterations.
    """

    def __init__(self, session: Any) -> None:
        self.counts: Dict[tf.Operation, int] = {}
        self._graph: tf.Graph = session.graph
        self._run = session.run
        self._make_callable = session.make_callable
        self._needed: Dict[tf.Operation, FrozenSet[tf.Operation]] = {}
        self._seen = (-1, 0)
        patches.apply_to_session(session, self.run, self.make_callable)

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Replacement for ``tf.Session.run`` that runs each op in ``counts`` as often as ``counts`` specifies."""
        counts = {loop: self.counts[loop] for loop in self._loops_of(fetches)}
        for done in range(1, max(counts.values(), default=1)):
            self._run([loop for loop, count in counts.items() if count > done], feed_dict)
        return self._run(fetches, feed_dict, options, run_metadata)

    def make_callable(self, fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Any:
        """Replacement for ``tf.Session.make_callable`` that raises ``ArgumentError`` for ops in ``counts``."""
        if self._loops_of(fetches):
            raise ArgumentError("make_callable() was called with an op that trains several iterations, which it does "
                                "not support. Call Session.run(), or pass the op that was passed to "
                                "set_iteration_per_loop()")
        return self._make_callable(fetches, feed_list, accept_options)

    def _loops_of(self, fetches: Any) -> List[tf.Operation]:
        """Return the ops in ``counts`` that are executed when ``fetches`` are run."""
        with self._graph.as_default():
            elements = internals.fetched(fetches)
        ops = [element.op if isinstance(element, tf.Tensor) else element for element in elements]
        state = (self._graph.version, len(self.counts))
        if state != self._seen:
            self._seen = state
            self._needed = {}
        found: Set[tf.Operation] = set()
        for op in ops:
            if op not in self._needed:
                self._needed[op] = frozenset(self.counts.keys() & _ancestors([op]))
            found |= self._needed[op]
        return sorted(found, key=lambda op: str(op.name))


def _ancestors(ops: Iterable[tf.Operation]) -> Set[tf.Operation]:
    found: Set[tf.Operation] = set()
    todo = list(ops)
    while todo:
        op = todo.pop()
        if op not in found:
            found.add(op)
            todo += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return found
