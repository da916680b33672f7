"""The door to the disk: files that are synced together, and a directory that cannot be opened."""
import errno
import os

import pytest

from ascpipe.checkpoint import disk


@pytest.fixture
def fds(tmp_path):
    opened = [os.open(str(tmp_path / str(number)), os.O_CREAT | os.O_WRONLY, 0o600) for number in range(40)]
    yield opened
    for fd in opened:
        os.close(fd)


def test_each_file_is_synced_once(fds, monkeypatch):
    synced = []
    monkeypatch.setattr(disk, "sync", synced.append)
    disk.sync_all(fds)
    assert sorted(synced) == sorted(fds)
    disk.sync_all([])
    assert len(synced) == len(fds)


def test_the_first_failure_is_raised_after_all_were_tried(fds, monkeypatch):
    tried = []

    def sync(fd):
        tried.append(fd)
        if fd in (fds[3], fds[30]):
            raise OSError(errno.EIO if fd == fds[3] else errno.ENOSPC, "no")

    monkeypatch.setattr(disk, "sync", sync)
    with pytest.raises(OSError) as caught:
        disk.sync_all(fds)
    assert caught.value.errno == errno.EIO and sorted(tried) == sorted(fds)


def test_a_directory_that_was_made_and_cannot_be_opened_is_not_left_behind(tmp_path, monkeypatch):
    def refuse(name, directory_fd=None):
        raise OSError(errno.ENFILE, "no descriptors are left", name)

    above = os.open(str(tmp_path), os.O_RDONLY)
    try:
        monkeypatch.setattr(disk, "open_directory", refuse)
        with pytest.raises(OSError) as caught:
            disk.make_directory(above, "new")
    finally:
        os.close(above)
    assert caught.value.errno == errno.ENFILE and os.listdir(str(tmp_path)) == []


def test_a_directory_below_a_file_is_not_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError) as caught:
        disk.make_path(str(tmp_path / "file" / "a" / "b"))
    assert caught.value.filename == str(tmp_path / "file")


def test_a_directory_may_be_made_by_another_process_at_the_same_time(tmp_path, monkeypatch):
    mkdir = os.mkdir

    def made_before(name, *arguments, **named):
        mkdir(name, *arguments, **named)
        mkdir(name, *arguments, **named)

    monkeypatch.setattr(os, "mkdir", made_before)
    disk.make_path(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
