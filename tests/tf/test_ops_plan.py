"""AscSubmit and AscNextPlan with a stand-in for the workers: what a step gets, and what it is refused."""
import os

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.layout.words import SUBMITTED
from ascpipe.tf.running import native
from tests.reference import initial_rows
from tests.support.fake_daemon import FakeDaemon
from tests.support.fake_segments import FakeTable
from tests.support.op_graph import DIM, build, first_row, session, stream_shape, table_shape
from tests.support.waiting import wait_until

TABLE = table_shape()
TRAIN = stream_shape()
EVAL = stream_shape(1, channel=1)
BATCHES = [[5, 5, 9], [9, 3, 5, 3], [8], [], [1, 2, 3, 4]]


def test_a_step_gets_slots_of_the_distinct_ids_and_restore_indexes():
    with FakeDaemon([TABLE], [stream_shape(features=2)]):
        graph = build(BATCHES, [stream_shape(features=2)], [TABLE])
        with session(graph) as opened:
            slot_of = {}
            for ids in BATCHES:
                plan = opened.run(graph.channels[0].plans[0])
                for restore in plan.restore:
                    assert plan.slots[restore].shape == np.shape(ids)
                    for key, slot in zip(ids, plan.slots[restore]):
                        assert slot_of.setdefault(key, slot) == slot
            assert sorted(slot_of.values()) == list(range(len(slot_of)))
            with pytest.raises(tf.errors.OutOfRangeError):
                opened.run(graph.channels[0].plans[0])


def test_new_keys_get_the_initial_row_of_their_key_and_slots_their_initial_value():
    with FakeDaemon([TABLE], [TRAIN]):
        graph = build(BATCHES, [TRAIN], [TABLE], slots=True)
        with session(graph) as opened:
            plan, embeddings = opened.run([graph.channels[0].plans[0], graph.channels[0].embeddings[0]])
            assert np.array_equal(embeddings, [first_row(TABLE, key) for key in BATCHES[0]])
            slots = opened.run(graph.slots[0])
            assert slots[plan.slots].tolist() == [[0.25] * DIM] * 2
            assert slots[50].tolist() == [7.0] * DIM


def test_new_keys_get_the_row_of_the_pool_that_their_hash_picks():
    pool = np.arange(7 * DIM, dtype=np.float32).reshape(7, DIM)
    table = TABLE._replace(kind=initial_rows.POOL, pool=pool, scale=0.3)
    keys = [5, -1, 9, 2 ** 40]
    with FakeDaemon([table], [TRAIN]):
        graph = build([keys], [TRAIN], [table])
        with session(graph) as opened:
            embeddings = opened.run(graph.channels[0].embeddings[0])
    expected = [initial_rows.row(table.seed, table.kind, 0.0, 0.0, 0.3, key, DIM, pool) for key in keys]
    assert np.array_equal(embeddings, np.array(expected, np.float32))


@pytest.mark.parametrize(("change", "fragment"), [
    ({"kind": 4}, "a pool, which was not set"), ({"kind": 5}, r"kind of initial rows 5 is outside \[0, 4\]"),
    ({"pool": np.ones([2, DIM], np.float32)}, "does not fit rows of 4 values, of kind 1"),
    ({"kind": 4, "pool": np.ones([2, 3], np.float32)}, "a pool of 2 initial rows of 3 values does not fit"),
    ({"kind": 4, "pool": np.ones([0, DIM], np.float32)}, "a pool of 0 initial rows")])
def test_a_pool_that_does_not_fit_its_table_is_refused(change, fragment):
    shape = table_shape(1)._replace(**change)
    table = FakeTable(shape)
    try:
        with FakeDaemon([TABLE], [TRAIN]) as daemon:
            ring = daemon.rings[0]
            with pytest.raises(tf.errors.InvalidArgumentError, match=fragment):
                daemon.pipeline.add_table(shape, (table.fd, table.bytes))
                daemon.pipeline.add_stream(stream_shape(5, tables=(1,)), (ring.fd, ring.bytes))
    finally:
        os.close(table.fd)


def test_rows_of_known_keys_are_kept():
    with FakeDaemon([TABLE], [TRAIN]):
        graph = build([[1, 2], [2, 3]], [TRAIN], [TABLE])
        with graph.graph.as_default():
            update = tf.compat.v1.scatter_add(graph.tables[0], graph.channels[0].plans[0].slots, tf.ones([2, DIM]))
        with session(graph) as opened:
            before, _ = opened.run([graph.channels[0].embeddings[0], update])
            after = opened.run(graph.channels[0].embeddings[0])
            assert np.array_equal(after[0], first_row(TABLE, 2) + np.float32(1)), before


