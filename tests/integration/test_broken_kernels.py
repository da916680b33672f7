"""A broken file among the compiled kernels costs a compilation, never a run: with the real workers."""
import os
import shutil
import subprocess
import sys

import pytest
from numba.core.caching import _CacheLocator

from ascpipe.daemon import kernel_cache, warm_up
from ascpipe.kernels import atomics
from tests.support.daemons import DaemonProcess
from tests.support.waiting import wait_until

DAMAGES = {
    ".nbi": [lambda data: b"", lambda data: data[:len(data) // 2], lambda data: b"hello world\n" * 5],
    ".nbc": [lambda data: data[:len(data) // 2], lambda data: bytes(len(data)),
             lambda data: data[:len(data) // 2] + bytes(64) + data[len(data) // 2 + 64:]],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the compiled kernels of this tree, not sealed; other trees with the same sources share the folder."""
    ready = warm_up.warm_up("").folder
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path / "cache"))
    copy = kernel_cache.prepare(str(tmp_path / "cache"))
    mine = _CacheLocator.get_suitable_cache_subpath(atomics.__file__)
    shutil.copytree(os.path.join(ready, mine), os.path.join(copy, mine))
    return copy


def damage_some(folder):
    """Damage several files, each in its way; returns how many."""
    for ending, damages in DAMAGES.items():
        paths = sorted(os.path.join(path, name) for path, _, names in os.walk(folder) for name in names
                       if name.endswith(ending) and name.startswith(("atomics", "bits")))
        for path, damage in zip(paths, damages):
            with open(path, "rb") as file:
                data = file.read()
            with open(path, "wb") as file:
                file.write(damage(data))
    return sum(map(len, DAMAGES.values()))


def warmup():
    return subprocess.run([sys.executable, "-m", "ascpipe", "warmup"], capture_output=True, text=True, cwd="/")


@pytest.mark.timeout_s(240)
def test_damaged_kernels_are_found_by_their_digests_and_only_they_are_made_again(folder):
    warmup()  # the library has kernels that no worker loads; where another tree has linked it they are compiled now
    assert warmup().stdout.endswith(" 0 of them new\n")
    count = damage_some(folder)
    again = warmup()
    assert again.returncode == 0, again.stderr
    assert "{0} of them new; {0} damaged ones were removed".format(count) in again.stdout
    assert warmup().stdout.endswith(" 0 of them new\n")


def mapped(pid):
    """Names of the files whose code a process has in its memory."""
    with open("/proc/{}/maps".format(pid)) as maps:
        return {os.path.basename(line.split()[-1]) for line in maps if "r-xp" in line and "/" in line}


@pytest.mark.timeout_s(120)
def test_workers_load_the_library_and_no_numba_and_numba_once_the_library_is_damaged(folder):
    assert warmup().returncode == 0
    library = kernel_cache.library_name()

    def of_a_worker():
        daemon = DaemonProcess("unit")
        try:
            worker = wait_until(lambda: [one["pid"] for one in daemon.workers("table") if one["pid"]], 60.0)[0]
            return mapped(worker), daemon.log()
        finally:
            daemon.end()

    files, _ = of_a_worker()
    assert library in files and "libllvmlite.so" not in files
    with open(os.path.join(folder, library), "r+b") as file:
        file.seek(10000)
        file.write(b"\0damaged\0")
    files, log = of_a_worker()
    assert library not in files and "libllvmlite.so" in files
    assert "compiled kernel {} was damaged".format(library) in log
    assert warmup().returncode == 0
    assert library in of_a_worker()[0]


@pytest.mark.long  # compiles everything
@pytest.mark.timeout_s(400)
def test_a_daemon_whose_kernels_are_broken_and_were_never_sealed_clears_them_and_starts_its_workers(folder):
    damage_some(folder)
    daemon = DaemonProcess("unit")
    try:
        wait_until(lambda: any(worker["restarts"] for worker in daemon.status()["workers"]), 60.0)
        wait_until(lambda: kernel_cache.count(folder) >= 100, 300.0)
        assert "are broken and will be made again" in daemon.log()
    finally:
        daemon.end()
