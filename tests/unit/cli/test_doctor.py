"""``ascpipe doctor``: each look says what is wrong, and the cure."""
import errno
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from ascpipe import names
from ascpipe.cli import doctor, main
from ascpipe.control import client
from ascpipe.daemon import kernel_cache
from ascpipe.daemon import main as daemon_main
from ascpipe.errors import NotRunningError
from ascpipe.layout import kernel_library
from ascpipe.shm.memory import Places
from ascpipe.tfops import load


def only(look):
    (found,) = look
    return found


def state_of(found, subject):
    return [one.state for one in found if one.subject == subject]


@pytest.mark.parametrize("version, state, words", [
    (None, doctor.OK, "not installed"), ("0.28.1", doctor.OK, "Horovod 0.28.1"),
    ("0.27.0", doctor.WARNING, "Horovod 0.27.0, but ranks need 0.28.1")])
def test_the_horovod_of_ranks_is_named(monkeypatch, version, state, words):
    monkeypatch.setattr(doctor, "installed", lambda name: version)
    found = only(doctor.ranks())
    assert found.state == state and words in found.text and bool(found.cure) == (state != doctor.OK)


def test_here_nothing_is_a_problem_and_every_line_has_a_subject():
    done = CliRunner().invoke(main.main, ["doctor", "--json"])
    told = json.loads(done.output)
    assert done.exit_code == 0, done.output
    assert {"Python", "TensorFlow", "ops", "cores", "instructions", "shared memory", "memory", "open files",
            "locked memory", "settings", "run directory", "kernels", "ranks"} <= {one["subject"] for one in told}
    assert all(bool(one["cure"]) == (one["state"] != "ok") for one in told)


def test_a_problem_has_its_cure_on_the_next_line_and_ends_with_1(monkeypatch):
    monkeypatch.setattr(doctor, "tensorflow_version", lambda: None)
    done = CliRunner().invoke(main.main, ["doctor"])
    assert done.exit_code == 1
    lines = done.output.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("problem  TensorFlow"))
    assert "not installed" in lines[place] and "cure: pip install tensorflow=={}".format(
        "1.15.5" if sys.version_info < (3, 8) else "2.15.1") in lines[place + 1]


def test_another_python_or_tensorflow_is_a_problem(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 12, 1, "final", 0))
    assert only(doctor.python()).state == doctor.PROBLEM
    monkeypatch.setattr(doctor, "tensorflow_version", lambda: "2.9.1")
    assert only(doctor.tensorflow()).state == doctor.PROBLEM


def test_ops_of_another_layout_or_none_are_a_problem(monkeypatch, tmp_path):
    monkeypatch.setattr(load, "read_info", lambda: {"tensorflow": "1.15.5", "layout": 7, "ascpipe": "0"})
    found = only(doctor.ops())
    assert (found.state, "layout 7, here it is" in found.text, found.cure[:10]) == (doctor.PROBLEM, True, "make build")
    monkeypatch.setattr(load, "LIBRARY", tmp_path / "none.so")
    assert "E221" in [one.text for one in doctor.findings() if one.subject == "ops"][0]


@pytest.mark.parametrize("flags, state", [("fpu avx sse", doctor.OK), ("fpu sse", doctor.PROBLEM)])
def test_a_processor_without_avx_is_a_problem(monkeypatch, tmp_path, flags, state):
    (tmp_path / "cpuinfo").write_text("vendor_id\t: X\nflags\t\t: {}\n".format(flags))
    monkeypatch.setattr(doctor, "_CPUINFO", str(tmp_path / "cpuinfo"))
    assert state_of(doctor.processor(), "instructions") == [state]


