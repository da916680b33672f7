"""Estimators and monitored sessions save and restore tables with the variables, by the Saver that they make."""
import os

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from ascpipe.checkpoint.errors import CheckpointPathError, DamagedCheckpointError
from ascpipe.cli.main import main
from ascpipe.tf import CheckpointSaverHook, trained_batches
from ascpipe.tf.running.process import Process
from mx_rec.core.asc import get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers import lazy_adam
from tests.support.covering import some
from tests.support.on_disk import on_disk
from tests.tf import programs
from tests.tf.estimators import Losses, event_files

SOURCE = programs.batches(30, keys=40)
TIERS = {"device": {"device_vocabulary_size": 100}, "host": {"device_vocabulary_size": 24, "host_vocabulary_size": 100},
         "disk": on_disk(24, 100)}

pytestmark = pytest.mark.timeout_s(120)


def tables(tier):
    initializer = tf.compat.v1.random_normal_initializer(stddev=0.3, seed=11)
    return [create_table(tf.int64, programs.DIM, name, initializer, **TIERS[tier]) for name in ("user", "item")]


def train_an_estimator(folder, steps, skip, tier="device", save_every=5, hooks=()):
    """Losses of ``steps`` steps of an Estimator, which goes on where the newest checkpoint of its folder ends."""
    losses = Losses()
    specs = programs.specs()

    def input_fn():
        return programs.dataset(SOURCE).skip(skip).map(get_asc_insert_func(specs)).map(
            lambda batch: (batch, batch["label"])).prefetch(8)

    def model_fn(features, labels, mode):
        made = tables(tier)
        looked_up = [sparse_lookup(made[place], spec, batch=features) for place, spec in zip((0, 0, 1), specs)]
        losses.loss = programs.model(looked_up, labels)
        update = programs.apply(losses.loss, [table.variable for table in made],
                                lazy_adam.create_hash_optimizer(0.05))
        with tf.control_dependencies([update]):
            train = tf.compat.v1.assign_add(tf.compat.v1.train.get_global_step(), 1)
        start_asc_pipeline()
        return tf.compat.v1.estimator.EstimatorSpec(mode, loss=losses.loss, train_op=train)

    config = tf.compat.v1.estimator.RunConfig(
        tf_random_seed=1, save_checkpoints_steps=save_every, keep_checkpoint_max=2, save_summary_steps=None,
        session_config=tf.compat.v1.ConfigProto(use_per_session_threads=True, **programs.ONE_THREAD))
    with event_files(), programs.ascpipe():
        estimator = tf.compat.v1.estimator.Estimator(model_fn, str(folder), config)
        estimator.train(input_fn, hooks=[losses, *hooks], steps=steps)
    return losses.values


@pytest.mark.parametrize("tier", some(TIERS, "disk"))
def test_an_estimator_goes_on_from_its_last_checkpoint_bit_by_bit(tier, tmp_path):
    whole = train_an_estimator(tmp_path / "whole", 20, 0, tier)
    first = train_an_estimator(tmp_path / "parts", 8, 0, tier)
    newest = tf.train.latest_checkpoint(str(tmp_path / "parts"))
    assert newest.endswith("model.ckpt-8")
    rest = train_an_estimator(tmp_path / "parts", 12, trained_batches(newest)["training"], tier)
    assert first + rest == whole
    assert len(set(whole)) == 20
    assert trained_batches(tf.train.latest_checkpoint(str(tmp_path / "parts")))["training"] == 20


def test_after_a_damage_an_estimator_goes_on_from_the_checkpoint_that_the_file_names(tmp_path):
    """The procedure of docs/how-to/saving.md, "If the newest checkpoint is damaged"."""
    whole = train_an_estimator(tmp_path / "whole", 12, 0)
    folder = tmp_path / "parts"
    train_an_estimator(folder, 10, 0)
    damaged = folder / "sparse-model.ckpt-10" / "item" / "key" / "slice.data"
    damaged.write_bytes(b"\0" * damaged.stat().st_size)
    with pytest.raises(DamagedCheckpointError, match="E522"):
        train_an_estimator(folder, 2, 10)
    verdicts = {line.split()[1]: line.split()[0] for line in CliRunner().invoke(
        main, ["checkpoint", "verify", str(folder)]).output.splitlines()}
    assert {os.path.basename(prefix): verdict for prefix, verdict in verdicts.items()} == {
        "model.ckpt-5": "ok", "model.ckpt-10": "BAD"}
    state = folder / "checkpoint"
    lines = state.read_text().splitlines()
    assert lines[0] == 'model_checkpoint_path: "model.ckpt-10"'
    state.write_text("\n".join(['model_checkpoint_path: "model.ckpt-5"', *lines[1:]]) + "\n")
    assert train_an_estimator(folder, 7, 5) == whole[5:]


def test_an_estimator_keeps_as_many_checkpoints_of_tables_as_of_variables(tmp_path):
    train_an_estimator(tmp_path, 20, 0)
    kept = sorted(path.name for path in tmp_path.glob("sparse-*"))
    assert kept == ["sparse-model.ckpt-15", "sparse-model.ckpt-20"]


