"""Paths of saves and restores that cannot be used: errors after which the program goes on."""
import functools
from typing import Callable, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.checkpoint.errors import CheckpointPathError, NoCheckpointError, NotSavedError
from ascpipe.tf import Saver
from tests.tf import programs

KEYS = 40
EVERY_KEY = [{"a": np.tile(np.arange(KEYS)[:, None], 3), "b": np.arange(KEYS, dtype=np.int32),
              "c": -1 - np.arange(KEYS), "label": np.zeros(KEYS, np.float32)}]


class Running(NamedTuple):
    """A program that trains: its session, a step, its saver, the bytes of every row."""

    run: tf.compat.v1.Session
    train: Callable
    saver: Saver
    rows: Callable


@pytest.fixture(scope="module")
def running():
    with programs.ascpipe():
        program = programs.Program(programs.batches(99, keys=KEYS),
                                   functools.partial(programs.optimizer, "adagrad", 0.3), eval_source=EVERY_KEY * 99)
        saver = Saver()
        with programs.session() as run:
            program.initialise(run)
            run.run(program.eval_iterator.initializer)
            run.run(program.train)  # all workers have begun: none may begin during a test
            yield Running(run, lambda: run.run(program.train), saver,
                          lambda: [rows.tobytes() for rows in run.run(program.eval_rows)])


@pytest.mark.parametrize("wanted", [
    "/proc/none/model", "{}/file/model", "{}/../" + 40 * "../" + "etc/model", "{}/" + 201 * "x", "{}/a\nb/model",
    "{}/.hidden", "/model", "s3://bucket/model", ""])
def test_a_path_where_nothing_can_be_saved_is_an_error_after_which_the_program_saves_elsewhere(wanted, tmp_path,
                                                                                               running):
    run, train, saver, rows = running
    (tmp_path / "file").write_text("")
    train()
    for given in ({}, {"background": True}):
        with pytest.raises((CheckpointPathError, NotSavedError, ValueError), match=".+"):
            saver.save(run, wanted.format(tmp_path), 7, **given)
            asc.wait_for_save()
    assert [name.name for name in tmp_path.iterdir()] == ["file"]
    train()
    expected = rows()
    prefix = saver.save(run, str(tmp_path / "model"), 7)
    train()
    saver.restore(run, prefix)
    assert rows() == expected


@pytest.mark.parametrize("kind", [ValueError, tf.errors.NotFoundError, tf.errors.OpError, FileNotFoundError])
@pytest.mark.parametrize("has_folder", [False, True])
@pytest.mark.each_value
def test_a_missing_checkpoint_is_e520_and_an_error_that_programs_of_tensorflow_catch(has_folder, kind, tmp_path,
                                                                                      running):
    path = str((tmp_path if has_folder else tmp_path / "none") / "model-7")
    with pytest.raises(kind, match="^E520: There is no checkpoint: {} does not exist".format(path)) as raised:
        running.saver.restore(running.run, path)
    assert isinstance(raised.value, NoCheckpointError) and raised.value.path == path
    assert raised.value.message == str(raised.value)
