"""Uses columns, Keras and Estimators before ``init``, after it, or in a program before; each order in a fork.

Prints a JSON object: by name of the order, what came of it. Arguments: which orders (``all``, or one of two halves,
``first`` and ``second``), then the modules to import first, in this order.
"""
import importlib
import json
import os
import sys
import warnings

warnings.simplefilter("ignore")
FIRST = [importlib.import_module(name) for name in sys.argv[2:]]

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import ascpipe.tf as asc  # noqa: E402
from ascpipe.control import trainer_link  # noqa: E402
from ascpipe.tf.graph.graph_state import GraphState  # noqa: E402
from ascpipe.tf.graph.stand_ins import StandIns  # noqa: E402
from tests.support.tensorflows import use_tensorflow_1  # noqa: E402

use_tensorflow_1()

v1, fc = tf.compat.v1, tf.feature_column
tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
ORDERS = {}
HALVES = {"first": (0, 3), "second": (1, 2)}  #: of each four orders; both have uses before `init` and after it


class SeenError(Exception):
    """Ends an Estimator once its model function was called."""


def begin(api="ascpipe"):
    """Call ``init``, of one of the two APIs."""
    if api == "ascpipe":
        asc.init()
    else:
        importlib.import_module("mx_rec.util.initialize").init()


def order(function):
    """Note a program that is run in a process of its own; its name says what it does in which order."""
    ORDERS[function.__name__] = function
    return function


def refusal(act):
    """Return the class of what an act raises, and the beginning of its text; None: it raises nothing."""
    try:
        act()
    except Exception as error:  # noqa: BLE001  that is what is asked
        return [type(error).__name__, str(error)[:300]]
    return None


# ---- feature columns

def words():
    return fc.categorical_column_with_hash_bucket("words", 20000)


def features():
    return {"words": tf.SparseTensor([[0, 0], [1, 0]], ["a", "b"], [2, 1])}


def tables():
    """Return the names of the variables that tables stand for in the default graph."""
    return sorted(StandIns.of(GraphState.of(v1.get_default_graph())))


@order
def column_then_choice():
    column = fc.embedding_column(words(), 4)
    asc.use_for_feature_columns()
    v1.feature_column.input_layer(features(), [column])
    return tables()


@order
def choice_then_column():
    asc.use_for_feature_columns()
    v1.keras.layers.DenseFeatures([fc.embedding_column(words(), 4)])(features())
    return tables()


@order
def layer_then_choice():
    layer = v1.keras.layers.DenseFeatures([fc.embedding_column(words(), 4)])
    asc.use_for_feature_columns()
    layer(features())
    return tables()


@order
def column_of_ours_then_init(api="ascpipe"):
    column = asc.feature_column.embedding_column(words(), 4)
    begin(api)
    v1.feature_column.input_layer(features(), [column])
    return tables()


@order
def column_of_ours_then_init_of_mx_rec():
    return column_of_ours_then_init("mx_rec")


@order
def layer_of_ours_then_init():
    layer = v1.keras.layers.DenseFeatures([asc.feature_column.embedding_column(words(), 4)])
    begin()
    layer(features())
    return tables()


@order
def init_then_column_of_ours():
    begin()
    v1.keras.layers.DenseFeatures([asc.feature_column.embedding_column(words(), 4)])(features())
    return tables()


@order
def shared_columns_then_init():
    columns = asc.feature_column.shared_embedding_columns([words()], 4)
    begin()
    v1.feature_column.input_layer(features(), columns)
    return tables()


@order
def linear_weights_then_init():
    column = asc.feature_column.linear_weights(words())
    begin()
    v1.feature_column.linear_model(features(), [column])
    return tables()


@order
def columns_of_a_program_before():
    columns = [asc.feature_column.linear_weights(words())]
    begin()
    asc.shutdown()
    begin()
    v1.feature_column.linear_model(features(), columns)
    return tables()


@order
def column_without_a_program():
    begin()
    asc.shutdown()
    column = asc.feature_column.embedding_column(words(), 4)
    return refusal(lambda: v1.feature_column.input_layer(features(), [column]))


# ---- Keras

def rows():
    """Look ids up, as a model of Keras would take the rows."""
    spec = asc.FeatureSpec("ids", table_name="t")
    data = tf.data.Dataset.from_tensors({"ids": np.arange(4)}).map(asc.insert_function(spec)).prefetch(2)
    batch = v1.data.make_one_shot_iterator(data).get_next()
    table = asc.create_table("t", 4, initializer=tf.zeros_initializer(), device_vocabulary_size=10)
    return asc.sparse_lookup(table, spec, batch=batch)


