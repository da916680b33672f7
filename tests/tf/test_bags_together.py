"""Bags of several tables in one step: one op combines, one sums, and no bit is another one.

A step that also fetches the rows of all ids of a table combines these apart: it is what other steps are compared with.
"""
import collections

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.tf.running import native
from tests.tf import combined, programs
from tests.tf.combined import KEYS
from tests.tf.test_combine_fusion import rows_of_all_ids
from tests.tf.test_lookup_fusion import ran
from tests.tf.test_ops_combine import fed

BATCHES = [combined.random_bags(seed, bags=30, most=6) for seed in range(3)]
DIMS = {"a": 4, "b": 1, "c": 3}
KINDS = {"AscCombine", "AscRead", "AscSum", "AscCombineWeightsGrad",
         "AscLookup", "AscLookupGrad", "AscCombineRowsGrad", "ConcatV2", "SplitV", "Slice", "AscPlans",
         "AscUpdate"}


class Program:
    """A table for each of ``DIMS``, which combines the same bags; dense numbers beside them.

    Args:
        has_plain: whether the ids are a feature of table "a" that is not combined, too.

    Attributes:
        flag: whether a branch is taken, fed.
    """

    def __init__(self, has_plain=False):
        self.tables = {name: combined.new_table(name, dim, {"device_vocabulary_size": 1000})
                       for name, dim in DIMS.items()}
        self.specs = {name: asc.FeatureSpec(name, table_name=name, index_key="bags") for name in DIMS}
        if has_plain:
            self.specs["plain"] = asc.FeatureSpec("plain", table_name="a", index_key="ids")
        self.iterator, self.batch = self.channel(True)
        self.numbers = self.batch["gradient"][:, :2]
        self.flag = tf.compat.v1.placeholder_with_default(True, [])

    def channel(self, training, batches=None):
        data = combined.dataset(batches or BATCHES, KEYS)
        data = data.map(lambda batch: {**batch, "bags": combined.as_bags(batch, "ids", "sparse")})
        data = data.map(asc.insert_function(list(self.specs.values()), training=training)).prefetch(2)
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        return iterator, iterator.get_next()

    def bags(self, name, weights=None, combiner="sum", *arguments, batch=None, **more):
        return asc.lookup_sparse(self.tables[name], self.specs[name], weights, combiner, *arguments,
                                 batch=batch or self.batch, **more)

    def weights(self, values=None):
        return tf.SparseTensor(self.batch["places"], self.batch["weights"] if values is None else values,
                               self.batch["shape"])

    def train(self, loss, names=DIMS):
        """What trains tables."""
        variables = [self.tables[name].variable for name in names]
        return asc.optimizers.GradientDescent(0.5).minimize(loss, var_list=variables)

    def session(self, *iterators):
        asc.start()
        run = programs.session(inter_op_parallelism_threads=2, intra_op_parallelism_threads=2)
        run.run([self.iterator.initializer, *(each.initializer for each in iterators),
                 tf.compat.v1.global_variables_initializer()])
        return run


def as_input_layer(rows):
    """Rows as TensorFlow's columns make them, which ask for the batch size of each one."""
    return tf.reshape(rows, [tf.shape(rows)[0], rows.shape[1].value])


def steps_of(build, flags=(True, True, True), are_apart=False):
    """Of each step, what was fetched; and the ops of the last one, by type."""
    with programs.ascpipe():
        program = Program()
        fetches = build(program)
        with program.session() as run:
            whole = rows_of_all_ids() if are_apart else []
            assert len(whole) == are_apart * len(DIMS)
            found = []
            for flag in flags:
                metadata = tf.compat.v1.RunMetadata()
                found.append(run.run(
                    [fetches, whole], {program.flag: flag}, run_metadata=metadata,
                    options=tf.compat.v1.RunOptions(output_partition_graphs=True))[0])
    ops = collections.Counter(node.op for graph in metadata.partition_graphs for node in graph.node)
    return found, {kind: ops[kind] for kind in KINDS if ops[kind]}


def require_same(found, expected):
    for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(expected)):
        if a is not None:
            np.testing.assert_array_equal(a, b)


def apart(build, *arguments):
    """The same steps in which each table is combined by itself."""
    return steps_of(build, *arguments, are_apart=True)


