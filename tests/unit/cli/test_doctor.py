"""``ascpipe doctor``: each look says what is wrong, and the cure."""
import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ascpipe import names
from ascpipe.cli import doctor, main
from ascpipe.daemon import kernel_cache
from ascpipe.shm.memory import Places
from ascpipe.tfops import load


def only(look):
    (found,) = look
    return found


def state_of(found, subject):
    return [one.state for one in found if one.subject == subject]


def test_here_nothing_is_a_problem_and_every_line_has_a_subject():
    done = CliRunner().invoke(main.main, ["doctor", "--json"])
    told = json.loads(done.output)
    assert done.exit_code == 0, done.output
    assert {"Python", "TensorFlow", "ops", "cores", "instructions", "shared memory", "memory", "open files",
            "locked memory", "settings", "run directory", "kernels"} <= {one["subject"] for one in told}
    assert all(bool(one["cure"]) == (one["state"] != "ok") for one in told)


def test_a_problem_has_its_cure_on_the_next_line_and_ends_with_1(monkeypatch):
    monkeypatch.setattr(doctor, "tensorflow_version", lambda: None)
    done = CliRunner().invoke(main.main, ["doctor"])
    assert done.exit_code == 1
    lines = done.output.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("problem  TensorFlow"))
    assert "not installed" in lines[place] and "cure: pip install tensorflow==1.15.5" in lines[place + 1]


def test_another_python_or_tensorflow_is_a_problem(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 11, 2, "final", 0))
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


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "ascpipe").mkdir(mode=0o700)
    return tmp_path / "ascpipe"


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
