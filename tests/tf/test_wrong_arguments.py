"""A wrong argument of a public function is refused at once, by a text that names it."""
import inspect
import os

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.tf import twin_programs

ZEROS = tf.compat.v1.zeros_initializer()


class Nothing:
    """What is no value of any argument."""

    def __repr__(self):
        return "<nothing>"


def table():
    return asc.create_table("users", 2, initializer=ZEROS, device_vocabulary_size=10)


def column():
    return tf.feature_column.categorical_column_with_hash_bucket("c", 9)


def bags():
    return tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0], tf.int64), [1, 1])


def saver():
    tf.compat.v1.get_variable("v", [1])
    return asc.Saver()


class Exporter:
    """Has the method of an Estimator that an export calls."""

    def export_saved_model(self, export_dir_base, serving_input_receiver_fn):
        raise NotImplementedError


#: of each public function or class, arguments that are right
RIGHT = {
    asc.BroadcastGlobalVariablesHook: dict,
    asc.DistributedOptimizer: lambda: {"optimizer": tf.compat.v1.train.AdamOptimizer()},
    asc.EvictHook: dict,
    asc.FeatureSpec: lambda: {"name": "u"},
    asc.GraphModifierHook: dict,
    asc.LookupSubgraphSlicerHook: lambda: {"op_types": ["Cast"]},
    asc.Optimizer: lambda: {"dense": tf.compat.v1.train.AdamOptimizer(), "sparse": tf.compat.v1.train.AdamOptimizer()},
    asc.SummaryHook: lambda: {"output_dir": "x"},
    asc.broadcast_global_variables: dict,
    asc.clip_by_global_norm: lambda: {"t_list": [tf.zeros([1])], "clip_norm": 1.0},
    asc.create_table: lambda: {"name": "users", "dim": 2, "initializer": ZEROS, "device_vocabulary_size": 10},
    asc.export_delta: lambda: {"checkpoint": "/tmp/none/model-1", "to": "/tmp/none/updates"},
    asc.export_rows: lambda: {"checkpoint": "/tmp/none/model-1", "table": "users", "to": "/tmp/none/rows"},
    asc.export_saved_model: lambda: {
        "estimator": Exporter(), "export_dir_base": "/tmp/none", "serving_input_receiver_fn": {}.copy},
    asc.export_tables: lambda: {"prefix": "/tmp/none/model-1"},
    asc.from_tensorflow: lambda: {"checkpoint": "/tmp/none/model-1", "variable": "v", "table": "users",
                                  "to": "/tmp/none/new-1"},
    asc.global_norm: lambda: {"t_list": [tf.zeros([1])]},
    asc.import_rows: lambda: {"into": "/tmp/none/model-1", "table": "users", "source": "/tmp/none/rows"},
    asc.insert_function: lambda: {"features": asc.FeatureSpec("users")},
    asc.lookup_concat: lambda: {"values": [tf.zeros([1, 1])]},
    asc.lookup_sparse: lambda: {"table": table(), "ids": bags()},
    asc.set_threshold: lambda: {"threshold": 1, "emb_name": table().table_name},
    asc.sparse_lookup: lambda: {"table": table(), "ids": tf.zeros([1], tf.int64)},
    asc.to_tensorflow: lambda: {"checkpoint": "/tmp/none/model-1", "table": "users", "variable": "v",
                                "to": "/tmp/none/new-1"},
    asc.trained_batches: lambda: {"prefix": "/tmp/none/model-1"},
    asc.trigger_evict: lambda: {"session": tf.compat.v1.Session()},
    asc.use_for_feature_columns: dict,
    asc.warm_start: lambda: {"ckpt_to_initialize_from": "/tmp/none/model-1"},
    asc.optimizers.Adagrad: lambda: {"learning_rate": 0.1},
    asc.optimizers.Ftrl: lambda: {"learning_rate": 0.1},
    asc.optimizers.GradientDescent: lambda: {"learning_rate": 0.1},
    asc.optimizers.LazyAdam: dict,
    asc.optimizers.accumulate: lambda: {"optimizer": tf.compat.v1.train.AdamOptimizer(), "k": 2},
    asc.feature_column.categorical_column_with_int64: lambda: {"key": "k"},
    asc.feature_column.embedding_column: lambda: {"categorical_column": column(), "dimension": 2},
    asc.feature_column.linear_weights: lambda: {"categorical_column": column()},
    asc.feature_column.shared_embedding_columns: lambda: {"categorical_columns": [column()], "dimension": 2},
}
#: without arguments, of TensorFlow's own, or covered below
OTHERS = {"CheckpointSaverHook", "OrphanLookupKeySlicerHook", "Saver", "StartHook", "Table", "init", "pipeline",
          "reset", "served_updates", "served_version", "serving_tables", "shutdown", "start", "table_variables",
          "wait_for_save"}
#: arguments whose texts have another word for them
SAID = {"prefix": "Checkpoint path"}
#: what TensorFlow is handed as it is
THEIRS = {(asc.clip_by_global_norm, "clip_norm"), (asc.clip_by_global_norm, "use_norm"),
          (asc.clip_by_global_norm, "name"), (asc.global_norm, "name"), (asc.Optimizer, "name"),
          (asc.sparse_lookup, "batch"), (asc.lookup_sparse, "batch"),  # without effect beside a tensor of ids
          (asc.FeatureSpec, "feat_count")}


@pytest.fixture
def graph():
    with twin_programs.ascpipe():
        yield


def test_every_public_function_is_asked_here():
    modules = (asc, asc.optimizers, asc.feature_column)
    public = {getattr(module, name) for module in modules for name in module.__all__}
    public = {one for one in public if not inspect.ismodule(one)}
    assert public - set(RIGHT) == {getattr(asc, name) for name in OTHERS}


