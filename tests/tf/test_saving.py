"""A checkpoint is the state after one training step, whatever the pipeline has worked ahead; training goes on from it
bit by bit."""
import functools
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from ascpipe import names
from ascpipe.checkpoint.errors import CheckpointMismatchError, DamagedCheckpointError
from ascpipe.control import saves
from ascpipe.errors import ArgumentError
from ascpipe.rows.renames import renamed
from ascpipe.tf import Saver, trained_batches
from ascpipe.tf.running.process import Process
from mx_rec.core.embedding import create_table
from tests.support.covering import some
from tests.support.on_disk import on_disk
from tests.tf import programs

STEPS, SAVED = 24, 11
SOURCE = programs.batches(STEPS, keys=60)
KEYS = 60
EVERY_KEY = [{"a": np.tile(np.arange(KEYS)[:, None], 3), "b": np.arange(KEYS, dtype=np.int32),
              "c": -1 - np.arange(KEYS), "label": np.zeros(KEYS, np.float32)}]
LARGEST = max(max(len(np.unique(np.append(taken["a"], taken["b"]))), len(np.unique(taken["c"]))) for taken in SOURCE)
TIERS = {"device": {"device_vocabulary_size": 200},
         "host": {"device_vocabulary_size": LARGEST, "host_vocabulary_size": 200},
         "disk": on_disk(LARGEST, 200), "expansion": {}}
RATES = {"adagrad": 0.3, "ftrl": 0.3, "gradient_descent": 0.5, "lazy_adam": 0.05}


class Run:
    """The program with a saver, from its first step or from a checkpoint."""

    def __init__(self, tier, optimizer, monkeypatch, skip=0, initializer=None):
        initializer = initializer or tf.compat.v1.random_normal_initializer(stddev=0.3, seed=11)
        monkeypatch.setattr(programs, "table", lambda name, rows, host_rows=0: create_table(
            tf.int64, programs.DIM, name, initializer, **TIERS[tier]))
        self.program = programs.Program(
            SOURCE, functools.partial(programs.optimizer, optimizer, RATES[optimizer]), eval_source=EVERY_KEY * 3,
            stages=lambda data: data.skip(skip).prefetch(STEPS))
        self.saver = Saver()
        self.run = programs.session()

    def initialise(self):
        self.program.initialise(self.run)
        self.run.run(self.program.eval_iterator.initializer)
        return self

    def restore(self, prefix, **kwargs):
        self.run.run([self.program.iterator.initializer, self.program.eval_iterator.initializer])
        self.saver.restore(self.run, prefix, **kwargs)
        return self

    def train(self, steps):
        return [self.run.run([self.program.loss, self.program.train])[0] for _ in range(steps)]

    def rows(self):
        return [rows.tobytes() for rows in self.run.run(self.program.eval_rows)]


def ascpipe(tier):
    return programs.ascpipe(use_dynamic_expansion=tier == "expansion")


@pytest.fixture(scope="module")
def saved_and_trained_on(tmp_path_factory):
    """Gives the prefix of a checkpoint after ``SAVED`` steps, the losses of the later steps, and the rows at their end.

    The checkpoint is nobody's to change: it is made once for each tier and optimizer.
    """
    @functools.lru_cache(maxsize=None)
    def make(tier, optimizer):
        with pytest.MonkeyPatch().context() as monkeypatch, ascpipe(tier):
            whole = Run(tier, optimizer, monkeypatch).initialise()
            with whole.run:
                whole.train(SAVED)
                prefix = whole.saver.save(whole.run, str(tmp_path_factory.mktemp("saved") / "model"), global_step=SAVED)
                return prefix, whole.train(STEPS - SAVED), whole.rows()

    return make


CASES = [("device", "gradient_descent"), ("host", "lazy_adam"), ("host", "ftrl"), ("disk", "adagrad"),
         ("expansion", "adagrad")]
OTHER_CASES = [(tier, name) for tier in ("device", "host", "disk") for name in RATES] + [("expansion", "lazy_adam")]


