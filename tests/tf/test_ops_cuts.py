"""AscCut: a table is changed exactly between two steps, by a step that does nothing else."""
import contextlib
import threading
import time

import pytest
import tensorflow as tf

from ascpipe.layout import structs
from ascpipe.layout.words import CUT_EVICT, CUT_RESET, CUT_THRESHOLD, WAIT_CUT, WAIT_LEASE
from ascpipe.tf.running import native
from tests.support.fake_daemon import FakeDaemon
from tests.support.op_graph import Run, build, session, stream_shape, table_shape
from tests.support.waiting import wait_until

TABLE = table_shape()
TRAIN = stream_shape()
EVAL = stream_shape(1, channel=1)
PROMPT_S = 1.0


def cut(graph, kind, argument, table=0):
    with graph.graph.as_default():
        return native.ops().asc_cut(argument, table=table, kind=kind)


def admits(daemon, threshold, number=0):
    """Admission is on."""
    daemon.tables[number].header["access_threshold"] = threshold


def waits_for(daemon, what):
    return wait_until(lambda: int(daemon.bells[structs.BELL_TRAINER]["waits_for"]) == what, what="waits for")


def test_an_eviction_drops_the_keys_of_its_age_between_two_steps():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[1, 2], [3], [1]], [TRAIN], [TABLE], prefetch=3, stamps=[100, 150, 160])
        evict = cut(graph, CUT_EVICT, 50)
        step = graph.channels[0].plans[0].slots
        with session(graph) as opened:
            opened.run(step)
            opened.run(evict)
            assert daemon.pipeline.table_size(0) == 2  # the table's time is still 100
            opened.run(step)
            opened.run(evict)
            assert daemon.pipeline.table_size(0) == 1
            assert sorted(daemon.tables[0].counts) == [3]
            opened.run(step)
            assert daemon.pipeline.table_size(0) == 2
            assert daemon.tables[0].counts == {3: 1, 1: 1}
        assert daemon.tables[0].header["evicted"] == 2


def test_a_threshold_is_in_place_when_the_op_returns_and_zero_stops_the_counting():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        admits(daemon, 1)
        graph = build([[1], [2]], [TRAIN], [TABLE])
        with graph.graph.as_default():
            threshold = tf.compat.v1.placeholder(tf.int64, [])
        change = cut(graph, CUT_THRESHOLD, threshold)
        header = daemon.tables[0].header
        with session(graph) as opened:
            opened.run(change, {threshold: 60})
            assert (header["access_threshold"], header["counting"]) == (60, 1)
            opened.run(graph.channels[0].plans[0].slots)
            opened.run(change, {threshold: 0})
            assert (header["access_threshold"], header["counting"]) == (60, 0)
            opened.run(graph.channels[0].plans[0].slots)
            opened.run(change, {threshold: 3})
            assert (header["access_threshold"], header["counting"]) == (3, 1)
        assert header["cut_applied"] == 3


def test_a_threshold_of_a_table_that_admits_every_key_asks_nobody():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[1]], [TRAIN], [TABLE])
        change = cut(graph, CUT_THRESHOLD, 5)
        with session(graph) as opened:
            opened.run(graph.channels[0].plans[0].slots)
            daemon.pipeline.table_size(0)
            daemon.pause()
            opened.run(change)
        assert daemon.tables[0].header["access_threshold"] == -1
        assert daemon.tables[0].header["cut_asked"] == 0


def test_an_eviction_before_the_first_step_asks_nobody():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[1]], [TRAIN], [TABLE])
        evict = cut(graph, CUT_EVICT, 0)
        with session(graph) as opened:
            daemon.pause()
            opened.run(evict)
        assert daemon.tables[0].header["cut_asked"] == 0


def test_a_table_that_no_stream_trains_is_left_alone():
    with FakeDaemon([TABLE], [EVAL]) as daemon:
        admits(daemon, 1)
        graph = build([[1]], [EVAL], [TABLE], training=False)
        with session(graph) as opened:
            opened.run([cut(graph, CUT_EVICT, 0), cut(graph, CUT_THRESHOLD, 7)])
        assert daemon.tables[0].header["cut_asked"] == 0


