"""Workers, supervisor and trainer that die; a table that is too small; a fork."""
import contextlib
import itertools
import json
import os
import signal
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Dict, List, Set, Tuple

import numpy as np
import psutil
import tensorflow as tf

from ascpipe.errors import NoAnswerError
from ascpipe.tf import Saver
from ascpipe.tf.running.hold_between_steps import hold
from ascpipe.tf.running.process import Process
from mx_rec.core.asc import start_asc_pipeline
from tests.support.programs.counted import CountedTable, Feed, two_tiers
from tests.support.programs.scenarios import Background, main, seconds_of, session, started, status, workers
from tests.support.tensorflows import use_tensorflow_1
from tests.support.waiting import wait_until

use_tensorflow_1()


class Killer:
    """Kills the workers of some kinds in turn, again and again, each some steps and milliseconds after it has come up.

    Args:
        kinds: "key", "table", "template": the process that workers are forked from.
        most: how many workers are killed.
        seed: of the moments.
        steps: how many steps the trainer has done; the next kill waits for a few more.
        by: the signal; one that is stopped is replaced by the daemon.

    Attributes:
        killed: how many, so far.
        recovered_s: of each kill, seconds until the trainer had done three steps more.
    """

    def __init__(self, kinds: List[str], most: int, seed: int, steps: Callable[[], int],
                 by: signal.Signals = signal.SIGKILL) -> None:
        self._kinds, self._most, self._draw, self._steps = kinds, most, np.random.RandomState(seed), steps
        self._by = by
        self._over = threading.Event()
        self.killed = 0
        self.recovered_s: List[float] = []
        self._killed_at: List[Tuple[float, int]] = []  # time and steps of kills that are not recovered from

    def __enter__(self) -> "Killer":
        self._loop = Background(self._run)
        return self

    def __exit__(self, *error: Any) -> None:
        self._over.set()
        self._loop.join().returned()

    def _run(self) -> None:
        killed: Set[int] = set()
        met: Set[int] = set()
        next_at = 0
        while self.killed < self._most and not self._over.is_set():
            pids = _pids(self._kinds[self.killed % len(self._kinds)])
            if self._by == signal.SIGSTOP and pids and pids[0] not in met:
                met.add(pids[0])
                next_at = max(next_at, self._steps() + 1)  # a step that has waited for it meets no second one
            if self._steps() >= next_at and pids and pids[0] not in killed:
                self._killed_at.append((time.monotonic(), self._steps()))
                os.kill(pids[0], self._by)
                killed.add(pids[0])
                self.killed += 1
                next_at = self._steps() + int(self._draw.randint(0, 12))
            until = time.monotonic() + float(self._draw.uniform(0.001, 0.02))
            while time.monotonic() < until or self.killed == self._most and self._killed_at:
                self._note_recoveries()
                if self._over.wait(0.001):
                    return

    def _note_recoveries(self) -> None:
        while self._killed_at and self._steps() >= self._killed_at[0][1] + 3:
            self.recovered_s.append(time.monotonic() - self._killed_at.pop(0)[0])


def _pids(kind: str) -> List[int]:
    """Of the workers of a kind that work, or of the template, where it is ready."""
    said = status()
    pids = {worker["pid"]: worker["kind"] for worker in said["workers"] if worker["pid"] and worker["attached"]}
    if kind != "template":
        return [pid for pid, found in pids.items() if found == kind]
    if said["template"] != "ready" or len(pids) < len(said["workers"]):
        return []
    return [child.pid for child in psutil.Process(said["pid"]).children() if child.pid not in pids]


def stopped_workers(kinds: str, stops: str, seed: str = "1") -> Dict[str, Any]:
    """Workers are stopped while training and evaluation go on, and stay stopped."""
    return killed_workers(kinds, stops, seed, signal.SIGSTOP)


def stopped_supervisor(rounds: str) -> Dict[str, Any]:
    """The daemon is stopped while training goes on, asked, and continued; then a worker dies while it is stopped."""
    feed = Feed(two_tiers(), 100000, lambda data: data.prefetch(20))
    silent_s: List[float] = []
    restarted_s: List[float] = []
    with started() as running:
        running.run(feed.iterator.initializer)
        pid = Process.current().running_pipeline().link.daemon_pid
        for _ in range(int(rounds)):
            feed.step(running)
            os.kill(pid, signal.SIGSTOP)
            for _ in range(50):
                feed.step(running)
            silent_s.append(seconds_of(_is_not_answered))
            os.kill(pid, signal.SIGCONT)
            (worker,) = workers("table")
            os.kill(pid, signal.SIGSTOP)
            os.kill(worker, signal.SIGKILL)
            step = Background(lambda: [feed.step(running) for _ in range(50)])  # more than are planned
            threading.Event().wait(3.0)  # no more than 5 deaths a minute
            waited = not step.is_over()
            os.kill(pid, signal.SIGCONT)
            restarted_s.append(seconds_of(step.join))
            step.returned()
            if not waited:
                raise AssertionError("50 steps were planned ahead")
        for table in feed.tables:
            table.require_truth()
        return {"restarts": _restarts(), "silent_s": max(silent_s), "goes_on_s": max(restarted_s)}