def test_the_size_of_a_table_follows_the_last_step():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build(BATCHES, [TRAIN], [TABLE], prefetch=5)
        with session(graph) as opened:
            assert daemon.pipeline.table_size(0) == 0
            for keys in (2, 3, 4):
                opened.run(graph.channels[0].plans[0])
                assert daemon.pipeline.table_size(0) == keys


@pytest.mark.parametrize("frames", [1, 2, 64])
def test_batches_that_are_peeked_at_leave_no_trace(frames):
    with FakeDaemon([TABLE], [TRAIN], frames=frames) as daemon:
        graph = build([[number] for number in range(300)], [TRAIN], [TABLE], prefetch=10)
        with session(graph) as opened:
            assert [opened.run(graph.channels[0].label) for _ in range(200)] == list(range(200))
            assert opened.run([graph.channels[0].label, graph.channels[0].plans[0].slots])[0] == 200
            assert daemon.pipeline.table_size(0) == 1
        assert daemon.tables[0].counts == {200: 1}


@pytest.mark.parametrize("frames", [2, 64])
def test_the_iterator_is_initialised_anew_while_the_ring_is_full(frames):
    with FakeDaemon([TABLE], [TRAIN], frames=frames) as daemon:
        graph = build([[number] for number in range(200)], [TRAIN], [TABLE], prefetch=100)
        with session(graph) as opened:
            for _ in range(5):
                header = daemon.rings[0].header
                label, _ = opened.run([graph.channels[0].label, graph.channels[0].plans[0].slots])
                assert label == 0
                wait_until(lambda header=header: int(header["tail"] - header["head"]) == frames)
                opened.run(graph.channels[0].iterator.initializer)
            assert daemon.pipeline.table_size(0) == 1
        assert daemon.tables[0].counts == {0: 5}
        header = daemon.rings[0].header
        wait_until(lambda: header["head"] == header["tail"] and header["parked"] == 0, what="everything given back")


def test_a_table_that_a_step_does_not_fetch_is_only_counted():
    tables, stream = [table_shape(0), table_shape(1)], stream_shape(tables=(0, 1))
    with FakeDaemon(tables, [stream]) as daemon:
        graph = build([[1], [2], [3]], [stream], tables)
        with session(graph) as opened:
            opened.run(graph.channels[0].plans[0])
            opened.run(graph.channels[0].plans)
            assert [daemon.pipeline.table_size(number) for number in (0, 1)] == [2, 1]
        assert daemon.tables[1].counts == {1: 1, 2: 1}


def test_a_step_that_fails_after_its_plan_is_counted_and_the_next_goes_on():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[1], [2]], [TRAIN], [TABLE])
        with graph.graph.as_default():
            channel = graph.channels[0]
            label = tf.cast(channel.label, tf.float32)
            checked = tf.compat.v1.check_numerics(1.0 / label + 0 * tf.reduce_sum(channel.embeddings[0]), "label")
        with session(graph) as opened:
            with pytest.raises(tf.errors.InvalidArgumentError, match="label"):
                opened.run(checked)
            assert opened.run(checked) == 1.0
            assert daemon.pipeline.table_size(0) == 2


def test_two_threads_that_train_take_turns():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[number] for number in range(60)], [TRAIN], [TABLE], prefetch=4)
        with session(graph) as opened:
            coordinator = tf.train.Coordinator()

            def train():
                with coordinator.stop_on_exception():
                    for _ in range(30):
                        opened.run(graph.channels[0].embeddings[0])

            threads = [tf.compat.v1.train.LooperThread(coordinator, None, target=train) for _ in range(2)]
            for thread in threads:
                thread.start()
            wait_until(lambda: coordinator.should_stop() or daemon.rings[0].header["trained"] == 60)
            coordinator.request_stop()
            coordinator.join(threads)
            assert daemon.pipeline.table_size(0) == 60


def test_26_tables_need_no_more_than_one_thread():
    tables, stream = [table_shape(number) for number in range(26)], stream_shape(tables=tuple(range(26)))
    with FakeDaemon(tables, [stream]) as daemon:
        graph = build([[1, 2]] * 5, [stream], tables, prefetch=2)
        with session(graph, threads=1) as opened:
            for _ in range(5):
                opened.run(graph.channels[0].embeddings)
            assert [daemon.pipeline.table_size(number) for number in range(26)] == [2] * 26


