"""Bags of ids beside other lookups: what is one op in the graph of a step, and that this changes no bit.

A step that also fetches the rows of all ids has them: it is what other steps are compared with.
"""
import contextlib

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.tf import combined, programs
from tests.tf.combined import KEYS
from tests.tf.test_lookup_fusion import ran

BATCHES = [combined.random_bags(seed) for seed in range(3)]
DIM = programs.DIM
FUSED = {"AscCombine", "AscRead", "AscSum", "AscCombineWeightsGrad"}
WHOLE = {"AscLookup", "AscLookupGrad", "AscCombineRowsGrad", "AscRestoreRows"}


class Program:
    """A table with features of the same bags, and one of ids in rows of three.

    Args:
        features: names of those that are bags.
        spec: arguments of the FeatureSpecs.
        expands: whether the table grows.
        batches: of the training channel.
        beside: whether there are ids in rows of three.
    """

    def __init__(self, features=("first", "second"), spec=None, expands=False, batches=BATCHES, beside=True):
        self._batches = batches
        self.table = combined.new_table("t", DIM, {} if expands else {"device_vocabulary_size": 1000})
        self.specs = {name: asc.FeatureSpec(name, table_name="t", index_key="bags", **(spec or {}))
                      for name in features}
        if beside:
            self.specs["beside"] = asc.FeatureSpec("beside", table_name="t", index_key="beside")
        self.iterator, self.batch = self.channel(True)
        self.weights = tf.SparseTensor(self.batch["places"], tf.identity(self.batch["weights"]), self.batch["shape"])

    def channel(self, training, batches=None):
        def with_more(batch):
            return {**batch, "bags": combined.as_bags(batch, "ids", "sparse"),
                    "beside": tf.reshape(batch["ids"][:3], [-1, 3])}

        data = combined.dataset(batches or self._batches, KEYS).map(with_more)
        data = data.map(asc.insert_function(list(self.specs.values()), training=training)).prefetch(2)
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        return iterator, iterator.get_next()

    def bags(self, name, weights=None, combiner="sum", *arguments, **more):
        return asc.lookup_sparse(self.table, self.specs[name], weights, combiner, *arguments, batch=self.batch, **more)

    def beside(self, **more):
        return asc.sparse_lookup(self.table, self.specs["beside"], batch=self.batch, **more)

    def train(self, loss, after=(), **gate):
        """The gradient of the table, and what trains it."""
        ((gradient, target),) = asc.optimizers.GradientDescent(0.5).compute_gradients(loss, **gate)
        with tf.control_dependencies(list(after)):
            gated = tf.IndexedSlices(tf.identity(gradient.values), gradient.indices, gradient.dense_shape)
        return gated.values, asc.optimizers.GradientDescent(0.5).apply_gradients([(gated, target)])

    @contextlib.contextmanager
    def session(self, *iterators, threads=1):
        asc.start()
        with programs.session(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=threads) as run:
            run.run([self.iterator.initializer, *(each.initializer for each in iterators),
                     tf.compat.v1.global_variables_initializer()])
            yield run


def rows_of_all_ids():
    """What AscLookup gives in the default graph."""
    return [tensor for op in tf.compat.v1.get_default_graph().get_operations()
            if op.type in ("AscLookup", "AscRestoreRows") for tensor in op.outputs]


def counts(ops):
    """How many ops look up and sum, of each type there is."""
    return {kind: ops[kind] for kind in FUSED | WHOLE if ops[kind]}


def both_ways(build, **arguments):
    """Of each step what was fetched and the types of ops, as one op each, and with the rows of all ids."""
    found = []
    for with_rows in (False, True):
        with programs.ascpipe(use_dynamic_expansion=arguments.get("expands", False)):
            program = Program(**arguments)
            fetches = build(program)
            with program.session() as run:
                steps = [ran(run, [fetches, rows_of_all_ids() if with_rows else []]) for _ in BATCHES]
            found.append(([step[0][0] for step in steps], steps[-1][1]))
    (fused, ops), (whole, others) = found
    for a, b in zip(tf.nest.flatten(fused), tf.nest.flatten(whole)):
        if a is not None:
            np.testing.assert_array_equal(a, b)
    return fused, ops, others


