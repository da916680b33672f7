"""A save in the background is the state after its step, whatever is trained while it is written."""
import contextlib
import os
import threading

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.checkpoint.errors import NotSavedError
from ascpipe.checkpoint.paths import MANIFEST
from ascpipe.errors import OutOfSharedMemoryError
from ascpipe.shm import memory
from ascpipe.tf import CheckpointSaverHook, Saver, trained_batches, wait_for_save
from ascpipe.tf.running.hold_between_steps import Hold
from mx_rec.core.asc import start_asc_pipeline
from mx_rec.util.initialize import terminate_config_initializer
from tests.support.waiting import wait_until
from tests.tf import programs
from tests.tf.background import (
    BEFORE_ENTRIES,
    BEFORE_ROWS,
    BEFORE_THE_END,
    WAIT_S,
    Paused,
    content,
    fail_in_the_background,
    pipeline,
)
from tests.tf.one_table import batch, one_table
from tests.tf.test_saving import STEPS, Run, ascpipe
from tests.tf.test_saving_in_managed_sessions import train_an_estimator

SAVED = 8

pytestmark = pytest.mark.timeout_s(120)


@contextlib.contextmanager
def training(tier, monkeypatch, optimizer="lazy_adam"):
    with ascpipe(tier):
        run = Run(tier, optimizer, monkeypatch).initialise()
        with run.run:
            run.train(SAVED)
            yield run
            wait_for_save()


def waits():
    return [table["save_waits"] for table in pipeline().link.status()["tables"]]


def trainer_waits_for():
    return [wait["waits_for"] for wait in pipeline().link.status()["waits"] if wait["who"] == "trainer"]


def test_by_key_tells_two_steps_apart(tmp_path, monkeypatch):
    with training("host", monkeypatch) as run:
        first = run.saver.save(run.run, str(tmp_path / "model"), global_step=1)
        run.train(1)
        second = run.saver.save(run.run, str(tmp_path / "model"), global_step=2)
    assert all(one != other for one, other in zip(content(first), content(second)))


@pytest.mark.parametrize("point", [BEFORE_ENTRIES, BEFORE_ROWS], ids=["entries", "rows"])
@pytest.mark.parametrize("tier", ["device", "host", "disk", "expansion"])
@pytest.mark.each_value
def test_what_is_saved_is_the_state_of_the_step_although_training_goes_on(tier, point, tmp_path, monkeypatch):
    paused = Paused(monkeypatch, *point)
    with training(tier, monkeypatch) as run, paused:
        wanted = run.saver.save(run.run, str(tmp_path / "wanted"), global_step=SAVED)
        begun = run.saver.save(run.run, str(tmp_path / "model"), global_step=SAVED, background=True)
        assert paused.reached.wait(WAIT_S)
        run.train(STEPS - SAVED)
        paused.go_on.set()
        wait_for_save()
        assert begun == str(tmp_path / "model-{}".format(SAVED))
        assert content(begun) == content(wanted)


def test_training_does_not_notice_a_save_in_the_background(tmp_path, monkeypatch):
    with training("host", monkeypatch) as run:
        losses, rows = run.train(STEPS - SAVED), run.rows()
    paused = Paused(monkeypatch, *BEFORE_ENTRIES)
    with training("host", monkeypatch) as run, paused:
        run.saver.save(run.run, str(tmp_path / "model"), background=True)
        assert (run.train(STEPS - SAVED), run.rows()) == (losses, rows)


@pytest.mark.parametrize("tier", ["host", "disk", "expansion"])
def test_a_step_waits_for_room_in_the_log_counted_and_named(tier, tmp_path, monkeypatch):
    paused = Paused(monkeypatch, *BEFORE_ROWS)
    with training(tier, monkeypatch) as run, paused:
        pipeline().save_log_bytes = 64
        wanted = run.saver.save(run.run, str(tmp_path / "wanted"), global_step=SAVED)
        begun = run.saver.save(run.run, str(tmp_path / "model"), global_step=SAVED, background=True)
        assert paused.reached.wait(WAIT_S)
        losses = []
        trainer = threading.Thread(target=lambda: losses.extend(run.train(STEPS - SAVED)))
        trainer.start()
        try:
            wait_until(lambda: sum(waits()) > 0)  # counted first, said at the end of that round
            wait_until(lambda: trainer_waits_for() == ["space in the log of a save"])
            assert len(losses) == 0
        finally:
            paused.go_on.set()
            trainer.join()
        wait_for_save()
        assert len(losses) == STEPS - SAVED
        assert content(begun) == content(wanted)


