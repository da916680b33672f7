"""A trainer that is killed or forks, a supervisor that is killed, a table that is too small."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from ascpipe.daemon.lifecycle import PRIVATE_PATIENCE_S
from tests.support import leaks
from tests.support.daemons import DaemonProcess, is_alive
from tests.support.programs import running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]


class Trainer:
    """A program that trains until it is killed."""

    def __init__(self, *arguments, **settings):
        self.process = running.begin("deaths", "endless:" + ",".join(arguments), **settings)
        line = self.process.stdout.readline()
        if not line:
            raise running.ProgramFailedError(self.process.communicate()[1])
        self.pids = json.loads(line)

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def end_children(self):
        for pid in self.pids["children"]:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("child", ["fork", pytest.param("", marks=pytest.mark.long)])
def test_of_a_killed_trainer_its_private_daemon_leaves_nothing(child, run_home):
    trainer = Trainer(child)
    pids = [trainer.pids["daemon"], *trainer.pids["workers"]]
    trainer.process.send_signal(signal.SIGKILL)
    try:
        wait_until(lambda: not any(map(is_alive, pids)), what="the daemon and its workers to end")
        wait_until(lambda: not leaks.snapshot(run_home).run_files, what="the run directory to be empty")
        assert all(map(is_alive, trainer.pids["children"]))
    finally:
        trainer.end_children()
        trainer.kill()


LAUNCHES = """
import os, sys
from ascpipe import names
from ascpipe.control.launch import Launching
launching = Launching(names.private_name(os.getpid()), private=True)
print("launched", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("kills", [8, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout_s(1500)])])
def test_of_a_process_that_is_killed_while_its_private_daemon_begins_nothing_is_left(kills, run_home):
    seconds = []
    for number in range(kills):
        launcher = subprocess.Popen([sys.executable, "-c", LAUNCHES], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert launcher.stdout.readline() == b"launched\n"
        threading.Event().wait(2.0 * number / kills)
        assert len(leaks.our_processes(run_home)) > 1, "the daemon was never there"
        launcher.kill()
        launcher.communicate()
        begin = time.monotonic()
        wait_until(lambda: not leaks.our_processes(run_home), timeout_s=PRIVATE_PATIENCE_S / 3,
                   what="kill {}: the daemon, its template and its workers to end".format(number))
        seconds.append(time.monotonic() - begin)
        assert not leaks.snapshot(run_home).run_files
    sys.stdout.write("{} kills: nothing left after {:.2f} s at most\n".format(kills, max(seconds)))


def test_a_named_daemon_outlives_a_killed_trainer_with_a_sleeping_child_and_one_that_is_interrupted():
    daemon = DaemonProcess("unit", ring_bytes=running.RING_BYTES)
    try:
        trainer = Trainer("fork", name="unit")
        assert trainer.pids["daemon"] == daemon.pid
        trainer.process.send_signal(signal.SIGKILL)
        try:
            wait_until(lambda: daemon.status()["state"] == "idle")
            assert not any(map(is_alive, trainer.pids["workers"]))
            next_one = Trainer(name="unit")
        finally:
            trainer.end_children()
            trainer.kill()
        assert next_one.pids["daemon"] == daemon.pid
        require_end_by_ctrl_c(next_one)
        wait_until(lambda: daemon.status()["state"] == "idle")
    finally:
        daemon.end()


def test_a_killed_supervisor_is_an_error_of_the_next_step_and_takes_its_workers_with_it(run_home):
    trainer = Trainer()
    os.kill(trainer.pids["daemon"], signal.SIGKILL)
    out, err = trainer.process.communicate(timeout=60)
    assert trainer.process.returncode == 0, err
    answer = json.loads(out)
    assert answer["error"] == "FailedPreconditionError"
    assert "E110" in answer["text"]
    assert "pid {}".format(trainer.pids["daemon"]) in answer["text"]
    wait_until(lambda: not any(map(is_alive, trainer.pids["workers"])))
    for name in leaks.snapshot(run_home).run_files:
        os.unlink(str(run_home / name))  # no process was left that could; the next daemon of that name would


def require_end_by_ctrl_c(trainer):
    trainer.process.send_signal(signal.SIGINT)
    err = trainer.process.communicate(timeout=60)[1]
    assert trainer.process.returncode != 0
    assert "KeyboardInterrupt" in err


@pytest.mark.long
def test_ctrl_c_from_the_shell_ends_the_program_and_its_private_daemon():
    trainer = Trainer()
    require_end_by_ctrl_c(trainer)
    assert not any(map(is_alive, [trainer.pids["daemon"], *trainer.pids["workers"]]))


def test_a_table_that_is_full_says_what_to_do_and_a_forked_child_is_refused():
    full, forked = running.run("deaths", "full_table", "forked", ring_frames=16)
    assert "table 'user' needs " in full["text"]
    assert "device_vocabulary_size" in full["text"]
    assert full["trained"] > 0
    assert full["refused"] > 0
    assert full["size"] <= 12
    for said in forked["said"]:
        assert "E204" in said
        assert "forked" in said
    assert len(forked["said"]) == 2