@pytest.mark.parametrize("tier, optimizer", CASES + [
    pytest.param(*case, marks=pytest.mark.long) for case in OTHER_CASES if case not in CASES])
def test_training_goes_on_from_a_checkpoint_as_if_it_had_never_stopped(
        tier, optimizer, saved_and_trained_on, monkeypatch):
    prefix, losses, rows = saved_and_trained_on(tier, optimizer)
    assert os.path.basename(prefix) == "model-{}".format(SAVED)
    assert trained_batches(prefix) == {"training": SAVED}
    with ascpipe(tier):
        resumed = Run(tier, optimizer, monkeypatch, skip=trained_batches(prefix)["training"])
        with resumed.run:
            resumed.restore(prefix)
            assert resumed.train(STEPS - SAVED) == losses
            assert resumed.rows() == rows


@pytest.mark.parametrize("tier, other, optimizer", [
    ("device", "host", "adagrad"), ("host", "disk", "lazy_adam"), ("disk", "expansion", "lazy_adam"),
    *(pytest.param(*case, marks=pytest.mark.long) for case in [
        ("host", "device", "ftrl"), ("device", "expansion", "lazy_adam"), ("disk", "device", "ftrl")])])
def test_a_checkpoint_of_one_tier_restores_in_another(tier, other, optimizer, saved_and_trained_on, monkeypatch):
    prefix, losses, rows = saved_and_trained_on(tier, optimizer)
    with ascpipe(other):
        resumed = Run(other, optimizer, monkeypatch, skip=SAVED)
        with resumed.run:
            resumed.restore(prefix)
            assert (resumed.train(STEPS - SAVED), resumed.rows()) == (losses, rows)


@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
def test_a_restore_in_the_middle_of_training_replaces_what_was_trained_since(tier, tmp_path, monkeypatch):
    with ascpipe(tier):
        run = Run(tier, "adagrad", monkeypatch).initialise()
        with run.run:
            run.train(5)
            prefix = run.saver.save(run.run, str(tmp_path / "model"), global_step=5)
            rows = run.rows()
            run.train(6)
            assert run.rows() != rows
            run.saver.restore(run.run, prefix)
            assert run.rows() == rows
            losses = run.train(STEPS - 11)
    with ascpipe(tier):  # the batches of the window were trained upon the restored state
        resumed = Run(tier, "adagrad", monkeypatch, skip=11)
        with resumed.run:
            resumed.restore(prefix)
            assert resumed.train(STEPS - 11) == losses


def test_tables_are_files_that_numpy_reads(tmp_path, monkeypatch):
    with ascpipe("host"):
        run = Run("host", "lazy_adam", monkeypatch).initialise()
        with run.run:
            run.train(STEPS)
            prefix = run.saver.save(run.run, str(tmp_path / "model"))
            rows = run.run.run(run.program.eval_rows)
            size = run.program.user.size()
    assert prefix == str(tmp_path / "model")
    table = tmp_path / "sparse-model" / "user"
    keys = np.fromfile(str(table / "key" / "slice.data"), np.int64)
    values = np.fromfile(str(table / "embedding" / "slice.data"), np.float32).reshape(-1, programs.DIM)
    assert np.fromfile(str(table / "key" / "slice.attribute"), np.int64).tolist() == [size, 8]
    assert np.fromfile(str(table / "embedding" / "slice.attribute"), np.int64).tolist() == [size, programs.DIM, 4]
    assert len(keys) == size and len(np.unique(keys)) == size
    for key, value in zip(keys, values):
        np.testing.assert_array_equal(value, rows[1][key])
    for state in ("LazyAdam_momentum", "LazyAdam_velocity"):
        assert np.fromfile(str(table / state / "slice.data"), np.float32).any()


@pytest.mark.parametrize("form", [lambda variables: None, list, lambda variables: {
    variable.op.name: variable for variable in variables}], ids=["all", "list", "dict"])