def _is_not_answered() -> None:
    try:
        status()
    except NoAnswerError:
        return
    raise AssertionError("a daemon that is stopped answers")


def killed_workers(kinds: str, kills: str, seed: str = "1", by: signal.Signals = signal.SIGKILL) -> Dict[str, Any]:
    """Workers are killed while training and evaluation go on: every lookup as if nothing had happened."""
    tables = two_tiers()
    feed = Feed(tables, 100000, lambda data: data.prefetch(20))
    check = Feed(tables, 100000, lambda data: data.prefetch(5), seed=9, training=False)
    with started() as running:
        running.run([feed.iterator.initializer, check.iterator.initializer])
        with Killer(kinds.split("+"), int(kills), int(seed), lambda: feed.last, by) as killer:
            longest_s = 0.0
            while killer.killed < int(kills):
                longest_s = max(longest_s, *(seconds_of(lambda: one.step(running))  # noqa: B023  (called at once)
                                             for one in (feed, check)))
            last_kill_at = feed.last
            for _ in range(50):
                feed.step(running)
                check.step(running)
        for table in tables:
            table.require_truth()
        _require_no_lease()
        wanted = sum(kind != "template" for kind in itertools.islice(itertools.cycle(kinds.split("+")), killer.killed))
        wait_until(lambda: sum(_restarts().values()) == wanted)
        late = {wait["who"]: wait["late"] for wait in status()["waits"]}
        return {"last_kill_at": last_kill_at, "restarts": _restarts(), "late": late, "longest_s": longest_s,
                "recovered_s": killer.recovered_s}


def _require_no_lease() -> None:
    """Take an exclusive hold. It waits until no step has the lease or a share, so a lease left behind hangs."""
    with hold(alone=True):
        pass


def _restarts() -> Dict[str, int]:
    return {worker["kind"]: worker["restarts"] for worker in status()["workers"]}


def killed_between_plan_and_retire(rounds: str) -> Dict[str, Any]:
    """The table worker is stopped, training goes on with what is planned, the worker is killed, training goes on."""
    tables = two_tiers()
    feed = Feed(tables, 200, lambda data: data.prefetch(20))
    in_between = 0
    with started() as running:
        running.run(feed.iterator.initializer)
        for _ in range(int(rounds)):
            for _ in range(10):
                feed.step(running)
            (pid,) = workers("table")
            os.kill(pid, signal.SIGSTOP)
            step = Background(lambda: running.run(feed.fetches()))
            wait_until(lambda: step.is_over() or _waits())  # noqa: B023  (called in this round)
            if step.is_over():
                in_between += 1  # claimed and done, but no worker has retired it
            os.kill(pid, signal.SIGKILL)
            feed.took(step.join().returned())
        for table in tables:
            table.require_truth()
        _require_no_lease()
    return {"in_between": in_between}


def killed_workers_and_changed_rows(kinds: str, kills: str, seed: str = "1") -> Dict[str, Any]:
    """Workers are killed while rows are assigned, deleted and read, and tables are frozen, between the steps."""
    tables = two_tiers()
    draw = np.random.RandomState(int(seed))
    feed = Feed(tables, 100000, lambda data: data.prefetch(20))
    changes = 0
    with started() as running:
        running.run(feed.iterator.initializer)
        with Killer(kinds.split("+"), int(kills), int(seed), lambda: feed.last) as killer:
            while killer.killed < int(kills) or changes < 12:
                feed.step(running)
                changes += _change(tables[draw.randint(2)], draw)
        for _ in range(20):
            feed.step(running)
        for table in tables:
            table.require_truth()
        _require_no_lease()
        return {"changes": changes, "killed": killer.killed}


def _change(counted: CountedTable, draw: np.random.RandomState) -> int:
    """Delete some keys, assign to some keys with rows, or freeze, and read. Return the number of changes."""
    keys = draw.choice(len(counted.counts), 4, replace=False)
    kind = draw.randint(5)
    if kind == 4:
        counted.is_frozen = bool(draw.randint(3))
        (counted.table.freeze if counted.is_frozen else counted.table.unfreeze)()
    if kind == 0:
        assert counted.table.delete(keys) == np.count_nonzero(counted.counts[keys])
        counted.counts[keys] = counted.updates[keys] = 0
    elif kind == 1:
        keys = keys[counted.counts[keys] > 0]
        counted.updates[keys] = draw.randint(0, 100, len(keys))
        counted.table.assign(keys, counted.expected(keys))
    found = counted.table.read(keys)
    assert found.found.tolist() == (counted.counts[keys] > 0).tolist()
    counted.require_rows(keys[found.found], found.rows[found.found], "read")
    return int(kind in (0, 1, 4))


