"""Saves in the background for tests: stopped where a test wants it, and compared."""
import threading

import tensorflow as tf

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.checkpoint.writer import CheckpointWriter
from ascpipe.tf import wait_for_save
from ascpipe.tf.checkpoints.snapshot_reader import FrozenTables
from ascpipe.tf.running.process import Process
from tests.support import checkpoints

WAIT_S = 30


class Paused:
    """Saves in the background stop before a method, until they are let go on."""

    def __init__(self, monkeypatch, owner, method):
        self.reached, self.go_on = threading.Event(), threading.Event()
        plain = getattr(owner, method)

        def waiting(*args, **kwargs):
            if threading.current_thread().name == "ascpipe-save":
                self.reached.set()
                assert self.go_on.wait(WAIT_S)
            return plain(*args, **kwargs)
        monkeypatch.setattr(owner, method, waiting)

    def __enter__(self):
        return self

    def __exit__(self, *reason):
        self.go_on.set()


BEFORE_ENTRIES = (FrozenTables, "tables")
BEFORE_ROWS = (CheckpointWriter, "begin_tables")
BEFORE_THE_END = (CheckpointWriter, "commit")


def fail_in_the_background(monkeypatch, error):
    """Let the disk refuse what the thread of a save writes."""
    plain = disk.write_all

    def refusing(*args):
        if threading.current_thread().name == "ascpipe-save":
            raise error
        plain(*args)
    monkeypatch.setattr(disk, "write_all", refusing)


def pipeline():
    return Process.current().running_pipeline()


def content(prefix):
    """All that a checkpoint says of each key, and the values of its variables."""
    with open_checkpoint(prefix) as checkpoint:
        tables = {name: (checkpoints.by_key(checkpoint.blocks(name)), checkpoints.by_key(checkpoint.candidates(name)),
                         checkpoint.tables[name].policies) for name in checkpoint.tables}
        dense = {}
        if checkpoint.dense_prefix is not None:
            reader = tf.train.load_checkpoint(checkpoint.dense_prefix)
            dense = {name: reader.get_tensor(name).tobytes() for name in reader.get_variable_to_shape_map()}
        return tables, dense, checkpoint.position


class Beside:
    """Saves in the foreground and, at the same step, in the background, whose thread goes on some moments later.

    Args:
        monkeypatch: stops the thread.
        save: saves to a path, ``save(path, background=True)``.
        folder: for the checkpoints.
    """

    def __init__(self, monkeypatch, save, folder):
        self._monkeypatch, self._save, self._folder = monkeypatch, save, folder
        self._moments, self._paused, self._pair = 0, None, None
        self.compared = 0

    def begin(self, point, moments):
        """Save, and let the thread stop at the point for so many moments."""
        self.end()
        name = "{}/{}".format(self._folder, self.compared)
        self._paused = Paused(self._monkeypatch, *point)
        self._pair = self._save(name + "-foreground"), self._save(name + "-background", background=True)
        self._moments = moments

    def let_go(self):
        """Something waits for the thread now."""
        if self._paused is not None:
            self._paused.go_on.set()

    def passed(self):
        """A moment has passed."""
        self._moments -= 1
        if self._moments <= 0:
            self.end()

    def end(self):
        """Both are the same."""
        if self._paused is not None:
            self.let_go()
            wait_for_save()
            self._monkeypatch.undo()
            self._paused = None
            assert content(self._pair[0]) == content(self._pair[1])
            self.compared += 1
