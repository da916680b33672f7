"""``ascpipe start``, ``status``, ``stop`` as a shell sees them."""
import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from ascpipe import names
from ascpipe.control import client, messages
from ascpipe.errors import NoAnswerError
from tests.support import commands
from tests.support.daemons import ROOT, DaemonProcess, is_alive, start_trainer, use_standins
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def _standins(monkeypatch):
    use_standins(monkeypatch)


def ascpipe(*arguments):
    """Run a command. ``start`` is executed, so that its daemon has real workers."""
    if arguments[0] != "start":
        return commands.ascpipe(*arguments)
    return subprocess.run([sys.executable, "-m", "ascpipe", *arguments], capture_output=True, text=True, cwd="/")


def test_start_returns_when_it_is_ready_and_stop_when_it_is_gone(monkeypatch):
    # the real workers: they are not needed before a trainer comes, and end with the daemon
    started = ascpipe("start", "--name", "shell", "--workers", "2", "--ring-bytes", "1048576")
    assert (started.returncode, started.stderr) == (0, "")
    status = ascpipe("status", "--name", "shell", "--json")
    body = json.loads(status.stdout)
    assert started.stdout == "ascpipe: daemon 'shell' started, pid {}\n".format(body["pid"])
    assert [worker["kind"] for worker in body["workers"]] == ["key", "key", "table"]
    assert "daemon 'shell': idle" in ascpipe("status", "--name", "shell").stdout
    again = ascpipe("start", "--name", "shell")
    assert (again.returncode, again.stdout) == (1, "")
    assert "E211" in again.stderr and "pid {}".format(body["pid"]) in again.stderr
    stopped = ascpipe("stop", "--name", "shell")
    assert (stopped.returncode, stopped.stdout) == (0, "ascpipe: daemon 'shell' stopped\n")
    assert not is_alive(body["pid"])
    assert not any(is_alive(worker["pid"]) for worker in body["workers"] if worker["pid"])
    assert ascpipe("status", "--name", "shell").returncode == 3
    run = names.run_dir("shell")
    assert all(name.endswith(".log") for name in os.listdir(run.path))
    for name in os.listdir(run.path):
        os.unlink(os.path.join(run.path, name))
    os.rmdir(run.path)