def test_one_run_changes_several_tables_and_one_table_twice():
    tables, stream = [table_shape(0), table_shape(1)], stream_shape(tables=(0, 1))
    with FakeDaemon(tables, [stream]) as daemon:
        admits(daemon, 1, 0)
        admits(daemon, 1, 1)
        graph = build([[1], [2]], [stream], tables, stamps=[5, 6])
        changes = [cut(graph, CUT_EVICT, 0, number) for number in (0, 1)]
        changes += [cut(graph, CUT_THRESHOLD, 9, number) for number in (0, 1)]
        with session(graph, threads=1) as opened:
            opened.run(graph.channels[0].embeddings)
            opened.run(changes)
            assert [daemon.pipeline.table_size(number) for number in (0, 1)] == [0, 0]
            opened.run(graph.channels[0].embeddings)
        for table in daemon.tables.values():
            assert (table.header["access_threshold"], table.header["cut_applied"]) == (9, 2)


def test_a_cut_waits_for_the_training_step_that_is_under_way():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[1], [2]], [TRAIN], [TABLE], stamps=[1, 2])
        with graph.graph.as_default():
            entered, go_on = threading.Event(), threading.Event()

            def hold(slots):
                entered.set()
                go_on.wait(20.0)
                return slots

            held = tf.compat.v1.py_func(hold, [graph.channels[0].plans[0].slots], tf.int32)
        evict = cut(graph, CUT_EVICT, 0)
        with session(graph, threads=4) as opened:
            step = Run(opened, held)
            assert entered.wait(20.0)
            change = Run(opened, evict)
            waits_for(daemon, WAIT_LEASE)
            assert daemon.tables[0].header["cut_asked"] == 0
            go_on.set()
            assert step.ended() is None
            assert change.ended() is None
            assert daemon.pipeline.table_size(0) == 0


@pytest.mark.parametrize("kind", [CUT_THRESHOLD, CUT_EVICT])
def test_a_step_that_has_claimed_its_plan_may_not_change_a_table(kind):
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        admits(daemon, 1)
        graph = build([[1], [2], [3]], [TRAIN], [TABLE], stamps=[1, 2, 3])
        plan = graph.channels[0].plans[0]
        with graph.graph.as_default(), tf.control_dependencies([plan.slots]):
            change = native.ops().asc_cut(tf.constant(4, tf.int64) + 0, table=0, kind=kind)
        with session(graph) as opened:
            opened.run(plan.slots)
            with pytest.raises(tf.errors.FailedPreconditionError,
                               match="'table0' cannot be changed by a step that trains .* in a run of its own"):
                opened.run(change)
            assert daemon.tables[0].header["cut_asked"] == 0
            opened.run(plan.slots)
            assert daemon.pipeline.table_size(0) == 3


def test_a_step_that_has_changed_a_table_may_not_train():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[1], [2], [3]], [TRAIN], [TABLE], stamps=[1, 2, 3])
        channel = graph.channels[0]
        evict = cut(graph, CUT_EVICT, 0)
        with graph.graph.as_default(), tf.control_dependencies([evict]):
            plan = native.ops().asc_next_plan(tf.identity(channel.ticket), graph.tables, table=0, stream=0, k=1,
                                              training=True)
        with session(graph) as opened:
            opened.run(channel.plans[0].slots)
            with pytest.raises(tf.errors.FailedPreconditionError,
                               match="'table0' cannot train ticket 2 in a step that also changes a table"):
                opened.run([channel.ticket, plan.slots])
            assert daemon.pipeline.table_size(0) == 0
            opened.run(channel.plans[0].slots)
            assert daemon.pipeline.table_size(0) == 1
        assert daemon.tables[0].counts == {3: 1}


def waiting_cut(daemon, opened, evict):
    """A cut that awaits the table worker, which rests."""
    daemon.pause()
    change = Run(opened, evict)
    waits_for(daemon, WAIT_CUT)
    return change


@contextlib.contextmanager
def one_trained_batch(**settings):
    """The daemon, the graph, its session that has trained the first of two batches, and a cut that drops all keys."""
    with FakeDaemon([TABLE], [TRAIN], **settings) as daemon:
        graph = build([[1], [2]], [TRAIN], [TABLE], stamps=[1, 2])
        evict = cut(graph, CUT_EVICT, 0)
        with session(graph) as opened:
            opened.run(graph.channels[0].plans[0].slots)
            assert daemon.pipeline.table_size(0) == 1
            yield daemon, graph, opened, evict


