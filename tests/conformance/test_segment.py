"""Segments: made, handed over, checked, and gone without a trace."""
import errno
import os
import subprocess
import sys

import numpy as np
import pytest

from ascpipe.errors import OutOfSharedMemoryError, SegmentError
from ascpipe.shm import segment, syscalls

pytestmark = pytest.mark.smoke

SIZE = 1 << 16
BOTH = pytest.mark.parametrize("use_memfd", [False, True])


@pytest.fixture
def made(use_memfd):
    before = set(os.listdir(segment.SHM_DIR))
    fd = segment.create(SIZE, "a test", use_memfd=use_memfd)
    assert set(os.listdir(segment.SHM_DIR)) <= before, "a name was left"
    yield fd
    os.close(fd)


@BOTH
def test_what_one_mapping_writes_the_other_reads(made):
    first, second = segment.map(made, SIZE), segment.map(made, SIZE)
    first[SIZE - 1] = 7
    assert second[SIZE - 1] == 7
    assert not second[:SIZE - 1].any()


@BOTH
def test_all_pages_are_there_from_the_start(made):
    assert os.fstat(made).st_blocks * 512 >= SIZE


@BOTH
def test_a_descriptor_is_not_inherited_and_only_ours_to_open(made):
    assert not os.get_inheritable(made)
    assert os.fstat(made).st_mode & 0o077 == 0 or syscalls.seals_of(made) == syscalls.SEALS


@BOTH
def test_a_forked_child_has_no_mapping(made):
    code = ("import os, sys; from ascpipe.shm import segment\n"
            "array = segment.map(int(sys.argv[1]), {})\n"
            "pid = os.fork()\n"
            "if pid == 0:\n"
            "    address = '{{:x}}-'.format(array.ctypes.data)\n"
            "    os._exit(any(line.startswith(address) for line in open('/proc/self/maps')))\n"
            "sys.exit(os.waitpid(pid, 0)[1] != 0)\n").format(SIZE)
    assert subprocess.run([sys.executable, "-c", code, str(made)], pass_fds=[made]).returncode == 0


def test_a_sealed_segment_cannot_change_its_size():
    fd = segment.create(SIZE, "a test", use_memfd=True)
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(fd, SIZE // 2)
        with pytest.raises(PermissionError):
            os.ftruncate(fd, SIZE * 2)
    finally:
        os.close(fd)


def test_the_memory_is_given_back_with_the_last_view():
    fd = segment.create(SIZE, "a test", use_memfd=True)
    array = segment.map(fd, SIZE)
    address = "{:x}-".format(array.ctypes.data)
    view = array.view(np.uint32)[4:]
    del array
    os.close(fd)
    with open("/proc/self/maps") as maps:
        assert address in maps.read()
    del view
    with open("/proc/self/maps") as maps:
        assert address not in maps.read()


@BOTH
@pytest.mark.parametrize("size", [SIZE - 1, SIZE + 4096, 0, -1])
def test_another_size_is_refused(made, size):
    with pytest.raises(SegmentError, match=str(SIZE)):
        segment.map(made, size)


def test_a_named_file_is_refused(tmp_path):
    with open(str(tmp_path / "file"), "wb+") as file:
        file.truncate(SIZE)
        with pytest.raises(SegmentError, match="name"):
            segment.map(file.fileno(), SIZE)


def test_a_memory_file_whose_size_may_change_is_refused():
    fd = syscalls.memfd_create("open")
    try:
        os.ftruncate(fd, SIZE)
        with pytest.raises(SegmentError, match="sealed"):
            segment.map(fd, SIZE)
    finally:
        os.close(fd)


def test_a_pipe_is_refused():
    read, write = os.pipe()
    try:
        with pytest.raises(SegmentError, match="not memory"):
            segment.map(read, SIZE)
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_memory_of_another_user_is_refused():
    fd = syscalls.memfd_create("foreign")
    try:
        os.ftruncate(fd, SIZE)
        syscalls.add_seals(fd)
        os.fchown(fd, 65534, 65534)
        with pytest.raises(SegmentError, match="65534"):
            segment.map(fd, SIZE)
    finally:
        os.close(fd)


@pytest.mark.parametrize("use_memfd", [False, True])
def test_no_room_after_all_names_the_need_and_leaves_nothing(monkeypatch, use_memfd):
    def no_room(fd, offset, size):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_room)
    open_before = os.listdir("/proc/self/fd")
    with pytest.raises(OutOfSharedMemoryError, match="E401.*stream 3") as caught:
        segment.create(SIZE, "stream 3", use_memfd=use_memfd)
    assert caught.value.need_bytes == SIZE
    assert os.listdir("/proc/self/fd") == open_before


def test_a_sweep_takes_only_unfinished_segments_of_ours(tmp_path):
    ours, other = "ascpipe." + "0a" * 16, "ascpipe.notes"
    for name in (ours, other, "psm_1234"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / ("ascpipe." + "1b" * 16)).symlink_to(tmp_path / other)
    assert segment.sweep(str(tmp_path)) == [ours]
    assert sorted(os.listdir(str(tmp_path))) == sorted([other, "psm_1234", "ascpipe." + "1b" * 16])
