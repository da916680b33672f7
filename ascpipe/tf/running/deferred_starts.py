"""Deferred start of pipelines: ``start_asc_pipeline`` only marks a graph, whose pipeline is started later.

Programs mark a graph before it is complete. They may still look up tables, apply gradients and create Savers. The
pipeline of a marked graph starts when the first of these events occurs:

- A session runs the graph (``start_pipeline.py``).
- The program finalizes the graph.
- A save, a restore or an eviction needs the pipeline.
"""
import threading
import weakref
from typing import Callable, Iterator, List, NamedTuple, Optional

import tensorflow as tf

from ascpipe.tf.clean_up import interruptible


class _Marked(NamedTuple):
    graph: Callable[[], Optional[tf.Graph]]
    start: Callable[[tf.Graph], None]
    is_next: Callable[[tf.Graph], bool]


class DeferredStarts:
    """Marked graphs whose pipelines have not started. The object has only weak references to the graphs.

    Attributes:
        mark_on_demand: function that marks a graph if necessary. It is called when the pipeline is needed. None if the
            program itself marks its graphs.
    """

    def __init__(self) -> None:
        self.mark_on_demand: Optional[Callable[[tf.Graph], None]] = None
        self._marked: List[_Marked] = []
        self._starting = threading.RLock()

    def mark(self, graph: tf.Graph, start: Callable[[tf.Graph], None], is_next: Callable[[tf.Graph], bool]) -> None:
        """Mark a graph. The pipeline of the graph starts when the program first needs the pipeline.

        Args:
            start: function that starts the graph. The graph is the default graph during the call.
            is_next: function that returns whether the graph can start before graphs that were marked earlier.
        """
        self._marked.append(_Marked(weakref.ref(graph), start, is_next))

    def graphs(self) -> List[tf.Graph]:
        """Return the marked graphs that still exist, in the order in which they were marked."""
        return [graph for graph in (marked.graph() for marked in self._marked) if graph is not None]

    def start(self, graph: tf.Graph) -> None:
        """Start the pipeline of a graph if the graph is marked.

        Graphs that were marked earlier start first if their tables have lower numbers. If another thread is starting a
        pipeline, this call waits for that thread, which uses timeouts when it waits for the daemon. If the start fails,
        the graph stays marked, and the next call tries again.
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
        """Start the pipeline of every marked graph."""
        with self._starting:
            for graph in self.graphs():
                self._start(graph)

    def drop(self) -> None:
        """Discard all marks."""
        self._marked = []

    def _start(self, graph: tf.Graph) -> None:
        marked = self._of(graph)
        with graph.as_default(), _raise_keyboard_interrupt():
            marked.start(graph)
        self._marked.remove(marked)

    def _of(self, graph: tf.Graph) -> _Marked:
        return next(marked for marked in self._marked if marked.graph() is graph)


@interruptible
def _raise_keyboard_interrupt() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` instead of a ``SystemError`` that an interrupt in TensorFlow's C code causes."""
    try:
        yield
    except SystemError as error:
        cause: Optional[BaseException] = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
