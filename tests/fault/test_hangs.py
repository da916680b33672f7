"""Processes that are stopped, and do not end: the daemon replaces them, and results are as if nothing had happened."""
import itertools
import os
import re
import signal
import sys
from threading import Event

import psutil
import pytest

from ascpipe.daemon.worker_identity import KEY, TABLE, Worker
from tests.fault.test_template_deaths import replaced, template, title, was_executed, workers
from tests.fault.test_trainer_deaths import Trainer
from tests.support.daemons import DaemonProcess, is_alive
from tests.support.programs import running
from tests.support.waiting import wait_until
from tests.support.watched_training import trained_by

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]


@pytest.fixture
def daemon(monkeypatch):
    monkeypatch.setenv("ASCPIPE_RING_BYTES", str(1 << 20))
    monkeypatch.setenv("ASCPIPE_WORKER_PATIENCE_S", "7")
    made = DaemonProcess("unit")
    yield made
    made.end()


def test_workers_that_are_stopped_in_training_are_replaced_and_every_lookup_is_as_if_nothing_had_happened():
    (stopped,) = running.run("deaths", "stopped_workers:table+key,4", ring_frames=16, worker_patience_s=1)
    assert stopped["restarts"] == {"table": 2, "key": 2}


@pytest.mark.long
@pytest.mark.timeout_s(1200)
@pytest.mark.parametrize("kind", ["table", "key"])
def test_twenty_workers_that_are_stopped_are_replaced_with_the_settings_that_users_have(kind):
    (stopped,) = running.run("deaths", "stopped_workers:{},20".format(kind), ring_frames=16, ends_within_s=1100.0)
    assert stopped["restarts"][kind] == 20
    sys.stdout.write("20 stopped {} workers: the longest step took {:.1f} s\n".format(kind, stopped["longest_s"]))


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=[pytest.mark.long, pytest.mark.timeout_s(1200)])])
def test_training_goes_on_while_the_daemon_is_stopped_and_a_dead_worker_is_replaced_after_it(rounds):
    (told,) = running.run("deaths", "stopped_supervisor:{}".format(rounds), ring_frames=16, ends_within_s=1100.0)
    assert told["restarts"] == {"key": 0, "table": rounds}
    assert told["silent_s"] < 20
    sys.stdout.write("{} times: status is refused after {:.1f} s at most, training goes on {:.1f} s after SIGCONT\n"
                     .format(rounds, told["silent_s"], told["goes_on_s"]))


@pytest.mark.parametrize("seconds, settings", [
    (6, {"worker_patience_s": 2}), pytest.param(20, {}, marks=pytest.mark.long)])
def test_of_a_trainer_that_is_stopped_nothing_is_given_up_and_it_goes_on(seconds, settings):
    daemon = DaemonProcess("unit", ring_bytes=running.RING_BYTES, **settings)

    def trained():
        return sum(table["batches"] for table in daemon.status()["tables"])

    try:
        trainer = Trainer(name="unit")
        before = workers(daemon)
        try:
            trainer.process.send_signal(signal.SIGSTOP)
            Event().wait(seconds)
            status, stood = daemon.status(), trained()
            assert (status["state"], status["failure"]) == ("serving", None)
            trainer.process.send_signal(signal.SIGCONT)
            wait_until(lambda: trained() > stood + 20)
            assert workers(daemon) == before
        finally:
            trainer.kill()
        wait_until(lambda: daemon.status()["state"] == "idle")
    finally:
        daemon.end()


def test_a_worker_that_is_stopped_is_named_after_five_seconds_and_then_replaced(daemon):
    pids = workers(daemon)
    stopped = pids[Worker(TABLE, 0)]
    os.kill(stopped, signal.SIGSTOP)
    wait_until(lambda: "table worker 0 (pid {}) has made no progress".format(stopped) in daemon.log())
    assert is_alive(stopped)
    assert any(worker["hangs_s"] > 4 for worker in daemon.workers())
    wait_until(lambda: workers(daemon)[Worker(TABLE, 0)] != stopped)
    assert re.search(r"table worker 0 \(pid {}\) exited: it made no progress for . s and was killed "
                     r"\(worker_patience_s\)".format(stopped), daemon.log())
    assert [worker["restarts"] for worker in daemon.workers()] == [0, 1]


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=[pytest.mark.long, pytest.mark.timeout_s(1200)])])
def test_a_template_that_is_killed_or_stopped_is_begun_again_and_workers_are_forked_from_it(times, daemon):
    for ended_by, kind in itertools.product([signal.SIGKILL, signal.SIGSTOP] * times, [KEY, TABLE]):
        place = Worker(kind, 0)  # each of the two in turn: one that dies more than 5 times a minute is given up
        before = template(daemon, workers(daemon))
        os.kill(before, ended_by)
        # Until the daemon has reaped the process, its status says that the earlier template is ready.
        wait_until(lambda: not psutil.pid_exists(before) and daemon.status()["template"] == "ready")  # noqa: B023
        pid = replaced(daemon, place, workers(daemon))
        wait_until(lambda: title(pid) == "ascpipe: {} of unit".format(place.sentence))  # noqa: B023
        assert not was_executed(pid)


def test_workers_begin_without_a_template_that_is_stopped_while_it_loads(monkeypatch):
    monkeypatch.setenv("ASCPIPE_WORKER_PATIENCE_S", "1")
    stopped = []

    def templates(pid):
        return [child for child in psutil.Process(pid).children() if "ascpipe.workers.template" in child.cmdline()]

    def stop(pid):
        stopped.extend(wait_until(lambda: templates(pid)))  # a daemon begins it before it loads modules of its own
        stopped[0].send_signal(signal.SIGSTOP)

    daemon = DaemonProcess("unit", as_it_begins=stop)
    try:
        for place, pid in workers(daemon).items():
            wait_until(lambda: title(pid) == "ascpipe: {} of unit".format(place.sentence))  # noqa: B023
            assert was_executed(pid)
        assert not is_alive(stopped[0].pid)
    finally:
        daemon.end()


def test_a_step_that_waits_while_the_daemon_is_stopped_says_so_and_how_it_goes_on(tmp_path):
    daemon = DaemonProcess("unit", ring_bytes=running.RING_BYTES)

    def trains(more):
        before = daemon.status()["tables"][0]["batches"]
        return wait_until(lambda: daemon.status()["tables"][0]["batches"] > before + more)

    def said():
        return [line for line in (tmp_path / "stderr").read_text().splitlines() if " a step waits for " in line]

    try:
        with trained_by("unit", err=tmp_path / "stderr") as program:
            trains(10)
            assert said() == []
            (worker,) = daemon.workers("table")
            os.kill(daemon.pid, signal.SIGSTOP)
            try:
                os.kill(worker["pid"], signal.SIGKILL)
                cure = "The supervisor (pid {0}) is stopped by a signal and replaces no worker: `kill -CONT {0}`"
                cure = cure.format(daemon.pid)
                wait_until(lambda: any(cure in line for line in said()), 40)
                assert len(said()) == 2, "not once in ten seconds"
                assert re.match("ascpipe: table 'ids', batch [0-9]+, a step waits for 5 s for the table worker to "
                                "plan it \\(pid {}, which has ended\\)".format(worker["pid"]), said()[0])
            finally:
                os.kill(daemon.pid, signal.SIGCONT)
            trains(30)
            os.kill(program.pid, signal.SIGSTOP)  # time in which it was stopped itself does not count
            Event().wait(7.0)
            os.kill(program.pid, signal.SIGCONT)
            trains(30)
            assert len(said()) == 2
    finally:
        daemon.end()
