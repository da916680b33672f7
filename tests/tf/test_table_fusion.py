"""Plans of all tables, and their updates, are one op each within a step, with the same bits.

A step that also evaluates has a plan op per table, and tables whose rates are different tensors an update op each: that
is what a fused step is compared with.
"""
import collections

import numpy as np
import pytest
import tensorflow as tf

from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import sparse_lookup
from tests.tf import programs

STEPS, SIZE, KEYS = 8, 6, 30
UPDATES = {"adagrad": "AscApplyAdagrad", "ftrl": "AscApplyFtrl", "gradient_descent": "AscApplyGradientDescent",
           "lazy_adam": "AscApplyLazyAdam"}


def ran(session, fetches, **kwargs):
    """What was fetched, and how many ops there were of each type in the step."""
    metadata = tf.compat.v1.RunMetadata()
    found = session.run(fetches, options=tf.compat.v1.RunOptions(output_partition_graphs=True), run_metadata=metadata,
                        **kwargs)
    return found, collections.Counter(node.op for graph in metadata.partition_graphs for node in graph.node)


def rate_of(value=.1):
    """A rate that TensorFlow does not take for that of another table."""
    return tf.compat.v1.placeholder_with_default(np.float32(value), [])


class Program:
    """Tables with one feature each, the first one with another feature, in front of a sum of squares.

    Args:
        count: of tables.
        kind: of the optimizer.
        rates: of each table; None: one optimizer with one rate for all of them.
        table: keyword arguments of the tables.
        gradients: what is made of the gradients of the tables.
        apply: takes a function that makes the updates, and makes them.
    """

    def __init__(self, count, kind="adagrad", rates=None, table=None, gradients=lambda pairs: pairs,
                 apply=lambda make: make(), size=SIZE):
        random = np.random.RandomState(5)
        names = ["t{}".format(place) for place in range(count)]
        owners = dict({name: name for name in names}, again="t0")
        arrays = {name: random.randint(0, KEYS, (STEPS, size)) for name in owners}
        self.tables = [programs.table(name, **(table or {})) for name in names]
        by_name = dict(zip(names, self.tables))
        specs = [FeatureSpec(name, table_name=owner, index_key=name) for name, owner in owners.items()]

        def channel(training):
            data = tf.data.Dataset.from_tensor_slices(arrays).map(get_asc_insert_func(specs, is_training=training))
            iterator = tf.compat.v1.data.make_initializable_iterator(data.prefetch(4))
            batch = iterator.get_next()
            rows = [sparse_lookup(by_name[owner], spec, batch=batch, is_train=training)
                    for spec, owner in zip(specs, owners.values())]
            return iterator, tf.add_n([tf.reduce_mean(tf.square(each - .1 * place)) for place, each in enumerate(rows)])

        self.iterator, self.loss = channel(training=True)
        self.eval_iterator, self.eval_loss = channel(training=False)
        variables = [table.variable for table in self.tables]
        pairs = gradients(list(zip(tf.gradients(self.loss, variables), variables)))
        if rates is None:
            self.train = apply(lambda: programs.optimizer(kind, rate_of()).apply_gradients(pairs))
        else:
            self.train = tf.group([programs.optimizer(kind, rate).apply_gradients([pair])
                                   for rate, pair in zip(rates, pairs)])

    def initialize(self, session):
        session.run([self.iterator.initializer, self.eval_iterator.initializer,
                     tf.compat.v1.global_variables_initializer()])


def trained(build, *, apart):
    """Losses of some steps and all rows after them, and the ops of a step; ``apart``: each step evaluates, too."""
    with programs.ascpipe():
        program = build()
        start_asc_pipeline()
        with programs.session() as session:
            program.initialize(session)
            fetches = [program.loss, program.train] + ([program.eval_loss] if apart else [])
            losses = []
            found, ops = ran(session, fetches)
            losses.append(found[0].tobytes())
            losses += [session.run(fetches)[0].tobytes() for _ in range(STEPS - 1)]
            rows = session.run([table.variable for table in program.tables])
        return losses, [values.tobytes() for values in rows], ops


def same_bits(count, kind="adagrad", **kwargs):
    """The ops of a step; its results are those of one whose ops are not fused."""
    losses, rows, together = trained(lambda: Program(count, kind, **kwargs), apart=False)
    expected, expected_rows, apart = trained(
        lambda: Program(count, kind, [rate_of() for _ in range(count)], **kwargs), apart=True)
    assert (apart["AscPlans"], apart["AscUpdate"]) == (0, 0)
    assert (apart["AscNextPlan"], apart[UPDATES[kind]]) == (2 * count, count)
    assert losses == expected
    if not kwargs.get("table"):  # else a row may lie anywhere
        assert rows == expected_rows
    return together


@pytest.mark.parametrize("count, kind", [
    (20, "adagrad"), *((2, kind) for kind in sorted(UPDATES) if kind != "adagrad"),
    *(pytest.param(20, kind, marks=pytest.mark.long) for kind in sorted(UPDATES) if kind != "adagrad")])