def test_bags_that_the_program_joins_are_combined_side_by_side_and_their_gradients_read_there():
    def build(program):
        joined = tf.concat([as_input_layer(program.bags("a", program.weights(), "mean")), program.numbers,
                            as_input_layer(program.bags("c", None, "sqrtn"))], axis=1)
        wide = as_input_layer(program.bags("b"))
        loss = tf.reduce_sum(tf.square(joined)) + tf.reduce_sum(wide)
        return [joined, wide, program.train(loss)]

    found, ops = steps_of(build)
    expected, others = apart(build)
    require_same(found, expected)
    assert ops == {"AscRead": 1, "AscSum": 1, "AscPlans": 1, "AscUpdate": 1}
    assert others["ConcatV2"] == 1 and others["AscLookup"] == 3 and "AscRead" not in others


def test_many_columns_are_split_by_nothing_either():
    """TensorFlow's gradient of a concat of more than sixteen tensors is one split."""
    def build(program):
        rows = {name: program.bags(name) for name in DIMS}
        many = [as_input_layer(rows["a"]), as_input_layer(rows["c"]), *[program.numbers] * 20]
        joined = tf.concat(many, axis=1)
        return [joined, rows["b"], program.train(tf.reduce_sum(tf.square(joined)) + tf.reduce_sum(rows["b"]))]

    found, ops = steps_of(build)
    require_same(found, apart(build)[0])
    assert not {"ConcatV2", "SplitV", "Slice"} & set(ops)


def test_what_others_read_too_is_joined_by_the_program_s_concat():
    def build(program):
        first, second, third = (program.bags(name) for name in DIMS)
        joined = tf.concat([first, second, third], axis=1)
        return [joined, second * 2., program.train(tf.reduce_sum(tf.square(joined)) + tf.reduce_sum(second))]

    found, ops = steps_of(build)
    require_same(found, apart(build)[0])
    assert ops["AscRead"] == 2 and ops["AscSum"] == 1


def test_columns_that_come_of_other_bags_are_joined_after_these():
    def build(program):
        first = program.bags("a")
        joined = tf.concat([program.bags("b"), tf.square(first), program.bags("c")], axis=1)
        return [joined, program.train(tf.reduce_sum(tf.square(joined)))]

    found, ops = steps_of(build)
    require_same(found, apart(build)[0])
    assert (ops["AscRead"], "AscCombine" in ops) == (2, False)


def test_weights_that_come_of_other_bags_leave_the_lookups_apart():
    def build(program):
        first = program.bags("a")
        weights = program.weights(program.batch["weights"] * tf.reduce_mean(first))
        second, third = program.bags("b", weights), program.bags("c")
        return [first, second, third, program.train(sum(map(tf.reduce_sum, (first, tf.square(second), third))))]

    found, ops = steps_of(build)
    require_same(found, apart(build)[0])
    assert (ops["AscRead"], "AscCombine" in ops) == (2, False)
    assert ops["AscSum"] == 2


@pytest.mark.parametrize("flags", [(True, True, True), (False, False, False), (False, True, False)])
def test_a_branch_that_is_not_taken_takes_nothing_else_with_it(flags):
    def build(program):
        first, second, third = (program.bags(name) for name in DIMS)
        inside = tf.cond(program.flag, lambda: tf.reduce_sum(tf.square(third)) * tf.reduce_mean(second), lambda: 0.0)
        return [first, inside, program.train(tf.reduce_sum(tf.square(first)) + tf.reduce_sum(second) + inside)]

    found, ops = steps_of(build, flags)
    require_same(found, apart(build, flags)[0])
    assert any(step[1] != 0 for step in found) == any(flags)
    assert ops["AscRead"] == 1


@pytest.mark.parametrize("flags", [(True, True, True), (False, False, False), (False, True, False)])
def test_tables_that_a_branch_trains_are_trained_in_it_alone(flags):
    def build(program):
        rows = {name: program.bags(name) for name in DIMS}
        inside = tf.cond(program.flag,
                         lambda: program.train(tf.reduce_sum(tf.square(rows["b"])) + tf.reduce_sum(rows["c"]), "bc"),
                         tf.no_op)
        return [*rows.values(), program.train(tf.reduce_sum(tf.square(rows["a"])), "a"), inside]

    found, _ = steps_of(build, flags)
    require_same(found, apart(build, flags)[0])
    untrained, _ = steps_of(lambda program: [program.bags(name) for name in DIMS])
    for place, name in enumerate(DIMS):
        for step, rows in enumerate(found):
            is_trained = any(name == "a" or flag for flag in flags[:step])
            assert np.array_equal(rows[place], untrained[step][place]) != is_trained