@pytest.mark.parametrize("function", RIGHT, ids=lambda function: function.__name__)
def test_what_is_no_value_at_all_is_refused_by_a_text_that_names_the_argument(function, graph):
    for name in inspect.signature(function).parameters:
        if (function, name) in THEIRS:
            continue
        with tf.Graph().as_default():
            arguments = {**RIGHT[function](), name: Nothing()}
            with pytest.raises((ValueError, TypeError)) as caught:
                function(**arguments)
        assert SAID.get(name, name) in str(caught.value) and len(str(caught.value)) < 600, (name, caught.value)


def restore(**arguments):
    return saver().restore(**{"sess": tf.compat.v1.Session(), "save_path": "/tmp/none/model-1", **arguments})


def save(**arguments):
    return saver().save(**{"sess": tf.compat.v1.Session(), "save_path": "/tmp/none/model", **arguments})


def serve(prefix):
    with asc.serving_tables(prefix):
        pass


WRONG = {
    "a range without an end as columns": ("values", lambda: asc.lookup_concat(range(10 ** 12))),
    "text as columns": ("values", lambda: asc.lookup_concat("abc")),
    "texts as columns": (r"values\[0\]", lambda: asc.lookup_concat(["abc"])),
    "a set of columns": ("values", lambda: asc.lookup_concat({1.0})),
    "no columns": ("values: length is less than 1", lambda: asc.lookup_concat([])),
    "text as a threshold": ("threshold: 'x' is str", lambda: asc.set_threshold("x")),
    "a fraction as a threshold": ("threshold: 2.9 is float", lambda: asc.set_threshold(2.9)),
    "a tensor of fractions as a threshold": ("threshold: <tf.Tensor", lambda: asc.set_threshold(tf.constant(2.0))),
    "several thresholds": ("threshold: <tf.Tensor", lambda: asc.set_threshold(tf.constant([1, 2]))),
    "a list as the name of a table": ("emb_name", lambda: asc.set_threshold(1, emb_name=[])),
    "text as a session": ("session: 'x' is str, expected a session", lambda: asc.trigger_evict("x")),
    "the class of sessions": ("session", lambda: asc.trigger_evict(tf.compat.v1.Session)),
    "a name in the place of names": ("allow_missing: 'users' is str", lambda: restore(allow_missing="users")),
    "numbers in the place of names": ("allow_missing: 1 is not str", lambda: restore(allow_missing=[1])),
    "a yes that is a word": ("allow_unverified", lambda: restore(allow_unverified="yes")),
    "no session to restore in": ("sess", lambda: restore(sess="x")),
    "no session to save": ("sess", lambda: save(sess="x")),
    "a background that is a word": ("background", lambda: save(background="yes")),
    "a delta that is a word": ("save_delta", lambda: save(save_delta="yes")),
    "a hook's background that is a word": ("background_save", lambda: asc.CheckpointSaverHook(
        "x", save_steps=1, background_save="yes")),
    "a regular expression that is none": ("vars_to_warm_start", lambda: asc.warm_start("/tmp/none", "(")),
    "a path with a NUL byte to begin with": ("ckpt_to_initialize_from", lambda: asc.warm_start("a\0b")),
    "a path with a NUL byte to serve": ("Checkpoint path", lambda: serve("a\0b")),
    "a number to serve": ("Checkpoint path", lambda: serve(1)),
    "a folder for scalars with a NUL byte": ("output_dir", lambda: asc.SummaryHook(output_dir="a\0b")),
    "a default row of another length": ("default_value", lambda: asc.sparse_lookup(
        table(), tf.zeros([1], tf.int64), default_value=np.zeros(7))),
    "a number as pretrained rows": ("argument pretrained|parameter pretrained", lambda: asc.create_table(
        "users", 2, initializer=ZEROS, device_vocabulary_size=2, pretrained=7)),
    "a dim below 1": (r"create_table\(\): argument dim: 0 is less than 1", lambda: asc.create_table(
        "users", 0, initializer=ZEROS, device_vocabulary_size=10)),
    "the name of a table as the table": (
        r"sparse_lookup\(\): Invalid parameter type of parameter table: 'users' is str, expected Table",
        lambda: asc.sparse_lookup("users", tf.zeros([1], tf.int64))),
    "a name of ten million characters": ("argument name", lambda: asc.create_table(
        "x" * 10 ** 7, 2, initializer=ZEROS, device_vocabulary_size=10)),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_argument_is_refused_by_a_text_that_names_it(what, graph):
    said, call = WRONG[what]
    with pytest.raises((ValueError, TypeError), match=said) as caught:
        call()
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("path", ["dis\0ks", "disks\n", "d\ud800", "\x1b[31m"])
def test_a_directory_for_rows_that_no_file_can_have_makes_no_file_elsewhere(path, graph, tmp_path):
    (tmp_path / "dis").mkdir()
    with pytest.raises(ValueError, match=r"ssd_data_path\[0\]"):
        asc.create_table("users", 2, initializer=ZEROS, device_vocabulary_size=2, host_vocabulary_size=4,
                         ssd_vocabulary_size=4, ssd_data_path=str(tmp_path / path))


def test_a_working_directory_without_a_name_in_utf_8_is_refused_by_a_text_that_names_the_argument(graph, tmp_path):
    folder = tmp_path / "\udce9"
    folder.mkdir()
    os.chdir(str(folder))
    with pytest.raises(ValueError, match="ssd_data_path.*not UTF-8"):
        asc.create_table("users", 2, initializer=ZEROS, device_vocabulary_size=2, host_vocabulary_size=4,
                         ssd_vocabulary_size=4)
