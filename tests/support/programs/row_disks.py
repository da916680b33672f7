"""Row files on disks that fail: ``python -m tests.support.programs.row_disks CASE FOLDER``, in namespaces of its own.

Each case mounts what it needs below FOLDER; the end of the process unmounts it.  Exit code 0: all was as it should be.
"""
import errno
import os
import re
import resource
import subprocess
import sys

import numpy as np

from ascpipe.disk.row_engine import NEVER_WRITTEN, RowEngine, RowEngineError
from bench.slow_disk import SlowDisk
from tests.support.row_files import LIMIT_S, MemoryRows

ROW_BYTES, PER_BLOCK = 512, 7
MIB = 1 << 20


def run(*command):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def loop_disk(folder, image, size_mib):
    """An ext4 file system in an image; returns where it is mounted."""
    mounted = os.path.join(folder, "disk")
    os.mkdir(mounted)
    run("truncate", "-s", "{}M".format(size_mib), image)
    run("mkfs.ext4", "-q", "-E", "lazy_itable_init=1", image)
    run("mount", "-o", "loop", image, mounted)
    return mounted


def free_bytes(path):
    known = os.statvfs(path)
    return known.f_bavail * known.f_frsize


def one_a_block(blocks, generation):
    return MemoryRows(ROW_BYTES, np.arange(blocks) * PER_BLOCK, np.arange(blocks), generation)


def full(folder):
    """The file grows until the disk is full, then says so and is as it was."""
    disk = loop_disk(folder, os.path.join(folder, "image"), 64)
    engine = RowEngine(2)
    file = engine.create(disk, ROW_BYTES)
    assert engine.describe(file).file_system_name == b"ext" and engine.describe(file).is_direct
    refusal = ""
    while not refusal:
        before = engine.describe(file).blocks, free_bytes(disk)
        try:
            engine.grow(file, before[0] + 1, 8 * MIB)
        except RowEngineError as error:
            refusal = str(error)
    need, room = map(int, re.search(r"needs (\d+) bytes more, and (\d+) are free: No space left", refusal).groups())
    assert need == 8 * MIB and 0 < room < need and disk in refusal
    assert (engine.describe(file).blocks, free_bytes(disk)) == before
    rows = one_a_block(1000, 1)
    assert not rows.write(engine, file).any() and not rows.read(engine, file).any()
    engine.close(LIMIT_S)


def thin(folder, *, buffered=False):
    """The disk below the file system is full: no row whose write was good may be lost.

    Blocks are not adjacent: a loop device calls a request good of which it could store the first part.
    """
    small = os.path.join(folder, "small")
    os.mkdir(small)
    run("mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", small)
    disk = loop_disk(folder, os.path.join(small, "image"), 256)
    engine = RowEngine(4)
    file = engine.create(disk, ROW_BYTES, buffered=buffered)
    engine.grow(file, 16384, MIB)
    good, bad = [], 0
    for batch in range(64):
        blocks = 2 * np.arange(batch * 128, (batch + 1) * 128)
        rows = MemoryRows(ROW_BYTES, blocks * PER_BLOCK, blocks, 1, np.ones(128, np.uint8))
        results = rows.write(engine, file)
        assert set(results.tolist()) <= {0, errno.ENOSPC, errno.EIO}
        good += blocks[results == 0].tolist()
        bad += int((results != 0).sum())
    assert bad > 1000 and len(good) > 1000, (bad, len(good))
    os.posix_fadvise(engine.describe(file).fd, 0, 0, os.POSIX_FADV_DONTNEED)  # the disk answers, not the page cache
    assert not MemoryRows(ROW_BYTES, np.array(good) * PER_BLOCK, good, 1).read(engine, file).any()
    engine.close(LIMIT_S)


def thin_buffered(folder):
    """The same through the page cache, where only fdatasync tells."""
    thin(folder, buffered=True)


def cut(folder):
    """The end of the disk is gone: rows there are errors, those before it are good."""
    image = os.path.join(folder, "image")
    disk = loop_disk(folder, image, 64)
    engine = RowEngine(2)
    file = engine.create(disk, ROW_BYTES)
    engine.grow(file, 8192, MIB)
    rows = one_a_block(8192, 1)
    assert not rows.write(engine, file).any()
    run("sync")
    os.truncate(image, 24 * MIB)
    results = rows.read(engine, file)
    assert set(results.tolist()) == {0, errno.EIO}
    assert engine.figures(file).rows_failed == (results != 0).sum()
    engine.close(LIMIT_S)


