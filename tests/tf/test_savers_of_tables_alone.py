"""A Saver of a graph whose only variables are tables is one as any other, whenever it was made."""
import glob
import os

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf
from ascpipe.tf import serving_tables, wait_for_save
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from tests.support.on_disk import on_disk
from tests.tf import programs

KEYS, DIM, SAVED, STEPS = 12, 2, 3, 7
SOURCE = [{"ids": np.random.RandomState(step).randint(0, KEYS, 5)} for step in range(STEPS)]
TIERS = {"device": {"device_vocabulary_size": 50},
         "host": {"device_vocabulary_size": 10, "host_vocabulary_size": 50},
         "disk": on_disk(10, 50), "expansion": {}}
SAVERS = {"compat": lambda: tf.compat.v1.train.Saver, "ours": lambda: ascpipe.tf.Saver}
if hasattr(tf.train, "Saver"):  # not in TensorFlow 2.15
    SAVERS["train"] = lambda: tf.train.Saver
MOMENTS = ("table", "lookup", "optimizer", "start", "session")  #: before which the program makes its saver


class Alone:
    """A program of one table and no variable.

    Args:
        make: makes the saver.
        moment: before what.
    """

    def __init__(self, make=tf.compat.v1.train.Saver, moment="session", tier="device", skip=0, optimizer="adagrad"):
        def reach(reached):
            if reached == moment:
                self.saver = make()

        reach("table")
        self.table = create_table(tf.int64, DIM, "ids", tf.compat.v1.random_normal_initializer(seed=3), **TIERS[tier])
        reach("lookup")
        self.iterator, rows = self._rows(SOURCE, skip, training=True)
        reach("optimizer")
        rows_of_table, (target,) = programs.trained(self.table)
        (gradient,) = tf.gradients(tf.reduce_sum(tf.square(rows)), rows_of_table)
        self.train = programs.optimizer(optimizer, 0.1).apply_gradients([(gradient, target)])
        self.eval_iterator, self.eval_rows = self._rows([{"ids": np.arange(KEYS)}] * 9, 0, training=False)
        reach("start")
        start_asc_pipeline()
        reach("session")

    def _rows(self, source, skip, training):
        spec = FeatureSpec("ids")
        data = programs.dataset_of(source, {"ids": [None]}).skip(skip)
        data = data.map(get_asc_insert_func([spec], is_training=training)).prefetch(4)
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        return iterator, sparse_lookup(self.table, spec, is_train=training, batch=iterator.get_next())

    def begin(self, run, *, variables=True):
        run.run([self.iterator.initializer, self.eval_iterator.initializer])
        if variables:
            run.run(tf.compat.v1.global_variables_initializer())

    def take(self, run, steps=1):
        for _ in range(steps):
            run.run(self.train)

    def read(self, run):
        return run.run(self.eval_rows).tolist()


def ascpipe_of(tier="device"):
    return programs.ascpipe(use_dynamic_expansion=tier == "expansion")


def test_a_name_that_is_saved_again_has_the_newer_state(tmp_path):
    with ascpipe_of():
        program = Alone()
        with programs.session() as run:
            program.begin(run)
            program.take(run, 2)
            program.saver.save(run, str(tmp_path / "model"), global_step=1)
            program.take(run, 2)
            rows = program.read(run)
            prefix = program.saver.save(run, str(tmp_path / "model"), global_step=1)
            program.take(run)
            assert program.read(run) != rows
            program.saver.restore(run, prefix)
            assert program.read(run) == rows


def trained(folder, **kwargs):
    """Path of a checkpoint after ``SAVED`` steps, and the rows after that one and after the last step."""
    with ascpipe_of(kwargs.get("tier")):
        program = Alone(**kwargs)
        with programs.session() as run:
            program.begin(run)
            program.take(run, SAVED)
            saved = program.saver.save(run, str(folder / "model"), global_step=SAVED)
            rows = program.read(run)
            program.take(run, STEPS - SAVED)
            return saved, rows, program.read(run)


def require_trains_on(saved, rows, last, **kwargs):
    """Restored, the program trains on as if it had never stopped."""
    with ascpipe_of(kwargs.get("tier")):
        program = Alone(skip=SAVED, **kwargs)
        with programs.session() as run:
            program.begin(run, variables=False)
            program.saver.restore(run, saved)
            assert program.read(run) == rows
            program.take(run, STEPS - SAVED)
            assert program.read(run) == last


