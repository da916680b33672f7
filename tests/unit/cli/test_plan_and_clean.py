"""``ascpipe plan``, ``clean``, ``completion`` and ``--version``."""
import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from ascpipe import names
from ascpipe.cli import main
from ascpipe.control import lock, run_record
from ascpipe.daemon import kept_logs, kernel_cache
from ascpipe.data import index
from ascpipe.layout import structs


def ascpipe(*arguments):
    return CliRunner().invoke(main.main, arguments)


def planned(*arguments):
    done = ascpipe("plan", "--json", *arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_a_table_on_the_device_has_its_rows_there_and_its_keys_in_the_daemon():
    told = planned("--keys", "1000", "--dim", "8", "--optimizer", "adagrad")
    assert (told["row_bytes"], told["device_bytes"], told["host_bytes"], told["disk_bytes"]) == (64, 64000, 0, 0)
    assert told["key_bytes"] == 1000 * 70 + 4200
    assert told["memory_bytes"] == told["device_bytes"] + told["key_bytes"]
    assert told["key_bytes"] >= 1000 * structs.ENTRY.itemsize


def test_the_figures_are_those_of_the_documents():
    """docs/how-to/tables.md: a billion keys on a device of ten million rows; rows of 16 values with Adagrad."""
    cached = planned("--keys", str(10**9), "--dim", "16", "--optimizer", "adagrad", "--device-rows", str(10**7))
    assert cached["host_rows"] == 10**9
    assert round(cached["key_bytes"] / 1e9, 1) == 70.3
    on_disk = planned("--keys", str(10**9), "--dim", "16", "--optimizer", "adagrad", "--device-rows", str(10**7),
                      "--host-rows", str(5 * 10**7), "--ssd-rows", str(95 * 10**7))
    assert round(on_disk["disk_bytes"] / 1e9) == 137
    assert on_disk["key_bytes"] - cached["key_bytes"] == pytest.approx(180 * 6e7 + 0.67e9, rel=0.01)
    assert on_disk["host_bytes"] == 128 * (5 * 10**7 + 10**7)  # device rows have host rows, too


@pytest.mark.parametrize("optimizer, row_bytes", [("sgd", 40), ("adagrad", 80), ("ftrl", 120), ("lazy_adam", 120)])
def test_each_optimizer_has_its_slots(optimizer, row_bytes):
    assert planned("--keys", "1", "--dim", "10", "--optimizer", optimizer)["row_bytes"] == row_bytes


@pytest.mark.parametrize("tiers, words", [
    (["--device-rows", "50", "--host-rows", "0"], "raise --device-rows, or give --host-rows"),
    (["--device-rows", "50", "--host-rows", "60"], "raise --host-rows or --ssd-rows"),
    (["--device-rows", "50", "--host-rows", "40", "--ssd-rows", "60"], "--host-rows 40 is less than --device-rows 50"),
    (["--device-rows", "50", "--host-rows", "0", "--ssd-rows", "100"], "rows on disk need rows on the host")])
def test_tiers_that_cannot_hold_the_keys_are_wrong_usage(tiers, words):
    done = ascpipe("plan", "--keys", "100", "--dim", "8", "--optimizer", "sgd", *tiers)
    assert (done.exit_code, words in " ".join(done.output.split())) == (2, True), done.output


def test_the_plan_as_text_leaves_out_tiers_without_rows():
    text = ascpipe("plan", "--keys", "1000000", "--dim", "16", "--optimizer", "sgd").output
    assert "64.00 MB" in text and "on disk" not in text


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "run" / "ascpipe").mkdir(parents=True, mode=0o700)
    (tmp_path / "run" / "ascpipe").chmod(0o700)
    return tmp_path


def left_by(name, *files):
    run = names.RunDir(name)
    os.mkdir(run.path, 0o700)
    for file in files:
        Path(run.path, file).write_text("said\n")
    return run


