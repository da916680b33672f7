"""Row files meet real faults: full and failing disks, limits, SIGKILL in the middle of writes."""
import os
import select
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

from ascpipe.disk.row_engine import NEVER_WRITTEN, STALE, TORN, RowEngine
from tests.support import tree
from tests.support.programs import row_disks
from tests.support.programs.row_writer import slots_of
from tests.support.row_files import LIMIT_S, MemoryRows

PATH = os.environ["PATH"] + ":/sbin:/usr/sbin"
NEEDS = {**dict.fromkeys(row_disks.LOOP, ("/dev/loop-control", "losetup", "mkfs.ext4", "mount")),
         **dict.fromkeys(row_disks.FUSE, ("/dev/fuse",)), "limit": ()}


def skip_without(*needed):
    """Skip where a device or a tool is not there, or nothing may be mounted."""
    missing = [name for name in needed if not os.path.exists(name) and shutil.which(name, path=PATH) is None]
    if missing:
        pytest.skip("{} is not there to make a disk".format(", ".join(missing)))
    if needed and subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
                                 stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("mounting in a namespace of its own is not permitted here")


@pytest.mark.parametrize("case", sorted(row_disks.CASES))
@pytest.mark.timeout_s(180)
def test_a_disk_that_fails_is_told_and_no_good_row_is_lost(case, tmp_path):
    """``tests/support/programs/row_disks.py`` has what each case expects."""
    skip_without(*NEEDS[case])
    apart = ["unshare", "-m"] if NEEDS[case] else []
    done = subprocess.run([*apart, sys.executable, "-m", "tests.support.programs.row_disks", case, str(tmp_path)],
                          cwd=str(tree.ROOT), env=dict(os.environ, PATH=PATH), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=150)
    assert done.returncode == 0, done.stdout


class KilledWriter:
    """A file of which every row is written again and again by processes that are killed."""

    def __init__(self, directory, row_bytes, buffered, n):
        self.directory, self.row_bytes, self.n = str(directory), row_bytes, n
        self.engine = RowEngine(2)
        file = self.engine.create(self.directory, row_bytes, buffered=buffered)
        self.engine.grow(file, 2 * n, 1 << 20)
        self.keys = np.arange(n, dtype=np.int64)
        assert not MemoryRows(row_bytes, slots_of(self.keys, 1), self.keys, 1).write(self.engine, file).any()
        self.fd, self.generation = self.engine.describe(file).fd, 1

    def kill_one(self, random):
        """Start a writer, kill it somewhere in a generation, and wait until it has gone."""
        arguments = [self.fd, self.directory, self.row_bytes, self.n, self.generation]
        with subprocess.Popen([sys.executable, "-m", "tests.support.programs.row_writer", *map(str, arguments)],
                              cwd=str(tree.ROOT), pass_fds=[self.fd], stdout=subprocess.PIPE,
                              text=True) as writer:
            began = took_s = 0.0
            for _ in range(random.randint(2, 5)):
                self.generation = int(writer.stdout.readline())
                began, took_s = time.monotonic(), time.monotonic() - began
            select.select([writer.stdout], [], [], took_s * random.random_sample())  # anywhere in the next one
            writer.kill()
            later = writer.stdout.read().split()
        self.generation = int(later[-1]) if later else self.generation

    def check(self):
        """Each row is the one that was written in full, or the next; returns how many are the next."""
        file = self.engine.adopt(self.fd, self.directory, self.row_bytes)
        old = self._read(file, self.generation)
        new = self._read(file, self.generation + 1)
        assert not old.any(), "a row that was written is not there"
        assert set(new.tolist()) <= {0, STALE, NEVER_WRITTEN} | ({TORN} if self.row_bytes > 4088 else set())
        return int((new == 0).sum())

    def _read(self, file, generation):
        return MemoryRows(self.row_bytes, slots_of(self.keys, generation), self.keys, generation).read(
            self.engine, file)


def kill_writers(directory, random, row_bytes, buffered, kills, n=3000):
    killed = KilledWriter(directory, row_bytes, buffered, n)
    cut_short = 0
    for _ in range(kills):
        killed.kill_one(random)
        cut_short += 0 < killed.check() < n
    killed.engine.close(LIMIT_S)
    return cut_short


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("row_bytes", [128, 9000])
@pytest.mark.timeout_s(180)
@pytest.mark.each_value
def test_after_a_kill_every_row_is_the_old_one_or_the_new_one(tmp_path, seed, row_bytes, buffered):
    kill_writers(tmp_path, np.random.RandomState(seed % 2**32), row_bytes, buffered, kills=2)


@pytest.mark.long
@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("row_bytes", [128, 512, 4088, 9000])
@pytest.mark.timeout_s(900)
def test_after_many_kills_every_row_is_the_old_one_or_the_new_one(tmp_path, seed, row_bytes, buffered):
    assert kill_writers(tmp_path, np.random.RandomState(seed % 2**32), row_bytes, buffered, kills=40) > 5