@pytest.mark.parametrize("name, tier", [(list(SAVERS)[-1], "host"), ("compat", "device"), ("ours", "expansion")])
def test_tables_alone_are_saved_and_restored_and_train_on(name, tier, tmp_path):
    make = SAVERS[name]()
    saved, rows, last = trained(tmp_path, make=make, tier=tier)
    assert saved == str(tmp_path / "model-3")
    require_trains_on(saved, rows, last, make=make, tier=tier)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("optimizer", ["adagrad", "lazy_adam"])
@pytest.mark.each_value
def test_the_saver_may_be_made_at_any_moment(moment, optimizer, tmp_path):
    saved, rows, last = trained(tmp_path, moment=moment, optimizer=optimizer)
    require_trains_on(saved, rows, last, moment=moment, optimizer=optimizer)


def test_checkpoints_of_tables_alone_are_counted_and_named_as_others(tmp_path):
    with programs.ascpipe():
        program = Alone(lambda: tf.compat.v1.train.Saver(max_to_keep=2))
        with programs.session() as run:
            program.begin(run)
            found = []
            for step in range(4):
                program.take(run)
                program.saver.save(run, str(tmp_path / "model"), global_step=step)
                found.append(tf.train.latest_checkpoint(str(tmp_path)))
            kept = [str(tmp_path / "model-2"), str(tmp_path / "model-3")]
            assert program.saver.last_checkpoints == kept
    assert found == [str(tmp_path / "model-{}".format(step)) for step in range(4)]
    assert list(tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths) == kept
    assert sorted(os.path.basename(path) for path in glob.glob(str(tmp_path / "*"))) == [
        "checkpoint"] + sorted(
            name.format(step) for step in (2, 3) for name in (
                "model-{}.data-00000-of-00001", "model-{}.index", "model-{}.meta", "sparse-model-{}"))


def test_a_saver_that_may_be_empty_names_its_checkpoints_too(tmp_path):
    saved, rows, last = trained(tmp_path, make=lambda: tf.compat.v1.train.Saver(allow_empty=True), moment="table")
    assert tf.train.latest_checkpoint(str(tmp_path)) == saved
    require_trains_on(saved, rows, last)


@pytest.mark.parametrize("arguments", [{"var_list": []}, {"sharded": True}, {"defer_build": True}, {"var_list": {}}],
                         ids=str)
def test_arguments_of_the_saver_do_not_matter(arguments, tmp_path):
    def make():
        saver = tf.compat.v1.train.Saver(**arguments)
        saver.build()
        return saver

    saved, rows, last = trained(tmp_path, make=make)
    require_trains_on(saved, rows, last, make=make)


def test_tables_alone_are_saved_in_the_background_and_as_deltas(tmp_path):
    with programs.ascpipe():
        program = Alone()
        with programs.session() as run:
            program.begin(run)
            program.take(run)
            program.saver.save(run, str(tmp_path / "model"), global_step=1, background=True)
            wait_for_save()
            program.take(run)
            delta = program.saver.save(run, str(tmp_path / "model"), global_step=2, save_delta=True)
            rows = program.read(run)
            assert tf.train.latest_checkpoint(str(tmp_path)) == delta
            program.take(run)
            program.saver.restore(run, delta)
            assert program.read(run) == rows
    assert sorted(os.listdir(str(tmp_path)))[-2:] == ["model-2.meta", "sparse-model-1"]


@pytest.mark.parametrize("with_saver", [False, True])
def test_a_monitored_session_begins_with_the_newest_checkpoint_of_tables_alone(with_saver, tmp_path):
    _, rows, last = trained(tmp_path)
    with programs.ascpipe():
        program = Alone(moment="table", skip=SAVED)
        scaffold = tf.compat.v1.train.Scaffold(
            saver=program.saver if with_saver else None,
            local_init_op=tf.group(program.iterator.initializer, program.eval_iterator.initializer))
        with tf.compat.v1.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path), scaffold=scaffold, save_checkpoint_secs=None,
                save_summaries_steps=None, save_summaries_secs=None, log_step_count_steps=None) as run:
            assert program.read(run) == rows
            program.take(run, STEPS - SAVED)
            assert program.read(run) == last


