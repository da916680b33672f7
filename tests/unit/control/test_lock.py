"""The lock of a run directory is that of the file at its path."""
import fcntl
import os

from ascpipe.control import lock
from ascpipe.names import RunDir


def test_a_file_that_was_removed_before_it_was_locked_is_not_the_lock(tmp_path, monkeypatch):
    run = RunDir(str(tmp_path))
    locked = []

    def flock(fd, operation):
        if not locked:
            os.unlink(str(run.lock))  # as a sweep may do between open and flock
        real(fd, operation)
        locked.append(os.fstat(fd).st_ino)

    real = fcntl.flock
    monkeypatch.setattr(lock.fcntl, "flock", flock)
    fd = lock.try_acquire(run)
    try:
        assert len(locked) == 2
        assert os.fstat(fd).st_ino == os.stat(str(run.lock)).st_ino
    finally:
        os.close(fd)