@pytest.mark.parametrize("expands", [False, True])
def test_features_that_are_bags_are_combined_and_others_are_looked_up(expands):
    def build(program):
        first, second = program.bags("first"), program.bags("second", program.weights, "mean")
        rows = program.beside()
        loss = tf.reduce_sum(tf.square(first)) + tf.reduce_sum(second * 3.) + tf.reduce_sum(tf.square(rows))
        of_weights = tf.gradients(loss, program.weights.values)
        values, train = program.train(loss, [first, second, rows, *of_weights])
        return [first, second, rows, of_weights, values, train]

    _, ops, others = both_ways(build, expands=expands)
    looked_up = "AscRestoreRows" if expands else "AscLookup"
    assert counts(ops) == {"AscRead": 1, "AscCombineWeightsGrad": 1, "AscSum": 1, looked_up: 1}
    assert counts(others) == {"AscCombine": 2, "AscCombineWeightsGrad": 1, "AscSum": 1, looked_up: 1}


def test_gated_gradients_of_weights_that_nothing_asks_for_are_not_computed():
    def build(program):
        found = program.bags("first", program.weights, "mean")
        values = tf.gradients(tf.reduce_sum(tf.square(found)), program.table.variable, gate_gradients=True)[0]
        return [found, values.values]

    _, ops, _ = both_ways(build, features=("first",))
    assert set(counts(ops)) == {"AscRead", "AscSum"}


@pytest.mark.parametrize("max_norm", [None, 0.5])
def test_gradients_that_wait_for_each_other_are_one_op_too(max_norm):
    def build(program):
        found = program.bags("first", program.weights, "mean", max_norm)
        loss = tf.reduce_sum(tf.square(found))
        values, of_weights = tf.gradients(loss, [program.table.variable, program.weights.values], gate_gradients=True)
        return [found, values.values, of_weights]

    _, ops, _ = both_ways(build, features=("first",))
    assert counts(ops) == {"AscRead": 1, "AscSum": 1, "AscCombineWeightsGrad": 1}


def test_weights_are_trained_where_rows_are_not():
    def build(program):
        found = program.bags("first", program.weights, "mean", trainable=False)
        other = program.bags("second")
        loss = tf.reduce_sum(tf.square(found)) + tf.reduce_sum(other)
        of_weights = tf.gradients(loss, program.weights.values)[0]
        values, train = program.train(loss)
        return [found, other, of_weights, values, train]

    _, ops, _ = both_ways(build)
    assert counts(ops) == {"AscRead": 1, "AscSum": 1, "AscCombineWeightsGrad": 1}


def test_one_feature_may_be_combined_twice():
    """The sum of two gradients of its rows has a row for each id."""
    def build(program):
        found = program.bags("first"), program.bags("first", None, "mean")
        values, train = program.train(tf.reduce_sum(tf.square(found[0])) + tf.reduce_sum(found[1]), found)
        return [found, values, train]

    found, ops, _ = both_ways(build, features=("first",))
    sizes = np.maximum(BATCHES[0].sizes, 1)[:, None]
    np.testing.assert_allclose(found[0][0][0] / sizes, found[0][0][1], rtol=1e-5, atol=1e-6)
    assert counts(ops) == {"AscRead": 1, "AscLookupGrad": 1, "AscCombineRowsGrad": 2}


def test_bags_are_those_of_before_an_update_that_they_are_told_to_wait_for():
    with programs.ascpipe():
        program = Program(("first", "second"))
        first = program.bags("first")
        _, train = program.train(tf.reduce_sum(tf.square(first)), [first])
        with tf.control_dependencies([train]):
            later = program.bags("second")
        with program.session() as run:
            for _ in BATCHES:
                (before, after), ops = ran(run, [first, later])
                np.testing.assert_array_equal(before, after)
    assert ops["AscLookup"] == 1


def test_an_evaluation_beside_training_reads_the_rows_of_before_the_step():
    with programs.ascpipe():
        program = Program(("first",))
        eval_iterator, batch = program.channel(False, BATCHES[1:] + BATCHES[:1])
        found = program.bags("first")
        read = asc.lookup_sparse(program.table, program.specs["first"], combiner="sum", batch=batch, training=False)
        _, train = program.train(tf.reduce_sum(tf.square(found)), [found])
        with program.session(eval_iterator, threads=2) as run:
            together = [run.run([found, read, train])[1] for _ in range(2)]
    with programs.ascpipe():
        program = Program(("first",))
        eval_iterator, batch = program.channel(False, BATCHES[1:] + BATCHES[:1])
        found = program.bags("first")
        read = asc.lookup_sparse(program.table, program.specs["first"], combiner="sum", batch=batch, training=False)
        _, train = program.train(tf.reduce_sum(tf.square(found)), [found])
        with program.session(eval_iterator) as run:
            for step in range(2):
                alone, ops = ran(run, read)
                np.testing.assert_array_equal(alone, together[step])
                assert (ops["AscRead"], ops["AscLookup"]) == (1, 0)
                run.run(train)
    assert (together[0] == 0).all() and (together[1] != 0).any()


