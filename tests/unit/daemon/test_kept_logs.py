"""Logs of failed sessions are kept, the last few of them, for this user alone."""
import os
import stat
from pathlib import Path

import pytest

from ascpipe import names
from ascpipe.daemon import kept_logs
from ascpipe.errors import RunDirError


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "ascpipe").mkdir(mode=0o700)
    return tmp_path / "state" / "ascpipe" / "log"


def run_of(name, **logs):
    run = names.RunDir(name)
    os.mkdir(run.path, 0o700)
    for log, text in logs.items():
        Path(run.path, log.replace("_", "-") + ".log").write_text(text)
    Path(run.lock).write_text("")
    return run


FAILED = "noon daemon 5 INFO started\nnoon daemon 5 ERROR session failed: E122: torn\nnoon daemon 5 INFO ended\n"


def test_logs_are_copied_into_a_folder_of_their_own_that_only_this_user_may_open(state):
    folder = kept_logs.keep(run_of("private-1-0123456789ab", daemon=FAILED, table_0="Segmentation fault\n", key_0=""))
    assert folder == str(state / "private-1-0123456789ab")
    assert sorted(os.listdir(folder)) == ["daemon.log", "table-0.log"]  # an empty log tells nothing, a lock is no log
    assert Path(folder, "daemon.log").read_text() == FAILED
    assert all(stat.S_IMODE(os.stat(path).st_mode) == 0o700 for path in (folder, state, state.parent))
    (one,) = kept_logs.kept()
    assert (one.name, one.path, one.cause) == ("private-1-0123456789ab", folder, "E122: torn")


def test_the_oldest_are_removed_when_there_are_more_than_are_kept(state):
    for number in range(kept_logs.KEPT + 3):
        folder = kept_logs.keep(run_of("private-{}-0123456789ab".format(number), daemon=FAILED))
        os.utime(folder, (number, number))
    assert len(os.listdir(state)) == kept_logs.KEPT
    names_kept = [one.name for one in kept_logs.kept()]
    assert names_kept[0] == "private-12-0123456789ab" and "private-2-0123456789ab" not in names_kept


def test_of_a_long_log_the_end_is_kept(state, monkeypatch):
    monkeypatch.setattr(kept_logs, "MOST_BYTES", 10)
    folder = kept_logs.keep(run_of("private-1-0123456789ab", daemon="0123456789abcdef"))
    assert Path(folder, "daemon.log").read_text() == "6789abcdef"


def test_a_daemon_that_was_killed_has_no_cause_and_one_without_logs_no_folder(state):
    kept_logs.keep(run_of("private-1-0123456789ab", daemon="noon daemon 5 INFO started\n"))
    assert kept_logs.keep(run_of("private-2-0123456789ab")) == ""
    assert [one.cause for one in kept_logs.kept()] == [""]


def test_a_folder_that_others_may_open_is_refused(state):
    state.mkdir(parents=True, mode=0o755)
    state.parent.chmod(0o755)
    with pytest.raises(RunDirError, match="others may use it"):
        kept_logs.keep(run_of("private-1-0123456789ab", daemon=FAILED))
    assert os.listdir(state) == []


def test_without_a_state_directory_it_is_that_of_the_home(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/ada")
    assert kept_logs.base_dir() == "/home/ada/.local/state/ascpipe/log"