# ---- evaluation

def test_evaluation_finds_what_was_trained_and_changes_nothing():
    with FakeDaemon([TABLE], [TRAIN, EVAL]) as daemon:
        graph = build([[1, 2], [2, 3, 1], [4]], [TRAIN, EVAL], [TABLE], prefetch=3)
        train, evaluate = graph.channels
        with session(graph) as opened:
            assert opened.run(evaluate.plans[0]).slots.tolist() == [-1, -1]
            slots = opened.run(train.plans[0]).slots.tolist()
            assert opened.run(evaluate.plans[0]).slots.tolist() == [slots[1], -1, slots[0]]
            assert np.array_equal(opened.run(evaluate.embeddings[0]), np.zeros([1, DIM]))
            assert daemon.pipeline.table_size(0) == 2
            opened.run(train.plans[0])
            assert daemon.pipeline.table_size(0) == 3


def test_an_evaluation_in_the_training_step_waits_for_nobody():
    with FakeDaemon([TABLE], [TRAIN, EVAL]):
        graph = build([[1, 2], [1, 2]], [TRAIN, EVAL], [TABLE])
        train, evaluate = graph.channels
        with graph.graph.as_default(), tf.control_dependencies([train.plans[0].slots]):
            later = tf.identity(evaluate.iterator.get_next()[1])
        with session(graph, threads=1) as opened:
            opened.run([train.embeddings[0], evaluate.embeddings[0], later])
            opened.run([train.embeddings[0]])


# ---- refusals

def feed(opened, channel, ticket):
    return opened.run(channel.plans[0].slots, {channel.ticket: ticket})


def test_a_batch_fed_back_after_its_run_is_refused():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build(BATCHES, [TRAIN], [TABLE])
        with session(graph) as opened:
            trained, _ = opened.run([graph.channels[0].ticket, graph.channels[0].plans[0].slots])
            peeked = opened.run(graph.channels[0].ticket)
            for ticket in (int(trained), int(peeked)):
                with pytest.raises(tf.errors.FailedPreconditionError, match="fetched and trained in one run"):
                    feed(opened, graph.channels[0], ticket)
            opened.run(graph.channels[0].plans[0].slots)
            assert daemon.pipeline.table_size(0) == 3  # of batches 0 and 2


@pytest.mark.parametrize("ticket", [0, 1, 5 << 48 | 1, -1])
def test_a_ticket_of_another_run_is_refused(ticket):
    with FakeDaemon([TABLE], [TRAIN], run=3):
        graph = build(BATCHES, [TRAIN], [TABLE])
        with session(graph) as opened:
            with pytest.raises(tf.errors.FailedPreconditionError, match=r"not of this pipeline \(run 3\)"):
                feed(opened, graph.channels[0], ticket)


def test_two_tickets_of_one_table_in_one_step_are_refused():
    with FakeDaemon([TABLE], [TRAIN]):
        graph = build(BATCHES, [TRAIN], [TABLE])
        with graph.graph.as_default():
            first = graph.channels[0]
            with tf.control_dependencies([first.plans[0].slots]):
                _, second = first.iterator.get_next()
            other = native.ops().asc_next_plan(second, graph.tables, table=0, stream=0, k=1, training=True)
        with session(graph) as opened:
            with pytest.raises(tf.errors.InvalidArgumentError, match="tickets 1 and 2 in one step"):
                opened.run([first.plans[0].slots, other.slots])


def test_batches_in_another_order_end_with_a_sentence():
    with FakeDaemon([TABLE], [TRAIN], wait_timeout_s=0.5):
        graph = build([[n] for n in range(20)], [TRAIN], [TABLE], after=lambda data: data.shuffle(10, seed=3))
        with session(graph) as opened:
            with pytest.raises(tf.errors.InternalError, match=r"waited 0.5 s \(wait_timeout_s\) for an earlier batch"):
                for _ in range(20):
                    opened.run(graph.channels[0].plans[0].slots)


def test_a_batch_larger_than_the_ring_names_the_setting():
    with FakeDaemon([TABLE], [TRAIN], arena_bytes=4096) as daemon:
        graph = build([[1], list(range(500)), [2]], [TRAIN], [TABLE], prefetch=3)
        with session(graph) as opened:
            opened.run(graph.channels[0].plans[0].slots)
            with pytest.raises(tf.errors.ResourceExhaustedError, match="--ring-bytes"):
                opened.run(graph.channels[0].plans[0].slots)
            opened.run(graph.channels[0].plans[0].slots)
            assert daemon.pipeline.table_size(0) == 2


