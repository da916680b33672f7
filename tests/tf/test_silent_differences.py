"""Programs that would compute something else than with variables of TensorFlow, and are refused or computed alike."""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import GraphModificationError, TableError, TableLookupError, TableUseError
from tests.support.contrib import contrib
from tests.tf import programs, twin_programs
from tests.tf.twin_programs import RATE

v1 = tf.compat.v1
DIM = 3
DATA = {"user": np.arange(48).reshape(24, 2) % 7, "label": np.float32(np.arange(24) % 2)}


def dataset():
    return tf.data.Dataset.from_tensor_slices(DATA).batch(4)


def table(name="user"):
    return asc.create_table(name, DIM, device_vocabulary_size=20, initializer=v1.constant_initializer(0.5))


class Program:
    """A table, a loss and a train op. ``ids_of`` gives the ids of a batch; with ``features``, by a FeatureSpec."""

    def __init__(self, ids_of=lambda batch: batch["user"], *, features=False):
        spec = asc.FeatureSpec("user")
        data = dataset().map(asc.insert_function(spec)) if features else dataset()
        self.iterator = v1.data.make_initializable_iterator(data.prefetch(2))
        self.batch = self.iterator.get_next()
        self.ids = self.batch["user"] if features else ids_of(self.batch)
        self.table = table()
        rows = asc.sparse_lookup(self.table, spec if features else self.ids,
                                 **({"batch": self.batch} if features else {}))
        self.seen = tf.reduce_sum(tf.cast(self.ids, tf.float32))
        self.loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, [1, 2]) - self.batch["label"]))
        self.train = asc.optimizers.Adagrad(0.1).minimize(self.loss)
        asc.start()

    def begin(self, run):
        run.run([self.iterator.initializer, v1.global_variables_initializer()])


# ---- ids that are fed

@pytest.mark.parametrize("ids_of, fed", [
    (lambda batch: batch["user"], lambda program: program.ids),
    (lambda batch: batch["user"] % 5, lambda program: program.ids),
    (lambda batch: batch["user"] % 5, lambda program: program.batch["user"])], ids=["ids", "computed", "source"])
def test_ids_that_are_fed_are_refused_because_the_dataset_has_submitted_others(ids_of, fed):
    with twin_programs.ascpipe():
        program = Program(ids_of)
        with programs.session() as run:
            program.begin(run)
            expected = [run.run([program.loss, program.train])[0]]
            for fetch in (program.train, program.loss):
                with pytest.raises(GraphModificationError, match="E271: Tensor '.*' was fed, but it determines the "
                                                                 "ids of table 'user'.*Nothing was run"):
                    run.run(fetch, {fed(program): np.zeros([4, 2], np.int64)})
            expected.append(run.run([program.loss, program.train])[0])
    with twin_programs.ascpipe():
        program = Program(ids_of)
        with programs.session() as run:
            program.begin(run)
            assert [run.run([program.loss, program.train])[0] for _ in range(2)] == expected


def test_ids_of_a_feature_that_are_fed_are_refused_and_labels_are_not():
    with twin_programs.ascpipe():
        program = Program(features=True)
        with programs.session() as run:
            program.begin(run)
            with pytest.raises(GraphModificationError, match="E271: Tensor .* was fed"):
                run.run(program.train, {program.ids: np.zeros([4, 2], np.int64)})
            first, _ = run.run([program.loss, program.train], {program.batch["label"]: np.full(4, 3, np.float32)})
            assert first == 0


# ---- ids of a branch

@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("choose", [
    lambda condition, look: tf.cond(condition, lambda: look(0), lambda: look(1)),
    lambda condition, look: tf.case([(condition, lambda: look(0))], default=lambda: look(1))], ids=["cond", "case"])
def test_ids_that_a_branch_computes_are_told_to_be_computed_before_it(choose, training):
    with twin_programs.ascpipe():
        batch = v1.data.make_initializable_iterator(dataset()).get_next()
        users = table()
        with pytest.raises(TableLookupError, match="E267: The ids '.*cond.*' of table 'user' are computed in a branch "
                                                   "of tf.cond or tf.case.*Nothing was added.*asc.sparse_lookup"):
            choose(batch["label"][0] > 0, lambda place: asc.sparse_lookup(
                users, batch["user"][:, place], training=training))


