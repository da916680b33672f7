"""Timestamps and feature eviction: what was not used for a while starts anew when it comes back."""
import functools
import types

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import FeatureError
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.core.feature_process import EvictHook
from mx_rec.util.initialize import trigger_evict
from mx_rec.util.ops import import_host_pipeline_ops
from tests.support.covering import some
from tests.support.on_disk import on_disk
from tests.tf import programs, twin_programs
from tests.tf.one_table import EXPANSION, OneTable, batch, one_table, sgd

TIERS = {"device": {}, "host": {"device_vocabulary_size": 3, "host_vocabulary_size": 100}, "disk": on_disk(3, 100),
         "expansion": EXPANSION}
FULL_WINDOW = {"stages": lambda data: data.prefetch(40)}
BATCHES = [batch(1, 2, time=100), batch(2, 3, time=110), batch(4, time=120), batch(1, 2, time=125), batch(5, time=90)]


@pytest.mark.parametrize("time", [0, -5])
def test_a_time_that_is_not_above_zero_is_an_error(time):
    with programs.ascpipe():
        program = OneTable([batch(1, time=time)], [1])
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            with pytest.raises(tf.errors.InvalidArgumentError, match="time"):
                program.take()


def evicted(batches, asked, after, **kwargs):
    """Train all batches and evict after some of them: what was looked up, and (rows, size) around each eviction."""
    with one_table(batches, asked, **FULL_WINDOW, **kwargs) as program:
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            looked_up, seen = [], []
            for step in range(len(batches)):
                looked_up.append(program.take())
                if step + 1 in after:
                    before = (program.read(), program.table.size())
                    trigger_evict()
                    seen.append((before, (program.read(), program.table.size())))
            return looked_up, seen, program.read()


@pytest.mark.parametrize("tier, access", [("device", None), ("host", -1), ("host", 0), ("device", 1),
                                          ("expansion", None)])
def test_keys_of_the_thresholds_age_leave_and_start_anew(tier, access):
    spec = {"eviction_threshold": 10, "access_threshold": access}
    looked_up, seen, rows = evicted(BATCHES, [1, 2, 3, 4, 5], [3], spec=spec, **TIERS[tier])
    assert seen == [(({1: 0, 2: -1, 3: 0, 4: 0, 5: 0}, 4), ({1: 0, 2: 0, 3: 0, 4: 0, 5: 0}, 1))]
    assert looked_up == [[1, 1], [0, 1], [1], [1, 1], [1]]
    assert rows == {1: 0, 2: 0, 3: 0, 4: 0, 5: 0}


def test_an_evicted_key_gives_the_default_value_in_evaluation():
    _, seen, _ = evicted(BATCHES, [1, 4], [3], spec={"eviction_threshold": 10}, serving_default=-7.0)
    assert seen == [(({1: 0, 4: 0}, 4), ({1: -7, 4: 0}, 1))]


def test_at_zero_even_the_keys_of_the_last_batch_leave():
    _, seen, _ = evicted(BATCHES, [1, 4], [3], spec={"eviction_threshold": 0}, serving_default=-7.0)
    assert seen == [(({1: 0, 4: 0}, 4), ({1: -7, 4: -7}, 0))]


def test_a_younger_time_makes_no_table_older():
    _, seen, _ = evicted(BATCHES, [1, 5], [5], spec={"eviction_threshold": 5}, serving_default=-7.0)
    assert seen == [(({1: -1, 5: 0}, 5), ({1: -1, 5: 0}, 3))]  # 5 came with the table's time, 125; 3 and 4 are gone


def test_an_evicted_key_must_be_admitted_again():
    batches = [batch(1, 1, time=100), batch(2, time=200), batch(1, time=201), batch(1, time=202)]
    looked_up, seen, _ = evicted(batches, [1], [2], spec={"eviction_threshold": 50, "access_threshold": 2})
    assert looked_up == [[1, 1], [0], [0], [1]]
    assert seen == [(({1: -1}, 1), ({1: 0}, 0))]


@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
def test_the_optimizers_state_of_an_evicted_key_starts_anew(tier):
    batches = [batch(1, time=100), batch(1, 1, time=101), batch(2, time=200), batch(1, time=201), batch(3, time=202)]
    kwargs = {"optimizer": functools.partial(programs.optimizer, "adagrad", 0.5), **TIERS[tier]}
    _, _, rows = evicted(batches, [1, 3], [3], spec={"eviction_threshold": 50}, **kwargs)
    assert rows[1] == rows[3]
    _, _, kept = evicted(batches, [1, 3], [3], spec={"eviction_threshold": 500}, **kwargs)
    assert kept[1] != rows[1]


