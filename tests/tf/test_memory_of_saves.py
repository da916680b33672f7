"""What a save in the background takes for the keys is given back when it has ended."""
import contextlib
import threading

import pytest

from ascpipe.checkpoint.errors import NotSavedError
from ascpipe.tf import Saver, wait_for_save
from mx_rec.core.asc import start_asc_pipeline
from tests.support.covering import some
from tests.support.programs import running
from tests.support.programs.kept_memory import ENTRIES_BYTES, SOURCE, TIERS, copies_bytes, private_bytes
from tests.tf import programs
from tests.tf.background import fail_in_the_background, pipeline
from tests.tf.one_table import one_table

SMALL = ENTRIES_BYTES // 2  #: less than what one save takes; room for what a step, or TensorFlow's save, keeps

pytestmark = pytest.mark.timeout_s(180)


class Trained:
    """The program after all keys were trained and saved in the foreground, when TensorFlow has its buffers, too."""

    def __init__(self, program, run, folder):
        self._program, self._run, self._path = program, run, str(folder / "model")
        self._saver = Saver(max_to_keep=2)
        for step in range(4):
            self.save(step, background=False)

    def save(self, step, background=True):
        """A save, and training beside it."""
        self._saver.save(self._run, self._path, global_step=step, background=background)
        self._program.take()


@contextlib.contextmanager
def trained(tier, folder):
    with one_table(SOURCE, [0], stages=lambda data: data.repeat().prefetch(4), **TIERS[tier]) as program:
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            for _ in SOURCE:
                program.take()
            yield Trained(program, run, folder)
            wait_for_save()


@pytest.mark.parametrize("tier", some(TIERS, "host"))
def test_what_saves_in_the_background_took_is_given_back_but_the_copy_of_device_rows(tier):
    (told,) = running.run("kept_memory", "kept:" + tier)  # a process of its own: tests before this one keep memory, too
    assert told["kept_bytes"] < copies_bytes(tier) + SMALL


def test_copies_of_device_rows_are_given_back_with_the_pipeline(tmp_path):
    with trained("device", tmp_path) as at:
        at.save(4)
        wait_for_save()
        lasting = private_bytes()
    assert private_bytes() < lasting - copies_bytes("device")


def test_what_a_save_took_that_has_failed_is_given_back_before_anybody_asks_how_it_ended(tmp_path, monkeypatch):
    with trained("host", tmp_path) as at:
        before = private_bytes()
        with monkeypatch.context() as patch:
            fail_in_the_background(patch, OSError(28, "No space left on device"))
            at.save(4)
            pipeline().background.settle()
            assert private_bytes() - before < SMALL
        with pytest.raises(NotSavedError, match="No space left"):
            wait_for_save()


def test_one_thread_writes_all_saves_and_ends_with_the_pipeline(tmp_path):
    def savers():
        return [thread for thread in threading.enumerate() if thread.name == "ascpipe-save"]

    with trained("host", tmp_path) as at:
        assert savers() == []
        at.save(4)
        first = savers()
        wait_for_save()
        at.save(5)
        assert len(first) == 1
        assert savers() == first
    assert savers() == []
