"""A child that is stopped at the wrong instant keeps its parent waiting for seconds, not for ever."""
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ascpipe.control import child
from tests.support.waiting import wait_until

ENDLESS = [sys.executable, "-c", "import signal; signal.pause()"]


def stop_this_process():
    os.kill(os.getpid(), signal.SIGSTOP)


def test_a_child_that_is_stopped_before_its_program_begins_is_killed(monkeypatch):
    monkeypatch.setattr(child, "EXEC_TIMEOUT_S", 0.2)
    began = time.monotonic()
    made = child.Child(ENDLESS, preexec_fn=stop_this_process)
    assert time.monotonic() - began < 5.0
    assert (made.is_late, made.wait(5)) == (True, -signal.SIGKILL)


def test_a_child_that_begins_is_as_any_other():
    made = child.Child([sys.executable, "-c", "print(1)"], stdout=subprocess.PIPE)
    assert (made.communicate()[0], made.returncode, made.is_late) == (b"1\n", 0, False)


def test_where_no_thread_can_begin_it_is_as_where_no_process_can(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(BlockingIOError, match="new thread"):
        child.Child(ENDLESS)


def test_a_child_that_is_told_to_end_and_is_stopped_is_killed_soon():
    made = subprocess.Popen(ENDLESS, start_new_session=True)
    made.send_signal(signal.SIGSTOP)
    wait_until(child.Stops(made.pid).seconds)
    made.terminate()
    began = time.monotonic()
    child.reap(made)
    assert made.returncode == -signal.SIGKILL
    assert time.monotonic() - began < 10.0


def test_a_process_that_goes_on_was_not_stopped():
    made = subprocess.Popen(ENDLESS)
    stops = child.Stops(made.pid)
    assert stops.seconds() == 0.0
    made.send_signal(signal.SIGSTOP)
    wait_until(lambda: stops.seconds() > 0.1)
    made.send_signal(signal.SIGCONT)
    wait_until(lambda: stops.seconds() == 0.0)
    child.kill(made)
    assert made.returncode == -signal.SIGKILL
    assert child.Stops(made.pid).seconds() == 0.0