def test_variables_that_come_after_the_saver_are_saved_with_the_tables(tmp_path):
    def weights(value):
        return tf.compat.v1.get_variable("weights", [], initializer=tf.compat.v1.constant_initializer(value))

    with programs.ascpipe():
        program, variable = Alone(moment="table"), weights(5)
        with programs.session() as run:
            program.begin(run)
            program.take(run)
            saved = program.saver.save(run, str(tmp_path / "model"))
    with programs.ascpipe():
        program, variable = Alone(moment="table"), weights(7)
        with programs.session() as run:
            program.begin(run, variables=False)
            program.saver.restore(run, saved)
            assert run.run(variable) == 5


def test_variables_that_come_after_the_saver_are_not_silently_left_out_of_a_finalized_graph(tmp_path):
    with programs.ascpipe():
        program = Alone(moment="table")
        tf.compat.v1.get_variable("weights", [])
        with programs.session() as run:
            program.begin(run)
            run.graph.finalize()
            with pytest.raises(RuntimeError, match=r"before the variables of its graph \(weights, .*build\(\)"):
                program.saver.save(run, str(tmp_path / "model"))
    assert os.listdir(str(tmp_path)) == []


def test_a_graph_with_tables_alone_restores_what_one_with_variables_saved(tmp_path):
    with programs.ascpipe():
        tf.compat.v1.get_variable("weights", [])
        program = Alone()
        with programs.session() as run:
            program.begin(run)
            program.take(run, SAVED)
            saved = program.saver.save(run, str(tmp_path / "model"))
            rows = program.read(run)
            program.take(run, STEPS - SAVED)
            last = program.read(run)
    require_trains_on(saved, rows, last)


def test_a_graph_with_variables_does_not_silently_restore_tables_alone(tmp_path):
    saved, _, _ = trained(tmp_path)
    with programs.ascpipe():
        tf.compat.v1.get_variable("weights", [])
        program = Alone()
        with programs.session() as run:
            program.begin(run)
            with pytest.raises(tf.errors.NotFoundError, match="weights"):
                program.saver.restore(run, saved)


def test_an_export_of_tables_alone_may_restore_its_variables_although_there_are_none(tmp_path):
    saved, rows, _ = trained(tmp_path)
    with programs.ascpipe(), serving_tables(saved):
        table = create_table(tf.int64, DIM, "ids", tf.compat.v1.zeros_initializer(), **TIERS["device"])
        served = sparse_lookup(table, tf.constant(np.arange(KEYS)), is_train=False, modify_graph=True)
        saver = tf.compat.v1.train.Saver()
        with programs.session() as run:
            run.run(tf.compat.v1.tables_initializer())
            saver.restore(run, saved)
            assert run.run(served).tolist() == rows


@pytest.mark.parametrize("use", [lambda saver, run, path: saver.save(run, path),
                                 lambda saver, run, path: saver.restore(run, path),
                                 lambda saver, run, path: saver.build()], ids=["save", "restore", "build"])
def test_where_there_is_nothing_at_all_the_saver_says_so_when_it_is_used(use, tmp_path):
    with programs.ascpipe():
        saver = tf.compat.v1.train.Saver()
        with programs.session() as run, pytest.raises(ValueError, match="No variables to save, and no tables"):
            use(saver, run, str(tmp_path / "model"))
    assert os.listdir(str(tmp_path)) == []


def test_a_table_that_is_not_saved_is_nothing_to_save(tmp_path, monkeypatch):
    monkeypatch.setitem(TIERS, "unsaved", {"device_vocabulary_size": 50, "is_save": False})
    with programs.ascpipe():
        program = Alone(tier="unsaved")
        with programs.session() as run:
            program.begin(run)
            with pytest.raises(ValueError, match="No variables to save"):
                program.saver.save(run, str(tmp_path / "model"))


def test_without_tables_a_saver_is_as_tensorflow_has_it(tmp_path):
    with tf.Graph().as_default(), pytest.raises(ValueError, match="^No variables to save$"):
        tf.compat.v1.train.Saver()  # before init
    with programs.ascpipe():
        saver = tf.compat.v1.train.Saver(allow_empty=True)
        with programs.session() as run:
            assert saver.save(run, str(tmp_path / "model")) is None
            saver.restore(run, str(tmp_path / "none"))
        assert saver.as_saver_def() is None
        variable = tf.compat.v1.get_variable("weights", [], initializer=tf.compat.v1.ones_initializer())
        saver = tf.compat.v1.train.Saver()
        with programs.session() as run:
            run.run(variable.initializer)
            saver.restore(run, saver.save(run, str(tmp_path / "model")))
    reader = tf.train.load_checkpoint(str(tmp_path / "model"))
    assert list(reader.get_variable_to_shape_map()) == ["weights"]
