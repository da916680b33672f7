"""What comes first within one step: the ops that read rows, then those that move or update them.

Readers are slow here: at what is to come after them is done long before, unless it waits.
"""
import threading

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.layout.words import CUT_EVICT, CUT_THRESHOLD
from ascpipe.tf.running import native
from tests.support.fake_daemon import FakeDaemon
from tests.support.op_graph import DIM, FLOATS, build, expansion_shape, first_row, session, stream_shape, table_shape

TABLE = table_shape()
TRAIN = stream_shape()
EVAL = stream_shape(1, channel=1)
TIERS = {"device": TABLE, "host": table_shape(0, 2, 50, FLOATS), "expansion": expansion_shape()}
PAUSE_S = 0.05


def late(value):
    """The value, after a pause: what nobody keeps from running has run by then."""
    def pause(given):
        threading.Event().wait(PAUSE_S)
        return given

    paused = tf.compat.v1.py_func(pause, [value], value.dtype, stateful=True)
    paused.set_shape(value.shape)
    return paused


def look_up(graph, plan, default_row, table=TABLE):
    return native.ops().asc_lookup(graph.tables[table.number], plan.slots, plan.restore, default_row,
                                   table=table.number)[0]


def add_one(graph, place=0):
    """Adds 1 to the rows of the training batch."""
    plan = graph.channels[0].plans[place]
    if graph.channels[0].locals[place] is not None:
        handles = graph.channels[0].locals[place].handles
        return native.ops().asc_write_rows(handles, tf.ones([tf.size(handles), DIM]), add=True)
    return tf.compat.v1.scatter_add(graph.tables[place], plan.slots, tf.ones([tf.size(plan.slots), DIM])).op


def expected(table, keys, trained):
    """Rows that have got 1 for each time that they were trained, zeros of keys without a row."""
    rows = [sum([np.ones(DIM, np.float32)] * trained[key], first_row(table, key)) if key in trained else np.zeros(DIM)
            for key in keys]
    return np.array(rows, np.float32)


