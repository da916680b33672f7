"""A worker that ends states by its exit code whether compiled kernels were what it could not read."""
import errno
import os
import signal

import pytest
from numba.core import caching

from ascpipe.control.exec_worker import BROKEN_KERNELS, NO_ROOM_FOR_KERNELS
from ascpipe.daemon.worker_ends import ended_by_broken_kernels
from ascpipe.workers.loading import exit_code


def raised(action):
    with pytest.raises(Exception) as caught:
        action()
    return caught.value


def read_damaged(tmp_path):
    index = caching.IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    (tmp_path / "kernel.nbi").write_bytes(b"")
    index.load("signature")


def fail_after(action):
    try:
        action()
    except Exception as error:
        raise ImportError("a module cannot be loaded") from error


def test_an_exception_that_numba_raises_while_it_reads_kernels_has_a_code_of_its_own(tmp_path):
    assert exit_code(raised(lambda: read_damaged(tmp_path))) == BROKEN_KERNELS
    assert exit_code(raised(lambda: fail_after(lambda: read_damaged(tmp_path)))) == BROKEN_KERNELS


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_kernel_that_cannot_be_written_is_told_from_one_that_is_broken(number, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    index = caching.IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    monkeypatch.setattr(caching.os, "replace", refuse)
    assert exit_code(raised(lambda: index.save("signature", "code"))) == NO_ROOM_FOR_KERNELS
    assert not ended_by_broken_kernels(NO_ROOM_FOR_KERNELS)


def test_any_other_exception_ends_by_the_usual_code():
    assert exit_code(raised(lambda: int("caching.py"))) == 1
    assert exit_code(ImportError("numba/core/caching.py")) == 1


@pytest.mark.parametrize(("code", "loaded", "verdict"), [
    (BROKEN_KERNELS, False, True), (BROKEN_KERNELS, True, True), (-signal.SIGSEGV, False, True),
    (-signal.SIGABRT, False, True), (-signal.SIGSEGV, True, False), (-signal.SIGKILL, False, False),
    (1, False, False), (0, False, False)])
def test_kernels_are_broken_if_the_process_says_so_or_falls_while_it_loads(code, loaded, verdict):
    assert ended_by_broken_kernels(code, loaded) == verdict
