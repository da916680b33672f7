"""A program that does not have a table of its checkpoint keeps this table in the restored checkpoint."""
import logging

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.checkpoint.reader import open_checkpoint
from tests.tf import twin_programs
from tests.tf.estimators import event_files

v1 = tf.compat.v1
IDS = np.arange(6, dtype=np.int64)

pytestmark = pytest.mark.timeout_s(120)


def train(folder, names, steps, background=False):
    """Train some steps in a monitored session, which restores and saves checkpoints by itself."""
    with event_files(), twin_programs.ascpipe(), tf.Graph().as_default():
        ids = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(IDS).repeat(20)).get_next()
        rows = [asc.sparse_lookup(
            asc.create_table(name, 2, initializer=v1.ones_initializer(), device_vocabulary_size=20), ids)
                for name in names]
        step = v1.train.get_or_create_global_step()
        op = asc.optimizers.Adagrad(0.5).minimize(tf.add_n([tf.reduce_sum(each ** 2) for each in rows]), step)
        asc.start()
        hook = asc.CheckpointSaverHook(str(folder), save_steps=100, background_save=background)
        with v1.train.MonitoredTrainingSession(
                checkpoint_dir=str(folder), save_checkpoint_steps=None, save_checkpoint_secs=None, hooks=[hook],
                save_summaries_steps=None, save_summaries_secs=None, log_step_count_steps=None) as run:
            for _ in range(steps):
                run.run(op)


def tables_of(prefix):
    with open_checkpoint(str(prefix)) as checkpoint:
        return {name: spec.rows for name, spec in checkpoint.tables.items()}


@pytest.mark.parametrize("background", [False, True])
def test_a_session_without_a_table_does_not_replace_the_checkpoint_that_has_it(tmp_path, caplog, background):
    train(tmp_path, ["user", "item"], 3)
    restored = tmp_path / "model.ckpt-3"
    assert tables_of(restored) == {"user": 6, "item": 6}
    with caplog.at_level(logging.WARNING):
        train(tmp_path, ["user"], 2, background)
    assert tables_of(restored) == {"user": 6, "item": 6}
    assert tables_of(tmp_path / "model.ckpt-5") == {"user": 6}
    assert "tables that are not restored, because this program does not save tables of these names: item" in caplog.text
    assert "model.ckpt-3 is not saved again, because it also has these tables: item" in caplog.text


def test_a_saver_replaces_the_checkpoint_after_further_training(tmp_path, caplog):
    prefix = str(tmp_path / "model")
    for names, steps in ((["user", "item"], 3), (["user"], 1)):
        with twin_programs.ascpipe(), tf.Graph().as_default():
            rows = [asc.sparse_lookup(asc.create_table(name, 2, initializer=v1.ones_initializer(),
                                                       device_vocabulary_size=20),
                                      v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(IDS).repeat(
                                          20)).get_next()) for name in names]
            op = asc.optimizers.Adagrad(0.5).minimize(tf.add_n([tf.reduce_sum(each ** 2) for each in rows]))
            asc.start()
            saver = asc.Saver()
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                if len(names) == 1:
                    saver.restore(session, prefix)
                    saver.save(session, prefix)
                    assert set(tables_of(prefix)) == {"user", "item"}
                for _ in range(steps):
                    session.run(op)
                saver.save(session, prefix)
    assert set(tables_of(prefix)) == {"user"}
    assert "Later checkpoints do not contain them" in caplog.text
