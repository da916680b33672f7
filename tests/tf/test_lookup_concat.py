"""Lookups that are written side by side with other columns, against tf.concat."""
import collections

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.tf import lookup_concat
from ascpipe.tf.running import native
from mx_rec.core.asc import FeatureSpec, start_asc_pipeline
from mx_rec.core.embedding import sparse_lookup
from tests.tf import programs

ROWS, BATCH = 50, 9000
Sums = collections.namedtuple("Sums", "values indices")


def inputs(dims, sources, columns):
    """Arguments of the op but for ``order``."""
    random = np.random.RandomState(1)
    return {
        "rows": [tf.compat.v1.Variable(random.randn(ROWS, dim).astype(np.float32), use_resource=False) for dim in dims],
        "slots": [np.where(random.rand(20) < 0.1, -1, random.permutation(ROWS)[:20]).astype(np.int32) for _ in dims],
        "restore": [random.randint(-1, 20, BATCH).astype(np.int32) for _ in sources],
        "others": [random.randn(BATCH, count).astype(np.float32) for count in columns],
        "tables": [-1] * len(dims), "sources": sources}


def gradient_of_one(slots, restore, grad, columns, *, dim):
    """The gradient op with one table."""
    values, indices = sums_of_columns([slots], restore, grad, dims=[dim], sources=[0] * len(restore), columns=columns,
                                      partial=[False])
    return Sums(values[0], indices[0])


def sums_of_columns(slots, restore, grad, sources, **given):
    """``asc_sum`` of columns of one tensor."""
    none = [-1] * len(restore)
    return native.ops().asc_sum(
        [], slots, restore, [grad], [], [], rows_of=[-1] * len(slots), tables=sources, sources=[0] * len(restore),
        bags=none, weighted=none, combiners=[""] * len(restore), max_norms=[0.0] * len(restore), **given)


def joined_by_op(rows, restore, order, **given):
    """``asc_read`` with one output of lookups and other columns."""
    none = [-1] * len(restore)
    (joined,) = native.ops().asc_read(
        rows, restore=restore, default_row=[0.0] * len(rows), splits=[], weights=[], bags=none, weighted=none,
        combiners=[""] * len(restore), max_norms=[0.0] * len(restore), order=order, pieces=[len(order)], o=1, **given)
    return joined


