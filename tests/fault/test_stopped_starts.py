"""A daemon, its template or a worker that a signal stops at any instant of its start: the run goes on, or ends with a
sentence, within 20 s."""
import json
import os
import random
import signal
import sys
import threading
import time

import psutil
import pytest

from ascpipe.control import launch, trainer_link
from ascpipe.errors import NoAnswerError, NotStartedError
from tests.fault.test_template_deaths import title, workers
from tests.support.daemons import LAYOUT, ROOT, DaemonProcess, is_alive, serving, small_session
from tests.support.programs import running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout_s(120)

WITHIN_S = 20.0


@pytest.fixture
def stopping(monkeypatch):
    """Daemons of which a child is stopped, by its number."""
    def stop(number):
        monkeypatch.setattr(launch, "MODULE", "tests.support.stopping_daemon")
        monkeypatch.setenv("ASCPIPE_X_STOPPED_CHILD", str(number))

    monkeypatch.setenv("PYTHONPATH", ROOT)
    monkeypatch.setenv("ASCPIPE_RING_BYTES", str(1 << 20))
    return stop


def attached_within(daemon, began):
    """A session is served by workers that have come up, in time."""
    with serving(daemon):
        assert time.monotonic() - began < WITHIN_S
    for place, pid in workers(daemon).items():
        wait_until(lambda: title(pid) == "ascpipe: {} of unit".format(place.sentence))  # noqa: B023


def test_a_template_that_is_stopped_before_its_program_begins_is_done_without(stopping):
    stopping(0)
    began = time.monotonic()
    daemon = DaemonProcess("unit")
    try:
        attached_within(daemon, began)
    finally:
        daemon.end()


def test_a_template_that_is_stopped_while_it_loads_is_done_without_with_the_settings_that_users_have():
    began, stopped = time.monotonic(), []

    def stop(pid):
        stopped.extend(wait_until(lambda: [
            process for process in psutil.Process(pid).children() if "ascpipe.workers.template" in process.cmdline()]))
        stopped[0].send_signal(signal.SIGSTOP)

    daemon = DaemonProcess("unit", as_it_begins=stop, ring_bytes=1 << 20)
    try:
        attached_within(daemon, began)
        assert not is_alive(stopped[0].pid)
    finally:
        daemon.end()


def test_a_worker_that_is_stopped_before_its_program_begins_is_replaced(stopping):
    stopping(1)
    began = time.monotonic()
    daemon = DaemonProcess("unit", as_it_begins=kill_the_template)
    try:
        attached_within(daemon, began)
        assert "its program did not start within 3 s" in daemon.log()
    finally:
        daemon.end()


def kill_the_template(pid):
    wait_until(lambda: psutil.Process(pid).children())[0].kill()


def test_a_daemon_that_is_stopped_while_it_begins_ends_its_launcher_with_a_sentence(stopping):
    stopping(-1)
    began = time.monotonic()
    with pytest.raises(NotStartedError, match="a signal stopped it for 10 s during its start, and it was killed"):
        launch.Launching("unit").wait()
    assert time.monotonic() - began < WITHIN_S


def test_a_daemon_that_is_stopped_before_its_program_begins_ends_its_launcher_with_a_sentence(monkeypatch):
    begin = launch.Child

    def stopped(command, **options):
        return begin(command, preexec_fn=lambda: os.kill(os.getpid(), signal.SIGSTOP), **options)

    monkeypatch.setattr(launch, "Child", stopped)
    began = time.monotonic()
    with pytest.raises(NotStartedError, match="its program did not start within .* It was killed"):
        launch.Launching("unit").wait()
    assert time.monotonic() - began < WITHIN_S


def test_a_daemon_that_is_stopped_when_it_is_asked_to_start_ends_its_trainer_with_a_sentence(monkeypatch):
    monkeypatch.setenv("ASCPIPE_RING_BYTES", str(1 << 20))
    daemon = DaemonProcess("unit")
    link = trainer_link.connect("unit", layout=LAYOUT)
    try:
        os.kill(daemon.pid, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(NoAnswerError, match="did not answer 'start' within 10 s"):
            link.start(*small_session())
        assert time.monotonic() - began < WITHIN_S
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
        link.close()
        daemon.end()


def test_a_daemon_that_has_not_answered_is_not_waited_for_as_long_when_its_trainer_ends(monkeypatch):
    monkeypatch.setenv("ASCPIPE_RING_BYTES", str(1 << 20))
    link = trainer_link.connect(layout=LAYOUT)
    try:
        link.start(*small_session())
        os.kill(link.daemon_pid, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(NoAnswerError, match="did not answer 'status' within 10 s"):
            link.status()
    finally:
        link.close()
    assert time.monotonic() - began < WITHIN_S
    assert not is_alive(link.daemon_pid)
    DaemonProcess("other").end()  # sweeps what one that was killed leaves


def stop_one(processes, draw):
    """Stop one of them; its title, and "none" where there is none, or it ended as it was chosen (a compiler, say)."""
    if not processes:
        return "none"
    chosen = draw.choice(processes)
    try:
        name = title(chosen.pid)[-60:]
        chosen.send_signal(signal.SIGSTOP)
    except psutil.NoSuchProcess:
        return "none"
    return name


@pytest.mark.parametrize("rounds", [2, pytest.param(40, marks=[pytest.mark.long, pytest.mark.timeout_s(1200)])])
def test_whichever_process_is_stopped_at_any_instant_of_a_start_the_program_ends_in_time(rounds, seed):
    """The daemon, its template or a worker is stopped, and stays so."""
    draw, seconds, ends = random.Random(seed), [], []
    for _ in range(rounds):
        process = running.begin("served_session")
        try:
            wait_until(psutil.Process(process.pid).children)
            threading.Event().wait(draw.uniform(0.0, 1.2))
            name = stop_one(psutil.Process(process.pid).children(recursive=True), draw)
            began = time.monotonic()
            out, err = process.communicate(timeout=100)
        finally:
            process.kill()
            process.wait()
        seconds.append(time.monotonic() - began)
        told = json.loads(out)
        ends.append((name, "{:.1f} s".format(seconds[-1]), told["error"] or sorted(told["attached"])))
        assert told["error"] or told["attached"] == ["key", "table"], (ends, err)
    DaemonProcess("other").end()  # removes the files of daemons that were stopped, and then killed
    for end in ends:
        sys.stdout.write("{}\n".format(end))
    assert max(seconds) < WITHIN_S, ends
