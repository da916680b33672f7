"""What programs of users do with columns and their variables beside training them: as TensorFlow does it, or an error.
"""
import logging
import types

import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import ColumnError
from ascpipe.tf.program import dense_variables
from tests.support.contrib import contrib
from tests.tf import column_programs as p
from tests.tf import columns, programs
from tests.tf.column_programs import layer, words

fc = tf.feature_column
v1 = tf.compat.v1
pytestmark = [
    pytest.mark.timeout_s(120), pytest.mark.filterwarnings("ignore:distutils Version classes"),
    pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")]


# ---- Estimators

def read():
    """Batches of an Estimator: the words and the user of a row, and whether it was clicked."""
    given = p.texts()
    data = tf.data.Dataset.from_tensor_slices(
        ({"words": tf.SparseTensor.from_value(given["words"]), "user": given["user"]}, given["label"] > 0.5))
    return data.batch(p.BATCH).prefetch(2)


def classifier(**given):
    """A small canned Estimator."""
    user = fc.categorical_column_with_identity("user", 300)
    return v1.estimator.DNNClassifier([4], [p.embedding(words()), p.embedding(user)], config=columns.config(), **given)


def losses_of(estimator):
    """The losses of one pass over ``read()``."""
    hook = columns.EachLoss()
    estimator.train(read, [hook])
    return hook.values


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """By side, a folder in which a classifier was trained."""
    folders = {}
    for side in ("tensorflow", "device"):
        folders[side] = str(tmp_path_factory.mktemp(side))
        with columns.on(side):
            classifier(model_dir=folders[side]).train(read)
    return folders


def long(*values):
    """What another case shows in part."""
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.mark.parametrize("wanted", [
    [".*user_embedding.*", ".*hiddenlayer.*"], long([".*weights/.*"]), long([".*logits.*"]),
    ["dnn/input_from_feature_columns/input_layer/words_embedding/embedding_weights"]], ids=str)
def test_expressions_in_a_list_warm_start_rows_and_their_slots(wanted, trained, tmp_path):
    losses = {}
    for side, folder in trained.items():
        settings = v1.estimator.WarmStartSettings(folder, vars_to_warm_start=wanted)
        with columns.on(side):
            losses[side] = losses_of(classifier(model_dir=str(tmp_path / side), warm_start_from=settings))
    assert columns.difference(losses["device"], losses["tensorflow"]) <= 1e-6


ROWS = "dnn/input_from_feature_columns/input_layer/{}_embedding/embedding_weights"


def test_a_warm_start_knows_variables_by_their_names_before(trained, tmp_path):
    def renamed():
        return read().map(lambda features, label: ({"user_id": features["user"]}, label))

    losses = {}
    for side, folder in trained.items():
        settings = v1.estimator.WarmStartSettings(
            folder, ".*user.*", None, {ROWS.format("user_id"): ROWS.format("user")})
        hook = columns.EachLoss()
        with columns.on(side):
            other = p.embedding(fc.categorical_column_with_identity("user_id", 300))
            v1.estimator.DNNClassifier([6], [other], str(tmp_path / side), config=columns.config(),
                                       warm_start_from=settings).train(renamed, [hook])
        losses[side] = hook.values
    assert columns.difference(losses["device"], losses["tensorflow"]) <= 1e-6


@pytest.mark.parametrize("side, vocabularies, why", [
    ("tensorflow", None, "has 300 rows of .*user_embedding.* as a TensorFlow variable, not as a"),
    ("device", {ROWS.format("user"): v1.estimator.VocabInfo("new", 300, 0, "old")}, "a VocabInfo reorders its")],
    ids=["variables", "vocabularies"])
def test_a_warm_start_that_no_table_can_take_is_refused(side, vocabularies, why, trained, tmp_path):
    settings = v1.estimator.WarmStartSettings(trained[side], ".*", vocabularies)
    with columns.on("device"), pytest.raises(ColumnError, match=why):
        classifier(model_dir=str(tmp_path), warm_start_from=settings).train(read)


@pytest.mark.parametrize("mapping, late", [
    long({"net/": "net/"}, False), ({"net/": "net/"}, True), long({"net/input_layer/": "net/input_layer/"}, False),
    long({"net/dense/": "net/dense/"}, False), long("by name", False), ("by variable", False)], ids=str)
def test_variables_that_begin_as_in_a_checkpoint_bring_the_rows_of_their_tables(mapping, late, tmp_path):
    name = "net/input_layer/user_embedding/embedding_weights"

    def model_fn(features, labels, mode, params):
        with v1.variable_scope("net"):
            user = p.embedding(fc.categorical_column_with_identity("user", 300))
            rows = v1.feature_column.input_layer(features, [user])
            logits = v1.layers.dense(rows, 1, name="dense")[:, 0]
            loss = v1.losses.sigmoid_cross_entropy(labels, logits)
            begin = {"by name": {name: name}, "by variable": {name: v1.trainable_variables(name)[0]}}.get(
                str(mapping), mapping)
            if params["begin"] and not late:
                v1.train.init_from_checkpoint(params["begin"], begin)
            train = v1.train.AdagradOptimizer(0.3).minimize(loss, v1.train.get_global_step())
            if params["begin"] and late:
                v1.train.init_from_checkpoint(params["begin"], begin)
        return v1.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    losses = {}
    for side in ("tensorflow", "device"):
        folders = [str(tmp_path / side / each) for each in ("first", "second")]
        with columns.on(side):
            losses[side] = [losses_of(v1.estimator.Estimator(model_fn, folder, columns.config(), {"begin": begin}))
                            for folder, begin in zip(folders, (None, folders[0]))]
    assert losses["device"][0] == losses["tensorflow"][0] != losses["device"][1]
    assert columns.difference(losses["device"][1], losses["tensorflow"][1]) <= 1e-6


def test_such_a_beginning_is_refused_in_a_session_that_runs_initializers_alone(trained):
    name = "dnn/input_from_feature_columns/input_layer/user_embedding/embedding_weights"
    with tf.Graph().as_default(), columns.on("device"):
        user = p.embedding(fc.categorical_column_with_identity("user", 300))
        v1.feature_column.input_layer(p.batch()[0], [user])
        with pytest.raises(ColumnError, match=r"asc\.warm_start\(checkpoint, \[variable\]\)"):
            v1.train.init_from_checkpoint(trained["device"], {name: v1.trainable_variables()[0]})


@pytest.mark.parametrize("make", [long(lambda: tf.distribute.MirroredStrategy(["/cpu:0"])),
                                  lambda: tf.distribute.OneDeviceStrategy("/cpu:0")], ids=["mirrored", "one device"])
def test_a_strategy_of_tensorflow_is_refused_for_tables_alone(make, tmp_path):
    config = columns.config().replace(train_distribute=make())
    wanted = [fc.embedding_column(words(50), 4)]
    with columns.on("device"):
        v1.estimator.DNNClassifier([4], wanted, str(tmp_path / "small"), config=config).train(read, steps=2)
        with pytest.raises(Exception, match="E251.*Remove train_distribute.*ascpipe run --ranks"):
            v1.estimator.DNNClassifier([4], [p.embedding(words())], str(tmp_path), config=config).train(read, steps=2)


@pytest.mark.parametrize("make", [
    long(lambda path: fc.categorical_column_with_vocabulary_list(
        "hour", ["hour-{}".format(each) for each in range(120)])),
    lambda path: fc.categorical_column_with_vocabulary_file("hour", path, num_oov_buckets=3)], ids=["list", "file"])
def test_vocabularies_serve_an_input_function_that_returns_tensors(make, tmp_path):
    (tmp_path / "hours").write_text("".join("hour-{}\n".format(each) for each in range(120)))

    def tensors():
        given = p.texts()
        data = tf.data.Dataset.from_tensor_slices(({"hour": given["hour"]}, given["label"] > 0.5))
        return v1.data.make_one_shot_iterator(data.batch(p.BATCH)).get_next()

    found = {}
    for side in ("tensorflow", "device"):
        hook = columns.EachLoss()
        with columns.on(side):
            estimator = v1.estimator.DNNClassifier(
                [4], [p.embedding(make(str(tmp_path / "hours")))], str(tmp_path / side), config=columns.config())
            estimator.train(tensors, [hook]).train(tensors, [hook])
            found[side] = [*hook.values, estimator.evaluate(tensors)["average_loss"]]
    assert columns.difference(found["device"], found["tensorflow"]) <= 1e-6


def first_of(folder):
    return classifier(model_dir=str(folder))


def longer_rows(folder):
    return v1.estimator.DNNClassifier([4], [fc.embedding_column(words(), 6, initializer=p.constant())], str(folder),
                                      config=columns.config())


def other_optimizer(folder):
    return classifier(model_dir=str(folder), optimizer="Ftrl")


def more_columns(folder):
    user = fc.categorical_column_with_identity("user", 300)
    return v1.estimator.DNNLinearCombinedClassifier(
        str(folder), linear_feature_columns=[user], dnn_feature_columns=[p.embedding(words()), p.embedding(user)],
        dnn_hidden_units=[4], config=columns.config())


@pytest.mark.parametrize("second", [longer_rows, long(other_optimizer), long(more_columns)])
def test_estimators_of_one_program_have_tables_of_their_own(second, tmp_path):
    found = {}
    for side in ("tensorflow", "device"):
        with columns.on(side):
            made = [first_of(tmp_path / side / "first"), second(tmp_path / side / "second")]
            losses = [losses_of(each) for each in made]
            evaluated = [each.evaluate(read)["average_loss"] for each in made]
            losses += [losses_of(each) for each in made]
            found[side] = [*sum(losses, []), *evaluated]
    assert columns.difference(found["device"], found["tensorflow"]) <= 1e-5


# ---- variables and their gradients

def scaled(factors_of):
    """An optimizer of a program that scales gradients by what it reads of their variables."""
    class Scaled:
        def minimize(self, loss):
            optimizer = p.gradient_descent()
            pairs = factors_of(optimizer.compute_gradients(loss))
            return optimizer.apply_gradients(pairs)

    return Scaled


def by_name(pairs):
    return [(tf.IndexedSlices(3 * gradient.values, gradient.indices, gradient.dense_shape)
             if variable.name.startswith("tower/input_layer") else gradient, variable) for gradient, variable in pairs]


def by_variable(pairs):
    return contrib("training").multiply_gradients(pairs, {v1.trainable_variables("tower/input_layer")[0]: 3.0})


def in_collection(pairs):
    known = v1.trainable_variables("tower")
    return [pair for pair in pairs if any(pair[1] is variable for variable in known)]


@pytest.mark.parametrize("factors_of", [by_name, by_variable, in_collection])
def test_gradients_are_known_by_the_variables_of_tensorflow(factors_of):
    def build(features):
        with v1.variable_scope("tower"):
            user = p.embedding(fc.categorical_column_with_identity("user", 300))
            return v1.feature_column.input_layer(features, [user])

    make = scaled(factors_of)
    p.require_same(p.trained("device", build, make), p.trained("tensorflow", build, make), 1e-6)


def test_an_optimizer_over_ranks_averages_gradients_of_variables_alone(monkeypatch):
    averaged = []

    def allreduce(gradient, op):
        averaged.append(gradient)
        return gradient

    module = types.SimpleNamespace(Average=None, allreduce=allreduce)
    monkeypatch.setattr(dense_variables, "joined", lambda: types.SimpleNamespace(module=module))
    with tf.Graph().as_default(), columns.on("device"):
        features, _ = p.batch()
        bias = v1.get_variable("bias", [], initializer=v1.zeros_initializer())
        loss = p.loss_of(layer(features) + bias, features["label"])
        pairs = asc.DistributedOptimizer(p.gradient_descent()).compute_gradients(loss)
        assert len(pairs) == 2 and [gradient for gradient, variable in pairs if variable is bias] == averaged


def test_a_table_that_no_gradient_reaches_stays_as_it_began():
    def build(features):
        with v1.variable_scope("fixed"):
            user = p.embedding(fc.categorical_column_with_identity("user", 300))
            fixed = tf.stop_gradient(v1.feature_column.input_layer(features, [user]))
        return tf.concat([layer(features), fixed], axis=1)

    p.require_same(p.trained("device", build), p.trained("tensorflow", build))
    p.require_same(p.trained("host", build), p.trained("tensorflow", build))


def test_averages_of_variables_that_have_no_rows_are_told_once(caplog):
    with tf.Graph().as_default(), columns.on("device"):
        features, iterator = p.batch(repeat=True)
        loss = p.loss_of(layer(features), features["label"])
        train = p.gradient_descent().minimize(loss)
        with tf.control_dependencies([train]):
            train = tf.train.ExponentialMovingAverage(0.9).apply(v1.trainable_variables())
        with programs.session() as session, caplog.at_level(logging.WARNING):
            session.run([iterator.initializer, v1.global_variables_initializer()])
            session.run(train)
            session.run(train)
    (said,) = [each.getMessage() for each in caplog.records if "find no rows" in each.getMessage()]
    assert "words_embedding/embedding_weights" in said and "ExponentialMovingAverage" in said


def test_what_every_variable_has_is_not_told(caplog, tmp_path):
    with columns.on("device"), caplog.at_level(logging.WARNING):
        estimator = classifier(model_dir=str(tmp_path))
        estimator.train(read)
        estimator.evaluate(read)
    assert not [each for each in caplog.records if "find no rows" in each.getMessage()]