def over(given):
    model = tf.keras.Model(given, tf.keras.layers.Dense(1)(given))
    model.compile("sgd", "mse", target_tensors=[tf.zeros([4, 1])])
    return model


@order
def model_after_init():
    begin()
    return refusal(lambda: over(tf.keras.Input(tensor=rows())).predict(None, steps=1))


@order
def another_model_before_init():
    over(tf.keras.Input([4]))
    begin("mx_rec")
    return refusal(lambda: over(tf.keras.Input(tensor=rows())).fit(steps_per_epoch=1, verbose=0))


@order
def the_model_before_init():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    begin()
    return refusal(lambda: model.fit(rows(), tf.zeros([4, 1]), steps_per_epoch=1, verbose=0))


@order
def model_of_a_program_before():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    begin()
    asc.shutdown()
    begin()
    return refusal(lambda: model.predict(rows(), steps=1))


# ---- Estimators

def estimator(kind=tf.compat.v1.estimator.Estimator):
    """Return an Estimator, and a list that receives what its model function sees: mode, whether it is exported."""
    seen = []

    def model_fn(features, labels, mode):
        state = GraphState.of(v1.get_default_graph())
        seen.extend([state.mode, state.served is not None])
        raise SeenError

    return kind(model_fn, "/tmp/never-written"), seen


def given():
    GraphState.of(v1.get_default_graph())
    return tf.data.Dataset.from_tensors(({"x": [1.0]}, [1.0]))


def receiver():
    return tf.compat.v1.estimator.export.ServingInputReceiver({"x": tf.zeros([1])}, {"x": v1.placeholder(tf.float32)})


def acts(one):
    return {"train": lambda: one.train(given, steps=1),
            "evaluate": lambda: one.evaluate(given, steps=1, checkpoint_path="/tmp/never-written/model"),
            "predict": lambda: next(one.predict(given, checkpoint_path="/tmp/never-written/model")),
            "export": lambda: one.export_saved_model("/tmp/never-written/export", receiver,
                                                     checkpoint_path="/tmp/never-written/model")}


def act(name, one, seen):
    """Let an Estimator do one thing."""
    try:
        acts(one)[name]()
    except SeenError:
        return seen
    return None


class Derived(tf.compat.v1.estimator.Estimator):
    """An Estimator whose class the program has made before ``init``."""


for _name in ("train", "evaluate", "predict", "export"):
    for _api in ("ascpipe", "mx_rec"):
        def _before(name=_name, api=_api):
            one, seen = estimator()
            begin(api)
            return act(name, one, seen)

        def _after(name=_name, api=_api):
            begin(api)
            return act(name, *estimator(Derived))

        ORDERS["{}_of_an_estimator_before_init_of_{}".format(_name, _api)] = _before
        ORDERS["{}_of_an_estimator_after_init_of_{}".format(_name, _api)] = _after


@order
def export_of_an_estimator_of_a_program_before():
    begin()
    one, seen = estimator()
    asc.shutdown()
    begin()
    return act("export", one, seen)


# ---- hooks

@order
def saver_hook_before_init():
    hook = v1.train.CheckpointSaverHook("/proc/model", save_steps=1)
    begin()
    asc.create_table("t", 4, initializer=tf.zeros_initializer(), device_vocabulary_size=10)
    return refusal(hook.begin)


@order
def saver_hook_before_init_with_deltas():
    v1.train.create_global_step()
    v1.summary.FileWriterCache.get = lambda folder: None
    hook = v1.train.CheckpointSaverHook("/tmp/never-written", save_steps=1)
    asc.init(is_incremental_checkpoint=True, save_checkpoint_due_time=3, save_delta_checkpoints_secs=1)
    hook.begin()
    return [type(hook._timer).__module__, type(hook._saver).__module__]


def in_a_fork(function):
    """Return what a function returns in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            trainer_link.begin = lambda daemon: None  # no pipeline is started here
            os.write(writer, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text or '"died"')


if __name__ == "__main__":
    places = HALVES.get(sys.argv[1], range(4))
    chosen = [each for number, each in enumerate(ORDERS.items()) if number % 4 in places]
    sys.stdout.write(json.dumps({name: in_a_fork(function) for name, function in chosen}))
