"""A table's rows belong to the process: sessions open, close and attach to them."""
import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from ascpipe.layout import structs
from ascpipe.layout.words import WAIT_CUT
from ascpipe.tf.running import native
from tests.support.fake_daemon import FakeDaemon
from tests.support.op_graph import DIM, build, session, stream_shape, table_shape
from tests.support.waiting import wait_until

TABLE = table_shape()
TRAIN = stream_shape()
EVAL = stream_shape(1, channel=1)


def test_a_session_that_is_opened_anew_goes_on_with_the_same_rows():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[1, 2]], [TRAIN], [TABLE], slots=True)
        with graph.graph.as_default():
            train = [tf.compat.v1.scatter_add(variable, graph.channels[0].plans[0].slots, tf.ones([2, DIM]))
                     for variable in (graph.tables[0], graph.slots[0])]
        with session(graph) as opened:
            opened.run(train)
        with session(graph, initialize=False) as opened:
            opened.run(train)
            rows, slots = opened.run([graph.tables[0], graph.slots[0]])
        assert daemon.pipeline.table_size(0) == 2
        assert slots[:2].tolist() == [[2.25] * DIM] * 2
        with session(graph, initialize=False) as opened:
            assert np.array_equal(opened.run(graph.channels[0].embeddings[0]), rows[:2])


def test_running_the_initializer_of_a_training_graph_empties_the_table():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[1, 2], [3]], [TRAIN], [TABLE], prefetch=4)
        with session(graph) as opened:
            first = opened.run(graph.channels[0].embeddings[0])
            assert daemon.pipeline.table_size(0) == 2
            opened.run(graph.tables[0].initializer)
            assert daemon.pipeline.table_size(0) == 0
            opened.run(graph.channels[0].embeddings[0])
            assert daemon.pipeline.table_size(0) == 1
            opened.run(graph.channels[0].iterator.initializer)
            again = opened.run(graph.channels[0].embeddings[0])
        assert np.array_equal(first, again)  # initial rows are those of the key


def test_an_initializer_that_awaits_the_worker_ends_with_its_session_and_the_next_one_succeeds():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        graph = build([[1, 2], [3]], [TRAIN], [TABLE])
        with session(graph) as opened:
            opened.run(graph.channels[0].plans[0].slots)
            assert daemon.pipeline.table_size(0) == 2
            daemon.pause()
            errors = []

            def initialize():
                try:
                    opened.run(graph.tables[0].initializer)
                except tf.errors.CancelledError as error:
                    errors.append(error)

            waiting = threading.Thread(target=initialize)
            waiting.start()
            bell = daemon.bells[structs.BELL_TRAINER]
            wait_until(lambda: int(bell["waits_for"]) == WAIT_CUT, what="the cut is awaited")
            opened.close()
            waiting.join(10.0)
            assert len(errors) == 1
        daemon.paused.clear()
        with session(graph) as opened:
            assert daemon.pipeline.table_size(0) == 0
            opened.run(graph.channels[0].plans[0].slots)
            assert daemon.pipeline.table_size(0) == 2


def test_running_the_initializer_of_an_evaluation_graph_changes_nothing():
    with FakeDaemon([TABLE], [TRAIN, EVAL]) as daemon:
        train = build([[1, 2], [3]], [TRAIN], [TABLE])
        evaluation = build([[2, 7]], [EVAL], [TABLE])
        with session(train) as training:
            rows = training.run(train.channels[0].embeddings[0])
            with session(evaluation) as reading:
                found = reading.run(evaluation.channels[0].embeddings[0])
            assert np.array_equal(found, [rows[1], np.zeros(DIM)])
            training.run(train.channels[0].embeddings[0])
            assert daemon.pipeline.table_size(0) == 3


@pytest.mark.parametrize("rewrite", [True, False])
@pytest.mark.parametrize("relaxed", [True, False])
@pytest.mark.each_value
def test_the_variable_ends_over_the_rows_of_the_table_whatever_assign_does(relaxed, rewrite):
    config = tf.compat.v1.ConfigProto()
    if not rewrite:
        config.graph_options.rewrite_options.CopyFrom(rewriter_config_pb2.RewriterConfig(disable_meta_optimizer=True))
    with FakeDaemon([TABLE], [TRAIN]):
        graph = build([[1, 2], [2]], [TRAIN], [TABLE])
        if not relaxed:
            graph.tables[0].initializer._clear_attr("_grappler_relax_allocator_constraints")
        with tf.compat.v1.Session(graph=graph.graph, config=config) as opened:
            opened.run([graph.tables[0].initializer, graph.channels[0].iterator.initializer])
            first = opened.run(graph.channels[0].embeddings[0])
            assert first.any()
            assert np.array_equal(opened.run(graph.channels[0].embeddings[0]), first[1:])
            assert np.array_equal(opened.run(graph.tables[0])[:2], first)