@pytest.mark.parametrize("threads", [1, 4])
def test_the_op_gives_what_lookups_and_a_concat_give(threads):
    def build():
        arguments = inputs([16, 3, 128], [0, 1, 0, 2], [13, 1])
        order = [4, 2, 0, 5, 1, 3]
        joined = joined_by_op(order=order, **arguments)
        rows, slots = arguments["rows"], arguments["slots"]
        apart = [native.ops().asc_lookup(rows[source], slots[source], [restore], 0.0)[0]
                 for source, restore in zip(arguments["sources"], arguments["restore"])]
        assert joined.shape.as_list() == [BATCH, 16 + 3 + 16 + 128 + 14]
        return joined, tf.concat([(apart + arguments["others"])[piece] for piece in order], axis=1)

    joined, expected = programs.run_unfolded(build, threads)
    assert joined.tobytes() == expected.tobytes()


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("ids", [0, 1, 3])
@pytest.mark.each_value
def test_ids_side_by_side_are_columns_side_by_side(ids, threads):
    random = np.random.RandomState(3)
    grad = random.randn(BATCH, 20).astype(np.float32)

    def build():
        given = inputs([5], [0, 0], [2])
        given["restore"][1] = random.randint(-1, 20, (BATCH, ids)).astype(np.int32)
        joined = joined_by_op(order=[1, 2, 0], **given)
        rows, slots, restore = given["rows"][0], given["slots"][0], given["restore"]
        apart = native.ops().asc_lookup(rows, slots, restore, 0.0)
        assert joined.shape.as_list() == [BATCH, 5 * ids + 7]
        begin = 20 - 5 * ids
        of_joined = gradient_of_one(slots, restore, grad, [0, begin], dim=5)
        of_apart = native.ops().asc_lookup_grad(
            slots, restore, [grad[:, :5], grad[:, begin:].reshape(BATCH, ids, 5)], dim=5)
        return (joined, *of_joined), (tf.concat([tf.reshape(apart[1], [BATCH, 5 * ids]), given["others"][0], apart[0]],
                                                axis=1), *of_apart)

    for found, expected in zip(*programs.run_unfolded(build, threads)):
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("threads", [1, 4])
def test_the_gradient_op_sums_columns_as_it_sums_gradients(threads):
    random = np.random.RandomState(2)
    grad = random.randn(BATCH, 40).astype(np.float32)
    slots = np.where(np.arange(20) % 7 == 3, -1, np.arange(20)).astype(np.int32)
    restore = [random.randint(-1, 20, BATCH).astype(np.int32) for _ in range(2)]

    def build():
        columns = gradient_of_one(slots, restore, grad, [20, 4], dim=16)
        apart = native.ops().asc_lookup_grad(slots, restore, [grad[:, 20:36], grad[:, 4:20]], dim=16)
        return columns, apart

    columns, apart = programs.run_unfolded(build, threads)
    assert columns.indices.tolist() == apart.indices.tolist()
    assert columns.values.tobytes() == apart.values.tobytes()


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("partial", [True, False])
@pytest.mark.each_value
def test_the_gradients_of_several_tables_in_one_op_are_those_of_each(partial, threads):
    random = np.random.RandomState(4)
    grad = random.randn(BATCH + 5, 40).astype(np.float32)
    slots = [np.where(np.arange(size) % 7 == 3, -1, random.permutation(size)).astype(np.int32) for size in (30, 20, 25)]
    restore = [random.randint(-1, 20, BATCH).astype(np.int32) for _ in range(4)]
    dims, sources, columns = [16, 3, 1], [1, 0, 2, 0], [37, 0, 36, 17]

    def build():
        together = sums_of_columns(slots, restore, grad, dims=dims, sources=sources,
                                                       columns=columns, partial=[partial] * 3)
        apart = []
        for table, dim in enumerate(dims):
            mine = [place for place, source in enumerate(sources) if source == table]
            apart.append(native.ops().asc_lookup_grad(
                slots[table], [restore[place] for place in mine],
                [grad[:BATCH, columns[place]:columns[place] + dim] for place in mine], dim=dim, partial=partial))
        return list(zip(*together)), apart

    for ours, theirs in zip(*programs.run_unfolded(build, threads)):
        assert [found.tobytes() for found in ours] == [found.tobytes() for found in theirs]


@pytest.mark.parametrize(("change", "text"), [
    (lambda given: given.update(sources=[0, 2]), "sources and columns 2, dims be at least 1"),
    (lambda given: given.update(columns=[0, 5]), "expected columns 5 to 9 for feature 1"),
    (lambda given: given["restore"][1].__setitem__(70, 9), "restore index 9 at position 70 of lookup 0 is outside"),
    (lambda given: given.update(grad=np.zeros([BATCH - 1, 8], np.float32)), "the gradient has shape"),
])
def test_gradients_of_tables_that_do_not_fit_are_refused(change, text):
    given = {"slots": [np.arange(9, dtype=np.int32)] * 2, "restore": [np.zeros(BATCH, np.int32) for _ in range(2)],
             "grad": np.zeros([BATCH, 8], np.float32), "dims": [4, 4], "sources": [0, 1], "columns": [0, 4],
             "partial": [False, False]}
    change(given)
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        programs.run_unfolded(lambda: sums_of_columns(**given), 1)


@pytest.mark.parametrize(("change", "text"), [
    (lambda given: given["restore"][1].__setitem__(70, 20), "restore index 20 at position 70 of lookup 1 is outside"),
    (lambda given: given["slots"][0].__setitem__(3, ROWS), r"slot 50 at index 3 is outside \[0, 50\)"),
    (lambda given: given["slots"][0].__setitem__(3, -2), r"slot -2 at index 3 is outside \[0, 50\)"),
    (lambda given: given["others"].__setitem__(0, tf.compat.v1.placeholder_with_default(tf.ones([3, 2]), None)),
     r"others 0 has shape \[3,2\], expected \[9000, columns\]"),
    (lambda given: given["restore"].__setitem__(1, tf.compat.v1.placeholder_with_default(
        tf.zeros([BATCH, 2, 2], tf.int32), None)), r"restore 1 has shape \[9000,2,2\], expected \[9000\] or one more"),
])
def test_what_does_not_fit_is_named(change, text):
    def build():
        given = inputs([4], [0, 0], [2])
        change(given)
        return joined_by_op(order=[0, 1, 2], **given)

    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        programs.run_unfolded(build, 1)