def test_bags_of_an_evaluation_whose_weights_wait_for_the_training_batch_have_the_rows_of_before_it():
    def read_in(steps, *, together):
        with programs.ascpipe():
            program = Program(("first",))
            eval_iterator, batch = program.channel(False)
            found = program.bags("first")
            _, train = program.train(tf.reduce_sum(tf.square(found)), [found])
            with tf.control_dependencies([found] if together else []):
                weights = tf.SparseTensor(batch["places"], tf.identity(batch["weights"]), batch["shape"])
            read = asc.lookup_sparse(program.table, program.specs["first"], weights, "sum", batch=batch, training=False)
            with program.session(eval_iterator) as run:
                return [run.run([read, train])[0] if together else [run.run(read), run.run(train)][0]
                        for _ in range(steps)]

    with_the_step, before_it = (read_in(3, together=together) for together in (True, False))
    np.testing.assert_array_equal(with_the_step, before_it)
    assert before_it[-1].any()


def test_keys_that_are_not_admitted_and_unknown_ones_give_the_default_value():
    batch = combined.Bags(np.array([0, 1, 1, 2]), np.ones(4, np.float32), np.array([1, 3, 0]),
                          np.ones([3, DIM], np.float32))
    with programs.ascpipe():
        program = Program(("first",), spec={"access_threshold": 2}, batches=[batch], beside=False)
        eval_iterator, eval_batch = program.channel(False)
        found = program.bags("first", default_value=7.0)
        read = asc.lookup_sparse(program.table, program.specs["first"], combiner="sum", batch=eval_batch,
                                 training=False, default_value=7.0)
        _, train = program.train(tf.reduce_sum(found), [found])
        with program.session(eval_iterator) as run:
            trained, _ = run.run([found, train])
            after, ops = ran(run, read)
    row = combined.first_rows()[1]
    np.testing.assert_allclose(trained, [np.full(DIM, 7.0), 2 * row + 7.0, np.zeros(DIM)], rtol=1e-6)
    np.testing.assert_allclose(after, [np.full(DIM, 7.0), 2 * (row - 1.0) + 7.0, np.zeros(DIM)], rtol=1e-6)
    assert (ops["AscRead"], ops["AscLookup"]) == (1, 0)


@pytest.mark.parametrize("damage, said", [
    ("order", "E324: AscBagSplits: ids of bags are not in order"),
    ("elsewhere", "E324: AscBagSplits: weights have another place than ids")])
def test_bags_that_are_none_fail_the_step_and_the_next_one_trains(damage, said):
    with programs.ascpipe():
        program = Program(("first",))
        is_bad = tf.compat.v1.placeholder_with_default(False, [])
        places = program.batch["places"]
        other = tf.cond(is_bad, lambda: places[::-1] if damage == "order" else places + [[0, 1]], lambda: places + 0)
        weights = tf.SparseTensor(other, program.batch["weights"], program.batch["shape"])
        if damage == "order":
            program.batch = {**program.batch, "bags": tf.SparseTensor(other, program.batch["ids"],
                                                                      program.batch["shape"])}
        found = program.bags("first", weights)
        _, train = program.train(tf.reduce_sum(found), [found])
        with program.session() as run:
            with pytest.raises(tf.errors.InvalidArgumentError, match=said):
                run.run(train, {is_bad: True})
            run.run(train)


def test_static_shapes_need_max_keys_and_take_bags():
    with programs.ascpipe(use_dynamic=False):
        program = Program(("first",))
        with pytest.raises(ValueError, match="is looked up without max_keys"):
            program.bags("first")
        found = program.bags("first", max_keys=2000)
        with program.session() as run:
            taken = run.run(found)
    expected = combined.tensorflows(BATCHES[:1], kinds=("sum plain",)).combined[0]
    np.testing.assert_array_equal(taken, expected["sum plain"])