def test_a_table_variable_that_was_assigned_is_refused():
    with FakeDaemon([TABLE], [TRAIN]):
        graph = build([[1]], [TRAIN], [TABLE])
        with graph.graph.as_default():
            variable = tf.compat.v1.Variable(tf.ones([TABLE.device_rows, DIM]), trainable=False, use_resource=False)
            channel = graph.channels[0]
            plan = native.ops().asc_next_plan(channel.ticket, [variable], table=0, stream=0, k=1, training=True)
        with session(graph) as opened:
            with pytest.raises(tf.errors.FailedPreconditionError, match="'table0' .* holds other memory"):
                opened.run(plan.slots)


def test_an_optimizer_slot_that_was_never_initialised_is_named():
    with FakeDaemon([TABLE], [TRAIN]):
        graph = build([[1]], [TRAIN], [TABLE], slots=True)
        with session(graph, initialize=False) as opened:
            with pytest.raises(tf.errors.FailedPreconditionError, match="optimizer slot 0 of table 'table0'"):
                opened.run(graph.channels[0].plans[0].slots)


def test_an_optimizer_slot_of_another_height_is_refused():
    with FakeDaemon([TABLE], [TRAIN]):
        graph = build([[1]], [TRAIN], [TABLE])
        with graph.graph.as_default():
            slot = tf.compat.v1.Variable(tf.ones([7, DIM]), trainable=False, use_resource=False)
            plan = native.ops().asc_next_plan(graph.channels[0].ticket, [graph.tables[0], slot], table=0, stream=0,
                                              k=1, training=True, slot_initial=[0.0])
        with session(graph) as opened:
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"has shape \[7,4\], expected \[100, width\]"):
                opened.run(plan.slots)


def test_the_later_of_two_training_sessions_drives_the_table():
    with FakeDaemon([TABLE], [TRAIN]):
        graph = build([[1], [2], [3]], [TRAIN], [TABLE])
        with session(graph) as older:
            older.run(graph.channels[0].plans[0].slots)
            with session(graph, initialize=False) as newer:
                newer.run(graph.channels[0].plans[0].slots)
                with pytest.raises(tf.errors.FailedPreconditionError,
                                   match="E206: table 'table0' is trained by another session, which began later"):
                    older.run(graph.channels[0].plans[0].slots)
                newer.run(graph.channels[0].plans[0].slots)


def test_a_table_of_other_dimensions_is_refused():
    with FakeDaemon([TABLE], [TRAIN]):
        with tf.Graph().as_default(), tf.compat.v1.Session() as opened:
            rows = native.ops().asc_table_init(table=0, rows=TABLE.device_rows, dim=DIM + 1, training=True)
            with pytest.raises(tf.errors.InvalidArgumentError, match="has 100 rows of 4, its variable has 100 of 5"):
                opened.run(rows)


@pytest.mark.parametrize(("changes", "kind", "text"), [
    ({"k": 2}, tf.errors.InvalidArgumentError, "has 1 features in stream 0, the plan has 2"),
    ({"training": False}, tf.errors.InvalidArgumentError, "stream 0 is the training channel"),
    ({"stream": 1, "training": False}, tf.errors.FailedPreconditionError, "not of this pipeline"),
    ({"table": 5}, tf.errors.FailedPreconditionError, "not of this pipeline"),
    ({"ticket": [1]}, tf.errors.InvalidArgumentError, r"ticket has shape \[1\], expected a scalar"),
])
def test_a_plan_op_that_does_not_fit_the_pipeline_is_refused(changes, kind, text):
    attributes = dict({"k": 1, "training": True, "stream": 0, "table": 0}, **changes)
    ticket = attributes.pop("ticket", None)
    with FakeDaemon([TABLE], [TRAIN]):
        graph = build([[1]], [TRAIN], [TABLE])
        with graph.graph.as_default():
            fed = tf.compat.v1.placeholder(tf.int64)
            plan = native.ops().asc_next_plan(fed, graph.tables, **attributes)
        with session(graph) as opened:
            with pytest.raises(kind, match=text):
                opened.run(plan.slots, {fed: 1 if ticket is None else ticket})
