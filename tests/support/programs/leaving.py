"""Sessions that are closed, iterators that are re-run and Ctrl-C, while the ring is full or a plan is awaited."""
import contextlib
import os
import signal
import threading
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, Optional

import numpy as np
import tensorflow as tf
from tensorflow.python.util import lock_util

from tests.support.programs.counted import CountedTable, Feed, Stages, trained_counts, two_tiers
from tests.support.programs.scenarios import Background, main, seconds_of, session, started, status, wait_full, workers
from tests.support.tensorflows import not_read_ahead, use_tensorflow_1
from tests.support.waiting import wait_until

use_tensorflow_1()

BATCHES = 400


def _stages(prefetch: str) -> Stages:
    return (lambda data: data.prefetch(100)) if prefetch == "prefetch" else not_read_ahead


def _feed(prefetch: str) -> Feed:
    return Feed(two_tiers(), BATCHES, _stages(prefetch))


def _fill(feed: Feed, running: tf.compat.v1.Session, prefetch: str) -> None:
    """Train a little, until the ring is as full as this program can fill it."""
    running.run(feed.iterator.initializer)
    for _ in range(5):
        feed.step(running)
    if prefetch == "prefetch":
        wait_full(parked=True)


def close_full(prefetch: str) -> Dict[str, Any]:
    """A session is closed with the ring full; the next one goes on with the same rows."""
    feed = _feed(prefetch)
    with started() as running:
        _fill(feed, running, prefetch)
        took_s = seconds_of(running.close)
    with session() as again:
        again.run(feed.iterator.initializer)
        for _ in range(5):
            feed.step(again)
        for table in feed.tables:
            table.require_truth()
    return {"took_s": took_s}


def again_full(prefetch: str) -> Dict[str, Any]:
    """The iterator is re-run with the ring full, again and again."""
    feed = _feed(prefetch)
    with started() as running:
        times = []
        for _ in range(10):
            _fill(feed, running, prefetch)
            times.append(seconds_of(lambda: running.run(feed.iterator.initializer)))
        assert feed.step(running) == 0
        for table in feed.tables:
            table.require_truth()
    return {"took_s": max(times)}


def interrupt_full(prefetch: str) -> Dict[str, Any]:
    """Ctrl-C at any moment of a step while the ring is full: the step is trained or not, and the program goes on."""
    feed = Feed([CountedTable("user")], BATCHES, _stages(prefetch))
    (user,) = feed.tables
    interrupts = went_through = 0
    with started() as running, _interrupts_spare_the_lock_of_the_graph():
        _fill(feed, running, prefetch)
        for attempt in range(12):
            try:
                Background(_later(0.0007 * attempt, lambda: os.kill(os.getpid(), signal.SIGINT)))
                while True:
                    feed.trained(int(running.run(feed.fetches())["index"]), ["user"], ["user"])
            except KeyboardInterrupt:
                interrupts += 1
            went_through += _adopt(user, feed.ids[0])
        running.run(feed.iterator.initializer)
        assert int(running.run(feed.fetches())["index"]) == 0
    return {"interrupts": interrupts, "went_through": went_through}


def close_waiting(prefetch: str) -> Dict[str, Any]:
    """A session is closed while steps wait for plans that do not come."""
    feed = _feed(prefetch)
    with started(threads=2) as running:
        running.run(feed.iterator.initializer)
        feed.step(running)
        with _stopped_table_worker():
            steps = _waiting_steps(feed, running)
            took_s = seconds_of(running.close)
            for step in steps:
                assert isinstance(step.join().error, tf.errors.CancelledError), repr(step.error)
    feed.settle()
    with session() as again:
        again.run(feed.iterator.initializer)
        assert feed.step(again) == 0
        for table in feed.tables:
            table.require_truth()
    return {"took_s": took_s}


def again_waiting(prefetch: str) -> Dict[str, Any]:
    """The iterator is re-run while steps wait for plans; their batches are trained when the plans come."""
    feed = _feed(prefetch)
    with started(threads=2) as running:
        running.run(feed.iterator.initializer)
        feed.step(running)
        with _stopped_table_worker():
            steps = _waiting_steps(feed, running)
            took_s = seconds_of(lambda: running.run(feed.iterator.initializer))
            assert not any(step.is_over() for step in steps)
        for step in steps:
            assert step.join().error is None, repr(step.error)
        for values in sorted((step.result for step in steps), key=lambda values: int(values["index"])):
            feed.took(values)
        for expected in range(3):
            assert feed.step(running) == expected
        for table in feed.tables:
            table.require_truth()
    return {"took_s": took_s}


