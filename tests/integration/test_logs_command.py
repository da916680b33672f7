"""``ascpipe logs``, and what is kept of private daemons whose session failed; with stand-in workers."""
import json
import os
import signal
import subprocess
import sys

import pytest

from ascpipe import names
from ascpipe.control import trainer_link
from ascpipe.daemon import kept_logs
from ascpipe.layout import structs
from ascpipe.shm import segment
from tests.support.commands import ascpipe
from tests.support.daemons import LAYOUT, DaemonProcess, is_alive, small_session, start_trainer, use_standins
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _standins(monkeypatch, tmp_path):
    use_standins(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def failure_of(link, *tables):
    """Text of the failure of a session, once it has one."""
    memory = segment.map(*link.start(*small_session(*tables)).session)
    header = memory[:structs.SESSION.itemsize].view(structs.SESSION)[0]
    wait_until(lambda: header["failed"])
    return bytes(header["failure_text"]).decode()


def test_the_error_of_a_private_daemon_names_the_folder_in_which_its_logs_stay():
    link = trainer_link.connect(layout=LAYOUT)
    try:
        text = failure_of(link, "table-raise")
    finally:
        link.close()
    folder = kept_logs.folder_of(link.name)
    assert text.startswith("E122: table worker 0") and text.endswith(". Logs: " + folder)
    assert not os.path.exists(names.run_dir(link.name).path)
    assert {"daemon.log", "table-0.log"} <= set(os.listdir(folder))
    listed = json.loads(ascpipe("logs", "--failed", "--json").stdout)
    assert [(one["name"], one["path"], one["cause"][:5]) for one in listed] == [(link.name, folder, "E122:")]
    assert link.name in ascpipe("logs", "--failed").stdout
    assert "ValueError: slot 7 has two keys" in ascpipe("logs", "--name", link.name, "--worker", "table-0").stdout
    assert "session failed: E122" in ascpipe("logs", "--name", link.name).stdout


def test_a_session_that_ends_well_leaves_no_logs():
    link = trainer_link.connect(layout=LAYOUT)
    link.start(*small_session())
    link.close()
    assert kept_logs.kept() == []
    assert "no session of a private daemon has failed" in ascpipe("logs", "--failed").stdout


def test_the_logs_of_a_private_daemon_that_was_killed_are_kept_by_the_next_that_looks():
    process, told = start_trainer()
    try:
        os.kill(told["pid"], signal.SIGSTOP)  # else it would end its daemon in order
        os.kill(process.pid, signal.SIGKILL)
        os.kill(told["daemon"], signal.SIGKILL)
        process.wait(20)
        wait_until(lambda: not is_alive(told["daemon"]))
        (one,) = json.loads(ascpipe("logs", "--failed", "--json").stdout)
        assert (one["name"], one["cause"]) == (told["name"], "")
        assert not os.path.exists(names.run_dir(told["name"]).path)
    finally:
        process.wait(20)


def test_what_a_private_daemon_left_without_its_lock_is_removed_and_its_log_kept():
    names.make_private_dir(names.base_dir())
    runs = [names.run_dir("private-{}-0123456789ab".format(number)) for number in (1, 2)]
    for run, log, text in zip(runs, ("daemon", "disk-0"), ("started\n", "")):
        names.make_private_dir(run.path)
        with open(run.worker_log(log), "w") as file:
            file.write(text)
    assert [one["name"] for one in json.loads(ascpipe("logs", "--failed", "--json").stdout)] == [runs[0].name]
    assert not any(os.path.exists(run.path) for run in runs)


def test_the_log_of_a_daemon_is_printed_followed_and_there_after_its_end():
    daemon = DaemonProcess("told")
    try:
        printed = ascpipe("logs")
        assert "started, pid {}".format(daemon.pid) in printed.stdout and "'told'" in printed.stderr
        assert ascpipe("logs", "--name", "told", "-n", "0").stdout == ""
        wrong = ascpipe("logs", "--worker", "key-7")
        assert wrong.returncode == 2 and "it has logs of daemon" in wrong.stderr
        with subprocess.Popen([sys.executable, "-m", "ascpipe", "logs", "-f"], stdout=subprocess.PIPE, text=True,
                              cwd="/", stderr=subprocess.DEVNULL) as following:
            assert "started" in following.stdout.readline()
            assert ascpipe("stop", "--name", "told").returncode == 0
            assert following.stdout.read().endswith("INFO ended\n")  # and it has ended by itself
        assert following.returncode == 0
        assert "INFO ended" in ascpipe("logs", "--name", "told").stdout
        assert ascpipe("logs").returncode == 3
    finally:
        daemon.end()