def test_a_loop_that_reads_them_keeps_none_apart():
    """As a recurrent network does."""
    def build(program):
        first, second, third = (program.bags(name) for name in DIMS)
        _, summed = tf.while_loop(lambda step, state: step < 3,
                                  lambda step, state: (step + 1, tf.tanh(state + second * third)),
                                  [0, tf.zeros_like(third)])
        return [first, summed, program.train(tf.reduce_sum(tf.square(first)) + tf.reduce_sum(summed))]

    found, ops = steps_of(build)
    require_same(found, apart(build)[0])
    assert (ops["AscRead"], ops["AscSum"], ops["AscUpdate"]) == (1, 1, 1)


def test_updates_outside_of_conditionals_are_one_op_beside_them():
    """Heads of Estimators check labels in a conditional, in each step."""
    def build(program):
        rows = [program.bags(name) for name in DIMS]
        with tf.control_dependencies([tf.debugging.assert_non_negative(program.batch["places"])]):
            loss = tf.reduce_sum([tf.reduce_sum(tf.square(each)) for each in rows])
        chosen = tf.cond(program.flag, lambda: 1.0, lambda: 2.0)
        return [*rows, program.train(loss * chosen)]

    flags = (True, False, True)
    found, ops = steps_of(build, flags)
    require_same(found, apart(build, flags)[0])
    assert ops["AscUpdate"] == 1 and ops["AscSum"] == 1


def test_bags_of_an_evaluation_are_combined_together():
    with programs.ascpipe():
        program = Program()
        iterator, batch = program.channel(False, BATCHES[1:])
        trained = [program.bags(name) for name in DIMS]
        read = [program.bags(name, batch=batch, training=False) for name in DIMS]
        train = program.train(sum(map(tf.reduce_sum, trained)))
        joined = tf.concat(read, axis=1)
        with program.session(iterator) as run:
            run.run(train)
            found, ops = ran(run, joined)
            run.run(iterator.initializer)
            alone = [ran(run, each) for each in read[:1]]
    assert (ops["AscRead"], ops["ConcatV2"], ops["AscLookup"]) == (1, 0, 0)
    assert found.shape[1] == sum(DIMS.values()) and (found != 0).any()
    np.testing.assert_array_equal(alone[0][0], found[:, :DIMS["a"]])


def test_bags_are_those_of_before_an_update_that_they_are_told_to_wait_for():
    def build(program):
        first, second = program.bags("a"), program.bags("b")
        variables = [program.tables[name].variable for name in ("a", "b")]
        train = asc.optimizers.GradientDescent(0.5).minimize(
            tf.reduce_sum(tf.square(first)) + tf.reduce_sum(second), var_list=variables)
        with tf.control_dependencies([train]):
            later = program.bags("c")
        return [first, second, later]

    found, ops = steps_of(build)
    require_same(found, apart(build)[0])
    assert (ops["AscRead"], "AscCombine" in ops) == (2, False)


def test_rows_that_no_loss_is_made_of_are_read_before_the_update_too():
    def build(program):
        first = [program.bags(name) for name in DIMS]
        weights = program.weights(program.batch["weights"] * tf.reduce_mean(first[0]))
        later = [program.bags(name, weights, trainable=False) for name in ("b", "c")]
        return [*later, program.train(sum(map(tf.reduce_sum, first)))]

    require_same(steps_of(build)[0], apart(build)[0])
    with programs.ascpipe():
        program = Program()
        fetches = build(program)
        with program.session() as run:
            metadata = tf.compat.v1.RunMetadata()
            run.run(fetches, run_metadata=metadata, options=tf.compat.v1.RunOptions(output_partition_graphs=True))
    nodes = {node.name: node for graph in metadata.partition_graphs for node in graph.node}
    combines = {name for name, node in nodes.items() if node.op == "AscRead"}
    (update,) = [name for name, node in nodes.items() if node.op == "AscUpdate"]
    before, left = set(), [update]
    while left:
        name = left.pop().lstrip("^").partition(":")[0]
        if name not in before:
            before.add(name)
            left.extend(nodes[name].input)
    assert len(combines) == 2 and combines <= before


def test_bags_stay_before_an_update_that_others_are_told_to_wait_for():
    """The update is that of a plain lookup: nothing but what they read says which bags come first."""
    with programs.ascpipe():
        program = Program(has_plain=True)
        plain = asc.sparse_lookup(program.tables["a"], program.specs["plain"], batch=program.batch)
        train = program.train(tf.reduce_sum(tf.square(plain)), "a")
        before = program.bags("a", trainable=False)
        with tf.control_dependencies([train]):
            after = program.bags("b")
        with program.session() as run:
            (found, _), ops = ran(run, [before, after])
    rows = np.split(combined.first_rows(DIMS["a"])[BATCHES[0].numbers], np.cumsum(BATCHES[0].sizes)[:-1])
    np.testing.assert_allclose(found, [bag.sum(axis=0) for bag in rows], 1e-4, 1e-5)
    assert ops["AscRead"] == 2


