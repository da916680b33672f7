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
from tests.support.daemons import ROOT, DaemonProcess, serving, use_standins
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
        assert ascpipe("report", "--last", "--html", tmp_path / "out.html").returncode == 0
    finally:
        daemon.end()
