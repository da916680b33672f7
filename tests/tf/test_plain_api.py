"""``import ascpipe.tf as asc``: its names, what loading it costs, and that it trains as the paths of Rec SDK do."""
import inspect
import operator
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.tf import validation
from tests.support import tree
from tests.tf import programs

SOURCE = programs.batches(6)
LOADED = """
import sys
import ascpipe.tf as asc
print(sorted(name for name in sys.modules if name.startswith(("ascpipe.tf.", "tensorflow"))))
"""
#: by name of the plain optimizer, the name in the other one's tests and its arguments there
OPTIMIZERS = {"LazyAdam": ("lazy_adam", {}), "Adagrad": ("adagrad", {"initial_accumulator_value": 0.1}),
              "GradientDescent": ("gradient_descent", {}), "Ftrl": ("ftrl", {})}
MODULES = ("data", "feature_column", "optimizers")  #: of the public names


@pytest.mark.parametrize("name, text", [
    ("Adam", "use LazyAdam"), ("AdamOptimizer", "use LazyAdam"), ("AdamW", "use LazyAdam"),
    ("SGD", "use GradientDescent"), ("FtrlOptimizer", "use Ftrl"), ("AdaGrad", "use Adagrad"),
    ("Adagard", "use Adagrad"),
    ("Momentum", r"MomentumOptimizer\(\.\.\.\)\.minimize\(loss, var_list=.*asc\.table_variables\(\)"),
    ("RMSProp", r"tf\.compat\.v1\.train\.RMSPropOptimizer"),
    ("Lion", "there are Adagrad, Ftrl, GradientDescent, LazyAdam")])
def test_an_optimizer_that_is_not_there_is_an_error_that_says_what_to_use(name, text):
    with pytest.raises(AttributeError, match=text):
        getattr(asc.optimizers, name)
    assert not hasattr(asc.optimizers, name)


def test_dir_shows_the_public_names_and_each_is_there():
    assert dir(asc) == asc.__all__ == sorted(asc.__all__)
    for name in asc.__all__:
        assert getattr(asc, name) is not None
    homes = [name for names in asc._HOMES.values() for name in names.split()]
    assert sorted([*homes, *MODULES]) == asc.__all__


def test_loading_it_loads_neither_tensorflow_nor_its_own_rooms():
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=str(tree.ROOT), stdout=subprocess.PIPE, check=True,
                          timeout=30)
    assert done.stdout.decode().strip() == "[]"


def test_a_name_that_is_not_there_is_an_error_that_names_the_nearest():
    with pytest.raises(AttributeError, match=r"'ascpipe.tf' has no attribute 'create_tabel'; did you mean create_tab"):
        asc.create_tabel  # noqa: B018
    with pytest.raises(ImportError):
        from ascpipe.tf import nothing_of_the_kind  # noqa: F401


@pytest.mark.parametrize("name", [
    *(name for name in asc.__all__ if name not in MODULES),
    *("data." + name for name in asc.data.__all__),
    *("feature_column." + name for name in asc.feature_column.__all__)])
def test_every_public_name_has_a_docstring_and_types(name):
    thing = operator.attrgetter(name)(asc)
    assert inspect.getdoc(thing)
    function = inspect.unwrap(thing) if inspect.isfunction(thing) else thing.__init__
    if not inspect.isclass(thing) or "__init__" in vars(thing):
        for parameter in list(inspect.signature(function).parameters.values())[inspect.isclass(thing):]:
            assert parameter.annotation is not inspect.Parameter.empty, parameter


def losses_of(optimizer, tier=None, tensors=False, expands=False, var_list=None):
    """Losses of the tests' model, written with plain names; dense variables and tables by one optimizer."""
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(1)
        asc.init(use_dynamic_expansion=expands)
        try:
            initializer = tf.compat.v1.random_normal_initializer(stddev=0.3, seed=11)
            sizes = {} if expands else tier or {"device_vocabulary_size": 100}
            user, item = (asc.create_table(name, programs.DIM, initializer=initializer, **sizes)
                          for name in ("user", "item"))
            features = programs.specs()
            data = programs.dataset(SOURCE)
            if not tensors:
                data = data.map(asc.insert_function(features))
            iterator = tf.compat.v1.data.make_initializable_iterator(data.prefetch(4))
            batch = iterator.get_next()
            rows = [asc.sparse_lookup(table, batch[key] + 0 if tensors else spec, batch=None if tensors else batch)
                    for table, spec, key in zip((user, user, item), features, "abc")]
            loss = programs.model(rows, batch["label"])
            chosen = var_list and var_list()
            train = optimizer().minimize(loss, var_list=chosen)
            asc.start()
            with programs.session() as run:
                run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
                found = [run.run([loss, train])[0] for _ in SOURCE]
                return found, run.run(tf.compat.v1.trainable_variables("dense"))[0], user.size()
        finally:
            asc.shutdown()


def losses_of_rec_sdk(name, arguments, **init_arguments):
    def dense(rate):
        return {"lazy_adam": lambda: tf.compat.v1.train.AdamOptimizer(rate),
                "adagrad": lambda: tf.compat.v1.train.AdagradOptimizer(rate, 0.1),
                "gradient_descent": lambda: tf.compat.v1.train.GradientDescentOptimizer(rate),
                "ftrl": lambda: tf.compat.v1.train.FtrlOptimizer(rate)}[name]()

    plain = programs.apply

    def apply(loss, variables, sparse_optimizer, handles=None):
        return plain(loss, variables, sparse_optimizer, dense(0.1), handles)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "apply", apply)
        return programs.our_losses(SOURCE, lambda: programs.optimizer(name, 0.1, **arguments), **init_arguments)