def chosen_ids(model):
    """Both ways that the error names."""
    ids = [model.batch["user"][:, place] for place in range(2)]
    condition = model.batch["label"][0] > 0.5
    look = asc.sparse_lookup if model.is_ours else tf.nn.embedding_lookup
    users = model.tables["user"]
    rows = look(users, tf.cond(condition, lambda: ids[0], lambda: ids[1]))
    rows += tf.cond(condition, lambda: look(users, ids[1]), lambda: look(users, ids[0]))
    model.loss = model.loss_of(tf.reduce_sum(rows, 1))
    return model.optimizer("adagrad").minimize(model.loss, var_list=[model.variables()[0]])


def test_the_ways_that_the_error_names_train_as_in_tensorflow():
    found = twin_programs.ours(chosen_ids)
    assert found.error is None
    np.testing.assert_allclose(found.losses, twin_programs.plain(chosen_ids).losses, rtol=1e-5)


# ---- policies of a variable scope

@pytest.mark.parametrize("policy", ["regularizer", "constraint", "custom_getter"])
def test_a_table_in_a_scope_with_a_policy_for_variables_is_refused(policy):
    with twin_programs.ascpipe():
        with v1.variable_scope("model", **{policy: lambda variable, *more, **named: tf.reduce_sum(variable)}):
            with pytest.raises(TableError, match="E268: Table 'user' was created in the variable scope 'model', which "
                                                 "has a {}.*outside the scope".format(policy)):
                table()
        table()


def test_a_program_of_the_incumbent_is_warned_of_a_policy_for_variables(caplog):
    with programs.ascpipe():
        with v1.variable_scope("model", regularizer=tf.nn.l2_loss):
            programs.table("user")
        programs.table("item")
    (line,) = [line for line in caplog.messages if "variable scope" in line]
    assert "Table 'user' was created in the variable scope 'model', which has a regularizer" in line


# ---- gradients

def shown(kind):
    """The norm of gradients that no optimizer applies, as the loss of the twin."""
    def train(model):
        found = tf.gradients(model.loss, model.variables())
        norm = tf.sqrt(tf.add_n([tf.nn.l2_loss(each.values) for each in found]))
        gates = [norm]
        pairs = model.optimizer(kind).compute_gradients(model.loss, model.everything())
        gates += [each.values if isinstance(each, tf.IndexedSlices) else each for each, _ in pairs]
        with tf.control_dependencies(gates):
            model.loss = tf.identity(norm)
            return model.optimizer(kind).apply_gradients(pairs)
    return train


@pytest.mark.parametrize("tier", ["device", "host"])
def test_a_gradient_that_is_only_shown_has_a_row_for_each_occurrence(tier, tmp_path):
    found = twin_programs.ours(shown("adagrad"), tier, folder=tmp_path)
    assert found.error is None
    np.testing.assert_allclose(found.losses, twin_programs.plain(shown("adagrad")).losses, rtol=1e-5)


def test_a_penalty_on_the_gradient_of_a_table_is_refused_and_one_of_rows_trains_as_in_tensorflow():
    def of_table(model):
        gradient, = tf.gradients(model.loss, [model.variables()[0]])
        return model.optimizer("adagrad").minimize(model.loss + tf.nn.l2_loss(gradient.values))

    def of_rows(model):
        gradient, = tf.gradients(model.loss, [model.rows["user"]])
        return model.optimizer("adagrad").minimize(
            model.loss + tf.nn.l2_loss(gradient), var_list=model.everything())

    refused = twin_programs.ours(of_table)
    assert isinstance(refused.error, TableUseError)
    assert "Table 'user'" in str(refused.error) and "differentiates a gradient of the table" in str(refused.error)
    np.testing.assert_allclose(twin_programs.ours(of_rows).losses, twin_programs.plain(of_rows).losses, rtol=1e-5)


def test_updates_by_scatter_ops_with_the_gradient_are_those_of_tensorflow():
    def train(model):
        gradients = tf.gradients(model.loss, model.variables())
        tables = [each.variable for each in model.tables.values()] if model.is_ours else model.tables.values()
        with tf.control_dependencies([each.values for each in gradients]):
            return tf.group(*(v1.scatter_sub(variable, each.indices, RATE * each.values)
                              for variable, each in zip(tables, gradients)))

    np.testing.assert_allclose(twin_programs.ours(train).losses, twin_programs.plain(train).losses, rtol=1e-5)