class Late(list):
    """Batches, the last of which comes when it may."""

    def __init__(self, batches):
        super().__init__(batches)
        self.may_come = threading.Event()

    def __iter__(self):
        yield from self[:-1]
        assert self.may_come.wait(WAIT_S)
        yield self[-1]


def test_keys_that_are_read_ahead_just_when_a_save_begins_are_not_in_it(tmp_path, monkeypatch):
    late, plain = Late([batch(1, 2), batch(2, 3), batch(4, 5, 6)]), Hold.saving

    @contextlib.contextmanager
    def saving(held, tables, log_bytes):
        with plain(held, tables, log_bytes) as save:
            header = held.table(tables[0]).header
            used = int(header["entries_used"])
            late.may_come.set()
            wait_until(lambda: int(header["entries_used"]) > used)
            yield save

    monkeypatch.setattr(Hold, "saving", saving)
    with one_table(late, [1, 4]) as program:
        start_asc_pipeline()
        saver = Saver()
        with programs.session(inter_op_parallelism_threads=4) as run:
            program.start(run)
            assert [program.take(), program.take()] == [[1, 1], [0, 1]]
            saved = saver.save(run, str(tmp_path / "model"), background=True)
            wait_for_save()
            assert program.take() == [1, 1, 1]
    assert sorted(content(saved)[0]["ids"][0]) == [1, 2, 3]


def test_a_checkpoint_counts_from_when_it_is_named(tmp_path, monkeypatch):
    paused = Paused(monkeypatch, *BEFORE_THE_END)
    with training("host", monkeypatch) as run, paused:
        before = run.saver.save(run.run, str(tmp_path / "model"), global_step=1)
        run.train(1)
        begun = run.saver.save(run.run, str(tmp_path / "model"), global_step=2, background=True)
        assert paused.reached.wait(WAIT_S)
        assert tf.train.latest_checkpoint(str(tmp_path)) == before
        assert not os.path.exists(begun + ".index")
        paused.go_on.set()
        wait_for_save()
        assert tf.train.latest_checkpoint(str(tmp_path)) == begun
        assert os.path.exists(begun + ".meta")
        assert run.saver.last_checkpoints == [before, begun]


@pytest.mark.parametrize("act", ["save", "restore", "end"])
def test_the_next_save_a_restore_and_the_end_wait(act, tmp_path, monkeypatch):
    paused = Paused(monkeypatch, *BEFORE_THE_END)
    with training("host", monkeypatch) as run, paused:
        begun = run.saver.save(run.run, str(tmp_path / "model"), global_step=1, background=True)
        assert paused.reached.wait(WAIT_S)
        threading.Timer(0.5, paused.go_on.set).start()
        if act == "save":
            run.train(1)
            run.saver.save(run.run, str(tmp_path / "model"), global_step=2)
        elif act == "restore":
            run.saver.restore(run.run, begun)
        else:
            terminate_config_initializer()
        assert os.path.exists(begun + ".index")


def test_a_save_that_fails_in_the_background_says_so_once_and_training_goes_on(tmp_path, monkeypatch):
    with training("host", monkeypatch) as run:
        before = run.saver.save(run.run, str(tmp_path / "model"), global_step=1)
        run.train(1)
        with monkeypatch.context() as patch:
            fail_in_the_background(patch, OSError(28, "No space left on device"))
            run.saver.save(run.run, str(tmp_path / "model"), global_step=2, background=True)
            run.train(1)
            with pytest.raises(NotSavedError, match="No space left on device.*model-1 is intact"):
                wait_for_save()
        wait_for_save()
        assert tf.train.latest_checkpoint(str(tmp_path)) == before
        assert not [name for name in os.listdir(str(tmp_path)) if name.startswith(".")]
        run.train(1)
        after = run.saver.save(run.run, str(tmp_path / "model"), global_step=4, background=True)
        wait_for_save()
        assert tf.train.latest_checkpoint(str(tmp_path)) == after


