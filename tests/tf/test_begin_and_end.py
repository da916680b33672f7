"""``start``, ``shutdown``, ``reset`` and ``pipeline``: a notebook's cells run again, whatever the last run met."""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import NotRunningError
from ascpipe.tf import patches
from ascpipe.tf.running.process import Process
from mx_rec.util import initialize
from tests.tf import programs
from tests.tf.estimators import Losses, event_files

SOURCE = programs.batches(4)


@pytest.fixture(autouse=True)
def ended():
    yield
    asc.shutdown()
    tf.compat.v1.reset_default_graph()


def cell(tensors=False, start=True, fail=False, optimizer=lambda: asc.optimizers.Adagrad(0.1)):
    """The cell of a notebook that builds and trains the model in the default graph; the losses."""
    table = asc.create_table("c", programs.DIM, initializer=tf.compat.v1.random_normal_initializer(seed=3),
                             device_vocabulary_size=100)
    data = programs.dataset(SOURCE)
    spec = asc.FeatureSpec("c")
    data = data if tensors else data.map(asc.insert_function(spec))
    iterator = tf.compat.v1.data.make_initializable_iterator(data.prefetch(4))
    batch = iterator.get_next()
    rows = asc.sparse_lookup(table, batch["c"] + 0 if tensors else spec, batch=None if tensors else batch)
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, 1) - batch["label"]))
    train = optimizer().minimize(loss)
    if start:
        asc.start()
    with programs.session() as run:
        run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
        found = [run.run([loss, train])[0] for _ in SOURCE[:2 if fail else None]]
        if fail:
            raise ZeroDivisionError("a mistake in the cell")
        return found


@pytest.mark.parametrize("again", ["the same cell", "a cell that failed"])
def test_reset_lets_cells_run_again_with_the_same_result(again):
    asc.init()
    if again == "a cell that failed":
        with pytest.raises(ZeroDivisionError):
            cell(fail=True)
        first = None
    else:
        first = cell()
    asc.reset()
    asc.init()
    second = cell()
    asc.reset()
    asc.init()
    assert cell() == second and first in (None, second)


def test_a_cell_that_runs_again_without_reset_is_told_of_it():
    asc.init()
    cell()
    with pytest.raises(OSError, match=r"asc\.reset\(\)"):
        asc.init()
    with pytest.raises(OSError, match=r"E263: .*Create all tables before.*asc\.reset\(\)"):
        cell()
    with pytest.raises(RuntimeError, match=r"E263: .*Map datasets with their insert functions before.*asc\.reset\(\)"):
        programs.dataset(SOURCE).map(asc.insert_function(asc.FeatureSpec("c")))


def test_a_table_whose_cell_runs_again_before_the_start_is_told_of_reset():
    def build():
        asc.create_table("t", 2, initializer=tf.zeros_initializer(), device_vocabulary_size=5)

    asc.init()
    build()
    with pytest.raises(ValueError, match=r"E268: Table name 't' is already used.*asc\.reset\(\)"):
        build()


def test_reset_without_anything_to_end_clears_the_graph():
    tf.constant(1)
    asc.reset()
    assert tf.compat.v1.get_default_graph().get_operations() == []


def test_reset_inside_of_a_graph_s_block_does_nothing_and_says_where_to_call_it():
    with tf.Graph().as_default():
        asc.init()
        with pytest.raises(RuntimeError, match="Nothing was changed. Call it outside the block"):
            asc.reset()
        assert Process.is_initialised()


def test_shutdown_may_be_called_twice_and_says_nothing(caplog):
    asc.init()
    asc.shutdown()
    asc.shutdown()
    assert not caplog.records and not Process.is_initialised()


@pytest.mark.parametrize("tensors", [False, True])
def test_a_pipeline_s_block_starts_on_demand_and_can_run_again(tensors):
    def once(start):
        with asc.pipeline() as graph:
            assert tf.compat.v1.get_default_graph() is graph
            return cell(tensors=tensors, start=start)

    assert once(start=False) == once(start=True) == once(start=False)
    assert not Process.is_initialised()


def test_a_pipeline_s_block_ends_also_after_an_error_which_reaches_the_user():
    with pytest.raises(ZeroDivisionError), asc.pipeline():
        cell(start=False, fail=True)
    assert not Process.is_initialised()
    with asc.pipeline():
        assert len(cell(start=False)) == len(SOURCE)