def test_one_core_is_a_warning(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    assert state_of(doctor.processor(), "cores") == [doctor.WARNING]


def test_a_small_control_group_and_a_missing_dev_shm_are_warnings(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 8000000 kB\nMemAvailable: 8000000 kB\n")
    (tmp_path / "own").write_text("0::/\n")
    (tmp_path / "memory.max").write_text("100000000\n")
    (tmp_path / "memory.current").write_text("50000000\n")
    places = Places(str(tmp_path / "none"), str(tmp_path / "meminfo"), str(tmp_path / "own"), str(tmp_path))
    found = doctor.findings(places)
    assert state_of(found, "shared memory") == [doctor.WARNING]
    assert state_of(found, "memory") == [doctor.OK, doctor.WARNING]


def test_a_low_limit_of_files_is_a_warning(monkeypatch):
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda which: (1024, 1024))
    assert state_of(doctor.limits(), "open files") == [doctor.WARNING]


def test_settings_that_are_wrong_are_a_problem(monkeypatch):
    monkeypatch.setenv("ASCPIPE_WORKER", "2")
    assert "did you mean ASCPIPE_WORKERS" in [
        one.text for one in doctor.findings() if one.subject == "settings" and one.state == doctor.PROBLEM][0]


def doctor_of_a_child(low=None, **environment):
    """Exit code and findings of ``ascpipe doctor`` as a shell runs it."""
    limit = None if low is None else lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (low, low))
    done = subprocess.run([sys.executable, "-m", "ascpipe", "doctor", "--json"], stdout=subprocess.PIPE, timeout=60,
                          preexec_fn=limit, env={**os.environ, **environment})
    return done.returncode, {one["subject"]: one for one in json.loads(done.stdout)}


def test_a_shell_with_a_low_limit_of_files_is_told_how_to_raise_it():
    code, found = doctor_of_a_child(low=300)
    assert (code, found["open files"]["state"]) == (0, "warning")
    assert found["open files"]["text"] == "limit 300, at most 300" and "ulimit -Hn" in found["open files"]["cure"]


def test_a_cache_that_can_be_neither_read_nor_made_is_a_problem_and_not_only_cold():
    code, found = doctor_of_a_child(ASCPIPE_CACHE_DIR="/proc/none")
    assert (code, found["kernels"]["state"]) == (1, "problem")
    assert "cannot be compiled: /proc: " in found["kernels"]["text"] and "ASCPIPE_CACHE_DIR" in found["kernels"]["cure"]


def test_kernels_that_a_daemon_compiles_now_are_no_fault(monkeypatch, tmp_path):
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(client, "running_daemons", lambda: ["mine", "gone", "other"])

    def ask(run, body, timeout_s):
        if run.name == "gone":
            raise NotRunningError(run.name, run.path)
        return {"compiling": run.name == "mine"}

    monkeypatch.setattr(client, "ask", ask)
    (found,) = doctor.kernels()
    assert (found.state, found.cure) == (doctor.OK, "") and "being compiled by daemon 'mine'" in found.text


def test_compiled_kernels_without_a_library_in_a_folder_that_cannot_be_written_are_a_problem(monkeypatch, tmp_path):
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path))
    folder = Path(kernel_cache.folder_of(str(tmp_path)))
    (folder / kernel_library.NUMBA_FOLDER).mkdir(mode=0o700, parents=True)
    (folder / kernel_library.NUMBA_FOLDER / "a.nbi").write_text("")
    assert state_of(doctor.kernels(), "kernels") == [doctor.WARNING]
    with monkeypatch.context() as without_a_compiler:
        without_a_compiler.setenv("PATH", "")
        (found,) = doctor.kernels()
        assert (found.state, "there is no C compiler" in found.text) == (doctor.OK, True)

    def full(**unused):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(kernel_cache.tempfile, "TemporaryFile", full)
    found = [one for one in doctor.findings() if one.subject == "kernels"]
    assert (found[0].state, "E214" in found[0].text, "Read-only" in found[0].text) == (doctor.PROBLEM, True, True)


def test_kernels_are_looked_for_where_workers_take_them(monkeypatch, tmp_path):
    cache, installed = tmp_path / "cache", tmp_path / "installed"
    installed.mkdir()
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(cache))
    monkeypatch.setattr(kernel_cache, "installed_folder", lambda: str(installed))
    assert [only(doctor.kernels()).state, daemon_main._verified_kernels(kernel_cache.prepare(str(cache)), {})] == [
        doctor.WARNING, ""]
    folder = Path(kernel_cache.folder_of(str(cache)))
    (folder / kernel_cache.library_name()).write_bytes(b"compiled by a tree")
    kernel_cache.seal(str(folder))
    for library in (folder / kernel_cache.library_name(), installed / kernel_cache.library_name()):
        library.write_bytes(b"compiled by a tree")
        assert daemon_main._verified_kernels(str(folder), {}) == str(library)
        assert only(doctor.kernels()) == doctor.Finding("kernels", doctor.OK, "compiled, {}".format(library))