def test_a_monitored_session_goes_on_from_its_last_checkpoint(tmp_path):
    def train(steps, skip):
        with event_files(), programs.ascpipe():
            program = programs.Program(SOURCE, lambda: lazy_adam.create_hash_optimizer(0.05),
                                       stages=lambda data: data.skip(skip).prefetch(8))
            step = tf.compat.v1.train.get_or_create_global_step()
            count = tf.compat.v1.assign_add(step, 1)
            scaffold = tf.compat.v1.train.Scaffold(local_init_op=tf.group(
                program.iterator.initializer, tf.compat.v1.local_variables_initializer()))
            config = tf.compat.v1.ConfigProto(use_per_session_threads=True, **programs.ONE_THREAD)
            with tf.compat.v1.train.MonitoredTrainingSession(
                    checkpoint_dir=str(tmp_path), scaffold=scaffold, save_checkpoint_steps=100, config=config,
                    save_summaries_steps=None, save_summaries_secs=None, log_step_count_steps=None) as run:
                return [run.run([program.loss, program.train, count])[0] for _ in range(steps)]

    whole = programs.our_losses(SOURCE[:20], lambda: lazy_adam.create_hash_optimizer(0.05))
    first = train(9, 0)
    assert first + train(11, trained_batches(tf.train.latest_checkpoint(str(tmp_path)))["training"]) == whole


def test_every_saver_of_a_program_that_imports_mx_rec_saves_its_tables(tmp_path):
    with programs.ascpipe():
        program = programs.Program(SOURCE, lambda: lazy_adam.create_hash_optimizer(0.05))
        saver = tf.compat.v1.train.Saver()
        with programs.session() as run:
            program.initialise(run)
            run.run(program.train)
            saver.save(run, str(tmp_path / "model"), global_step=np.int64(0))
    assert (tmp_path / "sparse-model-0" / "item" / "key" / "slice.data").stat().st_size == 8 * len(
        np.unique(SOURCE[0]["c"]))
    assert {name.rsplit("/", 1)[0] for name, _ in tf.train.list_variables(str(tmp_path / "model-0"))}.isdisjoint(
        {"user", "item"})


@pytest.mark.parametrize("hook", [tf.compat.v1.train.CheckpointSaverHook, CheckpointSaverHook])
def test_a_path_where_nothing_can_be_saved_is_refused_before_the_pipeline_starts(hook, tmp_path):
    wrong = "/proc/model"
    with programs.ascpipe():
        programs.table("user")
        with pytest.raises(CheckpointPathError, match="directory of the system"):
            hook(wrong, save_steps=1).begin()
        assert Process.current().pipeline is None
    with event_files(), programs.ascpipe():
        tf.compat.v1.train.get_or_create_global_step()
        hook(str(tmp_path / "a\nb"), save_steps=1).begin()  # no tables: it is TensorFlow's


@pytest.mark.parametrize("folder", ["/usr/lib/model", "/proc/model", "{}/a\nb"])
@pytest.mark.parametrize("make", [
    lambda folder: tf.compat.v1.train.Supervisor(logdir=folder),
    lambda folder: tf.compat.v1.train.MonitoredTrainingSession(checkpoint_dir=folder)], ids=["supervisor", "monitored"])
@pytest.mark.each_value
def test_a_folder_where_nothing_can_be_saved_is_refused_before_training(make, folder, tmp_path):
    with event_files(), programs.ascpipe():
        programs.Program(SOURCE, lambda: lazy_adam.create_hash_optimizer(0.05))
        tf.compat.v1.train.get_or_create_global_step()
        with pytest.raises((CheckpointPathError, tf.errors.NotFoundError)):  # TensorFlow makes folders for its events
            make(folder.format(tmp_path))
        assert Process.current().pipeline is None


@pytest.mark.parametrize("hook", [tf.compat.v1.train.CheckpointSaverHook, CheckpointSaverHook])
def test_a_folder_that_is_a_link_or_read_only_is_refused_before_training(hook, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path)
    with programs.ascpipe():
        programs.table("user")
        with pytest.raises(CheckpointPathError, match="a symbolic link, which is never followed"):
            hook(str(tmp_path / "link"), save_steps=1).begin()
        monkeypatch.setattr(os, "access", lambda path, mode: False)  # as root may write everywhere
        with pytest.raises(CheckpointPathError, match="it is not writable"):
            hook(str(tmp_path), save_steps=1).begin()


@pytest.mark.parametrize("folder", ["/proc/model", "{}/file"])
def test_an_estimator_refuses_a_folder_where_nothing_can_be_saved_before_it_trains(folder, tmp_path):
    (tmp_path / "file").write_text("")
    losses = Losses()
    with pytest.raises((CheckpointPathError, tf.errors.OpError)):
        train_an_estimator(folder.format(tmp_path), 3, 0, hooks=[losses])
    assert losses.values == []