def test_clean_removes_what_the_dead_left_and_nothing_of_the_living_or_of_others(base):
    ended, killed = left_by("ended", "daemon.log"), left_by("private-1-0123456789ab", "lock", "daemon.log")
    noted, alive = left_by("noted", "daemon.log", "notes.txt"), left_by("alive", "daemon.log")
    fd = lock.try_acquire(alive)
    try:
        would = ascpipe("clean", "--dry-run").output
        assert all("would remove run directory " + run.path in would for run in (ended, killed, noted))
        assert os.path.exists(ended.log) and alive.path not in would
        assert ascpipe("clean").output.count("removed run directory") == 3
    finally:
        os.close(fd)
    assert not os.path.exists(ended.path) and not os.path.exists(killed.path)
    assert os.listdir(noted.path) == ["notes.txt"]
    assert os.path.exists(alive.log)
    assert [one.name for one in kept_logs.kept()] == [killed.name]


def test_clean_removes_kernels_of_other_versions_that_were_not_used_for_a_day(base):
    own = Path(kernel_cache.folder_of(str(base / "cache")))
    new, old = own.with_name("kernels-0000000000000001"), own.with_name("kernels-0000000000000002")
    for folder in (own, new, old):
        folder.mkdir(parents=True)
    os.utime(old, (time.time() - 90000,) * 2)
    os.utime(own, (time.time() - 90000,) * 2)
    assert ascpipe("clean").output == "removed compiled kernels {}\n".format(old)
    assert (own.exists(), new.exists(), old.exists()) == (True, True, False)
    ascpipe("clean", "--all-kernels")
    assert (own.exists(), new.exists()) == (True, False)
    assert "nothing to remove" in ascpipe("clean").output


def test_clean_of_everything_leaves_nothing_of_this_user_but_what_is_not_ours(base, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(base / "home-cache"))
    killed = left_by("private-1-0123456789ab", "lock", "daemon.log")
    folders = [Path(kernel_cache.folder_of(str(base / "cache"))), base / "cache/kernels-0000000000000001",
               base / "home-cache/ascpipe/wheels/0123", base / "cache/ops-0123",
               base / "cache/environment-0123", Path(kept_logs.base_dir(), "private-2-0123456789ab"),
               Path(run_record.base_dir()), Path(index.in_cache("train.tfrecord")).parent]
    for folder in folders:
        folder.mkdir(parents=True)
    (base / "cache" / "notes.txt").write_text("mine")
    assert ascpipe("clean", "--everything", "--dry-run").output.count("would remove") == 9
    assert all(folder.exists() for folder in folders)
    assert ascpipe("clean", "--everything").output.count("removed") == 9
    left = [kept_logs.base_dir(), os.path.dirname(kept_logs.base_dir()), killed.path, names.base_dir(),
            str(base / "home-cache/ascpipe")]
    assert not [path for path in left if os.path.exists(path)]
    assert os.listdir(str(base / "cache")) == ["notes.txt"]
    assert "nothing to remove" in ascpipe("clean", "--everything").output


def test_clean_of_everything_is_refused_where_a_daemon_lives(base):
    own = Path(kernel_cache.folder_of(str(base / "cache")))
    own.mkdir(parents=True)
    fd = lock.try_acquire(left_by("alive", "daemon.log"))
    try:
        done = ascpipe("clean", "--everything")
    finally:
        os.close(fd)
    assert done.exit_code == 1 and "nothing was removed: daemon 'alive'" in done.output
    assert own.exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_a_shell(shell):
    done = ascpipe("completion", shell)
    assert (done.exit_code, "_ASCPIPE_COMPLETE" in done.output) == (0, True), done.output


def test_the_version_is_one_line_and_with_verbose_that_of_all_it_works_with():
    assert ascpipe("--version").output.startswith("ascpipe, version ")
    assert len(ascpipe("--version").output.splitlines()) == 1
    verbose = ascpipe("--version", "--verbose").output
    assert all("\n{}: ".format(name) in verbose for name in ("Python", "TensorFlow", "ops", "kernels", "system"))


@pytest.mark.parametrize("arguments, words", [
    (["--verbose"], "--verbose is for --version"), (["fly"], "No such command")])
def test_what_is_no_command_is_wrong_usage(arguments, words):
    done = ascpipe(*arguments)
    assert (done.exit_code, words in done.output) == (2, True)