def test_the_dense_checkpoint_has_no_rows_of_tables(form, tmp_path, monkeypatch):
    with ascpipe("device"):
        run = Run("device", "adagrad", monkeypatch).initialise()
        run.saver = Saver(form(tf.compat.v1.global_variables()))
        with run.run:
            run.train(2)
            prefix = run.saver.save(run.run, str(tmp_path / "model"), global_step=0)
    assert prefix.endswith("model-0")
    assert [name for name, _ in tf.train.list_variables(prefix)] == ["dense/weights"]
    assert tf.train.latest_checkpoint(str(tmp_path)) == prefix
    assert (tmp_path / "sparse-model-0").is_dir()


def test_old_checkpoints_go_with_their_tables(tmp_path, monkeypatch):
    with ascpipe("device"):
        run = Run("device", "gradient_descent", monkeypatch).initialise()
        run.saver = Saver(max_to_keep=2)
        with run.run:
            monkeypatch.chdir(tmp_path)
            for step in range(4):
                run.train(1)
                run.saver.save(run.run, "model" if step else str(tmp_path / "model"), global_step=step)
            noted = saves.read(names.run_dir(Process.current().running_pipeline().link.name))
    assert [one.prefix for one in noted] == [str(tmp_path / "model-{}".format(step)) for step in range(4)]
    assert all(0 < one.seconds < 60 for one in noted)  # the dashboard shows them
    kept = sorted(name for name in os.listdir(str(tmp_path)) if name.startswith("sparse-"))
    assert kept == ["sparse-model-2", "sparse-model-3"]
    assert sorted(name for name in os.listdir(str(tmp_path)) if name.endswith(".index")) == [
        "model-2.index", "model-3.index"]


def test_the_same_step_saved_again_is_the_newer_state(tmp_path, monkeypatch):
    with ascpipe("device"):
        run = Run("device", "adagrad", monkeypatch).initialise()
        with run.run:
            run.train(3)
            for name, refused in (("", "length is less than 1"), ("c" * 51, "length is bigger than 50")):
                with pytest.raises(ValueError, match="argument latest_filename.*" + refused):
                    run.saver.save(run.run, str(tmp_path / "model"), latest_filename=name)
            assert os.listdir(str(tmp_path)) == []
            run.saver.save(run.run, str(tmp_path / "model"), global_step=7)
            run.train(3)
            rows = run.rows()
            prefix = run.saver.save(run.run, str(tmp_path / "model"), global_step=7)
            run.train(2)
            run.saver.restore(run.run, prefix)
            assert run.rows() == rows


def test_a_table_that_the_checkpoint_does_not_have_is_an_error_unless_it_is_named(saved_and_trained_on, monkeypatch):
    prefix, _, _ = saved_and_trained_on("device", "adagrad")
    with ascpipe("device"):
        other = create_table(tf.int64, 2, "other", tf.compat.v1.zeros_initializer())
        resumed = Run("device", "adagrad", monkeypatch, skip=SAVED)
        with resumed.run:
            with pytest.raises(CheckpointMismatchError, match="'other' is not in the checkpoint; .*allow_missing"):
                resumed.restore(prefix)
            resumed.restore(prefix, allow_missing=["other"])
            resumed.program.user.variable.graph.finalize()  # as an Estimator does, which has no such argument
            with pytest.raises(CheckpointMismatchError, match="use another model_dir.*model-11, list its variables and "
                               "tables in warm_start_from=.*; or set ASCPIPE_ALLOW_MISSING=other, and it") as raised:
                resumed.restore(prefix)
            assert "allow_missing" not in str(raised.value)
            monkeypatch.setenv("ASCPIPE_ALLOW_MISSING", "user/ftrl_accum,other")
            resumed.restore(prefix)
            assert resumed.program.user.size() > 0
        assert other.size() == 0


