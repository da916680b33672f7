"""What an Estimator exports is served by TensorFlow and the op library alone, and gives what ``predict`` gives."""
import errno
import functools
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

import ascpipe.tf as asc
from ascpipe.checkpoint import disk
from ascpipe.checkpoint.errors import CheckpointError, CheckpointMismatchError, DamagedCheckpointError
from ascpipe.checkpoint.retention import complete_checkpoints, is_delta
from ascpipe.cli.main import main
from ascpipe.errors import NotBuiltYetError, ServingError
from ascpipe.tf import Saver, lookup_sparse, serving_tables
from ascpipe.tf.incumbent.ascend.estimator import NPUEstimator
from ascpipe.tf.running import native
from ascpipe.tf.running.process import Process
from ascpipe.tfops import load
from mx_rec.core.asc import get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.graph import GraphModifierHook
from mx_rec.graph.merge_lookup import do_merge_lookup
from mx_rec.optimizers import lazy_adam
from tests.tf import programs
from tests.tf.estimators import event_files
from tests.tf.test_deltas import INCREMENTAL

SOURCE = programs.batches(8)
PROBES = programs.batches(3, seed=5, keys=60)  # a third of the keys is unknown
TIERS = {"user": {"device_vocabulary_size": 24, "host_vocabulary_size": 100}, "item": {"device_vocabulary_size": 100}}
PREDICT, TRAIN = tf.compat.v1.estimator.ModeKeys.PREDICT, tf.compat.v1.estimator.ModeKeys.TRAIN

pytestmark = [pytest.mark.timeout_s(180), pytest.mark.filterwarnings("ignore:distutils Version classes")]

#: Serves SavedModels without anything of ours but the library, or not even that: each argument is a directory of one.
SERVER = """
import os, sys
import numpy as np
import tensorflow as tf
library, inputs, *exported = sys.argv[1:]
if library:
    tf.load_op_library(library)
config = tf.compat.v1.ConfigProto(
    inter_op_parallelism_threads=1, intra_op_parallelism_threads=1, use_per_session_threads=True)
batches = np.load(inputs)
for path in exported:
    results = {}
    with tf.compat.v1.Session(graph=tf.Graph(), config=config) as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        for number in sorted({name.split(".")[0] for name in batches}):
            feeds = {tensor.name: batches["{}.{}".format(number, key)] for key, tensor in signature.inputs.items()}
            outputs = {name: tensor.name for name, tensor in signature.outputs.items()}
            for name, value in session.run(outputs, feeds).items():
                results["{}.{}".format(number, name)] = value
        assert {op.type for op in session.graph.get_operations() if op.type.startswith("Asc")} in ([
            {"AscServedTable", "AscOpenServedTable", "AscServedLookup"}, {
                "AscServedWatch", "AscOpenWatchedTable", "AscStartServedWatch", "AscServedVersion",
                "AscWatchedLookup"}] if library else [set()])
    np.savez(os.path.join(path, "results.npz"), **results)
assert not [name for name in sys.modules if name.startswith(("ascpipe", "mx_rec", "zmq"))]
with open("/proc/self/maps") as maps:
    assert not [line for line in maps if "/dev/shm" in line or "memfd" in line]
"""


def served(folder, *exported, library=None):
    """By SavedModel, what each probe gives in a process that knows nothing of ascpipe."""
    library = load.library_path() if library is None else library
    inputs = str(folder / "inputs.npz")
    np.savez(inputs, **{"{}.{}".format(number, key): value
                        for number, batch in enumerate(PROBES) for key, value in batch.items()})
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SERVER, library, inputs, *exported],
                          check=False, cwd=str(folder), env={**os.environ, "PYTHONPATH": ""}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    found = {}
    for path in exported:
        results = np.load(os.path.join(path, "results.npz"))
        found[path] = [{name: results["{}.{}".format(number, name)] for name in ("score", "rows", "default")}
                       for number in range(len(PROBES))]
    return found


