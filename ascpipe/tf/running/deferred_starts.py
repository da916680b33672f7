"""Deferred start of pipelines: ``start_asc_pipeline`` marks a graph, and its pipeline starts when it is first needed.

Programs mark a graph before it is complete: afterwards they apply gradients, create Savers and look up tables. A marked
graph starts at the first run of a session (``start_pipeline.py``), when it is finalized, or when a save, a restore or
an eviction needs the pipeline.
"""
import contextlib
import threading
import weakref
from typing import Callable, Iterator, List, NamedTuple, Optional

import tensorflow as tf


class _Marked(NamedTuple):
    graph: Callable[[], Optional[tf.Graph]]
    start: Callable[[tf.Graph], None]
    is_next: Callable[[tf.Graph], bool]


class DeferredStarts:
    """Graphs that are marked and not started, held by weak references.

    Attributes:
        mark_on_demand: marks a graph if necessary when it is needed; None if programs mark their graphs.
    """

    def __init__(self) -> None:
        self.mark_on_demand: Optional[Callable[[tf.Graph], None]] = None
        self._marked: List[_Marked] = []
        self._starting = threading.RLock()

    def mark(self, graph: tf.Graph, start: Callable[[tf.Graph], None], is_next: Callable[[tf.Graph], bool]) -> None:
        """Mark a graph to be started when it is first needed.

        Args:
            start: starts the graph; called while it is the default graph.
            is_next: whether the graph can start before graphs that were marked earlier.
        """
        self._marked.append(_Marked(weakref.ref(graph), start, is_next))

    def graphs(self) -> List[tf.Graph]:
        """Return the marked graphs that still exist, in their order."""
        return [graph for graph in (marked.graph() for marked in self._marked) if graph is not None]

    def start(self, graph: tf.Graph) -> None:
        """Start a graph if it is marked. Start graphs marked earlier first if their tables have lower numbers.

        A second thread waits for the first one, whose waits for the daemon all time out. If the start fails, the graph
        stays marked and is started at the next need.
        """
        if self.mark_on_demand is not None:
            self.mark_on_demand(graph)
        if not self._marked:
            return
        with self._starting:
            waiting = self.graphs()
            if graph not in waiting:
                return
            for each in [graph] if self._of(graph).is_next(graph) else waiting[:waiting.index(graph) + 1]:
                self._start(each)

    def start_all(self) -> None:
        """Start every marked graph."""
        with self._starting:
            for graph in self.graphs():
                self._start(graph)

    def drop(self) -> None:
        """Forget all marked graphs."""
        self._marked = []

    def _start(self, graph: tf.Graph) -> None:
        marked = self._of(graph)
        with graph.as_default(), _raise_keyboard_interrupt():
            marked.start(graph)
        self._marked.remove(marked)

    def _of(self, graph: tf.Graph) -> _Marked:
        return next(marked for marked in self._marked if marked.graph() is graph)


@contextlib.contextmanager
def _raise_keyboard_interrupt() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` if it interrupted TensorFlow's C code; Python raises a SystemError instead."""
    try:
        yield
    except SystemError as error:
        cause: Optional[BaseException] = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