def test_plans_and_updates_of_all_tables_are_one_op_each(count, kind):
    ops = same_bits(count, kind)
    assert (ops["AscPlans"], ops["AscUpdate"]) == (1, 1)
    assert (ops["AscNextPlan"], ops[UPDATES[kind]]) == (0, 0)


def test_rows_of_tables_that_are_planned_together_move_between_device_and_host():
    ops = same_bits(3, table={"rows": 2 * SIZE, "host_rows": KEYS})
    assert (ops["AscPlans"], ops["AscUpdate"]) == (1, 1)


def test_gradients_that_are_changed_on_their_way_are_applied_together():
    def clipped(pairs):
        return [(tf.IndexedSlices(tf.clip_by_value(gradient.values, -.01, .01), gradient.indices), variable)
                for gradient, variable in pairs]

    assert same_bits(3, gradients=clipped)["AscUpdate"] == 1


def test_many_ids_are_copied_and_updated_by_several_threads():
    with programs.ascpipe():
        program = Program(6, size=20000)
        start_asc_pipeline()
        with programs.session(intra_op_parallelism_threads=4, inter_op_parallelism_threads=4) as session:
            program.initialize(session)
            losses = [session.run([program.loss, program.train])[0] for _ in range(STEPS)]
    with programs.ascpipe():
        program = Program(6, rates=[rate_of() for _ in range(6)], size=20000)
        start_asc_pipeline()
        with programs.session() as session:
            program.initialize(session)
            assert losses == [session.run([program.loss, program.train])[0] for _ in range(STEPS)]


def test_one_table_has_a_plan_and_an_update_of_its_own():
    _, _, ops = trained(lambda: Program(1), apart=False)
    assert (ops["AscNextPlan"], ops["AscPlans"], ops["AscUpdate"]) == (1, 0, 0)


def test_tables_with_different_rates_are_updated_apart():
    _, _, ops = trained(lambda: Program(3, rates=[rate_of(.1), rate_of(.2), rate_of(.3)]), apart=False)
    assert (ops["AscPlans"], ops["AscUpdate"], ops["AscApplyAdagrad"]) == (1, 0, 3)


def test_updates_of_which_one_waits_for_another_stay_apart():
    class Chained(Program):
        def __init__(self):
            super().__init__(2)
            first, second = (op for op in tf.compat.v1.get_default_graph().get_operations()
                             if op.type == "AscApplyAdagrad")
            second._add_control_input(first)

    _, _, ops = trained(Chained, apart=False)
    assert (ops["AscPlans"], ops["AscUpdate"], ops["AscApplyAdagrad"]) == (1, 0, 2)


def test_an_update_that_a_conditional_may_leave_out_stays_as_it_is():
    chosen = []

    def when_chosen(make):
        chosen.append(tf.compat.v1.placeholder(tf.bool, []))
        return tf.cond(chosen[-1], lambda: tf.group(make(), name="made"), tf.no_op)

    with programs.ascpipe():
        program = Program(2, apply=when_chosen)
        start_asc_pipeline()
        with programs.session() as session:
            program.initialize(session)
            variables = [table.variable for table in program.tables]
            for choice in (False, True):
                before = session.run(variables)
                _, ops = ran(session, [program.loss, program.train], feed_dict={chosen[0]: choice})
                assert ops["AscUpdate"] == 0
                changed = [not np.array_equal(*pair) for pair in zip(before, session.run(variables))]
                assert changed[0] or not choice


def test_expansion_tables_are_planned_apart():
    with programs.ascpipe(use_dynamic_expansion=True):
        features = {name: FeatureSpec(name, table_name=name, index_key=name) for name in ("user", "item")}
        tables = {name: programs.table(name) for name in features}
        source = {name: np.arange(24).reshape(4, 6) for name in features}
        data = tf.data.Dataset.from_tensor_slices(source).map(
            get_asc_insert_func(list(features.values()), is_training=True))
        iterator = tf.compat.v1.data.make_initializable_iterator(data.prefetch(2))
        batch = iterator.get_next()
        rows = [sparse_lookup(tables[name], features[name], batch=batch, is_train=True) for name in features]
        loss = tf.add_n([tf.reduce_sum(tf.square(each)) for each in rows])
        targets, handles = programs.trained()
        train = programs.optimizer("adagrad", .1).apply_gradients(list(zip(tf.gradients(loss, targets), handles)))
        start_asc_pipeline()
        with programs.session() as session:
            session.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            _, ops = ran(session, [loss, train])
    assert (ops["AscNextPlan"], ops["AscPlans"]) == (2, 0)


def test_an_error_of_one_table_ends_the_step_and_names_the_table():
    with programs.ascpipe():
        program = Program(3, table={"rows": 2})
        start_asc_pipeline()
        with programs.session() as session:
            program.initialize(session)
            for _ in range(2):
                with pytest.raises(tf.errors.ResourceExhaustedError, match=r"table 't\d' needs \d+ device rows.* lost"):
                    session.run([program.loss, program.train])


def test_a_step_is_cancelled_while_its_plans_wait():
    with programs.ascpipe():
        program = Program(3)
        start_asc_pipeline()
        with programs.session() as session:
            program.initialize(session)
            for _ in range(STEPS):
                session.run([program.loss, program.train])
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run([program.loss, program.train])
