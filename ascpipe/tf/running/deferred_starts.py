"""When a pipeline starts: ``start_asc_pipeline`` marks a graph, and what needs the pipeline first starts it.

Programs mark a graph before it is complete: they apply gradients, make Savers and look tables up after that. So a
marked graph starts with the first run of a session of it (``first_run.py``), when it is finalized, as managed sessions
do, or when a save, a restore or an eviction needs the pipeline.
"""
import threading
import weakref
from typing import Callable, List, NamedTuple, Optional

import tensorflow as tf


class _Marked(NamedTuple):
    graph: Callable[[], Optional[tf.Graph]]
    start: Callable[[tf.Graph], None]


class DeferredStarts:
    """Graphs that are marked and not started, of one ``Configuration``; it does not keep them.

    Args:
        is_next: whether a graph can start before those that were marked before it.
    """

    def __init__(self, is_next: Callable[[tf.Graph], bool]) -> None:
        self._is_next = is_next
        self._marked: List[_Marked] = []
        self._starting = threading.RLock()

    def mark(self, graph: tf.Graph, start: Callable[[tf.Graph], None]) -> None:
        """Have ``start`` called with the graph, which is the default one then, when something needs it."""
        self._marked.append(_Marked(weakref.ref(graph), start))

    def graphs(self) -> List[tf.Graph]:
        """Those that wait and are still there, in the order in which they were marked."""
        return [graph for graph in (marked.graph() for marked in self._marked) if graph is not None]

    def start(self, graph: tf.Graph) -> None:
        """Start a graph if it waits; before it those that were marked before it, if their tables have lower numbers.

        A second thread that needs the graph waits for the first, whose waits for the daemon all end. Where the start
        raises, the graph stays marked: what needs it next starts it again.
        """
        if not self._marked:
            return
        with self._starting:
            waiting = self.graphs()
            if graph not in waiting:
                return
            for each in [graph] if self._is_next(graph) else waiting[:waiting.index(graph) + 1]:
                self._start(each)

    def start_all(self) -> None:
        """Start every graph that waits."""
        with self._starting:
            for graph in self.graphs():
                self._start(graph)

    def drop(self) -> None:
        """Start none of them any more."""
        self._marked = []

    def _start(self, graph: tf.Graph) -> None:
        marked = next(marked for marked in self._marked if marked.graph() is graph)
        with graph.as_default():
            marked.start(graph)
        self._marked.remove(marked)