@pytest.mark.parametrize("private", [False, True])
def test_the_first_daemon_of_a_user_says_that_it_compiles_before_anyone_waits(private, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = ("from ascpipe.control.launch import Launching\n"
               "launched = Launching({!r}, private={}).wait()\n"
               "launched.process.terminate()\nlaunched.process.wait()").format("first", private)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "kernels of the workers are being compiled" in line and str(tmp_path) in line
    shutil.rmtree(names.run_dir("first").path, ignore_errors=private)  # a private one has left nothing


def test_the_only_daemon_needs_no_name_and_of_several_none_is_taken():
    first = DaemonProcess("first")
    try:
        alone = ascpipe("status", "--json")
        assert alone.stderr == "ascpipe: daemon 'first', the only one that runs\n"
        assert (json.loads(alone.stdout)["pid"], json.loads(alone.stdout)["logs"]) == (first.pid, first.run.path)
        second = DaemonProcess("second")
        try:
            several = ascpipe("status")
            assert (several.returncode, several.stdout) == (3, "")
            assert "running now: first, second" in several.stderr and "E212" in several.stderr
            assert [(one["name"], one["state"], one["pid"], one["private"], one["trainer"])
                    for one in json.loads(ascpipe("list", "--json").stdout)] == [
                        ("first", "idle", first.pid, False, None), ("second", "idle", second.pid, False, None)]
        finally:
            second.end()
        stop = ascpipe("stop")  # ending what was not named would be too much
        assert (stop.returncode, "running now: first" in stop.stderr, "E212" in stop.stderr) == (3, True, True)
    finally:
        first.end()


def test_stats_prints_its_lines_and_top_draws_until_q_is_pressed():
    daemon = DaemonProcess("watched")
    try:
        done = ascpipe("stats", "-i", "0.1", "-n", "2", "--name", "watched")
        assert (done.returncode, len(done.stdout.splitlines())) == (0, 3), done.stderr
        ours, theirs = pty.openpty()
        with open(ours, "r+b", buffering=0) as terminal:
            top = subprocess.Popen([sys.executable, "-m", "ascpipe", "top", "--name", "watched"], stdin=theirs,
                                   stdout=theirs, stderr=theirs, cwd="/", env={**os.environ, "TERM": "xterm"})
            os.close(theirs)
            drawn = b""
            while b"q ends" not in drawn:
                drawn += terminal.read(65536)
            assert b"daemon 'watched': idle" in drawn and b"key worker 0" in drawn
            terminal.write(b"q")
            reader = threading.Thread(target=_read_to_the_end, args=(terminal,))
            reader.start()
            assert top.wait(20) == 0
            reader.join(20)
    finally:
        daemon.end()


def _read_to_the_end(terminal):
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while terminal.read(65536):
            pass


@pytest.mark.parametrize("verb", [["inspect", "user", "1"], ["hotkeys", "user"]])
def test_a_look_at_a_table_ends_with_3_without_a_daemon_and_with_1_without_a_session(verb):
    assert ascpipe(*verb).returncode == 3
    daemon = DaemonProcess("idle")
    try:
        done = ascpipe(*verb)
        assert (done.returncode, "E219" in done.stderr, "no session" in done.stderr) == (1, True, True)
        trainer, _ = start_trainer("idle")
        try:
            wrong = ascpipe(verb[0], "item", *verb[2:])
            assert (wrong.returncode, "there is no table 'item'; there is user" in wrong.stderr) == (2, True)
            assert ascpipe(*verb).returncode == 0
        finally:
            trainer.kill()
            trainer.wait()
    finally:
        daemon.end()


@pytest.mark.parametrize("given", ["environment", "option"])
def test_a_daemon_finds_a_file_of_settings_that_was_named_by_a_relative_path(tmp_path, monkeypatch, given):
    (tmp_path / "here.toml").write_text("table_workers = 2\n")
    if given == "environment":
        monkeypatch.setenv("ASCPIPE_CONFIG", "here.toml")
    option = ["--config", "here.toml"] if given == "option" else []
    command = [sys.executable, "-m", "ascpipe", "start", "--name", "file", "--set", "workers=2", *option]
    started = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    try:
        assert (started.returncode, started.stderr) == (0, "")
        workers = json.loads(ascpipe("status", "--name", "file", "--json").stdout)["workers"]
        assert [worker["kind"] for worker in workers] == ["key", "key", "table", "table"]
    finally:
        ascpipe("stop", "--name", "file")
        shutil.rmtree(names.run_dir("file").path, ignore_errors=True)


def test_the_daemon_leaves_the_session_and_the_streams_of_its_starter():
    daemon = DaemonProcess("detached")
    try:
        assert os.getsid(daemon.pid) != os.getsid(0)
        targets = {os.readlink("/proc/{}/fd/{}".format(daemon.pid, fd)) for fd in (0, 1, 2)}
        assert targets == {"/dev/null", daemon.run.log}
        assert os.readlink("/proc/{}/cwd".format(daemon.pid)) == "/"
        os.kill(daemon.pid, signal.SIGHUP)  # the terminal it was started from
        other = ascpipe("status", "--name", "other")
        assert (other.returncode, "running now: detached" in other.stderr) == (3, True)
    finally:
        daemon.end()


def test_workers_run_on_the_processors_that_the_setting_names_also_when_they_are_replaced():
    ours = sorted(os.sched_getaffinity(0))
    daemon = DaemonProcess("bound", bind_cpu="{},{}".format(ours[-1], ours[0]))

    def processors():
        return [os.sched_getaffinity(worker["pid"]) for worker in daemon.workers() if is_alive(worker["pid"])]

    try:
        wait_until(lambda: processors() == [{ours[-1]}, {ours[0]}])
        os.kill(daemon.workers("key")[0]["pid"], signal.SIGKILL)
        wait_until(lambda: daemon.workers("key")[0]["restarts"] == 1)
        wait_until(lambda: processors() == [{ours[-1]}, {ours[0]}])
    finally:
        daemon.end()


def test_a_processor_that_there_is_not_is_wrong_usage_and_no_daemon_starts():
    refused = ascpipe("start", "--name", "bound", "--bind-cpu", "1023")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "E402" in refused.stderr and "processor 1023" in refused.stderr
    assert ascpipe("status", "--name", "bound").returncode == 3


def test_a_daemon_in_the_foreground_logs_to_stderr_and_ends_with_ctrl_c():
    process = subprocess.Popen([sys.executable, "-m", "ascpipe", "start", "--name", "front", "--foreground"],
                               stderr=subprocess.PIPE, universal_newlines=True, cwd=ROOT)
    try:
        assert "started, pid {}".format(process.pid) in process.stderr.readline()
        wait_until(lambda: ascpipe("status", "--name", "front").returncode == 0)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert "ended" in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    run = names.run_dir("front")
    for name in os.listdir(run.path) if os.path.isdir(run.path) else []:
        os.unlink(os.path.join(run.path, name))
    if os.path.isdir(run.path):
        os.rmdir(run.path)


def test_a_stopped_daemon_is_an_error_that_says_how_to_go_on(monkeypatch):
    daemon = DaemonProcess("frozen")
    try:
        os.kill(daemon.pid, signal.SIGSTOP)
        with pytest.raises(NoAnswerError, match="kill -CONT {}$".format(daemon.pid)):
            client.ask(daemon.run, messages.Status(), timeout_s=0.5)
        (listed,) = json.loads(ascpipe("list", "--json").stdout)
        assert (listed["state"], listed["pid"]) == ("does not answer", daemon.pid)
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
        daemon.end()