@pytest.mark.parametrize("plain", OPTIMIZERS)
def test_one_optimizer_trains_tables_and_variables_as_two_do_under_the_paths_of_rec_sdk(plain):
    name, arguments = OPTIMIZERS[plain]
    found, weights, size = losses_of(lambda: getattr(asc.optimizers, plain)(learning_rate=0.1))
    np.testing.assert_allclose(found, losses_of_rec_sdk(name, arguments), rtol=1e-6)
    assert not np.all(weights == np.float32(0.1)) and size > 0


@pytest.mark.parametrize("plain", [name for name in OPTIMIZERS if name != "Ftrl"])
def test_tables_that_grow_are_trained_by_the_same_call(plain):
    name, arguments = OPTIMIZERS[plain]
    found, weights, size = losses_of(lambda: getattr(asc.optimizers, plain)(learning_rate=0.1), expands=True)
    np.testing.assert_allclose(found, losses_of_rec_sdk(name, arguments, use_dynamic_expansion=True), rtol=1e-6)
    assert not np.all(weights == np.float32(0.1)) and size > 0


@pytest.mark.parametrize("expands", [False, True])
def test_lookups_of_tensors_train_as_those_of_features(expands):
    def optimizer():
        return asc.optimizers.Adagrad(0.1)

    assert losses_of(optimizer, tensors=True, expands=expands)[0] == losses_of(optimizer, expands=expands)[0]


@pytest.mark.parametrize("expands", [False, True])
def test_with_the_tables_alone_as_var_list_variables_stay(expands):
    _, weights, size = losses_of(lambda: asc.optimizers.LazyAdam(0.1), expands=expands, var_list=asc.table_variables)
    assert np.all(weights == np.float32(0.1)) and size > 0


def test_a_table_with_host_rows_trains_as_one_on_the_device():
    def optimizer():
        return asc.optimizers.GradientDescent(0.1, weight_decay=0.01)

    tier = {"device_vocabulary_size": 30, "host_vocabulary_size": 200}
    assert losses_of(optimizer, tier=tier)[0] == losses_of(optimizer)[0]


def test_ftrl_says_that_it_does_not_train_tables_that_grow():
    with tf.Graph().as_default():
        asc.init(use_dynamic_expansion=True)
        try:
            with pytest.raises(ValueError, match="Use LazyAdam, Adagrad or GradientDescent"):
                asc.optimizers.Ftrl(0.1)
        finally:
            asc.shutdown()


# ---- wrong arguments: the sentence names what was typed ---------------------------------------------------

ZEROS = tf.compat.v1.zeros_initializer()
WRONG = {
    "a table without a size": (ValueError, "E268: Table 'users' has no size. Pass device_vocabulary_size",
                               lambda: asc.create_table("users", 8, initializer=ZEROS)),
    "a size that is misspelt": (TypeError, r"create_table\(\): .*'device_vocab_size'; did you mean device_vocabulary_s",
                                lambda: asc.create_table("users", 8, initializer=ZEROS, device_vocab_size=10)),
    "an initializer that is none": (ValueError, "parameter initializer: 0.1 is float", lambda: asc.create_table(
        "users", 8, initializer=0.1, device_vocabulary_size=10)),
    "padding keys that are none": (ValueError, "argument padding_keys", lambda: asc.create_table(
        "users", 8, initializer=ZEROS, device_vocabulary_size=10, padding_keys="0")),
    "the table of a feature": (TypeError, r"FeatureSpec\(\): .*'table'; did you mean table_name\?",
                               lambda: asc.FeatureSpec("u", table="x")),
    "features that are none": (ValueError, "parameter features", lambda: asc.insert_function("users")),
    "is_training": (TypeError, r"insert_function\(\): .*'is_training'; did you mean training\?",
                    lambda: asc.insert_function(asc.FeatureSpec("u"), is_training=True)),
    "is_train": (TypeError, r"sparse_lookup\(\): .*'is_train'; did you mean training\?",
                 lambda: asc.sparse_lookup(None, None, is_train=True)),
    "an optimizer's rate": (TypeError, r"Adagrad\(\): .*it was given 'learning_rat'; did you mean learning_rate\?",
                            lambda: asc.optimizers.Adagrad(learning_rat=0.1)),
    "an optimizer's range": (ValueError, "argument initial_accumulator_value", lambda: asc.optimizers.Adagrad(
        0.1, initial_accumulator_value=0)),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_error_names_what_was_typed(what):
    error, said, call = WRONG[what]
    with tf.Graph().as_default():
        asc.init()
        try:
            with pytest.raises(error, match=said):
                call()
        finally:
            asc.shutdown()


def test_static_shapes_ask_for_max_keys():
    with tf.Graph().as_default():
        asc.init(use_dynamic=False)
        try:
            table = asc.create_table("users", 2, initializer=ZEROS, device_vocabulary_size=10)
            with pytest.raises(ValueError, match="is looked up without max_keys"):
                asc.sparse_lookup(table, asc.FeatureSpec("users"))
        finally:
            asc.shutdown()


def test_where_nothing_is_near_nothing_is_suggested():
    assert validation.did_you_mean("zzz", ["name"]) == ""
