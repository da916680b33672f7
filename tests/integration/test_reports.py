"""A real daemon records its session, also if the daemon is killed; `ascpipe report` and `tune` read the record."""
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from ascpipe.control import run_record, saves
from ascpipe.names import run_dir
from tests.support.daemons import ROOT, DaemonProcess, daemon_with, serving, start_trainer, use_standins
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _standins(monkeypatch, tmp_path):
    use_standins(monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def ascpipe(*arguments):
    return subprocess.run([sys.executable, "-m", "ascpipe", *map(str, arguments)], cwd=ROOT, capture_output=True,
                          text=True, timeout=60)


def samples():
    """Number of complete samples of the newest record."""
    found = run_record.names()
    return len(run_record.read(found[0]).samples) if found else 0


def test_a_finished_run_has_a_report_and_advice(tmp_path):
    daemon = DaemonProcess("unit")
    try:
        with serving(daemon) as link:
            wait_until(lambda: samples() >= 2)
            saves.note(run_dir("unit"), saves.Save("/model/base-7", time.time(), 0.25))
            run = link.run
        wait_until(lambda: daemon.status()["state"] == "idle")
    finally:
        daemon.end()
    name = "unit-{}".format(run)
    assert ascpipe("report").stdout == name + "\n"
    path = tmp_path / "out.html"
    done = ascpipe("report", "--last", "--html", path, "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert [table["name"] for table in figures["tables"]] == ["user"] and figures["failure"] is None
    assert [save["checkpoint"] for save in figures["checkpoints"]] == ["/model/base-7"]
    assert "ascpipe: run " + name in path.read_text() and path.stat().st_size < 3 << 20
    assert os.stat(run_record.base_dir()).st_mode & 0o077 == 0
    assert ascpipe("tune").stdout.splitlines()[0] == "run " + name
    assert ascpipe("report", "--last").returncode == 2
    missing = ascpipe("report", "nobody", "--html", path)
    assert (missing.returncode, "E234" in missing.stderr) == (1, True)


def test_a_killed_daemon_leaves_the_record_of_its_run(tmp_path):
    daemon = DaemonProcess("unit")
    try:
        with serving(daemon):
            wait_until(lambda: samples() >= 2)
            os.kill(daemon.pid, signal.SIGKILL)
            daemon.wait()
        path = tmp_path / "out.html"
        assert ascpipe("report", "--last", "--html", path).returncode == 0
        assert "ends without an end" in path.read_text()
        assert "the daemon (pid {}) was killed".format(daemon.pid) in failure()
    finally:
        daemon.end()


def failure():
    """What the report of the newest run says about errors."""
    return json.loads(ascpipe("report", "--last", "--json").stdout)["failure"]


def kill_key_worker(daemon):
    """Kill the key worker, and wait until the daemon has noticed the kill."""
    (worker,) = daemon.workers("key")
    os.kill(worker["pid"], signal.SIGKILL)
    wait_until(lambda: daemon.status()["failure"] or daemon.workers("key")[0]["restarts"] > worker["restarts"])
    wait_until(lambda: daemon.status()["failure"] or daemon.workers("key")[0]["pid"])


def test_the_report_has_the_failure_of_a_session_although_the_daemon_is_idle_again():
    with daemon_with() as daemon:
        with serving(daemon):
            wait_until(lambda: samples() >= 2)
            while not daemon.status()["failure"]:
                kill_key_worker(daemon)
        told = json.loads(ascpipe("report", "--last", "--json").stdout)
        assert told["failure"].startswith("E140: key worker 0 was restarted 5 times") and told["restarts"] == 5
        assert (daemon.status()["failure"], daemon.status()["sessions_failed"]) == (None, 1)


def test_the_report_says_that_the_trainer_died_or_that_the_daemon_was_stopped():
    with daemon_with() as daemon:
        process, told = start_trainer("unit")
        wait_until(lambda: samples() >= 2)
        assert failure() is None  # the run continues
        process.kill()
        process.wait()
        wait_until(lambda: daemon.status()["state"] == "idle")
        assert failure() == "The trainer (pid {}) died without a message.".format(told["pid"])
        assert daemon.status()["sessions_failed"] == 1
        with serving(daemon):
            wait_until(lambda: len(run_record.names()) == 2 and samples() >= 2)
            daemon.end()
        assert failure().startswith("E113: The ascpipe daemon was stopped (ascpipe stop)")