def test_an_order_that_leaves_one_out_is_refused():
    with pytest.raises(ValueError, match="order must have each of 0 to 2 once"):
        programs.run_unfolded(lambda: joined_by_op(order=[0, 1, 1], **inputs([4], [0, 0], [2])), 1)


# ---- programs ------------------------------------------------------------------------------------------------


class Program:
    """Two features of one table, and one of another with two ids in each row, beside a column of the batch."""

    def __init__(self, join, source):
        user, item = programs.table("user"), programs.table("item", dim=3)
        specs = [FeatureSpec("b", table_name="user", index_key="b"), FeatureSpec("d", table_name="user", index_key="d"),
                 FeatureSpec("c", table_name="item", index_key="c")]
        self.iterator, batch = programs.insert(source, specs)
        *rows, pairs = [sparse_lookup(table, spec, batch=batch) for table, spec in zip((user, user, item), specs)]
        self.rows = [*rows, tf.reshape(pairs, [-1, 6])]
        inputs = join([self.rows[1], tf.expand_dims(batch["label"], 1), self.rows[2], self.rows[0]])
        with tf.compat.v1.variable_scope("dense"):
            weights = tf.compat.v1.get_variable("weights", [15, 1], use_resource=False,
                                                initializer=tf.compat.v1.random_normal_initializer(seed=5))
        self.loss = tf.reduce_mean(tf.square(tf.sigmoid(tf.matmul(inputs, weights)) - batch["label"][:, None]))
        self.tables = [user.variable, item.variable]

    def losses(self, count):
        train = programs.apply(self.loss, self.tables, programs.optimizer("adagrad", 0.5))
        start_asc_pipeline()
        with programs.session() as run:
            run.run([self.iterator.initializer, tf.compat.v1.global_variables_initializer()])
            return [run.run([self.loss, train])[0] for _ in range(count)]


def batches(count):
    return [{**batch, "c": np.stack([batch["c"], batch["c"][::-1]], axis=1), "d": batch["b"][::-1].astype(np.int64)}
            for batch in programs.batches(count)]


def test_a_program_trains_the_same_with_lookup_concat_as_with_tf_concat():
    found = {}
    for join in (lookup_concat, lambda values: tf.concat(values, axis=1)):
        with programs.ascpipe():
            found[join] = Program(join, batches(6)).losses(6)
    ours, theirs = found.values()
    assert ours == theirs and len(set(ours)) == 6


def test_rows_may_be_trained_in_another_way_too():
    found = {}
    for join in (lookup_concat, lambda values: tf.concat(values, axis=1)):
        with programs.ascpipe():
            program = Program(join, batches(6))
            program.loss += tf.reduce_sum(tf.square(program.rows[2]))
            found[join] = program.losses(6)
    ours, theirs = found.values()
    assert ours == theirs and len(set(ours)) == 6


def test_a_lookup_that_is_joined_twice_is_trained_by_both():
    with programs.ascpipe():
        program = Program(lookup_concat, batches(1))
        twice = lookup_concat([program.rows[2], program.rows[2]])
        once, both = (tf.gradients(tf.reduce_sum(values), program.tables[1])[0].values
                      for values in (program.rows[2], twice))
        start_asc_pipeline()
        with programs.session() as run:
            run.run([program.iterator.initializer, tf.compat.v1.global_variables_initializer()])
            of_one, of_both = run.run([once, both])
    assert (of_one != 0).any()
    np.testing.assert_array_equal(of_both, 2 * of_one)


def test_rows_behind_stop_gradient_are_not_trained():
    with programs.ascpipe():
        program = Program(lookup_concat, batches(1))
        stopped = lookup_concat([tf.stop_gradient(program.rows[2]), tf.ones([6, 1])])
        assert tf.gradients(tf.reduce_sum(stopped), program.tables) == [None, None]