def test_a_full_table_names_the_need_and_loses_nothing():
    small = table_shape(rows=4)
    with FakeDaemon([small], [TRAIN]) as daemon:
        graph = build([[1, 2, 3], [4, 5, 6], [3, 7]], [TRAIN], [small], prefetch=3)
        with session(graph) as opened:
            opened.run(graph.channels[0].plans[0].slots)
            with pytest.raises(tf.errors.ResourceExhaustedError,
                               match="'table0' needs 6 device rows .* has 4. Raise device_vocabulary_size .* to 6"):
                opened.run(graph.channels[0].plans[0].slots)
            assert daemon.pipeline.table_size(0) == 3
            opened.run(graph.channels[0].plans[0].slots)
            assert daemon.pipeline.table_size(0) == 4


def test_ids_of_seven_dimensions_are_refused_at_the_door():
    with FakeDaemon([TABLE], [TRAIN]):
        with tf.Graph().as_default(), tf.compat.v1.Session() as opened:
            ticket = native.ops().asc_submit([tf.zeros([1] * 7, tf.int64)], [], [], stream=0)
            with pytest.raises(tf.errors.InvalidArgumentError, match="feature 'f0' has 7 dimensions .* at most 6"):
                opened.run(ticket)


def test_a_closed_ticket_is_shown_in_shared_memory():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        daemon.pause()
        graph = build([[1], [2], [3]], [TRAIN], [TABLE], prefetch=2)
        ring = daemon.rings[0]

        def frames():
            return int(ring.header["tail"])

        def closed():
            return [int(ring.frame(number)["closed"]) for number in range(frames())]

        with session(graph) as opened:
            opened.run(graph.channels[0].label)
            # the step may end before its ticket has a frame: then it is dropped and never gets one
            wait_until(lambda: frames() + ring.header["dropped"] == 3 and closed() == [1, 0, 0][-frames():])
        wait_until(lambda: closed() == [1] * frames())
        assert [ring.word(number, 0) for number in range(frames())] == [SUBMITTED] * frames()


# ---- timestamps

def test_the_timestamp_of_a_batch_stands_in_its_frame():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[1], [2]], [TRAIN], [TABLE], stamps=[1700000000, 2 ** 62])
        with session(graph) as opened:
            for _ in range(2):
                opened.run(graph.channels[0].plans[0].slots)
        ring = daemon.rings[0]
        assert [int(ring.frame(number)["timestamp"]) for number in range(2)] == [1700000000, 2 ** 62]


def test_a_batch_without_a_timestamp_has_timestamp_0():
    with FakeDaemon([TABLE], [TRAIN], frames=1) as daemon:
        graph = build([[1]], [TRAIN], [TABLE])
        daemon.rings[0].frame(0)["timestamp"] = 7
        with session(graph) as opened:
            opened.run(graph.channels[0].plans[0].slots)
        assert daemon.rings[0].frame(0)["timestamp"] == 0


@pytest.mark.parametrize("stamp", [0, -1, -(2 ** 63)])
def test_a_timestamp_that_is_not_positive_is_refused_and_nothing_is_lost(stamp):
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[1], [2], [3]], [TRAIN], [TABLE], stamps=[5, stamp, 6])
        with session(graph) as opened:
            opened.run(graph.channels[0].plans[0].slots)
            with pytest.raises(tf.errors.InvalidArgumentError,
                               match="timestamp of stream 0 is {}, but it must be greater than 0".format(stamp)):
                opened.run(graph.channels[0].plans[0].slots)
            opened.run(graph.channels[0].plans[0].slots)
            assert daemon.pipeline.table_size(0) == 2


@pytest.mark.parametrize(("stamps", "text"), [
    ([np.array([1], np.int64)], r"the timestamp of stream 0 has shape \[1\], expected a scalar"),
    ([np.int64(1), np.int64(2)], "2 timestamps and 0 positions, a batch has one or none"),
])
def test_a_batch_has_one_scalar_timestamp_or_none(stamps, text):
    with FakeDaemon([TABLE], [TRAIN]):
        with tf.Graph().as_default(), tf.compat.v1.Session() as opened:
            ticket = native.ops().asc_submit([np.array([1])], stamps, [], stream=0)
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                opened.run(ticket)