def test_a_restore_takes_tables_from_saved_tables_of_other_names(saved_and_trained_on, monkeypatch, caplog, tmp_path):
    prefix, _, _ = saved_and_trained_on("device", "adagrad")
    caplog.set_level("INFO", "ascpipe")
    with ascpipe("device"):
        resumed = Run("device", "adagrad", monkeypatch, skip=SAVED)
        user, item = resumed.program.user, resumed.program.item
        with resumed.run:
            resumed.restore(prefix)
            keys = np.arange(-KEYS, KEYS)
            of_user, of_item = user.read(keys), item.read(keys)
            assert "is not restored" not in caplog.text and of_user.found.any() and of_item.found.any()
            resumed.restore(prefix, rename={"user": "item", "item": "user"})
            for found, expected in ((user.read(keys), of_item), (item.read(keys), of_user)):
                np.testing.assert_array_equal(found.rows, expected.rows)
                np.testing.assert_array_equal(found.slots["Adagrad_accumulator"], expected.slots["Adagrad_accumulator"])
            resumed.restore(prefix)
            np.testing.assert_array_equal(item.read(keys).rows, of_item.rows)
            resumed.restore(renamed(prefix, {"user": "item", "item": "user"}, str(tmp_path / "model-5")).checkpoint)
            np.testing.assert_array_equal(user.read(keys).rows, of_item.rows)
            np.testing.assert_array_equal(item.read(keys).rows, of_user.rows)
            resumed.restore(prefix, rename={"user": "item"})
            np.testing.assert_array_equal(user.read(keys).rows, of_user.rows)
            np.testing.assert_array_equal(item.read(keys).rows, of_user.rows)
            assert "also has tables that are not restored" in caplog.text and caplog.text.endswith(
                "names: item. Later checkpoints do not contain them\n")
            for wrong in ({"user": "nobody"}, {"user": "item", "item": "item"}):
                with pytest.raises(ArgumentError, match="unknown name or the same name twice"):
                    resumed.restore(prefix, rename=wrong)


def saved_by_tensorflow(folder):
    """A checkpoint of the dense layer without tables, and the values."""
    with tf.Graph().as_default(), programs.session() as run:
        with tf.compat.v1.variable_scope("dense"):
            weights = tf.compat.v1.get_variable("weights", [3 * programs.DIM, 1], use_resource=False)
        run.run(weights.initializer)
        prefix = tf.compat.v1.train.Saver().save(run, str(folder / "model"))
        return prefix, run.run(weights)


def test_a_checkpoint_without_tables_is_an_error_unless_they_may_all_be_missing(tmp_path, monkeypatch):
    prefix, values = saved_by_tensorflow(tmp_path)
    with ascpipe("device"):
        resumed = Run("device", "adagrad", monkeypatch).initialise()
        with resumed.run:
            with pytest.raises(FileExistsError, match="no tables.*sparse-model"):
                resumed.restore(prefix)
            resumed.restore(prefix, allow_missing=["user", "item"])
            weights = tf.compat.v1.trainable_variables()[0]
            np.testing.assert_array_equal(resumed.run.run(weights), values)


@pytest.mark.parametrize("as_given", [list, lambda given: {"dense/weights": given[0]}], ids=["list", "dict"])
def test_a_saver_of_variables_alone_restores_them_from_a_checkpoint_without_tables(as_given, tmp_path, monkeypatch,
                                                                                   caplog):
    prefix, values = saved_by_tensorflow(tmp_path)
    with ascpipe("device"):
        resumed = Run("device", "adagrad", monkeypatch).initialise()
        dense = tf.compat.v1.trainable_variables()
        with resumed.run:
            resumed.train(2)
            rows = resumed.program.user.size()
            of_all = tf.compat.v1.train.Saver(var_list=tf.compat.v1.global_variables())
            with pytest.raises(FileExistsError, match="no tables.*var_list"):
                of_all.restore(resumed.run, prefix)
            caplog.set_level("INFO")
            saver = tf.compat.v1.train.Saver(var_list=as_given(dense))
            saver.restore(resumed.run, prefix)
            np.testing.assert_array_equal(resumed.run.run(dense[0]), values)
            assert resumed.program.user.size() == rows > 0
            assert caplog.text.count("has no tables: the variables in the var_list") == 1
            resumed.train(1)
            with_tables = saver.save(resumed.run, str(tmp_path / "both"))
            rows = resumed.program.user.size()
            resumed.train(2)
            saver.restore(resumed.run, with_tables)
            assert resumed.program.user.size() == rows


