"""A private daemon that begins to load before its trainer needs it: it is used, or leaves no trace."""
import os
import signal
import subprocess
import sys

import psutil
import pytest

from ascpipe import names
from ascpipe.control import trainer_link
from ascpipe.errors import ConfigError
from tests.support.daemons import LAYOUT, ROOT, DaemonProcess, is_alive, small_session, use_standins
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _standins(monkeypatch):
    use_standins(monkeypatch)


@pytest.fixture
def begun():
    made = trainer_link.begin()
    yield made
    made.end()


def daemons():
    """Process ids of our children, without the server of forked programs: these are daemons, or their stand-ins."""
    return [child.pid for child in psutil.Process().children() if is_alive(child.pid) and not is_server(child)]


def is_server(process):
    return "tests.support.programs.fork_server" in process.cmdline()


def test_the_trainer_takes_it_and_it_serves_and_ends_as_any_other(begun):
    (pid,) = daemons()
    link = trainer_link.connect(layout=LAYOUT, begun=begun)
    link.start(*small_session())
    begun.end()  # it is not its any more
    assert (link.daemon_pid, link.private, daemons()) == (pid, True, [pid])
    link.close()
    assert not daemons()


def test_one_that_nobody_takes_is_ended_without_a_trace(begun):
    assert daemons()
    begun.end()
    begun.end()
    assert not daemons() and not names.known_names()
    with_nothing_begun = trainer_link.connect(layout=LAYOUT, begun=begun)
    with_nothing_begun.close()


@pytest.mark.parametrize("variable, value", [("ASCPIPE_WORKERS", "2"), ("TZ", "UTC+1")])
def test_one_that_saw_another_environment_than_it_would_see_now_gives_way(begun, monkeypatch, variable, value):
    (pid,) = daemons()
    monkeypatch.setenv(variable, value)
    link = trainer_link.connect(layout=LAYOUT, begun=begun)
    assert link.daemon_pid != pid and daemons() == [link.daemon_pid]
    link.close()


def test_one_whose_file_of_settings_was_changed_since_gives_way(monkeypatch, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("workers = 1")
    monkeypatch.setenv("ASCPIPE_CONFIG", str(file))
    begun = trainer_link.begin()
    (pid,) = daemons()
    file.write_text("workers = 2")
    link = trainer_link.connect(layout=LAYOUT, begun=begun)
    assert link.daemon_pid != pid and link.settings.workers == 2
    link.close()


def test_one_that_has_ended_meanwhile_is_followed_by_another(begun):
    (pid,) = daemons()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not daemons())
    link = trainer_link.connect(layout=LAYOUT, begun=begun)
    assert link.private
    link.close()


def test_none_begins_where_a_running_daemon_will_be_used_and_one_that_has_ends_when_another_is(begun, monkeypatch):
    default = DaemonProcess(names.DEFAULT_NAME)
    try:
        assert trainer_link.begin() is None
        link = trainer_link.connect(layout=LAYOUT, begun=begun)
        assert (link.name, daemons()) == (names.DEFAULT_NAME, [default.pid])
        link.close()
    finally:
        default.end()
    assert trainer_link.begin("unit") is None
    monkeypatch.setenv("ASCPIPE_NAME", "unit")
    assert trainer_link.begin() is None


def test_what_is_wrong_is_said_when_it_is_needed(monkeypatch):
    monkeypatch.setenv("ASCPIPE_WORKERS", "0")
    assert trainer_link.begin() is None
    with pytest.raises(ConfigError):
        trainer_link.connect(layout=LAYOUT)


def test_a_forked_child_leaves_its_parent_s_daemon_alone(begun):
    (pid,) = daemons()
    child = os.fork()
    if child == 0:
        begun.end()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    link = trainer_link.connect(layout=LAYOUT, begun=begun)
    assert link.daemon_pid == pid
    link.close()


def test_it_ends_soon_after_a_program_that_is_killed_before_it_needs_it():
    program = ("import os, signal, sys\nfrom ascpipe.control import launch, trainer_link\n"
               "launch.MODULE = 'tests.support.standin_daemon'\nbegun = trainer_link.begin()\n"
               "print(begun._launching.wait().pid, flush=True)\nsignal.pause()\n")
    killed = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE)
    daemon = int(killed.stdout.readline())
    killed.stdout.close()
    killed.kill()
    killed.wait()
    wait_until(lambda: not is_alive(daemon))
    assert not names.known_names()
