"""Lookups that a concat joins, and their gradients, are one op each within a step, with the same bits.

A step that also fetches the lookups cannot be fused: it is what a fused step is compared with.
"""
import collections

import numpy as np
import pytest
import tensorflow as tf

from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import sparse_lookup
from tests.tf import programs

FUSED = ("AscRead", "AscSum")
APART = ("AscLookup", "AscLookupGrad")
STEPS, SIZE = 5, 6


def ran(session, fetches):
    """What was fetched, and how many ops there were of each type in the step."""
    metadata = tf.compat.v1.RunMetadata()
    found = session.run(fetches, options=tf.compat.v1.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    return found, collections.Counter(node.op for graph in metadata.partition_graphs for node in graph.node)


def ids_of(widths, seed=3):
    """Batches: int64[SIZE] for a width of 0, else int64[SIZE, width], by name C0, C1, ..., and what stands beside."""
    random = np.random.RandomState(seed)
    return [{**{"C{}".format(place): random.randint(0, 20, (SIZE, width) if width else SIZE)
                for place, width in enumerate(widths)},
             "dense": random.rand(SIZE, 3).astype(np.float32), "label": random.rand(SIZE).astype(np.float32)}
            for _ in range(STEPS)]


def dense(inputs, units, name):
    """A layer whose weights begin the same in all programs."""
    return tf.compat.v1.layers.dense(inputs, units, name=name,
                                     kernel_initializer=tf.compat.v1.glorot_uniform_initializer(len(name)))


class Program:
    """A table for each feature, whose lookups are joined with other columns by ``join``, in front of a dense layer.

    Args:
        widths: of each feature, ids in a row; 0: its ids are a vector.
        join: of the lookups [batch, columns], dense columns: the matrix that the model reads.
        known_size: whether the graph knows how many rows a batch has.
        also: what is added to the loss, of the lookups.
        features: by name of a feature, the table that it looks into, if that is not its own.
        kwargs: of the lookups, by name of the feature.
        evaluates: whether there is an evaluation channel, with the same batches.
        flatten: of the rows of a feature of several ids, how many: what is joined.
    """

    def __init__(self, widths, join, *, known_size=False, also=lambda rows: 0., features=None, kwargs=None,
                 evaluates=False, flatten=lambda rows, width: tf.reshape(rows, [-1, 4 * width])):
        source, features, kwargs = ids_of(widths), features or {}, kwargs or {}
        names = ["C{}".format(place) for place in range(len(widths))]
        owners = {name: features.get(name, name) for name in names}
        self.tables = {owner: programs.table(owner, dim=4) for owner in dict.fromkeys(owners.values())}
        specs = [FeatureSpec(name, table_name=owners[name], index_key=name) for name in names]
        arrays = {key: np.stack([batch[key] for batch in source]) for key in source[0]}

        def channel(training):
            data = tf.data.Dataset.from_tensor_slices(arrays)
            if not known_size:
                size = tf.compat.v1.placeholder_with_default(np.int64(SIZE), [])
                data = data.map(lambda batch: {key: value[:size] for key, value in batch.items()})
            data = data.map(get_asc_insert_func(specs, is_training=training)).prefetch(4)
            iterator = tf.compat.v1.data.make_initializable_iterator(data)
            batch = iterator.get_next()
            rows = [sparse_lookup(self.tables[owners[name]], spec, batch=batch, is_train=training,
                                  **kwargs.get(name, {})) for name, spec in zip(names, specs)]
            matrices = [flatten(each, width) if width else each for each, width in zip(rows, widths)]
            with tf.compat.v1.variable_scope("dense", reuse=not training):
                below = dense(batch["dense"], 5, "below")
                logits = dense(join(matrices, below), 1, "above")
            return iterator, rows, tf.reduce_mean(tf.square(tf.sigmoid(logits) - batch["label"][:, None]))

        self.iterator, self.rows, loss = channel(training=True)
        self.loss = loss + also(self.rows)
        if evaluates:
            self.eval_iterator, self.eval_rows, self.eval_loss = channel(training=False)

    def train(self):
        optimizer = programs.optimizer("adagrad", .1)
        return programs.apply(self.loss, [table.variable for table in self.tables.values()], optimizer)


def trained(build, *, apart):
    """Losses of some steps and all rows after them, and the ops of a step; ``apart``: the lookups are fetched, too."""
    with programs.ascpipe():
        program = build()
        train = program.train()
        start_asc_pipeline()
        with programs.session() as session:
            session.run([program.iterator.initializer, tf.compat.v1.global_variables_initializer()])
            fetches = [program.loss, train] + (program.rows if apart else [])
            losses = []
            for _ in range(STEPS):
                found, ops = ran(session, fetches)
                losses.append(found[0].tobytes())
            rows = session.run([table.variable for table in program.tables.values()])
        return losses, [values.tobytes() for values in rows], ops


def same_bits(build):
    """The ops of a step and those of one that fetches the lookups, too; all results are the same."""
    losses, rows, together = trained(build, apart=False)
    losses_apart, rows_apart, apart = trained(build, apart=True)
    assert losses == losses_apart and rows == rows_apart and len(set(losses)) == STEPS
    return together, apart


def counts(ops, types):
    return tuple(ops[kind] for kind in types)


def plain(rows, below):
    return tf.concat([below, *rows], axis=1)


@pytest.mark.parametrize("known_size", [True, False])
@pytest.mark.parametrize("count", [1, 3, 20])  # beyond 16 tensors TensorFlow splits a gradient, instead of slicing it
@pytest.mark.each_value
def test_lookups_and_gradients_of_all_tables_are_one_op_each(count, known_size):
    together, apart = same_bits(lambda: Program([0] * count, plain, known_size=known_size))
    assert counts(together, FUSED) == (1, 1) and counts(together, APART) == (0, 0)
    assert together["ConcatV2"] == 0
    assert counts(apart, APART[:1]) == (count,) and apart["ConcatV2"] == 1


@pytest.mark.parametrize("known_size", [True, False])
@pytest.mark.parametrize("count", [3, 20])
@pytest.mark.each_value
def test_so_they_are_where_the_concat_counts_its_axes_from_the_end(count, known_size):
    together, _ = same_bits(lambda: Program([0] * count, lambda rows, below: tf.concat([below, *rows], axis=-1),
                                            known_size=known_size))
    assert counts(together, FUSED) == (1, 1) and counts(together, APART) == (0, 0)
    assert together["ConcatV2"] == 0


@pytest.mark.parametrize("known_size", [True, False])
@pytest.mark.parametrize("count", [3, 20])
@pytest.mark.each_value
def test_no_column_is_cut_out_of_the_gradient_for_an_op_that_reads_it_where_it_is(count, known_size):
    class Gated(Program):
        def train(self):  # each column's gradient waits for those of all others, as TensorFlow's optimizers have it
            variables = [table.variable for table in self.tables.values()]
            gradients = tf.gradients(self.loss, variables, gate_gradients=True)
            return programs.optimizer("adagrad", .1).apply_gradients(zip(gradients, variables))

    together, _ = same_bits(lambda: Gated([0] * count, plain, known_size=known_size))
    assert counts(together, FUSED) == (1, 1) and counts(together, ("Slice", "SplitV")) in {(0, 0), (1, 0)}


@pytest.mark.parametrize("known_size", [True, False])
@pytest.mark.parametrize("widths", [[2, 0, 3], [1, 1], [2] + [0] * 18])
@pytest.mark.each_value
def test_rows_of_several_ids_that_are_reshaped_side_by_side_are_fused(widths, known_size):
    together, _ = same_bits(lambda: Program(widths, plain, known_size=known_size))
    assert counts(together, FUSED) == (1, 1) and counts(together, APART) == (0, 0)


@pytest.mark.parametrize("known_size", [True, False])
def test_rows_of_ids_of_one_column_may_be_squeezed(known_size):
    together, _ = same_bits(lambda: Program([1, 0, 1], plain, known_size=known_size,
                                            flatten=lambda rows, width: tf.squeeze(rows, axis=1)))
    assert counts(together, FUSED) == (1, 1) and counts(together, APART) == (0, 0)


def test_several_features_of_one_table_are_summed_in_the_order_of_their_lookups():
    together, _ = same_bits(lambda: Program([0, 2, 0, 0], lambda rows, below: plain(rows[::-1], below),
                                            features={"C2": "C0", "C3": "C0"}))
    assert counts(together, FUSED) == (1, 1) and counts(together, APART) == (0, 0)


@pytest.mark.parametrize("place", [2, 3])
def test_a_lookup_that_trains_nothing_is_joined_with_the_others(place):
    together, _ = same_bits(lambda: Program([0] * 4, plain, features={"C3": "C2"},
                                            kwargs={"C{}".format(place): {"is_grad": False}}))
    assert counts(together, FUSED) == (1, 1) and counts(together, APART) == (0, 0)


def test_a_lookup_that_the_step_reads_elsewhere_too_stays_as_it_is():
    together, _ = same_bits(lambda: Program([0] * 3, plain, also=lambda rows: tf.reduce_sum(tf.square(rows[1]))))
    assert counts(together, FUSED) == (1, 1) and counts(together, APART) == (1, 1)


def test_a_lookup_that_is_joined_twice_stays_as_it_is():
    def join(rows, below):
        return tf.concat([below, rows[0], rows[1], rows[0]], axis=1)

    together, _ = same_bits(lambda: Program([0, 0], join))
    assert counts(together, APART)[1] == 1


def test_two_concats_of_different_lookups_are_two_ops():
    def join(rows, below):
        left, right = tf.concat(rows[:2], axis=1), tf.concat([rows[2], below], axis=1)
        return tf.concat([left, 2 * right], axis=1)

    together, _ = same_bits(lambda: Program([0] * 3, join))
    assert counts(together, APART) == (0, 0) and together["AscRead"] == 2


def test_a_concat_along_another_axis_stays_as_it_is():
    def join(rows, below):
        return tf.concat([tf.reshape(tf.concat(rows, axis=0), [-1, 8]), below], axis=1)

    together, _ = same_bits(lambda: Program([0, 0], join, known_size=True))
    assert together["AscRead"] == 0 and together["AscLookup"] == 2


def test_what_is_reshaped_across_rows_stays_as_it_is():
    def join(rows, below):
        return tf.concat([below, tf.reshape(tf.transpose(tf.reshape(rows[0], [-1, 2, 4]), [0, 2, 1]), [-1, 8])], axis=1)

    together, _ = same_bits(lambda: Program([2], join))
    assert together["AscRead"] == 0


def test_sums_of_which_one_waits_for_another_stay_apart():
    class Chained(Program):
        def train(self):
            variables = [table.variable for table in self.tables.values()]
            optimizer = programs.optimizer("adagrad", .1)
            first, *others = tf.gradients(self.loss, variables)
            update = optimizer.apply_gradients([(first, variables[0])])
            others[0].values.op._add_control_input(update)
            return optimizer.apply_gradients(zip(others, variables[1:]))

    together, _ = same_bits(lambda: Chained([0] * 3, plain, known_size=True))
    assert counts(together, APART) == (0, 3) and together["AscRead"] == 1


def test_lookups_before_a_loop_are_one_op_and_so_are_their_gradients():
    class Looped(Program):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.loss = tf.while_loop(lambda turn, _: turn < 2, lambda turn, loss: (turn + 1, loss * loss + loss),
                                      [0, self.loss])[1]

    together, _ = same_bits(lambda: Looped([0] * 20, plain))
    assert counts(together, FUSED) == (1, 1) and counts(together, APART) == (0, 0)


def test_a_fetch_of_one_lookup_alone_asks_for_no_other_plan():
    with programs.ascpipe():
        program = Program([0] * 3, plain)
        train = program.train()
        start_asc_pipeline()
        with programs.session() as session:
            session.run([program.iterator.initializer, tf.compat.v1.global_variables_initializer()])
            fused = ran(session, [program.loss, train])[1]
            assert fused["AscPlans"] == 1 and counts(fused, APART) == (0, 0)
            found, ops = ran(session, program.rows[1])
            assert found.shape == (SIZE, 4) and ops["AscNextPlan"] == 1 and counts(ops, FUSED) == (0, 0)
            joined, ops = ran(session, program.loss)
            assert np.isfinite(joined) and counts(ops, FUSED) == (1, 0)


def test_an_evaluation_is_fused_in_a_run_of_its_own_and_not_in_one_that_trains():
    with programs.ascpipe():
        program = Program([0] * 3, plain, evaluates=True)
        train = program.train()
        start_asc_pipeline()
        with programs.session() as session:
            session.run([program.iterator.initializer, program.eval_iterator.initializer,
                         tf.compat.v1.global_variables_initializer()])
            _, ops = ran(session, [program.loss, train, program.eval_loss])
            assert ops["AscRead"] == 1 and ops["AscLookup"] == 3
            together, ops = ran(session, program.eval_loss)
            assert counts(ops, FUSED) == (1, 0) and ops["AscLookup"] == 0
            session.run(program.eval_iterator.initializer)
            session.run(program.eval_loss)
            (apart, *_), ops = ran(session, [program.eval_loss, *program.eval_rows])
            assert together.tobytes() == apart.tobytes() and ops["AscLookup"] == 3


def test_lookups_stay_apart_where_one_comes_after_an_update_of_the_rows_of_another():
    class Updating(Program):
        def update(self):
            """Adds to a row of the first table, and depends on no lookup, which no program may do by itself."""
            with self.tables["C0"].building("update"):
                return tf.compat.v1.scatter_add(self.tables["C0"].variable, [0], tf.ones([1, 4]))

    def build():
        def join(rows, below):
            with tf.control_dependencies([program[0].update()]):
                return tf.concat([below, rows[0], tf.identity(rows[1])], axis=1)

        program = [Updating.__new__(Updating)]
        program[0].__init__([0, 0], join)
        return program[0]

    together, _ = same_bits(build)
    assert counts(together, FUSED) == (0, 1) and together["AscLookup"] == 2