def test_a_damaged_checkpoint_changes_nothing(tmp_path, monkeypatch):
    with ascpipe("device"):
        run = Run("device", "adagrad", monkeypatch).initialise()
        with run.run:
            run.train(3)
            prefix = run.saver.save(run.run, str(tmp_path / "model"), global_step=3)
            path = tmp_path / "sparse-model-3" / "user" / "embedding" / "slice.data"
            damaged = bytearray(path.read_bytes())
            damaged[5] ^= 1
            path.chmod(0o640)
            path.write_bytes(bytes(damaged))
            run.train(3)
            rows = run.rows()
            with pytest.raises(DamagedCheckpointError, match="embedding/slice.data"):
                run.saver.restore(run.run, prefix)
            assert run.rows() == rows
            run.train(1)


def test_saving_before_the_pipeline_runs_is_an_error(tmp_path, monkeypatch):
    with ascpipe("device"):
        create_table(tf.int64, 2, "ids", tf.compat.v1.zeros_initializer())
        tf.compat.v1.Variable(1.0, use_resource=False)
        saver = Saver()
        with programs.session() as run, pytest.raises(RuntimeError, match="start_asc_pipeline"):
            saver.save(run, str(tmp_path / "model"))


def test_a_manifest_says_what_was_saved(saved_and_trained_on):
    prefix, _, _ = saved_and_trained_on("host", "lazy_adam")
    with open(os.path.join(os.path.dirname(prefix), "sparse-model-{}".format(SAVED), "MANIFEST.json")) as file:
        manifest = json.load(file)
    assert manifest["step"] == SAVED


@pytest.mark.parametrize("whole", [True, False])
def test_an_iterator_over_submitted_batches_cannot_be_saved_and_the_error_says_what_to_do(whole, monkeypatch):
    with ascpipe("device"):
        run = Run("device", "adagrad", monkeypatch)
        iterator = tf.data.experimental.make_saveable_from_iterator(run.program.iterator)
        if whole:
            tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS, iterator)
        with run.run, pytest.raises(ValueError, match="trained_batches"):
            Saver() if whole else Saver([iterator])


def test_an_iterator_that_the_pipeline_does_not_read_is_saved(tmp_path, monkeypatch):
    with ascpipe("device"):
        counter = tf.compat.v1.data.make_initializable_iterator(tf.data.Dataset.range(9))
        number = counter.get_next()
        run = Run("device", "adagrad", monkeypatch).initialise()
        saver = Saver([tf.data.experimental.make_saveable_from_iterator(counter)])
        with run.run:
            run.run.run(counter.initializer)
            run.train(2)
            assert run.run.run(number) == 0
            prefix = saver.save(run.run, str(tmp_path / "model"))
            assert [run.run.run(number) for _ in range(3)] == [1, 2, 3]
            saver.restore(run.run, prefix)
            assert run.run.run(number) == 1


@pytest.mark.parametrize("kind", [Saver, tf.compat.v1.train.Saver])
@pytest.mark.parametrize("step", [None, 3])
@pytest.mark.each_value
def test_a_path_that_ends_with_a_slash_has_the_names_of_tensorflow(kind, step, tmp_path, monkeypatch):
    with tf.Graph().as_default(), tf.compat.v1.Session() as plain:
        tf.compat.v1.get_variable("v", [1])
        plain.run(tf.compat.v1.global_variables_initializer())
        returned = tf.compat.v1.train.Saver().save(plain, str(tmp_path / "plain") + "/", step)
    with ascpipe("device"):
        run = Run("device", "adagrad", monkeypatch).initialise()
        with run.run:
            run.train(2)
            rows = run.rows()
            run.saver = kind()
            saved = run.saver.save(run.run, str(tmp_path / "ours") + "/", step)
            assert saved.replace("ours", "plain") == returned
            assert {"sparse-" + os.path.basename(saved), *os.listdir(str(tmp_path / "plain"))} == set(
                os.listdir(str(tmp_path / "ours")))
            assert tf.train.latest_checkpoint(str(tmp_path / "ours")) == saved
            run.train(2)
            assert run.restore(saved).rows() == rows