@pytest.mark.parametrize("tier", ["device", "host"])
def test_evictions_free_rows_of_a_full_table(tier):
    batches = [batch(2 * i, 2 * i + 1, time=100 + i) for i in range(20)]
    rows = {"device": {"device_vocabulary_size": 6}, "host": {"device_vocabulary_size": 2, "host_vocabulary_size": 6}}
    looked_up, seen, _ = evicted(batches, [0], range(2, 20, 2), spec={"eviction_threshold": 1}, **rows[tier])
    assert looked_up == [[1, 1]] * 20
    assert [after[1] for _, after in seen] == [2] * 9


@pytest.mark.parametrize("access", [0, 1])
@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
@pytest.mark.each_value
def test_keys_that_train_in_every_batch_stay_after_counting_has_stopped(tier, access):
    batches = [batch(1, 2, time=100)] + [batch(1, 3, time=time) for time in (107, 114, 121)]
    spec = {"eviction_threshold": 10, "access_threshold": access}
    with one_table(batches, [1, 2, 3], spec=spec, serving_default=-7.0, **FULL_WINDOW, **TIERS[tier]) as program:
        stop_counting = import_host_pipeline_ops().set_threshold(tf.constant(0), emb_name="ids")
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            program.take()
            run.run(stop_counting)
            sizes = []
            for _ in batches[1:]:
                program.take()
                trigger_evict()
                sizes.append(program.table.size())
            new = -2 if access == 0 else -7  # it comes too late to be counted
            assert program.read() == {1: -3, 2: -7, 3: new}
            assert sizes == ([3, 2, 2] if access == 0 else [2, 1, 1])


class TestHook:
    def run(self, hook, steps=6, act=lambda run, program: None, train=lambda program: program.train):
        """Sizes after each step of a monitored session: each batch brings a key that is old two batches later."""
        batches = [batch(i, time=100 + 10 * i) for i in range(steps)]
        with programs.ascpipe():
            program = OneTable(batches, [0], spec={"eviction_threshold": 15}, **FULL_WINDOW)
            step = train(program)
            start_asc_pipeline()
            scaffold = tf.compat.v1.train.Scaffold(local_init_op=tf.group(
                program.iterator.initializer, program.eval_iterator.initializer,
                tf.compat.v1.local_variables_initializer()))
            sizes = []
            with tf.compat.v1.train.MonitoredTrainingSession(scaffold=scaffold, hooks=[hook]) as run:
                for _ in batches:
                    act(run, program)
                    run.run(step)
                    sizes.append(program.table.size())
            return sizes

    def test_switched_off_it_evicts_nothing(self):
        assert self.run(EvictHook(evict_step_interval=1)) == [1, 2, 3, 4, 5, 6]

    def test_it_evicts_where_the_global_step_is_a_multiple_of_the_interval(self):
        assert self.run(EvictHook(True, evict_step_interval=1)) == [1, 2, 2, 2, 2, 2]
        assert self.run(EvictHook(True, evict_step_interval=4)) == [1, 2, 3, 2, 3, 4]

    def test_it_evicts_where_a_run_takes_the_global_step_past_a_multiple_of_the_interval(self):
        def three_steps(program):
            return tf.group(program.train, tf.compat.v1.assign_add(program.step, 2))

        assert self.run(EvictHook(True, evict_step_interval=4), train=three_steps) == [1, 2, 2, 2, 3, 2]

    def test_runs_that_do_not_train_evict_nothing_twice_and_take_no_batch(self):
        def evaluate(run, program):
            for _ in range(3):
                run.run(program.eval_rows)

        assert self.run(EvictHook(True, evict_step_interval=4), act=evaluate) == [1, 2, 3, 2, 3, 4]

    def test_it_evicts_when_the_time_is_over(self, monkeypatch):
        from ascpipe.tf.program import table_changes
        now = [0.0]
        monkeypatch.setattr(table_changes, "time", types.SimpleNamespace(monotonic=lambda: now[0]))

        def wait(run, program):
            now[0] += 2.0

        assert self.run(EvictHook(True, evict_time_interval=5), act=wait) == [1, 2, 2, 3, 4, 2]
        assert self.run(EvictHook(True)) == [1, 2, 3, 4, 5, 6]

    def test_an_estimator_takes_it(self, tmp_path):
        batches = [batch(i, time=100 + 10 * i) for i in range(6)]
        specs = [FeatureSpec("ids", eviction_threshold=15), FeatureSpec("time", is_timestamp=True)]
        tables, sizes = [], []

        class Sizes(tf.compat.v1.estimator.SessionRunHook):
            def after_run(self, run_context, run_values):
                sizes.append(tables[0].size())

        def input_fn():
            data = tf.data.Dataset.from_generator(
                lambda: iter(batches), {"ids": tf.int64, "time": tf.int64}, {"ids": [None], "time": []})
            return data.map(get_asc_insert_func(specs)).map(lambda taken: (taken, taken["ids"])).prefetch(4)

        def model_fn(features, labels, mode):
            tables.append(create_table(tf.int64, 2, "ids", tf.compat.v1.ones_initializer(), 100))
            loss = tf.reduce_sum(sparse_lookup(tables[0], specs[0], batch=features))
            train = sgd().minimize(loss, tf.compat.v1.train.get_global_step(), [tables[0].variable])
            start_asc_pipeline()
            return tf.compat.v1.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

        config = tf.compat.v1.estimator.RunConfig(save_summary_steps=None, save_checkpoints_secs=None)
        with programs.ascpipe():
            tf.compat.v1.estimator.Estimator(model_fn, str(tmp_path), config).train(
                input_fn, [EvictHook(True, evict_step_interval=2), Sizes()])
        tf.compat.v1.summary.FileWriterCache.clear()  # TensorFlow keeps its event files open
        assert sizes == [1, 2, 3, 2, 3, 2]

    def test_steps_need_a_global_step(self):
        with programs.ascpipe():
            with pytest.raises(RuntimeError, match="global step"):
                EvictHook(True, evict_step_interval=1).begin()

    def test_without_a_table_that_evicts_it_says_so(self, caplog):
        with programs.ascpipe():
            EvictHook(True).begin()
        assert "EvictHook has no effect" in caplog.text


