"""Deterministic sessions: within a step, what reads a variable comes before what updates it, and sums have one order.

Readers are slow here: an update that does not wait for them is done long before.
"""
import numpy as np
import pytest
import tensorflow as tf

from ascpipe.tf import patches
from ascpipe.tf.incumbent.ascend import deterministic
from mx_rec.core.asc import start_asc_pipeline
from mx_rec.core.embedding import sparse_lookup
from tests.tf import programs
from tests.tf.test_ops_step_order import late


@pytest.fixture
def session(monkeypatch):
    """Opens a session of the default graph, whose variables have their first values."""
    monkeypatch.setattr(deterministic, "_threads_are_shared", None)
    deterministic.install()
    opened = []

    def open_one(*, asks=True, threads=4):
        config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=threads)
        opened.append(tf.compat.v1.Session(config=deterministic.asking(config) if asks else config))
        opened[-1].run(tf.compat.v1.global_variables_initializer())
        return opened[-1]

    with tf.Graph().as_default():
        yield open_one
        for each in opened:
            each.close()
    patches.SESSION_INIT.undo()


def variable(first, resource=False, **more):
    return tf.compat.v1.get_variable("v", initializer=tf.constant(first, tf.float32), use_resource=resource, **more)


def ops_of(opened, fetches, feed=None):
    """The nodes of a step."""
    metadata = tf.compat.v1.RunMetadata()
    opened.run(fetches, feed, options=tf.compat.v1.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    return [node for graph in metadata.partition_graphs for node in graph.node]


def slow_one():
    return late(tf.constant(1.0))


def in_loop(v):
    _, total = tf.while_loop(lambda i, _: i < 2, lambda i, total: (i + 1, total + slow_one() * v), [0, tf.zeros([2])])
    return total / 2


READERS = {
    "a product": lambda v: slow_one() * v,
    "a read that begins late": lambda v: read_after(slow_one(), v),
    "a part of its memory": lambda v: slow_one() * tf.reshape(tf.expand_dims(tf.identity(v), 0)[0], [2]),
    "rows of it": lambda v: tf.gather(v, tf.cast(slow_one(), tf.int32) + [-1, 0]),
    "a conditional": lambda v: tf.cond(tf.constant([3.0])[0] > 2 * slow_one(), lambda: v * slow_one(), lambda: v * 0),
    "a loop": in_loop}
UPDATES = {
    "assign_add": lambda v: v.assign_add([1.0, 1.0]).op,
    "assign": lambda v: v.assign([7.0, 7.0]).op,
    "an optimizer": lambda v: tf.compat.v1.train.AdamOptimizer(0.5).apply_gradients([(tf.constant([1.0, 1.0]), v)]),
    "rows": lambda v: tf.compat.v1.scatter_update(v, [0, 1], [5.0, 5.0])}


def read_after(tensor, v):
    with tf.control_dependencies([tensor]):
        return v.read_value() * 1.0


@pytest.mark.parametrize("reader, update", [
    *((reader, "assign_add") for reader in READERS), *(("a product", update) for update in UPDATES)])
def test_a_slow_reader_reads_a_reference_variable_before_the_step_updates_it(reader, update, session):
    v = variable([1.0, 2.0])
    read, updated = READERS[reader](v), UPDATES[update](v)
    opened = session()
    np.testing.assert_array_equal(opened.run([read, updated])[0], [1.0, 2.0])
    assert (opened.run(v) != [1.0, 2.0]).all()


def test_a_slow_reader_reads_a_resource_variable_before_the_step_updates_it(session):
    v = variable([1.0, 2.0], resource=True)
    read, updated = READERS["a read that begins late"](v), UPDATES["assign_add"](v)
    np.testing.assert_array_equal(session().run([read, updated])[0], [1.0, 2.0])


def test_a_learning_rate_reads_the_step_before_the_program_assigns_it(session):
    step = tf.compat.v1.train.get_or_create_global_step()
    rate = tf.compat.v1.train.exponential_decay(slow_one(), step, 1, 0.5)
    advance = tf.compat.v1.assign(step, step + 1)
    opened = session()
    assert [opened.run([rate, advance])[0] for _ in range(3)] == [1.0, 0.5, 0.25]


def test_what_the_program_orders_after_an_update_stays_there(session):
    v = variable([1.0, 2.0])
    before = slow_one() * v
    with tf.control_dependencies([UPDATES["assign_add"](v)]):
        after = slow_one() * tf.identity(v)
        last = v.assign(v * 10.0)
    found = session().run([before, after, last])
    np.testing.assert_array_equal(found, [[1.0, 2.0], [2.0, 3.0], [20.0, 30.0]])


def test_a_branch_that_the_program_orders_after_an_update_reads_the_updated_value(session):
    v = variable([1.0, 2.0])
    with tf.control_dependencies([UPDATES["assign_add"](v)]):
        begins = slow_one()
        after = tf.cond(begins > 0, lambda: v * begins, lambda: v * 0)
    np.testing.assert_array_equal(session().run(after), [2.0, 3.0])


def test_an_average_of_variables_is_that_of_updated_ones(session):
    v = variable([1.0, 2.0])
    average = tf.train.ExponentialMovingAverage(0.5)
    with tf.control_dependencies([UPDATES["assign_add"](v)]):
        averaged = average.apply([v])
    opened = session()
    opened.run(averaged)
    np.testing.assert_array_equal(opened.run(average.average(v)), [1.5, 2.5])


def test_a_step_runs_no_reader_that_it_does_not_fetch(session):
    v = variable([1.0, 2.0])
    read, calls = v * tf.compat.v1.py_func(lambda: calls.append(1) or np.float32(1), [], tf.float32), []
    updated = UPDATES["assign_add"](v)
    opened = session()
    opened.run(updated)
    assert not calls
    opened.run([read, updated])
    assert calls


def test_an_update_in_a_branch_that_is_not_taken_and_readers_in_the_other_do_not_block(session):
    v, takes = variable([1.0, 2.0]), tf.compat.v1.placeholder(tf.bool, [])
    read = tf.cond(takes, lambda: v * slow_one(), lambda: v * 0)
    updated = tf.cond(takes, lambda: v.assign_add([1.0, 1.0]), lambda: tf.identity(v))
    other = variable_beside()
    opened = session()
    np.testing.assert_array_equal(opened.run([read, other], {takes: False})[0], [0.0, 0.0])
    np.testing.assert_array_equal(opened.run([read, updated], {takes: True})[0], [1.0, 2.0])
    np.testing.assert_array_equal(opened.run(v), [2.0, 3.0])


def variable_beside():
    return tf.compat.v1.get_variable("w", initializer=1.0, use_resource=False).assign_add(1.0)


def test_updates_that_nothing_orders_run_in_the_order_of_their_names(session):
    v = variable([1.0, 2.0])
    first = tf.compat.v1.assign_add(v, slow_one() * [1.0, 1.0], name="a")
    second = tf.compat.v1.assign(v, [5.0, 5.0], name="b")
    opened = session()
    opened.run([first.op, second.op])
    np.testing.assert_array_equal(opened.run(v), [5.0, 5.0])


def test_two_variables_that_update_each_other_make_no_cycle(session):
    v, w = (tf.compat.v1.get_variable(name, initializer=[1.0, 2.0], use_resource=False) for name in "vw")
    train = [v.assign(w + 1.0), w.assign(v + 1.0)]
    with tf.control_dependencies([train[0]]):
        one = w * 1.0
    with tf.control_dependencies([train[1]]):
        other = v * 1.0
    session().run([*train, one, other])


def test_variables_that_begin_with_the_value_of_others_are_initialized_in_one_run(session):
    v = variable([1.0, 2.0])
    w = tf.compat.v1.get_variable("w", initializer=v.initialized_value() * 2, use_resource=False)
    np.testing.assert_array_equal(session().run(w), [2.0, 4.0])


def test_a_sum_of_several_tensors_is_added_from_left_to_right(session):
    a, b, c, d = inputs = list(np.random.RandomState(1).rand(4, 8192).astype(np.float32) * 100)
    fed = [tf.compat.v1.placeholder(tf.float32, [8192]) for _ in inputs]
    values = [tf.abs(each) for each in fed]
    # Other ops read two inputs, so that TensorFlow would take over the memory of another one and begin with it.
    fetches = [tf.add_n(values), tf.reduce_sum(values[0]), tf.reduce_sum(values[1])]
    opened, feed = session(), dict(zip(fed, inputs))
    for _ in range(30):
        np.testing.assert_array_equal(opened.run(fetches, feed)[0], a + b + c + d)
    types = [node.op for node in ops_of(opened, fetches, feed)]
    assert ("AddN" in types, types.count("Add")) == (False, 3)


def test_a_session_that_does_not_ask_runs_the_ops_as_the_program_made_them(session):
    v = variable([1.0, 2.0])
    total = tf.add_n([v * 1.0, v * 2.0, v * 3.0])
    fetches = [total, READERS["a conditional"](v), UPDATES["assign_add"](v)]
    nodes = ops_of(session(asks=False), fetches)
    assert "AddN" in [node.op for node in nodes]
    assert not [node.name for node in nodes if node.name.startswith("ascpipe/")]
    (update,) = [node for node in nodes if node.op == "AssignAdd"]
    assert not [source for source in update.input if source.startswith("^")]


def losses_with_tables(steps, open_one):
    """The losses of a model with several lookups; gradients of layers and of tables are asked for apart."""
    with programs.ascpipe():
        user, item = programs.table("user"), programs.table("item")
        features = programs.specs()
        iterator, batch = programs.insert(programs.batches(steps, size=64), features)
        rows = [sparse_lookup(owner, spec, is_train=True, batch=batch)
                for owner, spec in zip((user, user, item), features)]
        x = tf.concat([tf.reduce_sum(rows[0], axis=1), rows[1], rows[2]], axis=1)
        for width in (256, 128, 1):
            x = tf.compat.v1.layers.dense(x, width, tf.nn.relu if width > 1 else None, kernel_initializer=(
                tf.compat.v1.glorot_uniform_initializer(seed=width)))
        loss = tf.reduce_mean(tf.square(tf.squeeze(x, axis=1) - batch["label"]))
        tables = [user.variable, item.variable]
        dense = [v for v in tf.compat.v1.trainable_variables() if v not in tables]
        assert all(v.op.type == "VariableV2" for v in dense)
        train = [tf.compat.v1.train.AdamOptimizer(0.01).apply_gradients(zip(tf.gradients(loss, dense), dense)),
                 programs.optimizer("lazy_adam", 0.01).apply_gradients(zip(tf.gradients(loss, tables), tables))]
        start_asc_pipeline()
        with open_one() as opened:
            opened.run(iterator.initializer)
            return [float(opened.run([loss, train])[0]) for _ in range(steps)]


def test_two_runs_that_ask_for_gradients_of_layers_and_of_tables_apart_have_equal_losses(session):
    first, second = losses_with_tables(60, session), losses_with_tables(60, session)
    assert [step for step in range(60) if first[step] != second[step]] == []
    assert len(set(first)) == 60
