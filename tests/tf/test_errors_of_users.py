"""What the user's code raises inside of something of ours reaches the user, whatever then happens to our clean-up."""
import os
import tempfile

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.errors import CheckpointError
from ascpipe.tf import Saver, clean_up, export_tables, serving_tables
from ascpipe.tf.checkpoints import loading
from ascpipe.tf.checkpoints.instances import instance_of
from ascpipe.tf.checkpoints.snapshot_reader import FrozenTables, frozen_tables
from ascpipe.tf.running import native
from ascpipe.tf.running.hold_between_steps import Hold, hold
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.starting import start_pipeline
from mx_rec.core.asc import start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from tests.tf import programs
from tests.tf.background import pipeline
from tests.tf.estimators import event_files
from tests.tf.one_table import DIM, batch, one_table


class MineError(Exception):
    """Raised by the user's code."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Path of a checkpoint with two rows of the table ``ids``."""
    with one_table([batch(1, 2)], [1]) as program:
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            program.take()
            return Saver().save(run, str(tmp_path_factory.mktemp("saved") / "model"))


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary folders are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def look_up():
    table = create_table(tf.int64, DIM, "ids", tf.compat.v1.zeros_initializer(), device_vocabulary_size=10)
    sparse_lookup(table, tf.constant(np.arange(3)), is_train=False, modify_graph=True)


@pytest.mark.parametrize("act", [look_up, lambda: None], ids=["after-a-lookup", "at-once"])
def test_an_error_inside_of_serving_tables_reaches_the_user_and_nothing_is_left(act, saved, temporary):
    with programs.ascpipe(), pytest.raises(MineError), serving_tables(saved):
        act()
        raise MineError
    assert os.listdir(str(temporary)) == []


def test_an_error_inside_of_serving_tables_reaches_the_user_although_the_folder_cannot_be_removed(
        saved, temporary, monkeypatch, caplog):
    monkeypatch.setattr(clean_up.shutil, "rmtree", lambda folder, ignore_errors=False: None)
    with programs.ascpipe(), pytest.raises(MineError), serving_tables(saved):
        (folder,) = temporary.iterdir()
        (folder / "of-the-user").write_text("")
        raise MineError
    assert "{} was not removed. Remove it".format(folder) in caplog.text


@pytest.mark.filterwarnings("ignore:distutils Version classes")
@pytest.mark.parametrize("place", ["{}", "file://{}"], ids=["local", "by-url"])
def test_an_error_of_the_model_that_is_exported_reaches_the_user(place, saved, tmp_path, temporary):
    def model(features, labels, mode):
        look_up()
        raise MineError

    def receive():
        features = {"ids": tf.compat.v1.placeholder(tf.int64, [None])}
        return tf.compat.v1.estimator.export.ServingInputReceiver(features, features)

    with programs.ascpipe(), event_files():
        estimator = tf.compat.v1.estimator.Estimator(model, str(tmp_path / "model"))
        with pytest.raises(MineError):
            estimator.export_saved_model(place.format(tmp_path / "exported"), receive, checkpoint_path=saved)
    assert os.listdir(str(temporary)) == []
    assert not list(tmp_path.glob("exported/**/*.asctable"))


def refusing(*args):
    raise tf.errors.InternalError(None, None, "the clean-up failed")


@pytest.fixture
def running():
    """A session of a program that has trained two keys."""
    with one_table([batch(1, 2)], [1]) as program:
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            program.take()
            yield run


def test_what_keeps_a_graph_from_being_completed_is_said_although_the_pipeline_cannot_be_ended(monkeypatch):
    def fail(state):
        raise MineError

    plain = Pipeline.close
    monkeypatch.setattr(Pipeline, "close", lambda self: refusing(plain(self)))
    monkeypatch.setattr(start_pipeline, "complete_graph", fail)
    with one_table([batch(1, 2)], [1]) as program:
        start_asc_pipeline()
        with programs.session() as run, pytest.raises(MineError):
            program.start(run)


def test_an_error_in_a_hold_reaches_the_user_although_the_hold_cannot_be_given_back(running, monkeypatch):
    refuse_after(monkeypatch, "asc_hold_release")
    with pytest.raises(MineError), hold(alone=False):
        raise MineError
    with pytest.raises(tf.errors.InternalError, match="the clean-up failed"), hold(alone=False):
        pass


def refuse_after(monkeypatch, name):
    """Let a function of the C interface do its work, and then fail."""
    plain = native.call

    def call(called, *arguments):
        plain(called, *arguments)
        if called == name:
            refusing()

    monkeypatch.setattr(native, "call", call)


def test_an_error_beside_a_copy_of_tables_reaches_the_user_although_it_cannot_be_given_back(running, monkeypatch):
    refuse_after(monkeypatch, "asc_instance_release")
    with pytest.raises(MineError), instance_of([]):
        raise MineError


def test_what_keeps_tables_from_being_frozen_is_said_although_they_cannot_be_let_go(running, monkeypatch):
    number = pipeline().tables["ids"].shape.number
    refuse_after(monkeypatch, "asc_save_end")
    with hold(alone=False) as held:
        state = {"ids": held.table(number)}
        with pytest.raises(MineError), frozen_tables(held, {"ids": number}, state, 1 << 20):
            raise MineError

        def fail(*args):
            raise MineError

        monkeypatch.setattr(FrozenTables, "_copy", fail)
        with pytest.raises(MineError), frozen_tables(held, {"ids": number}, state, 1 << 20):
            pass


def test_what_keeps_a_table_from_being_loaded_is_said_although_it_cannot_be_given_up(running, tmp_path, monkeypatch):
    saver = Saver()
    path = saver.save(running, str(tmp_path / "model"))
    running.run(tf.compat.v1.global_variables_initializer())

    def fail(*args):
        raise MineError

    plain = Hold.abort_load
    monkeypatch.setattr(Hold, "abort_load", lambda self, number: refusing(plain(self, number)))
    monkeypatch.setattr(loading, "_fill_rows", fail)
    with pytest.raises(MineError):
        saver.restore(running, path)


def test_what_keeps_tables_from_being_exported_is_said_although_the_file_cannot_be_removed(saved, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    plain = disk.try_unlink
    unlinked = []

    def try_unlink(folder, name):
        unlinked.append(name)
        if len(unlinked) > 1:
            plain(folder, name)
            raise OSError(5, "Input/output error")
        return plain(folder, name)

    monkeypatch.setattr(disk, "sync", full)
    monkeypatch.setattr(disk, "try_unlink", try_unlink)
    with pytest.raises(CheckpointError, match="No space left on device"):
        export_tables(saved)