class Job:
    """An Estimator over two tables, with FeatureSpecs or with tensors."""

    def __init__(self, folder, kind=tf.compat.v1.estimator.Estimator, *, tensors=False,
                 dim=programs.DIM, names=("user", "item"),
                 serves_training=False):
        self._tensors, self._dim, self._names, self._serves_training = tensors, dim, names, serves_training
        self._hooks = [GraphModifierHook()] if tensors else []
        config = tf.compat.v1.estimator.RunConfig(
            tf_random_seed=1, save_checkpoints_steps=4, save_summary_steps=None, log_step_count_steps=None,
            session_config=tf.compat.v1.ConfigProto(use_per_session_threads=True, **programs.ONE_THREAD))
        self._specs = programs.specs()
        self.estimator = kind(self._model, str(folder), config)

    def train(self, source):
        self.estimator.train(functools.partial(self._input, source, True), self._hooks)

    def predict(self):
        """By probe, what predict gives."""
        found = list(self.estimator.predict(functools.partial(self._input, PROBES, False), hooks=self._hooks,
                                            yield_single_examples=False))
        return [{name: each[name] for name in ("score", "rows", "default")} for each in found]

    def export(self, folder, **kwargs):
        return tf.compat.as_text(self.estimator.export_saved_model(str(folder), receiver, **kwargs))

    def _input(self, source, training):
        data = programs.dataset(source)
        if not self._tensors:
            self._specs = programs.specs()
            data = data.map(get_asc_insert_func(self._specs, is_training=training))
        return data.map(lambda batch: (batch, batch["label"]) if training else batch).prefetch(8)

    def _model(self, features, labels, mode):
        training = mode == TRAIN
        initializer = tf.compat.v1.random_normal_initializer(stddev=0.3, seed=11)
        made = {name: create_table(tf.int64, self._dim, name, initializer, **TIERS.get(name, TIERS["item"]))
                for name in self._names}
        owners = [made[self._names[0]], made[self._names[0]], made[self._names[1]]]
        look_up = functools.partial(self._look_up, features, is_train=training or self._serves_training)
        rows = [look_up(*each) for each in zip(owners, self._specs)]
        loss = programs.model(rows, features["label"])
        with tf.compat.v1.variable_scope("dense", reuse=True):
            weights = tf.compat.v1.get_variable("weights", use_resource=False)
        score = tf.linalg.matmul(tf.concat([tf.reduce_sum(rows[0], axis=1), rows[1], rows[2]], axis=1), weights)
        train, predictions = None, {"score": score, "rows": rows[0]}
        if training:
            update = programs.apply(loss, [table.variable for table in made.values()],
                                    lazy_adam.create_hash_optimizer(0.05))
            with tf.control_dependencies([update]):
                train = tf.compat.v1.assign_add(tf.compat.v1.train.get_global_step(), 1)
        else:
            predictions["default"] = look_up(owners[1], self._specs[1], serving_default_value=7.0)
            do_merge_lookup(is_train=False)
        if not self._tensors:
            start_asc_pipeline()
        return tf.compat.v1.estimator.EstimatorSpec(mode, predictions, loss, train)

    def _look_up(self, features, table, spec, **kwargs):
        if self._tensors:
            return sparse_lookup(table, features[spec.index_key] + 0, modify_graph=True, **kwargs)
        return sparse_lookup(table, spec, batch=features, **kwargs)


def receiver():
    """The features of the model as placeholders."""
    features = {key: tf.compat.v1.placeholder(value.dtype, [None, *value.shape[1:]], key)
                for key, value in PROBES[0].items()}
    return tf.compat.v1.estimator.export.ServingInputReceiver(features, features)