def ran(opened, fetches):
    """By name of each op of ours that ran, the names of the ops that it waited for without taking anything."""
    metadata = tf.compat.v1.RunMetadata()
    opened.run(fetches, options=tf.compat.v1.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    return {node.name: sorted(source[1:] for source in node.input if source.startswith("^"))
            for graph in metadata.partition_graphs for node in graph.node
            if node.op.startswith("Asc") or node.name.startswith("ascpipe/")}


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.each_value
def test_a_slow_evaluation_reads_rows_before_the_step_moves_and_updates_them(tier, threads):
    table, keys = TIERS[tier], [[1, 2], [3, 1], [2, 4], [1, 2]]
    with FakeDaemon([table], [TRAIN, EVAL]):
        graph = build(keys, [TRAIN, EVAL], [table], slots=tier == "host")
        with graph.graph.as_default():
            rows = look_up(graph, graph.channels[1].plans[0], late(tf.zeros([])), table)
            update = add_one(graph)
        trained = {}
        with session(graph, threads=threads) as opened:
            for batch in keys:
                assert np.array_equal(opened.run([rows, update])[0], expected(table, batch, trained))
                trained.update({key: trained.get(key, 0) + 1 for key in batch})


def test_a_slow_evaluation_side_by_side_does_so_too():
    tables, streams = [TIERS["host"], table_shape(1)], [stream_shape(tables=(0, 1)), stream_shape(1, 1, (0, 1))]
    with FakeDaemon(tables, streams):
        graph = build([[1, 2], [3, 1], [2, 4]], streams, tables, slots=True)
        plans = graph.channels[1].plans
        with graph.graph.as_default():
            rows = [look_up(graph, plan, late(tf.zeros([])), table) for plan, table in zip(plans, tables)]
            joined = tf.concat(rows, axis=1)
            update = tf.group(add_one(graph), add_one(graph, 1))
        with session(graph, threads=4) as opened:
            opened.run([joined, update])
            second = opened.run([joined, update])[0]
        for place, table in enumerate(tables):
            assert np.array_equal(second[:, DIM * place:DIM * (place + 1)], expected(table, [3, 1], {1: 1, 2: 1}))


def test_only_steps_that_evaluate_and_train_wait():
    with FakeDaemon([TABLE], [TRAIN, EVAL]):
        graph = build([[1, 2]] * 4, [TRAIN, EVAL], [TABLE])
        train, evaluate = (channel.embeddings[0] for channel in graph.channels)
        with graph.graph.as_default(), tf.control_dependencies([train]):
            update = add_one(graph)
        with session(graph) as opened:
            for alone in ([train, update], [evaluate]):
                waits = ran(opened, alone)
                assert len(waits) == 2 and not any(sources for name, sources in waits.items())
            both = ran(opened, [train, update, evaluate])
        plans = [channel.plans[0].slots.op.name for channel in graph.channels]
        (first,), (turn,) = both[plans[0]], both[plans[1]]
        assert first.startswith("ascpipe/evaluation_first") and both[first] == [evaluate.op.name]
        assert turn.startswith("ascpipe/turn")


def test_an_evaluation_that_waits_for_the_batch_is_told_where_rows_are_then_and_reads_before_the_update():
    table = TIERS["host"]
    with FakeDaemon([table], [TRAIN, EVAL]):
        graph = build([[1, 2], [3, 1], [2, 4]], [TRAIN, EVAL], [table], slots=True)
        with graph.graph.as_default():
            default_row = late(tf.reduce_sum(graph.channels[0].embeddings[0]))
            rows = look_up(graph, graph.channels[1].plans[0], default_row, table)
            update = add_one(graph)
        plans = [channel.plans[0].slots.op.name for channel in graph.channels]
        with session(graph, threads=4) as opened:
            assert ran(opened, [rows, update])[plans[1]] == [plans[0]]
            assert np.array_equal(opened.run([rows, update])[0], expected(table, [3, 1], {1: 1, 3: 0}))
            assert np.array_equal(opened.run([rows, update])[0], expected(table, [2, 4], {2: 1, 4: 0}))


def test_a_batch_that_is_taken_after_the_evaluation_is_trained_after_it():
    with FakeDaemon([TABLE], [TRAIN, EVAL]):
        graph = build([[1, 2], [2, 3]], [TRAIN, EVAL], [TABLE])
        rows = graph.channels[1].embeddings[0]
        with graph.graph.as_default():
            with tf.control_dependencies([rows]):
                ticket = graph.channels[0].iterator.get_next()[1]
            plan = native.ops().asc_next_plan(ticket, graph.tables, table=0, stream=0, k=1, training=True)
        with session(graph, threads=1) as opened:
            assert np.array_equal(opened.run([rows, plan.slots])[0], expected(TABLE, [1, 2], {}))
            assert np.array_equal(opened.run([rows, plan.slots])[0], expected(TABLE, [2, 3], {2: 0}))


def test_an_evaluation_that_can_be_read_neither_before_nor_after_the_step_is_refused_before_anything_is_run():
    with FakeDaemon([TABLE], [TRAIN, EVAL]) as daemon:
        graph = build([[1, 2], [2, 3]], [TRAIN, EVAL], [TABLE])
        evaluation = graph.channels[1].plans[0]
        with graph.graph.as_default():
            with tf.control_dependencies([evaluation.slots]):
                ticket = graph.channels[0].iterator.get_next()[1]
            plan = native.ops().asc_next_plan(ticket, graph.tables, table=0, stream=0, k=1, training=True)
            rows = look_up(graph, evaluation, tf.cast(tf.size(plan.slots), tf.float32))
        with session(graph) as opened:
            with pytest.raises(tf.errors.InvalidArgumentError,
                               match="the evaluation 'AscLookup.*' waits for 'AscNextPlan.*', .* read neither before "
                                     "nor after the change. Nothing was run"):
                opened.run(rows)
            assert daemon.pipeline.table_size(0) == 0
            opened.run(graph.channels[0].plans[0].slots)


@pytest.mark.parametrize("kind", [CUT_EVICT, CUT_THRESHOLD])
def test_a_slow_evaluation_reads_rows_before_a_change_of_its_own_step(kind):
    with FakeDaemon([TABLE], [TRAIN, EVAL]) as daemon:
        graph = build([[1, 2], [2, 1]], [TRAIN, EVAL], [TABLE], stamps=[100, 200])
        with graph.graph.as_default():
            rows = look_up(graph, graph.channels[1].plans[0], late(tf.zeros([])))
            change = native.ops().asc_cut(0, table=0, kind=kind)
        with session(graph) as opened:
            opened.run(graph.channels[0].plans[0].slots)
            size = daemon.pipeline.table_size(0)
            assert np.array_equal(opened.run([rows, change])[0], expected(TABLE, [1, 2], {1: 0, 2: 0}))
            assert (daemon.pipeline.table_size(0) < size) == (kind == CUT_EVICT)


# ---- readers of the training channel

@pytest.mark.parametrize("within", ["the step", "a conditional"])
def test_a_slow_lookup_of_the_batch_reads_rows_before_an_update_that_does_not_depend_on_it(within):
    with FakeDaemon([TABLE], [TRAIN]):
        graph = build([[1, 2], [2, 3]], [TRAIN], [TABLE])
        with graph.graph.as_default():
            rows = look_up(graph, graph.channels[0].plans[0], late(tf.zeros([])))
            update = add_one(graph) if within == "the step" else tf.cond(
                graph.channels[0].label >= 0, lambda: tf.group(add_one(graph)), tf.no_op)
        with session(graph, threads=4) as opened:
            assert np.array_equal(opened.run([rows, update])[0], expected(TABLE, [1, 2], {1: 0, 2: 0}))
            assert np.array_equal(opened.run([rows, update])[0], expected(TABLE, [2, 3], {2: 1, 3: 0}))


def test_an_update_before_the_lookup_stays_before_it():
    with FakeDaemon([TABLE], [TRAIN]):
        graph = build([[1, 2]], [TRAIN], [TABLE])
        with graph.graph.as_default():
            with tf.control_dependencies([add_one(graph)]):
                default_row = late(tf.zeros([]))
            rows = look_up(graph, graph.channels[0].plans[0], default_row)
        with session(graph) as opened:
            assert np.array_equal(opened.run(rows), expected(TABLE, [1, 2], {1: 1, 2: 1}))


def test_an_update_within_a_loop_goes_on_as_before():
    with FakeDaemon([TABLE], [TRAIN, EVAL]):
        graph = build([[1, 2], [2, 3]], [TRAIN, EVAL], [TABLE])
        table, slots = graph.tables[0], graph.channels[0].plans[0].slots
        with graph.graph.as_default():
            def update(turn):
                added = tf.compat.v1.scatter_add(table._ref(), slots, tf.ones([tf.size(slots), DIM]))
                with tf.control_dependencies([added]):
                    return turn + 1

            loop = tf.compat.v1.while_loop(lambda turn: turn < 3, update, [tf.constant(0)], parallel_iterations=1)
        evaluated = graph.channels[1].embeddings[0]
        with session(graph) as opened:
            assert opened.run([loop, evaluated, graph.channels[0].embeddings[0]])[0] == 3
            assert np.array_equal(opened.run([evaluated, loop])[0], expected(TABLE, [2, 3], {2: 3}))


def test_rows_are_read_by_handle_before_they_are_written():
    table = TIERS["expansion"]
    with FakeDaemon([table], [TRAIN]):
        graph = build([[1, 2], [2, 3]], [TRAIN], [table])
        with graph.graph.as_default():
            handles = late(graph.channels[0].locals[0].handles)
            rows = native.ops().asc_read_rows(handles, width=DIM)
            update = add_one(graph)
        with session(graph, threads=4) as opened:
            assert np.array_equal(opened.run([rows, update])[0], expected(table, [1, 2], {1: 0, 2: 0}))
            assert np.array_equal(opened.run([rows, update])[0], expected(table, [2, 3], {2: 1, 3: 0}))
