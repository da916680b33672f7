"""When a pipeline starts: ``start_asc_pipeline`` marks a graph, and what needs the pipeline first starts it.

Programs mark a graph before it is complete: they apply gradients, make Savers and look tables up after that. So a
marked graph starts with the first run of a session of it (``first_run.py``), when it is finalized, as managed sessions
do, or when a save, a restore or an eviction needs the pipeline.
"""
import threading
from typing import Callable, List, NamedTuple

import tensorflow as tf


class _Marked(NamedTuple):
    graph: tf.Graph
    start: Callable[[], None]


class DeferredStarts:
    """Graphs that are marked and not started, of one ``Configuration``."""

    def __init__(self) -> None:
        self._marked: List[_Marked] = []
        self._starting = threading.RLock()

    def mark(self, graph: tf.Graph, start: Callable[[], None]) -> None:
        """Have ``start`` called, with the graph as the default one, when something needs it."""
        self._marked.append(_Marked(graph, start))

    def graphs(self) -> List[tf.Graph]:
        """Those that wait, in the order in which they were marked."""
        return [marked.graph for marked in self._marked]

    def start(self, graph: tf.Graph) -> None:
        """Start a graph if it waits, after those that were marked before it, whose tables have the lower numbers.

        A second thread that needs the graph waits for the first, whose waits for the daemon all end. Where the start
        raises, the graph stays marked: what needs it next starts it again.
        """
        if not self._marked:
            return
        with self._starting:
            while any(marked.graph is graph for marked in self._marked):
                first = self._marked[0]
                with first.graph.as_default():
                    first.start()
                self._marked.remove(first)

    def start_all(self) -> None:
        """Start every graph that waits."""
        for graph in self.graphs():
            self.start(graph)

    def drop(self) -> None:
        """Start none of them any more."""
        self._marked = []