def limit(folder):
    """A limit on file sizes makes a write short, and further ones fail; no signal ends the process."""
    engine = RowEngine(1)
    file = engine.create(folder, ROW_BYTES, buffered=True)
    engine.grow(file, 200, MIB)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100 * 4096 + 1024, resource.RLIM_INFINITY))
    rows = one_a_block(200, 1)
    results = rows.write(engine, file)
    assert not results[:100].any() and results[100] == errno.EIO and (results[101:] == errno.EFBIG).all()
    found = rows.read(engine, file)
    assert not found[:101].any() and (found[101:] == NEVER_WRITTEN).all()  # row 100 lies before the limit
    engine.close(LIMIT_S)


def read_only(folder):
    """A directory in which no file can be made is named."""
    disk = loop_disk(folder, os.path.join(folder, "image"), 16)
    run("mount", "-o", "remount,ro", disk)
    engine = RowEngine(1)
    try:
        engine.create(disk, ROW_BYTES)
    except RowEngineError as error:
        assert "no row file can be made in {}: Read-only file system".format(disk) in str(error)
    else:
        raise AssertionError("a file was made")
    engine.close(LIMIT_S)


def slow_disk(folder, threads):
    """A mounted ``SlowDisk``, an engine, and a file with a row in each of 64 blocks."""
    mounted = os.path.join(folder, "slow")
    os.mkdir(mounted)
    disk = SlowDisk(mounted)
    engine = RowEngine(threads)
    file = engine.create(mounted, ROW_BYTES)
    engine.grow(file, 256, MIB)
    rows = one_a_block(64, 1)
    assert not rows.write(engine, file).any()
    return disk, engine, file, rows


def slow(folder):
    """Where a read takes 20 ms, as many are under way as there are threads."""
    disk, engine, file, rows = slow_disk(folder, 16)
    known = engine.describe(file)
    assert known.file_system_name == b"FUSE" and known.is_direct
    assert disk.control["files"] == 1 and disk.control["names"] == 0  # it has no O_TMPFILE
    disk.control["delay_ms"] = 20
    assert not rows.read(engine, file).any()
    figures = engine.figures(file)
    assert figures.deepest > 8 and figures.read_p99_us >= 20000, (figures.deepest, figures.read_p99_us)
    engine.close(LIMIT_S)


def errors(folder):
    """What the disk answers is the result of the rows, and the rows before stand."""
    disk, engine, file, rows = slow_disk(folder, 4)
    changed = one_a_block(64, 2)
    for error in (errno.EIO, errno.ENOSPC):
        disk.control["error"] = error
        assert (rows.read(engine, file) == error).all()
        assert (changed.write(engine, file) == error).all()
        disk.control["error"] = 0
        assert not rows.read(engine, file).any()
    disk.control["short"] = 512  # of 4096, and these are not of the rows
    assert (changed.write(engine, file) == errno.EIO).all()
    disk.control["short"] = 0
    assert not changed.write(engine, file).any() and not changed.read(engine, file).any()
    engine.close(LIMIT_S)


def stuck(folder):
    """A disk that does not answer: the end has a limit and names the directory, and a late row goes nowhere."""
    disk, engine, file, rows = slow_disk(folder, 4)
    disk.control["held"] = 1
    rows.memory[:] = 0xEE
    batch = engine.read(file, rows.rows)
    assert not batch.wait(0.05)
    try:
        engine.close(0.1)
    except RowEngineError as error:
        assert "not ended within 100 ms in " + os.path.join(folder, "slow") in str(error)
    else:
        raise AssertionError("it has ended")
    assert batch.wait(0)
    assert sorted(batch.results.tolist()) == [errno.ETIMEDOUT] * 4 + [errno.ECANCELED] * 60
    disk.control["held"] = 0
    engine.close(LIMIT_S)  # now it ends
    assert (rows.memory == 0xEE).all()


LOOP = {"full": full, "thin": thin, "thin_buffered": thin_buffered, "cut": cut, "read_only": read_only}
FUSE = {"slow": slow, "errors": errors, "stuck": stuck}
CASES = {**LOOP, **FUSE, "limit": limit}

if __name__ == "__main__":
    CASES[sys.argv[1]](sys.argv[2])
