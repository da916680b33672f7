"""A broken file among the compiled kernels costs a compilation, never a run: with the real workers."""
import os
import shutil
import subprocess
import sys

import pytest

from ascpipe.daemon import kernel_cache, warm_up
from tests.support.daemons import DaemonProcess
from tests.support.waiting import wait_until

DAMAGES = {
    ".nbi": [lambda data: b"", lambda data: data[:len(data) // 2], lambda data: b"hello world\n" * 5],
    ".nbc": [lambda data: data[:len(data) // 2], lambda data: bytes(len(data)),
             lambda data: data[:len(data) // 2] + bytes(64) + data[len(data) // 2 + 64:]],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of compiled kernels that has nothing but their library."""
    ready = warm_up.warm_up("")
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path / "cache"))
    made = kernel_cache.prepare(str(tmp_path / "cache"))
    shutil.copy(ready.library, made)
    kernel_cache.seal(made)
    return made


def compile_some(folder):
    """Have numba compile a few kernels into a folder; returns the files and their times."""
    subprocess.run([sys.executable, "-c", "import ascpipe.kernels.atomics, ascpipe.kernels.bits"], cwd="/", check=True,
                   env=dict(os.environ, NUMBA_CACHE_DIR=folder, KERNEL_LIBRARY=""))
    return {name: os.stat(os.path.join(path, name)).st_mtime_ns
            for path, _, names in os.walk(folder) for name in names if name.startswith(("atomics", "bits"))}


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
def test_kernels_of_numba_that_are_damaged_are_found_by_their_digests_and_only_they_are_made_again(folder):
    before = compile_some(folder)
    kernel_cache.seal(folder)
    count = damage_some(folder)
    removed = [os.path.basename(name) for name in kernel_cache.drop_damaged(folder)]
    assert len(removed) == count
    after = compile_some(folder)
    assert set(after) == set(before)
    functions = {name.rsplit(".", 2 if name.endswith(".nbc") else 1)[0] for name in removed}
    kept = [name for name in before if not name.startswith(tuple(functions))]
    assert kept and all(after[name] == before[name] for name in kept)
    kernel_cache.seal(folder)
    assert kernel_cache.drop_damaged(folder) == []


def mapped(pid):
    """Names of the files whose code a process has in its memory."""
    with open("/proc/{}/maps".format(pid)) as maps:
        return {os.path.basename(line.split()[-1]) for line in maps if "r-xp" in line and "/" in line}


@pytest.mark.timeout_s(300)
def test_workers_load_the_library_and_no_numba(folder):
    require_library_in_a_worker()


def require_library_in_a_worker():
    daemon = DaemonProcess("unit")
    try:
        worker = wait_until(lambda: [one["pid"] for one in daemon.workers("table") if one["pid"]], 60.0)[0]
        files = mapped(worker)
    finally:
        daemon.end()
    assert kernel_cache.library_name() in files and "libllvmlite.so" not in files


@pytest.mark.long  # compiles everything
@pytest.mark.timeout_s(300)
def test_warmup_replaces_a_library_that_is_damaged(folder):
    library = kernel_cache.library_name()
    with open(os.path.join(folder, library), "r+b") as file:
        file.seek(10000)
        file.write(b"\0damaged\0")
    again = warmup()
    assert again.returncode == 0, again.stderr
    assert "are now compiled" in again.stdout and "; 1 damaged files were removed" in again.stdout
    require_library_in_a_worker()


@pytest.mark.long  # compiles everything
@pytest.mark.timeout_s(400)
def test_workers_load_numba_once_the_library_is_damaged(folder):
    library = kernel_cache.library_name()
    with open(os.path.join(folder, library), "r+b") as file:
        file.seek(10000)
        file.write(b"\0damaged\0")
    daemon = DaemonProcess("unit")
    try:
        worker = wait_until(lambda: [one["pid"] for one in daemon.workers("table") if one["pid"]], 300.0)[0]
        files = mapped(worker)
        assert library not in files and "libllvmlite.so" in files
        assert "compiled kernel {} was damaged".format(library) in daemon.log()
    finally:
        daemon.end()


@pytest.mark.long  # compiles everything
@pytest.mark.timeout_s(400)
def test_a_daemon_whose_kernels_are_broken_and_were_never_sealed_clears_them_and_starts_its_workers(folder):
    os.unlink(os.path.join(folder, kernel_cache.library_name()))
    compile_some(folder)
    damage_some(folder)
    daemon = DaemonProcess("unit")
    try:
        wait_until(lambda: any(worker["restarts"] for worker in daemon.status()["workers"]), 60.0)
        wait_until(lambda: kernel_cache.count(folder) >= 100, 300.0)
        assert "are damaged and will be recompiled" in daemon.log()
    finally:
        daemon.end()