class TestOps:
    """The ops by themselves."""

    table = np.float32([[1, 2], [3, 4], [5, 6]])
    features = {"tables": [-1], "weighted": [-1], "combiners": ["sum"], "max_norms": [0.0]}

    def combine(self, splits=(0, 2, 2), others=2, restore=(0, 1), order=(1, 0), pieces=(2,), **more):
        def build(table, restore, splits, beside):
            given = {**self.features, **more}
            return native.ops().asc_read(
                [table], [tf.constant([2, 0])], [[0.0, 0.0]], [restore], [splits], [], [beside], o=len(pieces),
                sources=[0], bags=[0], order=list(order), pieces=list(pieces), **given)

        return fed(1, build, table=self.table, restore=np.int32(restore), splits=np.int64(splits),
                   beside=np.full([others, 1], 9, np.float32))

    def test_features_and_other_columns_stand_in_the_order_that_is_given(self):
        (joined,) = self.combine()
        np.testing.assert_array_equal(joined, [[9, 6, 8], [9, 0, 0]])
        beside, rows = self.combine(pieces=(1, 1))
        np.testing.assert_array_equal(beside, [[9], [9]])
        np.testing.assert_array_equal(rows, [[6, 8], [0, 0]])

    @pytest.mark.parametrize("given, said", [
        ({"others": 3}, "feature 0 has 2 bags, expected 3, like the adjacent features"),
        ({"restore": (0, 7)}, r"restore index 7 at position 1 of lookup 0 is outside \[0, 2\)"),
        ({"splits": (0, 1)}, "row split 1 at 1 of 1 bags with 2 ids"),
        ({"combiners": ["most"]}, "combiner 'most' is not sum, mean or sqrtn"),
        ({"combiners": ["sum", "sum"]}, "do not fit 1 features"), ({"weighted": [0]}, "do not fit 1 features")])
    def test_what_does_not_fit_is_refused(self, given, said):
        with pytest.raises(tf.errors.InvalidArgumentError, match="AscRead: .*" + said if "most" not in said
                           else said):
            self.combine(**given)

    @pytest.mark.parametrize("given", [{"order": (0, 0)}, {"pieces": (1,)}, {"pieces": (2, 0)}, {"order": (0, 1, 2)}])
    def test_outputs_that_are_not_made_of_each_piece_once_are_refused(self, given):
        with pytest.raises(ValueError, match="AscRead: order must have each of 0 to 1 once"):
            self.combine(**given)

    def gradient(self, columns=(1,), width=3, **more):
        how = {"dims": [2], "partial": [False], "rows_of": [-1], "tables": [0], "sources": [0], "bags": [0],
               "weighted": [-1], "combiners": ["sum"], "max_norms": [0.0], "columns": list(columns), **more}

        def build(grad, restore, splits):
            slots = [tf.constant([2, 0])]
            return native.ops().asc_sum([], slots, [restore], [grad], [splits], [], **how)

        return fed(1, build, restore=np.int32([0, 1, 0]), splits=np.int64([0, 1, 3]),
                   grad=np.arange(2 * width, dtype=np.float32).reshape(2, width))

    def test_a_gradient_may_be_columns_of_a_wider_tensor(self):
        (values,), (indices,) = self.gradient()
        np.testing.assert_array_equal(values, [[1 + 4, 2 + 5], [4, 5]])
        assert indices.tolist() == [2, 0]

    @pytest.mark.parametrize("given, said", [
        ({"columns": (2,)}, r"gradient 0 has shape \[2,3\], expected \[2,2\] from column 2"),
        ({"columns": (-1,)}, r"gradient 0 has shape \[2,3\], expected \[2,2\]"),
        ({"columns": (-2,)}, "all of them numbers of inputs"), ({"tables": [1]}, "all of them numbers of inputs"),
        ({"sources": [1]}, "all of them numbers of inputs"), ({"rows_of": [0]}, "all of them numbers of inputs"),
        ({"bags": [1]}, "has splits 1 of 1"), ({"max_norms": [1.0]}, "max_norm 1 without rows"),
        ({"weighted": []}, "another number of features than 1")])
    def test_gradients_that_do_not_fit_are_refused(self, given, said):
        with pytest.raises(tf.errors.InvalidArgumentError, match="AscSum: .*" + said):
            self.gradient(**given)