@pytest.fixture(autouse=True)
def _closed_event_files():
    with event_files():
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a job that was trained, its last checkpoint a delta upon another one, and what predict gave."""
    folder = tmp_path_factory.mktemp("trained")
    with event_files(), programs.ascpipe(**INCREMENTAL):
        job = Job(folder)
        job.train(SOURCE[:4])
        job.train(SOURCE[4:])
        assert all(is_delta(str(folder / name)) for name in ("model.ckpt-4", "model.ckpt-8"))
        return folder, job.predict()


def bits(found):
    return [{name: (value.shape, value.tobytes()) for name, value in each.items()} for each in found]


def test_an_export_is_served_without_ascpipe_and_gives_what_predict_gives(trained, tmp_path):
    folder, predicted = trained
    exported = []
    with programs.ascpipe():
        exported.append(Job(folder).export(tmp_path / "specs"))
        exported.append(Job(folder, NPUEstimator, tensors=True).export(tmp_path / "tensors"))
        estimator = Job(folder).estimator
        export = estimator.export_saved_model if tf.__version__[0] == "2" else estimator.export_savedmodel
        older = export(  # not to a local directory, as far as we know
            "file://{}/older".format(tmp_path), receiver, checkpoint_path=str(folder / "model.ckpt-4"))
        exported.append(tf.compat.as_text(older)[len("file://"):])
        assert Process.current().pipeline is None
    with programs.ascpipe(use_dynamic_expansion=True):
        exported.append(Job(folder).export(tmp_path / "expansion"))
    specs, tensors, older, expansion = (bits(found) for found in served(tmp_path, *exported).values())
    assert specs == tensors == expansion == bits(predicted) != older
    assert any((each["default"] == 7.0).all(axis=-1).any() and not each["rows"].all() for each in predicted)
    assert sorted(os.listdir(os.path.join(exported[0], "assets"))) == ["item.asctable", "user.asctable"]
    saved = {name for name, _ in tf.train.list_variables(os.path.join(exported[0], "variables", "variables"))}
    assert saved == {"dense/weights", "global_step"}


def test_an_export_with_ops_of_tensorflow_is_served_without_the_library_and_gives_what_predict_gives(trained, tmp_path):
    folder, predicted = trained
    with programs.ascpipe():
        exported = [tf.compat.as_text(asc.export_saved_model(
            job.estimator, str(tmp_path / name), receiver, ops="stock", dtype=dtype)) for name, job, dtype in (
                ("specs", Job(folder), "float32"), ("tensors", Job(folder, NPUEstimator, tensors=True), tf.float32),
                ("halves", Job(folder), "float16"))]
        older = tf.compat.as_text(asc.export_saved_model(  # not to a local directory, as far as we know
            Job(folder).estimator, "file://{}/older".format(tmp_path), receiver, ops="stock",
            checkpoint_path=str(folder / "model.ckpt-4")))
        exported.append(older[len("file://"):])
        usual = Job(folder).export(tmp_path / "usual")
    specs, tensors, halves, older = (bits(found) for found in served(tmp_path, *exported, library="").values())
    assert specs == tensors == bits(predicted) != older
    assert halves != specs
    assert sorted(os.listdir(os.path.join(exported[0], "assets"))) == [
        name + ".stock." + each for name in ("item", "user")
        for each in (*("data-0000{}-of-00003".format(part) for part in range(3)), "index")]
    assert sorted(os.listdir(os.path.join(usual, "assets"))) == ["item.asctable", "user.asctable"]
    saved = {name for name, _ in tf.train.list_variables(os.path.join(exported[0], "variables", "variables"))}
    assert saved == {"dense/weights", "global_step"}


def test_a_model_applies_the_changes_of_the_training_to_its_tables(trained, tmp_path, caplog):
    folder, predicted = trained
    prefixes = [found.prefix for found in complete_checkpoints(str(folder))][-2:]
    updates = str(tmp_path / "updates")
    with programs.ascpipe():
        kinds = [[each.kind for each in asc.export_delta(prefix, updates)] for prefix in prefixes]
        path = tf.compat.as_text(asc.export_saved_model(Job(folder).estimator, str(tmp_path), receiver, watch=updates,
                                                        checkpoint_path=prefixes[0]))
        lines = [line for line in caplog.messages if "applies updates to its tables only" in line]
        older = Job(folder).export(tmp_path / "older", checkpoint_path=prefixes[0])
    assert ["1 dense variable (dense/weights)" in line for line in lines] == [True]
    assert len([line for line in caplog.messages if "applies updates" in line]) == 1
    assert kinds == [["full"], ["delta"]]
    updated, older = served(tmp_path, path, older).values()
    for name in ("rows", "default"):
        wanted = [each[name].tobytes() for each in predicted]
        assert [each[name].tobytes() for each in updated] == wanted != [each[name].tobytes() for each in older]


def test_a_model_with_other_ops_of_ascpipe_is_not_exported_with_ops_of_tensorflow(trained, tmp_path):
    class Foreign(Job):
        def _look_up(self, *args, **kwargs):
            native.ops().asc_served_table(shared_name="foreign", name="foreign")
            return super()._look_up(*args, **kwargs)

    folder, _ = trained
    with programs.ascpipe():
        with pytest.raises(ServingError, match="E275: The graph .* has ops of ascpipe: AscServedTable .'foreign'"):
            asc.export_saved_model(Foreign(folder).estimator, str(tmp_path), receiver, ops="stock")
        assert not list(tmp_path.iterdir())
        path = Foreign(folder).export(tmp_path / "usual")  # the next export has the usual ops again
    assert sorted(os.listdir(os.path.join(path, "assets"))) == ["item.asctable", "user.asctable"]


def test_tables_that_were_saved_without_a_key_are_exported_and_give_default_rows(trained, tmp_path):
    folder, _ = trained
    with programs.ascpipe():
        path = Job(folder, tensors=True).export(tmp_path, checkpoint_path=str(folder / "model.ckpt-0"))
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        rows, default = session.run(
            [signature.outputs[name].name for name in ("rows", "default")],
            {tensor.name: PROBES[0][key] for key, tensor in signature.inputs.items()})
    assert not rows.any() and (default == 7.0).all() and default.size


def test_tensors_are_predicted_as_an_export_with_feature_specs_gives_them(trained, tmp_path):
    folder, predicted = trained
    with programs.ascpipe():
        job = Job(folder, tensors=True)
        assert bits(job.predict()) == bits(predicted)
        job.export(tmp_path)  # while the pipeline of another graph runs
    assert len(list(tmp_path.glob("*/assets/*.asctable"))) == 2


def test_modes_of_one_export_share_their_files_and_training_is_refused(trained, tmp_path):
    folder, _ = trained

    with programs.ascpipe():
        supervised = tf.compat.v1.estimator.experimental.build_raw_supervised_input_receiver_fn(
            receiver().features, {"truth": tf.compat.v1.placeholder(tf.float32, [None])})
        estimator = Job(folder).estimator
        path = tf.compat.as_text(estimator.experimental_export_all_saved_models(
            str(tmp_path), {PREDICT: receiver, tf.compat.v1.estimator.ModeKeys.EVAL: supervised}))
        with pytest.raises(NotBuiltYetError, match="E600: .*sparse_lookup.is_train=True. .* graph that is exported"):
            estimator.experimental_export_all_saved_models(str(tmp_path), {TRAIN: supervised})
        for tags in (["serve"], ["eval"]):
            with tf.compat.v1.Session(graph=tf.Graph()) as session:
                tf.compat.v1.saved_model.load(session, tags, path)
    assert sorted(os.listdir(os.path.join(path, "assets"))) == ["item.asctable", "user.asctable"]


def test_what_is_not_in_the_checkpoint_as_the_program_has_it_is_not_exported(trained, tmp_path):
    folder, _ = trained
    with programs.ascpipe():
        with pytest.raises(CheckpointMismatchError,
                           match="E524: .*'user' has rows of 4 floats in the checkpoint and of 5 in"):
            Job(folder, tensors=True, dim=5).export(tmp_path / "dim")
        with pytest.raises(CheckpointMismatchError,
                           match="E524: .*'other' is not in the checkpoint, .*; it has item, user"):
            Job(folder, tensors=True, names=("user", "other")).export(tmp_path / "names")
        with pytest.raises(NotBuiltYetError, match="pass is_train=False in all modes but TRAIN"):
            Job(folder, tensors=True, serves_training=True).export(tmp_path / "training")
    assert not list(tmp_path.glob("*/*"))  # "user" was there, before "other" was asked for


def test_a_damaged_checkpoint_is_not_exported(trained, tmp_path):
    folder, _ = trained
    with programs.ascpipe():
        job = Job(folder)
        path = folder / "delta-sparse-model.ckpt-4" / "user" / "embedding" / "slice.data"
        content = path.read_bytes()
        with path.open("r+b") as file:
            file.write(bytes([content[0] ^ 1]))
        try:
            with pytest.raises(DamagedCheckpointError, match="E522: .*embedding"):
                job.export(tmp_path)  # the latest one stands upon it
        finally:
            with path.open("r+b") as file:
                file.write(content[:1])


def test_a_full_disk_says_what_was_not_exported_and_leaves_no_file(trained, tmp_path, monkeypatch):
    folder, _ = trained

    def refuse(fd):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with programs.ascpipe():
        monkeypatch.setattr(disk, "sync", refuse)
        with pytest.raises(CheckpointError, match="E500: Table 'user' was not exported to .*/assets: No space left"):
            Job(folder).export(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ops", ["ascpipe", "stock"])
def test_a_relative_directory_is_exported_to_and_is_empty_after_an_error(ops, trained, tmp_path, monkeypatch):
    folder, _ = trained
    monkeypatch.chdir(str(tmp_path))
    with programs.ascpipe():
        path = asc.export_saved_model(Job(folder).estimator, "exported", receiver, ops=ops)
        with pytest.raises(tf.errors.NotFoundError):  # after the model was written
            asc.export_saved_model(Job(folder).estimator, "failed", receiver, ops=ops,
                                   assets_extra={"vocabulary.txt": str(tmp_path / "nothing")})
    assert path.startswith(b"exported/")
    assert [name for name in os.listdir(os.fsdecode(path) + "/assets") if name.startswith("user.")]
    assert os.listdir("failed") == []


def test_a_session_program_exports_sparse_features_by_serving_tables(trained, tmp_path):
    folder, predicted = trained
    prefix = tf.train.latest_checkpoint(str(folder))
    with programs.ascpipe(), serving_tables(prefix):
        ids = tf.compat.v1.sparse_placeholder(tf.int64, [None, 3])
        table = create_table(tf.int64, programs.DIM, "user", tf.compat.v1.zeros_initializer())
        spec = programs.specs()[0]
        rows = sparse_lookup(table, spec, is_train=False, batch={"a": ids}, serving_default_value=7.0)
        dense = sparse_lookup(table, tf.sparse.to_dense(ids), is_train=False, modify_graph=True)
        bags = [lookup_sparse(table, given, None, "mean", batch={"a": ids}, training=False) for given in (spec, ids)]
        with pytest.raises(RuntimeError, match="E275: .*has no variable in a graph that is built for export"):
            table.variable  # noqa: B018
        with pytest.raises(KeyError, match="the batch has no 'a'"):
            sparse_lookup(table, spec, is_train=False, batch={"b": ids})
        with pytest.raises(RuntimeError, match="E275: .*already has tables"), serving_tables(prefix):
            pass
        step = tf.compat.v1.train.get_or_create_global_step()
        with programs.session() as run:
            Saver().restore(run, prefix)
            run.run(tf.compat.v1.tables_initializer())
            assert run.run(step) == len(SOURCE)
            places = np.array([[row, column] for row in range(6) for column in (0, 2)])
            feeds = {ids: tf.compat.v1.SparseTensorValue(
                places, [PROBES[0]["a"][tuple(place)] for place in places], [6, 3])}
            found, known, combined = run.run([rows, dense, bags], feeds)
            tf.compat.v1.saved_model.simple_save(
                run, str(tmp_path / "saved"), {"ids": ids}, {"rows": rows}, tf.compat.v1.tables_initializer())
    wanted = predicted[0]["rows"]
    assert np.array_equal(known[:, [0, 2]], wanted[:, [0, 2]])
    for each in combined:
        assert np.array_equal(each, (wanted[:, 0] + wanted[:, 2]) / np.float32(2))
    unknown = (wanted == 0).all(axis=-1, keepdims=True)
    wanted = np.where(unknown, np.float32(7), wanted)
    wanted[:, 1] = 7
    assert np.array_equal(found, wanted)
    with tf.compat.v1.Session(graph=tf.Graph()) as run:
        tf.compat.v1.saved_model.load(run, ["serve"], str(tmp_path / "saved"))


def test_the_command_line_prints_the_path_of_the_library():
    assert CliRunner().invoke(main, ["library"]).output == load.library_path() + "\n"
