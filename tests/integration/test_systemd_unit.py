"""The unit for named daemons: systemd understands it, and what it says starts and ends a daemon."""
import configparser
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from ascpipe import names
from ascpipe.control import messages
from ascpipe.control.client import ask
from tests.support import tree

UNIT = tree.ROOT / "packaging/systemd/ascpipe@.service"


@pytest.fixture
def service():
    """Its ``[Service]`` for the daemon ``unit``."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str
    parser.read_string(UNIT.read_text().replace("%i", "unit"))
    return parser["Service"]


def test_systemd_understands_every_line_of_the_unit():
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not there")
    told = subprocess.run(["systemd-analyze", "--user", "verify", str(UNIT)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if "Failed to initialize manager" in told.stdout:
        pytest.skip("systemd-analyze cannot work here: " + told.stdout)
    assert (told.returncode, [line for line in told.stdout.splitlines() if "ascpipe@" in line]) == (0, [])


def test_the_command_of_the_unit_starts_a_daemon_that_says_when_it_is_ready_and_ends_by_the_stop_signal(
        service, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "{}:{}".format(os.path.dirname(sys.executable), os.environ["PATH"]))
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        daemon = subprocess.Popen(shlex.split(service["ExecStart"]), stderr=subprocess.PIPE)
        try:
            assert manager.recv(100) == b"READY=1"
            assert ask(names.run_dir("unit"), messages.Status())["pid"] == daemon.pid  # the main process of the service
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(float(service["TimeoutStopSec"])) == 0
        finally:
            daemon.kill()
            daemon.communicate()
    assert service["Type"] == "notify" and "KillSignal" not in service


def test_the_unit_lets_a_daemon_live_whose_worker_the_kernel_ended_and_begins_no_wrong_command_again(service):
    assert service["OOMPolicy"] == "continue"  # else systemd ends all of it
    wrong = subprocess.run([os.path.join(os.path.dirname(sys.executable), "ascpipe"), "start", "--workers", "none"],
                           stderr=subprocess.DEVNULL)
    assert str(wrong.returncode) == service["RestartPreventExitStatus"]


def test_every_line_of_the_unit_is_explained():
    text = (tree.ROOT / "docs/how-to/operations.md").read_text()
    for name in re.findall(r"^(\w+)=", UNIT.read_text().partition("[Service]")[2], re.MULTILINE):
        assert "`{}=".format(name) in text or name in {"ExecStart", "WantedBy"}, name