def test_closing_the_session_ends_a_cut_that_awaits_the_worker_and_training_goes_on():
    with one_trained_batch() as (daemon, graph, opened, evict):
        change = waiting_cut(daemon, opened, evict)
        began = time.monotonic()
        opened.close()
        assert isinstance(change.ended(), tf.errors.CancelledError)
        assert time.monotonic() - began < PROMPT_S
        daemon.paused.clear()
        with session(graph, initialize=False) as again:
            again.run(graph.channels[0].plans[0].slots)
            again.run(evict)  # waits until the one before is applied
            assert daemon.pipeline.table_size(0) == 0
        assert daemon.tables[0].header["cut_applied"] == 2


def test_stopping_the_pipeline_ends_a_cut():
    with one_trained_batch() as (daemon, _, opened, evict):
        change = waiting_cut(daemon, opened, evict)
        daemon.pipeline.stop()
        assert isinstance(change.ended(), tf.errors.CancelledError)
        with pytest.raises(tf.errors.FailedPreconditionError, match="E205: The pipeline was stopped"):
            opened.run(evict)


def test_a_cut_that_takes_too_long_says_who_waits_for_what():
    with one_trained_batch(wait_timeout_s=0.5) as (daemon, _, opened, evict):
        daemon.pause()
        with pytest.raises(tf.errors.InternalError, match="'table0'.* waited 0.5 s .* to apply a change"):
            opened.run(evict)


def test_a_dead_supervisor_ends_a_cut():
    with one_trained_batch() as (daemon, _, opened, evict):
        change = waiting_cut(daemon, opened, evict)
        daemon.lifeline.close()
        assert "E110" in change.ended().message


@pytest.mark.parametrize(("attributes", "kind", "text"), [
    ({"argument": -1, "kind": CUT_THRESHOLD}, tf.errors.InvalidArgumentError,
     "'table0': access threshold -1 is below 0. Nothing was changed"),
    ({"argument": -9, "kind": CUT_EVICT}, tf.errors.InvalidArgumentError, "eviction age -9 is below 0"),
    ({"argument": 0, "kind": CUT_RESET}, tf.errors.InvalidArgumentError, "kind 1 is neither 2 .* nor 3 "),
    ({"argument": 0, "kind": 4}, tf.errors.InvalidArgumentError, "kind 4 is neither"),
    ({"argument": 0, "kind": CUT_EVICT, "table": 5}, tf.errors.FailedPreconditionError,
     "AscCut: table 5 is not of this pipeline"),
])
def test_a_cut_that_cannot_be_is_refused(attributes, kind, text):
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[1]], [TRAIN], [TABLE])
        change = cut(graph, attributes["kind"], attributes["argument"], attributes.get("table", 0))
        with session(graph) as opened:
            opened.run(graph.channels[0].plans[0].slots)
            with pytest.raises(kind, match=text):
                opened.run(change)
        assert daemon.tables[0].header["cut_asked"] == 0


def test_an_argument_that_is_no_scalar_is_refused():
    with FakeDaemon([TABLE], [TRAIN]):
        graph = build([[1]], [TRAIN], [TABLE])
        with graph.graph.as_default():
            argument = tf.compat.v1.placeholder(tf.int64)
        change = cut(graph, CUT_EVICT, argument)
        with pytest.raises(ValueError, match="Shape must be rank 0"):
            cut(graph, CUT_EVICT, [1])
        with session(graph) as opened:
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"argument has shape \[1\], expected a scalar"):
                opened.run(change, {argument: [1]})


def test_a_session_that_was_superseded_may_not_change_the_table():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[1], [2]], [TRAIN], [TABLE])
        evict = cut(graph, CUT_EVICT, 0)
        with session(graph) as older:
            older.run(graph.channels[0].plans[0].slots)
            with session(graph, initialize=False) as newer:
                newer.run(graph.channels[0].plans[0].slots)
                with pytest.raises(tf.errors.FailedPreconditionError, match="is trained by another session"):
                    older.run(evict)
                newer.run(evict)
                assert daemon.pipeline.table_size(0) == 0
