"""Files of a daemon that are removed under it: a second one never takes the name of one that lives and serves."""
import os
import signal

import pytest

from ascpipe import names
from ascpipe.errors import AlreadyRunsError
from tests.support.daemons import DaemonProcess, is_alive, serving, use_standins
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _standins(monkeypatch):
    use_standins(monkeypatch)


@pytest.fixture
def daemon():
    made = DaemonProcess("unit")
    yield made
    made.end()


@pytest.fixture
def link(daemon):
    with serving(daemon) as made:
        yield made


def test_a_second_daemon_does_not_take_the_sockets_of_one_whose_lock_was_removed(daemon, link):
    sockets = [os.lstat(path).st_ino for path in (daemon.run.control, daemon.run.lifeline)]
    os.unlink(daemon.run.lock)
    with pytest.raises(AlreadyRunsError, match="E211.*pid {}".format(daemon.pid)):
        DaemonProcess("unit")
    assert [os.lstat(path).st_ino for path in (daemon.run.control, daemon.run.lifeline)] == sockets
    assert link.status()["trainer"]["pid"] == os.getpid()


@pytest.mark.parametrize("what", ["lock", "control", "lifeline"])
def test_a_daemon_that_lost_a_file_serves_its_trainer_to_the_end_and_leaves_with_it(daemon, link, what):
    os.unlink(getattr(daemon.run, what))
    wait_until(lambda: "was removed, or belongs to another daemon; this daemon exits with its trainer" in daemon.log())
    assert is_alive(daemon.pid)
    link.close()
    wait_until(lambda: not is_alive(daemon.pid))


def test_an_idle_daemon_whose_directory_was_emptied_leaves_and_the_next_one_begins(daemon):
    for name in daemon.run.files():
        if not name.endswith(".log"):
            os.unlink(os.path.join(daemon.run.path, name))
    wait_until(lambda: not is_alive(daemon.pid))
    again = DaemonProcess("unit")
    assert again.status()["pid"] == again.pid
    again.end()


def test_one_that_leaves_late_takes_nothing_of_the_next_one_of_its_name(daemon):
    os.kill(daemon.pid, signal.SIGSTOP)
    for name in daemon.run.files():
        if not name.endswith(".log"):
            os.unlink(os.path.join(daemon.run.path, name))
    again = DaemonProcess("unit")
    try:
        os.kill(daemon.pid, signal.SIGCONT)
        wait_until(lambda: not is_alive(daemon.pid))
        assert again.status()["pid"] == again.pid
        assert {"lock", "control.sock", "lifeline.sock", "owner.json"} <= set(os.listdir(names.run_dir("unit").path))
    finally:
        again.end()