def test_a_pipeline_s_block_begins_with_a_restore(tmp_path):
    def build(look):
        table = asc.create_table("c", 2, initializer=tf.zeros_initializer(), device_vocabulary_size=100)
        spec = asc.FeatureSpec("c")
        data = programs.dataset(SOURCE).map(asc.insert_function(spec)).prefetch(4)
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        rows = asc.sparse_lookup(table, spec, batch=iterator.get_next())
        train = asc.optimizers.GradientDescent(0.1).minimize(tf.reduce_sum(rows))
        with programs.session() as run:
            return look(table, iterator, train, run)

    def save(table, iterator, train, run):
        run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
        run.run(train)
        return tf.compat.v1.train.Saver().save(run, str(tmp_path / "model")), table.size()

    with asc.pipeline():
        saved, size = build(save)

    def restore(table, iterator, train, run):
        tf.compat.v1.train.Saver().restore(run, saved)
        return table.size()

    with asc.pipeline():
        assert build(restore) == size > 0


def test_a_graph_without_lookups_starts_nothing():
    with asc.pipeline():
        placeholder = tf.compat.v1.placeholder(tf.float32, [])
        with programs.session() as run:
            assert run.run(placeholder, {placeholder: 2.0}) == 2.0
        assert Process.current().pipeline is None


def test_an_unknown_argument_of_init_is_refused_and_the_nearest_named():
    with pytest.raises(TypeError, match=r"init\(\): .*'use_dynamik'; did you mean use_dynamic\?"):
        asc.init(use_dynamik=True)
    with pytest.raises(TypeError, match=r"did you mean daemon\?"), asc.pipeline(deamon="x"):
        pass
    assert not Process.is_initialised()


@pytest.mark.parametrize("init", [asc.init, initialize.init], ids=["plain", "rec-sdk"])
def test_a_daemon_that_does_not_run_is_said_at_once(init):
    with pytest.raises(NotRunningError, match="nosuch"):
        init(daemon="nosuch")
    assert not Process.is_initialised()


def test_init_lets_tensorflow_s_own_classes_know_tables():
    patches.SAVER_SAVE.undo()  # other tests of this process need the rest
    asc.init()
    assert tf.compat.v1.train.Saver.save is asc.Saver.save


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.filterwarnings("ignore:distutils Version classes")
def test_an_estimator_starts_by_the_hook(tensors, tmp_path):
    losses = Losses()

    def input_fn():
        data = programs.dataset(SOURCE).map(lambda batch: (batch, batch["label"]))
        return (data if tensors else data.map(asc.insert_function(spec))).prefetch(4)

    def model_fn(features, labels, mode):
        table = asc.create_table("c", programs.DIM, initializer=tf.compat.v1.random_normal_initializer(seed=3),
                                 device_vocabulary_size=100)
        rows = asc.sparse_lookup(table, features["c"] + 0 if tensors else spec, batch=None if tensors else features)
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, 1) - labels))
        losses.loss = loss
        train = asc.optimizers.Adagrad(0.1).minimize(loss, global_step=tf.compat.v1.train.get_global_step())
        return tf.compat.v1.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    asc.init()
    spec = asc.FeatureSpec("c")
    config = tf.compat.v1.estimator.RunConfig(str(tmp_path), save_summary_steps=None, log_step_count_steps=None)
    with event_files():
        estimator = tf.compat.v1.estimator.Estimator(model_fn, config=config)
        estimator.train(input_fn, hooks=[asc.StartHook(), losses])
    assert estimator.get_variable_value("global_step") == len(SOURCE)
    assert np.all(np.isfinite(losses.values)) and len(losses.values) == len(SOURCE)


@pytest.mark.parametrize("is_next_open", [False, True])
def test_a_table_whose_pipeline_has_ended_says_that_its_rows_were_discarded(is_next_open):
    with asc.pipeline():
        table = asc.create_table("user", 2, initializer=tf.zeros_initializer(), device_vocabulary_size=5)
    if is_next_open:
        asc.init()
        asc.create_table("user", 2, initializer=tf.zeros_initializer(), device_vocabulary_size=5)
    for use in (table.size, table.capacity, table.items, table.freeze, table.unfreeze, lambda: table.read([1]),
                lambda: table.delete([1]), lambda: table.assign([1], np.zeros([1, 2]))):
        with pytest.raises(OSError, match=r"E263: The pipeline of table 'user' has ended, and the rows of the table "
                                          r"were discarded\. .*inside the block `with asc\.pipeline\(\)`.*restore"):
            use()
