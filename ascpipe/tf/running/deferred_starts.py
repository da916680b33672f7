"""Starts a pipeline late: ``start_asc_pipeline`` marks a graph, and the first thing that needs the pipeline starts it.

Programs mark a graph before it is complete: they apply gradients, make Savers and look tables up after that. So a
marked graph starts with the first run of a session of it (``start_pipeline.py``), when it is finalized, as managed
sessions do, or when a save, a restore or an eviction needs the pipeline.
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
        mark_on_demand: marks a graph that is about to be needed, if it shall be; None: programs mark their graphs.
    """

    def __init__(self) -> None:
        self.mark_on_demand: Optional[Callable[[tf.Graph], None]] = None
        self._marked: List[_Marked] = []
        self._starting = threading.RLock()

    def mark(self, graph: tf.Graph, start: Callable[[tf.Graph], None], is_next: Callable[[tf.Graph], bool]) -> None:
        """Mark a graph to be started when it is first needed.

        Args:
            graph: the graph.
            start: starts the graph, which is the default one then.
            is_next: whether the graph can start before those that were marked before it.
        """
        self._marked.append(_Marked(weakref.ref(graph), start, is_next))

    def graphs(self) -> List[tf.Graph]:
        """Graphs that wait and still exist, in the order in which they were marked."""
        return [graph for graph in (marked.graph() for marked in self._marked) if graph is not None]

    def start(self, graph: tf.Graph) -> None:
        """Start a graph if it waits; before it those that were marked before it, if their tables have lower numbers.

        A second thread that needs the graph waits for the first, whose waits for the daemon all end. Where the start
        raises, the graph stays marked: what needs it next starts it again.
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
        """Start every graph that waits."""
        with self._starting:
            for graph in self.graphs():
                self._start(graph)

    def drop(self) -> None:
        """Forget all marked graphs."""
        self._marked = []

    def _start(self, graph: tf.Graph) -> None:
        marked = self._of(graph)
        with graph.as_default(), _interrupts_as_such():
            marked.start(graph)
        self._marked.remove(marked)

    def _of(self, graph: tf.Graph) -> _Marked:
        return next(marked for marked in self._marked if marked.graph() is graph)


@contextlib.contextmanager
def _interrupts_as_such() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` where one came in the midst of a C function by which TensorFlow makes an op.

    Python makes it the cause of a SystemError there, which no program expects of Ctrl-C.
    """
    try:
        yield
    except SystemError as error:
        cause: Optional[BaseException] = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
