"""Starting a daemon: what it sees of our environment, and what is said when it does not start."""
import os

import pytest

from ascpipe.control import launch
from ascpipe.errors import AlreadyRunsError, NotStartedError


def test_the_environment_is_a_list_and_nothing_else():
    given = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "ASCPIPE_WORKERS": "2", "AWS_SECRET_ACCESS_KEY": "x",
             "LD_PRELOAD": "x.so", "PYTHONSTARTUP": "x", "NUMBA_CACHE_DIR": "/shared"}
    assert set(launch.child_environment(given)) == {"PATH", "HOME", "LC_ALL", "ASCPIPE_WORKERS"}


def test_relative_import_folders_mean_the_same_in_the_daemon():
    given = {"PYTHONPATH": os.pathsep.join(["a", "", "/b"])}
    assert launch.child_environment(given)["PYTHONPATH"] == os.pathsep.join([os.path.abspath("a"), "/b"])


@pytest.fixture
def program(monkeypatch, tmp_path):
    """The daemon is a program of the test's making."""

    def write(text):
        (tmp_path / "pretended_daemon.py").write_text("import json, os, sys, time\nfd = int(sys.argv[4])\n" + text)
        monkeypatch.setattr(launch, "MODULE", "pretended_daemon")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return write


def test_a_daemon_that_is_ready_says_its_pid(program):
    program("os.write(fd, json.dumps({'ready': True, 'pid': os.getpid(), 'name': 'a'}).encode())")
    launched = launch.Launching("a").wait()
    assert (launched.pid, launched.name, launched.process.wait()) == (launched.process.pid, "a", 0)


def test_its_own_error_is_raised_by_its_class(program):
    program("os.write(fd, json.dumps({'ready': False, 'code': 'E211', 'text': 'taken by pid 7'}).encode())")
    with pytest.raises(AlreadyRunsError, match="taken by pid 7"):
        launch.Launching("a").wait()


@pytest.mark.parametrize("text, words", [
    ("sys.exit(7)", "exit code 7, and it left no log"),
    ("os.kill(os.getpid(), 9)", "exit code -9"),
    ("os.write(fd, b'{half'); sys.exit(3)", "exit code 3"),
    ("os.write(fd, b'[1]'); sys.exit(3)", "exit code 3"),
])
def test_a_daemon_that_dies_without_a_word_is_an_error_with_its_exit_code(program, text, words):
    program(text)
    with pytest.raises(NotStartedError, match=words):
        launch.Launching("a").wait()


def test_the_log_of_a_daemon_that_dies_is_named_where_there_is_one(program, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "ascpipe" / "a").mkdir(parents=True)
    program("open({!r}, 'w').close(); sys.exit(7)".format(str(tmp_path / "ascpipe" / "a" / "daemon.log")))
    with pytest.raises(NotStartedError, match="exit code 7, see .*/ascpipe/a/daemon.log"):
        launch.Launching("a").wait()


def test_a_daemon_that_never_gets_ready_is_ended(program):
    program("time.sleep(600)")
    with pytest.raises(NotStartedError, match=r"not ready within 0\.3 s"):
        launch.Launching("a").wait(0.3)


def test_options_reach_it_as_variables(program):
    program("time.sleep(600) if os.environ['ASCPIPE_WORKERS'] != '3' else sys.exit(33)")
    with pytest.raises(NotStartedError, match="exit code 33"):
        launch.Launching("a", options={"workers": 3}).wait(20.0)