def crash_loop(kind: str) -> Dict[str, Any]:
    """A worker that dies whenever it has come up: an error with a code, soon, and the session can be closed."""
    feed = Feed([CountedTable("user")], 100000, lambda data: data.prefetch(20))
    with started() as running:
        running.run(feed.iterator.initializer)
        feed.step(running)
        moments = itertools.count(step=100)  # it never waits for a step
        with Killer([kind], 100, 1, lambda: next(moments)) as killer:
            text = ""
            while not text:
                try:
                    feed.step(running)
                except tf.errors.OpError as error:
                    text = "{}: {}".format(type(error).__name__, error.message)
    return {"killed": killer.killed, "text": text}


def full_table() -> Dict[str, Any]:
    """A batch that does not fit: an error that says what to do; others train, and nothing was lost."""
    user = CountedTable("user", device_rows=12, keys=120)
    feed = Feed([user], 100, lambda data: data.prefetch(10))
    check = Feed([user], 10, seed=1, training=False)
    texts: List[str] = []
    trained = 0
    with started() as running:
        running.run([feed.iterator.initializer, check.iterator.initializer])
        while True:
            try:
                feed.step(running)
                trained += 1
            except tf.errors.ResourceExhaustedError as error:
                texts.append(error.message)
            except tf.errors.OutOfRangeError:
                break
        for _ in range(10):
            check.step(running)
        user.require_truth()
        size = user.table.size()
    return {"trained": trained, "refused": len(texts), "text": texts[0], "size": size}


def forked() -> Dict[str, Any]:
    """A forked child runs an op: a clear error, at once; its end disturbs no other process."""
    feed = Feed([CountedTable("user")], 50, lambda data: data.prefetch(5))
    with started() as running:
        running.run(feed.iterator.initializer)
        feed.step(running)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            signal.alarm(20)  # ends it if it hangs
            _in_child(feed, write)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answers:
            said = [json.loads(line) for line in answers]
        os.waitpid(child, 0)
        for _ in range(10):
            feed.step(running)
        feed.tables[0].require_truth()
    return {"said": said}


def _in_child(feed: Feed, write: int) -> None:
    for call in (feed.tables[0].table.size, lambda: _run_in_new_session(feed)):
        try:
            said = repr(call())
        except (tf.errors.OpError, RuntimeError) as error:
            said = "{}: {}".format(type(error).__name__, error)
        os.write(write, json.dumps(said).encode() + b"\n")


def _run_in_new_session(feed: Feed) -> None:
    # the threads that sessions share are the parent's; TensorFlow itself would wait for them for ever
    with tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(use_per_session_threads=True)) as fresh:
        fresh.run(feed.iterator.initializer)
        fresh.run(feed.fetches())


def endless(child: str = "") -> Dict[str, Any]:
    """Trains until it is killed; says its daemon's pids first.

    With ``fork``: a child sleeps at the same time, and a session reads a checkpoint from memory of its own. Each step
    takes $TEST_STEP_S at least.
    """
    pause_s = float(os.environ.get("TEST_STEP_S", "0.01"))
    feed = Feed([CountedTable("user")], 10 ** 6, lambda data: data.prefetch(20))
    with started() as running:
        running.run(feed.iterator.initializer)
        feed.step(running)
        children = []
        if child:
            reader = _read_a_checkpoint(feed, running)
            children.append(os.fork())
            if children[0] == 0:
                while True:
                    signal.pause()
        link = Process.current().running_pipeline().link
        sys.stdout.write(json.dumps({"daemon": link.daemon_pid, "workers": workers("key") + workers("table"),
                                     "children": children}) + "\n")
        sys.stdout.flush()
        try:
            while True:
                feed.step(running)
                threading.Event().wait(pause_s)
                if child:
                    reader()
        except tf.errors.OpError as error:
            return {"error": type(error).__name__, "text": error.message}


def _read_a_checkpoint(feed: Feed, running: tf.compat.v1.Session) -> Callable[[], Any]:
    """What reads a batch of rows as they were saved, in a graph of its own, while training goes on."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as graph:
        prefix = Saver(allow_empty=True).save(running, os.path.join(folder, "model"))
        feed.step(running)
        graph.enter_context(tf.Graph().as_default())
        evaluation = Feed([CountedTable("user")], 10 ** 3, lambda data: data.repeat(), training=False)
        saver = Saver(allow_empty=True)
        start_asc_pipeline()
        reading = session()
        saver.restore(reading, prefix)
        reading.run(evaluation.iterator.initializer)
        return lambda: reading.run(evaluation.rows)


def _waits() -> bool:
    said = [wait["waits_for"] for wait in status()["waits"] if wait["who"] == "trainer"]
    return any("plan" in text or "room" in text for text in said)


def run(*wanted: str) -> None:
    """Scenarios by name, else those of the command line."""
    main({scenario.__name__: scenario for scenario in (
        killed_workers, killed_workers_and_changed_rows, stopped_workers, stopped_supervisor,
        killed_between_plan_and_retire, crash_loop, full_table, forked, endless)}, *wanted)


if __name__ == "__main__":
    run()
