"""A checkpoint is durable before it gets its name, and its name is durable when the save returns."""
import errno
import os

import pytest

from ascpipe.checkpoint import disk, staging
from tests.support import checkpoints
from tests.support.checkpoints import content

CONTENTS = [content("user", 9, 3, pool_rows=4), content("item", 5, 0, slots=())]


class Synced:
    """Records which files and directories were synced, and checks a save when its directory gets its name."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.inodes, self.named = str(folder), set(), []
        self._rename, self._exchange = disk.rename, disk.try_exchange
        monkeypatch.setattr(disk, "sync", self.sync)
        monkeypatch.setattr(disk, "rename", self.rename)
        monkeypatch.setattr(disk, "try_exchange", self.exchange)

    def sync(self, fd):
        self.inodes.add(os.fstat(fd).st_ino)

    def rename(self, directory_fd, old, new, new_directory_fd=None):
        self._look(old)
        self._rename(directory_fd, old, new, new_directory_fd)

    def exchange(self, directory_fd, one, other):
        self._look(one)
        return self._exchange(directory_fd, one, other)

    def _look(self, name):
        """What is not durable of a save that gets its name; the directory around it is to be synced afterwards."""
        if not name.startswith(staging.PREFIX):
            return
        for path, folders, files in os.walk(os.path.join(self.folder, name)):
            self.named += [os.path.join(path, one) for one in [*folders, *files, "."]
                           if os.stat(os.path.join(path, one)).st_ino not in self.inodes]
        self.inodes.discard(os.stat(self.folder).st_ino)


def no_link(*_, **__):
    raise OSError(errno.EPERM, "this file system has no links")


@pytest.mark.parametrize("times", [1, 2], ids=["a new one", "in the place of another"])
@pytest.mark.parametrize("has_links", [True, False], ids=["links", "no links"])
def test_all_files_and_directories_are_synced_before_the_commit(times, has_links, tmp_path, monkeypatch):
    if not has_links:
        monkeypatch.setattr(os, "link", no_link)
    for turn in range(times):
        synced = Synced(tmp_path, monkeypatch)
        checkpoints.save(tmp_path, 3, CONTENTS, dense="turn {}".format(turn))
        assert synced.named == []
        assert os.stat(str(tmp_path)).st_ino in synced.inodes
        names = [name for name in os.listdir(str(tmp_path)) if name.startswith("model.ckpt-3.")]
        assert len(names) == 3
        assert all(os.stat(str(tmp_path / name)).st_ino in synced.inodes for name in names)
