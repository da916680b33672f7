"""A daemon serves its dashboard as long as it lives, and ``ascpipe dashboard`` serves one for other daemons.

Workers are stand-ins; ``test_dashboard.py`` opens the page while a program trains.
"""
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import psutil
import pytest

from ascpipe import names
from ascpipe.errors import DashboardError
from tests.support.commands import ascpipe
from tests.support.daemons import DaemonProcess, daemon_with, is_alive, serving, use_standins
from tests.support.scraping import free_port, scrape
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _standins(monkeypatch):
    use_standins(monkeypatch)


def get(address, path="/now", **parameters):
    """The JSON of a path of the page with this address; None while it is not ready."""
    found = urllib.parse.urlsplit(address)
    query = found.query + "&" + urllib.parse.urlencode(parameters)
    with urllib.request.urlopen("http://{}{}?{}".format(found.netloc, path, query), timeout=20) as answer:
        return json.loads(answer.read().decode()) if answer.status == 200 else None


def awaited(address, path, **parameters):
    return wait_until(lambda: get(address, path, **parameters))


def test_the_page_has_the_status_of_the_session_that_is_served():
    with daemon_with(dashboard=1) as daemon, serving(daemon):
        address = names.dashboard_of(daemon.run)
        told = wait_until(lambda: next((one for one in [get(address)] if one.get("status", {}).get("tables")), None))
        status = json.loads(ascpipe("status", "--json", "--name", "unit").stdout)
        steady = ("name", "pid", "version", "state", "trainer", "workers", "trace", "tables", "rings", "logs")
        assert {name: told["status"][name] for name in steady} == {name: status[name] for name in steady}
        assert set(told["status"]) == set(status)
        assert told["status"]["trace"]["spans"] == 2000  # for the timeline
        history = get(address, "/history")
        assert len(history["time"]) == len(history["bottleneck"]) == len(history["series"]["steps"]) > 0


def test_the_address_is_a_secret_of_this_user_and_goes_with_the_daemon():
    with daemon_with(dashboard=1) as daemon:
        assert os.stat(daemon.run.dashboard).st_mode & 0o777 == 0o600
        address = names.dashboard_of(daemon.run)
        token = address.rpartition("=")[2]
        processes = [psutil.Process(daemon.pid), *psutil.Process(daemon.pid).children()]
        assert len(token) == 32 and not [one for one in processes if token in " ".join(one.cmdline())]
        with pytest.raises(urllib.error.HTTPError, match="403"):
            get(address[:-1])
        daemon.end()
        assert names.dashboard_of(daemon.run) == "" and not os.path.exists(daemon.run.dashboard)


def test_a_process_that_is_killed_serves_again_at_the_same_address():
    with daemon_with(dashboard=1) as daemon:
        address = names.dashboard_of(daemon.run)
        awaited(address, "/now")
        process, = [child for child in psutil.Process(daemon.pid).children()
                    if (child.cmdline() or [""])[0].startswith("ascpipe: metrics of ")]
        process.kill()
        assert get(address)["time"] > 0  # the connection waits in the kernel


def test_one_process_has_the_metrics_and_the_page():
    port = free_port()
    with daemon_with(dashboard=1, dashboard_port=free_port(), metrics_port=port) as daemon:
        assert scrape(port)["ascpipe_up", ] == 1
        assert wait_until(lambda: get(names.dashboard_of(daemon.run))["silent"] == "")


def test_a_port_that_is_taken_is_said_at_the_start():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        with pytest.raises(DashboardError, match="E229.* port {} of 127.0.0.1: Address already in use".format(port)):
            DaemonProcess("unit", dashboard=1, dashboard_port=port)
        done = ascpipe("start", "--name", "unit", "--dashboard", "--set", "dashboard_port={}".format(port))
        assert done.returncode == 1 and "E229" in done.stderr


def test_start_prints_the_address_and_dashboard_prints_it_again():
    try:
        started = ascpipe("start", "--name", "mine", "--dashboard")
        address = names.dashboard_of(names.run_dir("mine"))
        line = "ascpipe: dashboard of daemon 'mine': {}\n".format(address)
        assert address and started.stdout.endswith(line), started.stderr
        assert ascpipe("dashboard", "--name", "mine").stdout == line
    finally:
        assert ascpipe("stop", "--name", "mine").returncode == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_command_serves_a_page_of_its_own_until_it_ends(how):
    with daemon_with() as daemon:
        command = subprocess.Popen([sys.executable, "-m", "ascpipe", "dashboard", "--name", "unit"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        address = command.stdout.readline().split(": ")[-1].strip()
        process, = psutil.Process(command.pid).children()
        assert wait_until(lambda: get(address).get("status", {}).get("name") == "unit")
        assert get(address, "/checkpoints") == []
        daemon.end()
        assert "No ascpipe daemon" in wait_until(lambda: get(address)["silent"])
        command.send_signal(how)
        code = command.wait(20)
        assert code == (0 if how == signal.SIGINT else -how), command.stderr.read()
        wait_until(lambda: not is_alive(process.pid))
        command.stdout.close()
        command.stderr.close()


def test_without_a_daemon_there_is_no_page():
    assert ascpipe("dashboard", "--name", "nobody").returncode == 3