def test_an_error_of_the_background_is_raised_by_the_next_save(tmp_path, monkeypatch):
    with training("device", monkeypatch) as run:
        with monkeypatch.context() as patch:
            fail_in_the_background(patch, OSError(5, "Input/output error"))
            run.saver.save(run.run, str(tmp_path / "model"), global_step=2, background=True)
            with pytest.raises(NotSavedError, match="model-2 was not saved"):
                run.saver.save(run.run, str(tmp_path / "model"), global_step=3)
        run.saver.save(run.run, str(tmp_path / "model"), global_step=3)


def test_too_little_memory_for_copies_is_an_error_before_anything_is_copied(tmp_path, monkeypatch):
    def refuse(need, what):
        raise OutOfSharedMemoryError(what, need, "1.0 MiB free")
    with training("host", monkeypatch) as run:
        with monkeypatch.context() as patch:
            patch.setattr(memory, "require", refuse)
            with pytest.raises(NotSavedError, match="needs [0-9]+ bytes of memory.*Save in the foreground"):
                run.saver.save(run.run, str(tmp_path / "model"), global_step=2, background=True)
        assert os.listdir(str(tmp_path)) == []
        run.train(1)


def test_a_delta_may_be_saved_in_the_background(tmp_path, monkeypatch):
    paused = Paused(monkeypatch, *BEFORE_ENTRIES)
    with training("host", monkeypatch) as run, paused:
        run.saver.save(run.run, str(tmp_path / "model"), global_step=SAVED)
        run.train(3)
        wanted = run.saver.save(run.run, str(tmp_path / "wanted"), global_step=SAVED + 3)
        begun = run.saver.save(run.run, str(tmp_path / "model"), global_step=SAVED + 3, save_delta=True,
                               background=True)
        assert paused.reached.wait(WAIT_S)
        run.train(5)
        paused.go_on.set()
        wait_for_save()
        assert os.path.isdir(str(tmp_path / "delta-sparse-model-{}".format(SAVED + 3)))
        assert content(begun)[:2] == content(wanted)[:2]


def test_a_step_that_is_saved_again_unchanged_keeps_its_checkpoint(tmp_path, monkeypatch):
    with training("host", monkeypatch) as run:
        path = str(tmp_path / "model")
        prefix = run.saver.save(run.run, path, global_step=7)
        manifest = tmp_path / "sparse-model-7" / MANIFEST
        inode = os.stat(str(manifest)).st_ino
        assert run.saver.save(run.run, path, global_step=7) == prefix
        assert run.saver.save(run.run, path, global_step=7, background=True) == prefix
        wait_for_save()
        assert os.stat(str(manifest)).st_ino == inode
        run.run.run(tf.compat.v1.trainable_variables("dense")[0].assign(np.zeros((3 * programs.DIM, 1), np.float32)))
        assert run.saver.save(run.run, path, global_step=7) == prefix  # a variable has changed without a step
        assert os.stat(str(manifest)).st_ino != inode
        assert not np.frombuffer(content(prefix)[1]["dense/weights"], np.float32).any()


def test_an_estimator_whose_hook_saves_in_the_background_goes_on_bit_by_bit(tmp_path):
    def train(folder, steps, skip=0):
        hook = CheckpointSaverHook(str(folder), save_steps=3, background_save=True)
        return train_an_estimator(folder, steps, skip, "host", hooks=[hook])

    whole = train_an_estimator(tmp_path / "whole", 20, 0, "host")
    first = train(tmp_path / "parts", 8)
    newest = tf.train.latest_checkpoint(str(tmp_path / "parts"))
    assert newest.endswith("model.ckpt-8")
    assert first + train(tmp_path / "parts", 12, trained_batches(newest)["training"]) == whole
    assert sorted(path.name for path in (tmp_path / "parts").glob("sparse-*")) == [
        "sparse-model.ckpt-17", "sparse-model.ckpt-20"]


def test_listeners_of_a_hook_that_may_save_in_the_background_find_the_checkpoint_complete(tmp_path):
    class Listener(tf.compat.v1.estimator.CheckpointSaverListener):
        def __init__(self):
            self.found = []

        def after_save(self, session, global_step_value):
            newest = tf.train.latest_checkpoint(str(tmp_path))
            self.found.append((global_step_value, os.path.basename(newest)))

    listener = Listener()
    hook = CheckpointSaverHook(str(tmp_path), save_steps=3, listeners=[listener], background_save=True)
    train_an_estimator(tmp_path, 7, 0, "host", hooks=[hook])
    assert listener.found == [(step, "model.ckpt-{}".format(step)) for step in (0, 3, 6, 7)]
