"""What a program may do with batches besides training each: half-read, skip, filter, peek, two threads."""
from typing import Any, Dict, List

import numpy as np
import tensorflow as tf

from tests.support.programs.counted import CountedTable, Feed, two_tiers
from tests.support.programs.scenarios import Background, main, started, status, wait_full
from tests.support.tensorflows import use_tensorflow_1

use_tensorflow_1()

PREFETCH = 100


def seeds_loop(rounds: str = "50") -> Dict[str, Any]:
    """Train two steps, re-run the evaluation iterator, evaluate three of its many batches, again and again."""
    tables = two_tiers()
    feed = Feed(tables, 2 * int(rounds), lambda data: data.prefetch(PREFETCH))
    # an evaluation that knows keys which are never trained, too
    check = Feed(tables, 40, lambda data: data.prefetch(PREFETCH), seed=9, training=False)
    evaluated = 0
    with started() as running:
        running.run(feed.iterator.initializer)
        for _ in range(int(rounds)):
            for _ in range(2):
                feed.step(running)
            running.run(check.iterator.initializer)
            for expected in range(3):
                assert check.step(running) == expected
                evaluated += 1
        for table in tables:
            table.require_truth()
        try:
            feed.step(running)
            raise AssertionError("there is no more data")
        except tf.errors.OutOfRangeError:
            late = sum(wait["late"] for wait in status()["waits"])
    return {"evaluated": evaluated, "late": late}


def again(times: str = "6") -> Dict[str, Any]:
    """The training iterator is re-run with the ring full; what was read ahead leaves no trace."""
    feed = Feed(two_tiers(), 300, lambda data: data.prefetch(PREFETCH))
    with started() as running:
        for steps in range(1, 1 + int(times)):
            running.run(feed.iterator.initializer)
            for expected in range(steps):
                assert feed.step(running) == expected
            wait_full(parked=True)
        for table in feed.tables:
            table.require_truth()
    return {}


def skip_filter_peek() -> Dict[str, Any]:
    """Two hundred batches are skipped, odd ones filtered out, and two hundred peeked at without a lookup."""
    user, item = two_tiers()
    skipping = Feed([user], 700, lambda data: data.skip(200).filter(
        lambda batch, *_: tf.equal(batch["index"] % 2, 0)).prefetch(PREFETCH))
    bare = Feed([item], 300, lambda data: data.skip(200), seed=5)
    with started() as running:
        running.run([skipping.iterator.initializer, bare.iterator.initializer])
        assert [skipping.step(running) for _ in range(5)] == [200, 202, 204, 206, 208]
        assert [bare.step(running) for _ in range(5)] == [200, 201, 202, 203, 204]
        peeked = [int(running.run(skipping.batch["index"])) for _ in range(200)]
        assert peeked == list(range(210, 610, 2)), peeked
        assert skipping.step(running) == 610
        for table in (user, item):
            table.require_truth()
    return {}


def many_tables(count: str = "26", every: str = "10") -> Dict[str, Any]:
    """Many tables on one thread of each kind; one is fetched every few steps only, another never looked up."""
    steps = 5 * int(every)
    tables = [CountedTable("t{}".format(number), device_rows=60) for number in range(int(count))]
    names = [table.name for table in tables[:-1]]
    feed = Feed(tables, steps, lambda data: data.prefetch(10), looked_up=names)
    with started() as running:
        running.run(feed.iterator.initializer)
        for step in range(steps):
            feed.step(running, names if step % int(every) == 0 else names[:-1])
        for table in tables:
            table.require_truth()
        assert tables[-1].table.size() == 0
    return {}


def two_threads(steps: str = "150") -> Dict[str, Any]:
    """Two Python threads run the train op; each batch is trained once, on what the ones before left."""
    feed = Feed(two_tiers(), 2 * int(steps), lambda data: data.prefetch(10))
    with started(threads=2) as running:
        running.run(feed.iterator.initializer)

        def train() -> List[Any]:
            return [running.run(feed.fetches()) for _ in range(int(steps))]

        loops = [Background(train), Background(train)]
        values = [value for loop in loops for value in loop.join().returned()]
        for value in sorted(values, key=lambda value: int(value["index"])):
            feed.took(value)
        assert sorted(int(value["index"]) for value in values) == list(range(2 * int(steps)))
        for table in feed.tables:
            table.require_truth()
    return {}


def failing_step() -> Dict[str, Any]:
    """A step fails after its plans were claimed: its batch is counted, its rows stay, and training goes on."""
    tables = two_tiers()
    feed = Feed(tables, 40, lambda data: data.prefetch(10))
    fails = tf.compat.v1.placeholder(tf.bool, [])
    with tf.control_dependencies(list(feed.rows.values())):
        broken = tf.debugging.check_numerics(tf.where(fails, [np.nan], [0.0]), "loss")
    with started() as running:
        running.run(feed.iterator.initializer)
        for step in range(40):
            if step % 5 == 3:
                try:
                    running.run((broken, feed.batch["index"]), {fails: True})
                    raise AssertionError("the step did not fail")
                except tf.errors.InvalidArgumentError as error:
                    assert "loss" in str(error), error
                feed.trained(step, list(feed.rows), ())
                continue
            assert feed.step(running) == step
        for table in tables:
            table.require_truth()
    return {}


if __name__ == "__main__":
    main({scenario.__name__: scenario for scenario in (
        seeds_loop, again, skip_filter_peek, many_tables, two_threads, failing_step)})
