"""A daemon exports its figures: to scrapes, to a file, as long as it lives, and says at its start what it cannot do.

Workers are stand-ins; ``test_metrics_in_training.py`` scrapes while a program trains.
"""
import os
import signal
import socket
from pathlib import Path

import psutil
import pytest

from ascpipe import names
from ascpipe.control import launch, trainer_link
from ascpipe.daemon import exporter
from ascpipe.errors import MetricsError, MetricsMissingError
from tests.support.daemons import LAYOUT, DaemonProcess, daemon_with, is_alive, serving, use_standins
from tests.support.scraping import free_port, numbers, scrape
from tests.support.waiting import wait_until

TITLE = "ascpipe: metrics of "


@pytest.fixture(autouse=True)
def _standins(monkeypatch):
    use_standins(monkeypatch)


def exporter_of(daemon):
    """The process that exports, or None."""
    found = [child for child in psutil.Process(daemon.pid).children()
             if (child.cmdline() or [""])[0].startswith(TITLE)]
    return found[0] if found else None


def test_a_scrape_tells_of_the_session_that_is_served():
    port = free_port()
    with daemon_with(metrics_port=port) as daemon:
        assert scrape(port)["ascpipe_state", "idle"] == 1
        with serving(daemon) as link:
            found = wait_until(lambda: [now for now in [scrape(port)] if now["ascpipe_state", "serving"]])[0]
            assert found["ascpipe_session_run", ] == link.run
            assert found["ascpipe_table_device_rows", "user"] == 100
            assert found["ascpipe_ring_frame_limit", "train", "0"] == 64
            assert found["ascpipe_worker_attached", "table 0"] == 1
        wait_until(lambda: scrape(port)["ascpipe_session_run", ] == 0)


def test_a_daemon_that_is_not_asked_for_metrics_has_no_process_and_no_port_for_them():
    with daemon_with() as daemon:
        assert exporter_of(daemon) is None
        assert psutil.Process(daemon.pid).net_connections("inet") == []


def test_metrics_are_served_on_this_machine_alone_unless_told():
    port = free_port()
    with daemon_with(metrics_port=port) as daemon:
        process = wait_until(lambda: exporter_of(daemon))
        assert {connection.laddr.ip for connection in process.net_connections("inet")} == {"127.0.0.1"}
    with daemon_with(metrics_port=port, metrics_address="127.0.0.2"):
        assert scrape(port, "127.0.0.2")["ascpipe_up", ] == 1


def test_the_file_is_there_while_the_daemon_lives_and_only_then(tmp_path):
    path = tmp_path / "figures.prom"
    with daemon_with(metrics_file=str(path)) as daemon:
        wait_until(path.exists)
        assert numbers(path.read_text())["ascpipe_up", ] == 1
        daemon.end()
        assert os.listdir(str(tmp_path)) == []


def test_a_daemon_that_is_killed_leaves_neither_the_process_nor_the_file(tmp_path):
    path = tmp_path / "figures.prom"
    with daemon_with(metrics_file=str(path), metrics_port=free_port()) as daemon:
        wait_until(path.exists)
        process = exporter_of(daemon)
        os.kill(daemon.pid, signal.SIGKILL)
        daemon.wait()
        wait_until(lambda: not is_alive(process.pid))
        assert os.listdir(str(tmp_path)) == []


def test_a_process_that_is_killed_is_begun_again_and_scrapes_wait_for_it():
    port = free_port()
    with daemon_with(metrics_port=port) as daemon:
        process = wait_until(lambda: exporter_of(daemon))
        process.kill()
        assert scrape(port, timeout_s=exporter._RENEWAL_S + 10)["ascpipe_up", ] == 1
        assert exporter_of(daemon).pid != process.pid
        assert "exports metrics (pid {}) exited with -9 and is restarted".format(process.pid) in daemon.log()


def test_a_process_that_is_stopped_holds_up_neither_the_daemon_nor_its_end():
    with daemon_with(metrics_port=free_port()) as daemon:
        process = wait_until(lambda: exporter_of(daemon))
        process.suspend()
        assert daemon.status()["state"] == "idle"
        daemon.end()
        assert not is_alive(process.pid)


def test_a_stopped_daemon_is_down():
    port = free_port()
    with daemon_with(metrics_port=port) as daemon:
        assert scrape(port)["ascpipe_up", ] == 1
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            assert wait_until(lambda: scrape(port) == {("ascpipe_up", ): 0})
        finally:
            os.kill(daemon.pid, signal.SIGCONT)
        wait_until(lambda: scrape(port)["ascpipe_up", ] == 1)


def test_a_port_that_is_taken_is_said_at_the_start():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        with pytest.raises(MetricsError, match="E224.*metrics_port = {0}: port {0} of 127.0.0.1 cannot be opened: "
                                               "Address already in use".format(port)):
            DaemonProcess("unit", metrics_port=port)


@pytest.mark.parametrize("path, reason", [
    ("/proc/none/a.prom", "/proc/none is no directory"), ("/proc/a.prom/../b.prom", "is no directory")])
def test_a_file_that_cannot_be_is_said_at_the_start(path, reason):
    with pytest.raises(MetricsError, match="E224.*metrics_file.*" + reason):
        DaemonProcess("unit", metrics_file=path)


def test_a_package_that_is_missing_is_said_at_the_start(monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'prometheus_client' else find(name, *more)\n")
    monkeypatch.setenv("PYTHONPATH", "{}:{}".format(tmp_path, os.environ["PYTHONPATH"]))
    with pytest.raises(MetricsMissingError, match=r'E225.*metrics_port = .*prometheus_client.*"ascpipe\[metrics\]"'):
        DaemonProcess("unit", metrics_port=free_port())
    DaemonProcess("unit").end()  # without metrics it is not needed


def test_ranks_of_a_machine_have_ports_and_files_of_their_own(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(launch, "Launching", lambda name, private, options: asked.append(options))
    for variable, value in (("RANK", "5"), ("SIZE", "8"), ("LOCAL_RANK", "1"), ("LOCAL_SIZE", "2")):
        monkeypatch.setenv("OMPI_COMM_WORLD_" + variable, value)
    trainer_link.begin()
    monkeypatch.setenv("ASCPIPE_METRICS_PORT", "9400")
    monkeypatch.setenv("ASCPIPE_METRICS_FILE", str(tmp_path / "a.prom"))
    trainer_link.begin()
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1")
    trainer_link.begin()
    assert asked == [{}, {"metrics_port": 9401, "metrics_file": str(tmp_path / "a-1.prom")}, {}]


def test_a_private_daemon_exports_as_its_trainer_asks(monkeypatch):
    port = free_port()
    monkeypatch.setenv("ASCPIPE_METRICS_PORT", str(port))
    link = trainer_link.connect(layout=LAYOUT)
    try:
        assert link.private and scrape(port)["ascpipe_private", ] == 1
        assert Path(names.run_dir(link.name).worker_log("metrics-0")).read_text() == ""
    finally:
        link.close()