class TestTrigger:
    def test_it_needs_a_session_a_pipeline_and_a_table_that_evicts(self):
        with programs.ascpipe():
            program = OneTable([batch(1)], [1])
            with pytest.raises(RuntimeError, match="session"):
                trigger_evict()
            with programs.session() as run:
                with pytest.raises(RuntimeError, match="start_asc_pipeline"):
                    trigger_evict()
                start_asc_pipeline()
                program.start(run)
                with pytest.raises(RuntimeError, match="eviction_threshold"):
                    trigger_evict(run)

    def test_many_tables_sizes_do_not_matter(self):
        batches = [batch(*range(10 * i, 10 * i + 10), time=100 + i) for i in range(10)]
        asked = list(range(100))
        _, seen, rows = evicted(batches, asked, [10], spec={"eviction_threshold": 5}, serving_default=-7.0)
        (_, before), (_, after) = seen[0]
        assert (before, after) == (100, 50)
        assert [rows[key] for key in asked] == [-7.0] * 50 + [0.0] * 50
        assert np.isfinite(list(rows.values())).all()


class TestTensors:
    """Lookups of tensors in a program of ``ascpipe.tf``."""

    @staticmethod
    def program():
        data = tf.data.Dataset.from_tensor_slices({"ids": np.array([[1, 2], [3, 4], [3, 4]]), "time": [100, 200, 201]})
        iterator = tf.compat.v1.data.make_initializable_iterator(data.prefetch(1))
        batch_ = iterator.get_next()
        table = asc.create_table("ids", 2, initializer=tf.compat.v1.zeros_initializer(), device_vocabulary_size=10)
        rows = asc.sparse_lookup(table, batch_["ids"], eviction_threshold=50)
        return table, batch_, iterator, asc.optimizers.GradientDescent(0.1).minimize(tf.reduce_sum(rows))

    def test_a_missing_time_is_an_error_in_the_words_of_the_program(self):
        with twin_programs.ascpipe():
            self.program()
            with pytest.raises(FeatureError) as caught:
                asc.start()
            said = str(caught.value)
            assert 'E265' in said and 'add_to_collection("ASCEND_TIMESTAMP", batch["time"])' in said
            assert "modify_graph" not in said

    def test_keys_are_evicted_by_the_time_of_the_collection(self):
        with twin_programs.ascpipe():
            table, batch_, iterator, train = self.program()
            tf.compat.v1.add_to_collection("ASCEND_TIMESTAMP", batch_["time"])
            asc.start()
            with tf.compat.v1.Session() as run:
                run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
                for _ in range(2):
                    run.run(train)
                assert table.size() == 4
                asc.trigger_evict(run)
                assert table.read([1, 2, 3, 4]).found.tolist() == [False, False, True, True]