def interrupt_waiting(prefetch: str) -> Dict[str, Any]:
    """Ctrl-C while steps wait for plans: KeyboardInterrupt in the main thread, and the program goes on."""
    feed = _feed(prefetch)
    raised = []
    with started(threads=2) as running:
        running.run(feed.iterator.initializer)
        feed.step(running)
        with _stopped_table_worker():
            steps = _waiting_steps(feed, running)
            for call in (lambda: running.run(feed.fetches()), feed.tables[0].table.size):
                shot = Background(_later(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)))
                try:
                    call()
                    threading.Event().wait(20)  # `size` may have had nothing to wait for
                    raised.append("nothing")
                except (KeyboardInterrupt, tf.errors.OpError) as error:
                    raised.append(type(error).__name__)
                shot.join()
            errors = [type(step.join().error).__name__ for step in steps]
        feed.settle()
        feed.step(running)
        feed.step(running)
        for table in feed.tables:
            table.require_truth()
    return {"raised": raised, "errors": errors}


def _trainer_waits() -> bool:
    """For the stopped table worker: its plan, or the room that it gives back."""
    said = [wait["waits_for"] for wait in status()["waits"] if wait["who"] == "trainer"]
    return any("plan" in text or "room" in text for text in said)


def _adopt(table: CountedTable, ids: np.ndarray) -> bool:
    """After a step that may or may not have gone through: the truth has all of one batch more, or nothing."""
    table.table.size()
    found = trained_counts(table.table.shape.number)
    counts = np.array([found.get(key, 0) for key in range(len(table.counts))])
    more = counts - table.counts
    table.counts[:] = counts
    if not more.any():
        return False
    assert any(np.array_equal(more, np.bincount(batch, minlength=len(more))) for batch in ids), more.tolist()
    return True


def _submitted() -> int:
    return int(status()["rings"][0]["submitted"])


def _waiting_steps(feed: Feed, running: tf.compat.v1.Session) -> List[Background]:
    """Three steps in the background that wait, the first of them for the table worker, and fill the ring of two."""
    step = _step_or_wait(feed, running)
    while step.is_over():
        feed.took(step.join().returned())  # its plan was there already
        step = _step_or_wait(feed, running)
    return [step] + [_step_that_submits(feed, running) for _ in range(2)]


def _step_or_wait(feed: Feed, running: tf.compat.v1.Session) -> Background:
    step = Background(lambda: running.run(feed.fetches()))
    wait_until(lambda: step.is_over() or _trainer_waits())
    return step


def _step_that_submits(feed: Feed, running: tf.compat.v1.Session) -> Background:
    before = _submitted()
    step = Background(lambda: running.run(feed.fetches()))
    wait_until(lambda: _submitted() > before)
    return step


def _later(seconds: float, call: Callable[[], Any]) -> Callable[[], Any]:
    def wait_and_call() -> None:
        threading.Event().wait(seconds)
        call()

    return wait_and_call


@contextlib.contextmanager
def _interrupts_spare_the_lock_of_the_graph() -> Iterator[None]:
    """Delay a Ctrl-C that arrives while TensorFlow locks or unlocks the graph.

    ``lock_util.GroupLock`` of TensorFlow stays locked if an exception is raised between its ``acquire`` and ``release``
    calls. The next step of any program, with or without ascpipe, waits forever then.
    """
    def interrupt(number: int, frame: Optional[FrameType]) -> None:
        within = frame
        while within is not None:
            if within.f_code.co_filename == lock_util.__file__:
                signal.setitimer(signal.ITIMER_REAL, 0.0001)
                return
            within = within.f_back
        raise KeyboardInterrupt

    former = [(number, signal.signal(number, interrupt)) for number in (signal.SIGINT, signal.SIGALRM)]
    try:
        yield
    finally:
        for number, handler in former:
            signal.signal(number, handler)


class _stopped_table_worker:  # noqa: N801  (reads as a function)
    """The table worker does nothing until the end of the block."""

    def __enter__(self) -> None:
        (self._pid,) = workers("table")
        os.kill(self._pid, signal.SIGSTOP)

    def __exit__(self, *error: Any) -> None:
        os.kill(self._pid, signal.SIGCONT)


if __name__ == "__main__":
    main({scenario.__name__: scenario for scenario in (
        close_full, again_full, interrupt_full, close_waiting, again_waiting, interrupt_waiting)})