def test_a_place_of_run_directories_that_cannot_be_written_or_is_too_long_is_a_problem(monkeypatch, tmp_path):
    code, found = doctor_of_a_child(XDG_RUNTIME_DIR="/proc/self")
    assert (code, found["run directory"]["state"]) == (1, "problem")
    assert "no daemon can create one: /proc/self: " in found["run directory"]["text"]
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    found = [one for one in doctor.findings() if one.subject == "run directory"]
    assert (found[0].state, "E216" in found[0].text) == (doctor.PROBLEM, True)


@pytest.mark.parametrize("name", ["LIBRARY", "FILES_LIBRARY"])
@pytest.mark.parametrize("kept", [0.0, 0.6, 0.999])
def test_a_library_that_was_cut_off_is_a_problem(monkeypatch, tmp_path, name, kept):
    whole = Path(getattr(load, name)).read_bytes()
    (tmp_path / "cut.so").write_bytes(whole)
    monkeypatch.setattr(load, name, tmp_path / "cut.so")
    assert only(doctor.ops()).state == doctor.OK
    (tmp_path / "cut.so").write_bytes(whole[:int(kept * len(whole))])
    found = only(doctor.ops())
    assert (found.state, "cut.so does not exist, or is incomplete" in found.text) == (doctor.PROBLEM, True)


def test_a_library_that_is_no_library_or_not_there_is_a_problem(monkeypatch, tmp_path):
    monkeypatch.setattr(load, "FILES_LIBRARY", tmp_path / "text.so")
    assert only(doctor.ops()).state == doctor.PROBLEM
    (tmp_path / "text.so").write_text("version https://git-lfs\n" * 10)
    assert only(doctor.ops()).state == doctor.PROBLEM


def test_metrics_are_looked_at_where_they_are_asked_for(monkeypatch, tmp_path):
    assert list(doctor.metrics()) == []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setenv("ASCPIPE_METRICS_PORT", str(taken.getsockname()[1]))
        assert only(doctor.metrics()).state == doctor.WARNING
    assert only(doctor.metrics()).state == doctor.OK
    monkeypatch.setenv("ASCPIPE_METRICS_FILE", str(tmp_path / "a.prom"))
    assert only(doctor.metrics()).state == doctor.OK
    monkeypatch.setenv("ASCPIPE_METRICS_FILE", "/proc/none/a.prom")
    assert "metrics_file cannot be written: /proc" in only(doctor.metrics()).text
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    assert 'pip install "ascpipe[metrics]"' in only(doctor.metrics()).cure


@pytest.fixture
def base(monkeypatch):
    with tempfile.TemporaryDirectory(prefix="asc-") as short:  # a socket path has 107 bytes at most
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        made = Path(short) / "ascpipe"
        made.mkdir(mode=0o700)
        yield made


def test_what_dead_daemons_left_is_a_warning(base):
    assert state_of(doctor.run_directories(), "leftovers") == []
    run = names.RunDir("dead")
    os.mkdir(run.path, 0o700)
    Path(run.lock).write_text("")
    assert [one.text for one in doctor.run_directories() if one.subject == "leftovers"] == ["of dead daemons: dead"]


def test_a_run_directory_that_others_may_open_is_a_problem(base):
    base.chmod(0o755)
    assert state_of(doctor.findings(), "run directory") == [doctor.PROBLEM]


def test_kernels_that_are_not_compiled_or_that_others_could_change_are_told(monkeypatch, tmp_path):
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path))
    assert state_of(doctor.kernels(), "kernels") == [doctor.WARNING]
    folder = Path(kernel_cache.folder_of(str(tmp_path)))
    assert not folder.exists()  # a look changes nothing
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    (tmp_path / "kernels-0123456789abcdef").mkdir()
    found = [one for one in doctor.findings() if one.subject == "kernels"]
    assert (found[0].state, "others may write" in found[0].text) == (doctor.PROBLEM, True)
    folder.chmod(0o700)
    assert "1 other version" in list(doctor.kernels())[-1].text
