"""``ascpipe trace`` begins and ends to record while a program trains."""
import json
import os
import signal
import time

import pytest

from tests.support import commands
from tests.support.daemons import DaemonProcess
from tests.support.programs import running
from tests.support.waiting import wait_until
from tests.support.watched_training import trained_by

pytestmark = [pytest.mark.timeout_s(180), pytest.mark.usefixtures("forked_programs")]


def ascpipe(*arguments):
    return commands.ascpipe(*arguments, "--name", "traced")


@pytest.fixture(scope="module")
def daemon():
    made = DaemonProcess("traced", ring_bytes=running.RING_BYTES, spared=True)
    try:
        with trained_by("traced"):
            yield made
    finally:
        made.end()


@pytest.fixture
def recording(daemon):
    began_us = time.time() * 1e6
    done = ascpipe("trace", "start", "--spans", "5000")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ascpipe: daemon 'traced' records up to 5000 spans per worker")
    yield began_us
    if daemon.status()["trace"]["spans"]:
        ascpipe("trace", "stop")


def events(tmp_path):
    done = ascpipe("timeline", "--output", str(tmp_path / "trace.json"))
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    return [event for event in found if event["ph"] == "X"]


def newest(found, what):
    """The newest batch that a stage has done."""
    return max([int(part.split()[1]) for event in found for part in event["name"].split(", ")
                if part.split()[0] == what], default=0)


def batches(daemon):
    (table,) = daemon.status()["tables"]
    return table["batches"]


def trains(daemon, count=30):
    before = batches(daemon)
    return wait_until(lambda: batches(daemon) if batches(daemon) > before + count else 0)


def test_before_the_start_there_is_nothing_to_write_and_it_says_how_to_begin(daemon, tmp_path):
    done = ascpipe("timeline", "--output", str(tmp_path / "trace.json"))
    assert (done.returncode, "ascpipe trace start" in done.stderr) == (2, True)
    stop = ascpipe("trace", "stop")
    assert (stop.returncode, "E219" in stop.stderr) == (1, True)


def test_from_the_start_on_the_work_of_all_workers_is_there_and_nothing_of_before(daemon, recording, tmp_path):
    before = batches(daemon)
    trains(daemon)
    found = events(tmp_path)
    assert min(event["ts"] for event in found) >= recording
    for what in ("deduplicate", "touch", "plan", "retire"):
        assert newest(found, what) > before, what
    assert "trace: 5000 spans of each worker are kept since " in ascpipe("status").stdout
    again = ascpipe("trace", "start")
    assert (again.returncode, "E219" in again.stderr) == (1, True)


def test_after_the_stop_what_was_recorded_stays_and_nothing_is_added(daemon, recording, tmp_path):
    trains(daemon)
    assert ascpipe("trace", "stop").returncode == 0
    trains(daemon)  # a worker may have been at a step
    first = events(tmp_path)
    trained = trains(daemon)
    assert events(tmp_path) == first
    assert newest(first, "retire") < trained - 30


def test_a_worker_that_was_killed_goes_on_recording_as_its_successor(daemon, recording, tmp_path):
    (worker,) = daemon.workers("table")
    trains(daemon)
    os.kill(worker["pid"], signal.SIGKILL)
    wait_until(lambda: daemon.workers("table")[0]["restarts"] == worker["restarts"] + 1)
    trained = trains(daemon)
    assert newest(events(tmp_path), "retire") > trained - 30


def test_a_worker_that_is_stopped_is_named_by_the_start_and_records_when_it_goes_on(daemon, tmp_path):
    (worker,) = daemon.workers("table")
    os.kill(worker["pid"], signal.SIGSTOP)
    try:
        done = ascpipe("trace", "start")
        assert (done.returncode, "E219" in done.stderr, "from table-0" in done.stderr) == (1, True, True)
    finally:
        os.kill(worker["pid"], signal.SIGCONT)
    trained = trains(daemon)
    assert newest(events(tmp_path), "retire") > trained - 30
    (told,) = json.loads(ascpipe("trace", "stop", "--json").stdout)
    assert (told["name"], told["spans"], told["until_ns"] > told["since_ns"]) == ("traced", 0, True)