def regularized(model):
    """The scope of the layers has a regularizer, and the tables are outside."""
    with v1.variable_scope("layers", regularizer=contrib("layers").l2_regularizer(0.1)):
        weights = v1.get_variable("more", [3], initializer=v1.constant_initializer(0.2))
    loss = model.loss + v1.losses.get_regularization_loss() + tf.reduce_sum(weights * model.rows["user"][:, 0]) * 0.01
    return model.optimizer("adagrad").minimize(loss, var_list=model.everything())


def test_a_scope_with_a_regularizer_beside_tables_trains_as_in_tensorflow():
    np.testing.assert_allclose(
        twin_programs.ours(regularized).losses, twin_programs.plain(regularized).losses, rtol=1e-5)


def by_label(model):
    """True in about half of the steps."""
    return model.batch["label"][0] > 0.5


#: Ops on the values of a gradient, in conditionals of which a branch returns the values.
CONDITIONALS = {
    "scaled": lambda model, values: tf.cond(by_label(model), lambda: values * 0.1, lambda: values),
    "guarded": lambda model, values: tf.cond(by_label(model), lambda: values, lambda: tf.zeros_like(values)),
    "both": lambda model, values: tf.cond(by_label(model), lambda: [values, -values], lambda: [values * 3, values])[1],
    "nested": lambda model, values: tf.cond(
        by_label(model), lambda: values * 0.1, lambda: tf.cond(by_label(model), lambda: -values, lambda: values)),
    "inner": lambda model, values: tf.cond(
        by_label(model), lambda: tf.cond(model.batch["label"][1] > 0.5, lambda: values, lambda: values * 3),
        lambda: values),
    "case": lambda model, values: tf.case(
        [(by_label(model), lambda: values), (model.batch["label"][1] > 0.5, lambda: values * 0.1)],
        default=lambda: values * 3),
}


def chosen(kind, values_of):
    """Changes the values of all sparse gradients."""
    def train(model):
        optimizer = model.optimizer(kind)
        pairs = optimizer.compute_gradients(model.loss, model.everything())
        return optimizer.apply_gradients([
            (tf.IndexedSlices(values_of(model, gradient.values), gradient.indices, gradient.dense_shape), variable)
            if isinstance(gradient, tf.IndexedSlices) else (gradient, variable) for gradient, variable in pairs])
    return train


@pytest.mark.parametrize("tier", ["device", "host"])
@pytest.mark.parametrize("values_of", CONDITIONALS.values(), ids=CONDITIONALS)
def test_a_branch_that_returns_the_gradient_of_a_table_trains_as_in_tensorflow(values_of, tier, tmp_path):
    train = chosen("gradient_descent", values_of)
    found = twin_programs.ours(train, tier, folder=tmp_path)
    assert found.error is None
    np.testing.assert_allclose(found.losses, twin_programs.plain(train).losses, rtol=1e-5)


def looked_up_in_a_branch(kind, is_before):
    """The rows of items are also looked up in a branch, or before the conditional."""
    def train(model):
        def look():
            items = model.tables["item"]
            return (asc.sparse_lookup if model.is_ours else tf.nn.embedding_lookup)(items, model.batch["item"])
        before = look() if is_before else None
        taken = tf.cond(by_label(model), lambda: tf.reduce_sum(look() if before is None else before), lambda: 0.0)
        model.loss = model.loss + 0.1 * taken
        optimizer = v1.train.MomentumOptimizer(RATE, 0.9) if kind == "momentum" else model.optimizer(kind)
        return optimizer.minimize(model.loss, var_list=model.everything())
    return train


@pytest.mark.parametrize("kind, is_before, is_warned", [
    ("momentum", False, True), ("momentum", True, False), ("adagrad", False, False),
    ("gradient_descent", False, False)])
def test_a_lookup_in_a_branch_is_warned_of_if_the_optimizer_moves_other_rows(kind, is_before, is_warned, caplog):
    train = looked_up_in_a_branch(kind, is_before)
    found = twin_programs.ours(train)
    assert found.error is None
    lines = [line for line in caplog.messages if "a branch of tf.cond or tf.case looks rows up" in line]
    assert len(lines) == is_warned
    assert not is_warned or "table 'item'" in lines[0]
    if not is_warned:
        np.testing.assert_allclose(found.losses, twin_programs.plain(train).losses, rtol=1e-5)
