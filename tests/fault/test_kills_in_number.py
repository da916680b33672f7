"""Trainers and supervisors are killed or interrupted by the dozen, at any instant: each time nothing is left.

Trainers are real, and forked from a process that has imported TensorFlow. ``TEST_KILLS`` is how many the long forms
have; ``pytest -s`` shows their figures.
"""
import collections
import json
import os
import random
import re
import signal
import sys
import threading
import time

import numpy as np
import psutil
import pytest

from tests.support import leaks
from tests.support.daemons import DaemonProcess, is_alive
from tests.support.forked_calls import ForkServer
from tests.support.waiting import wait_until

BEGINNING_S = 3.0  #: from the fork of a trainer to its first steps
GONE_WITHIN_S = 10.0  #: generous: what it took is printed


def few_and_many(few, many):
    """How many kills: few always; in the long form many, or TEST_KILLS."""
    asked = int(os.environ.get("TEST_KILLS", str(many)))
    marks = [pytest.mark.long, pytest.mark.timeout_s(100 + 15 * asked)]
    return pytest.mark.parametrize("kills", [pytest.param(few, marks=pytest.mark.timeout_s(240)),
                                             pytest.param(asked, marks=marks)])


@pytest.fixture(scope="module")
def trainers(tmp_path_factory, _module_leaves_nothing_behind):
    with ForkServer("deaths", tmp_path_factory.mktemp("trainers")) as server:
        yield server


@pytest.fixture
def draw(seed):
    return random.Random(seed)


@pytest.fixture
def left(run_home, trainers):
    """Processes that are there and should not be."""
    return lambda: [pid for pid in leaks.our_processes(run_home) if pid != trainers.pid]


def pause(seconds):
    threading.Event().wait(seconds)  # any instant will do


def wait_for_a_step(trainer):
    wait_until(lambda: trainer.out or not is_alive(trainer.pid), timeout_s=60.0, what="the first step")
    assert trainer.out, trainer.err


def print_figures(what, seconds):
    sys.stdout.write("{} {}, seconds until nothing was left: median {:.2f}, p95 {:.2f}, longest {:.2f}\n".format(
        len(seconds), what, *np.percentile(seconds, [50, 95, 100])))


# ---- supervisors

def daemon_of(trainer):
    """Pid of its private daemon, once there is one."""

    def found():
        assert is_alive(trainer.pid), trainer.err
        return [child.pid for child in psutil.Process(trainer.pid).children() if "daemon" in " ".join(child.cmdline())]

    return wait_until(found, what="a private daemon")[0]


def what_became_of(trainer, killed):
    """The code of its error, or the end of one that has taken another daemon."""

    def other_daemon():
        return trainer.out.endswith("\n") and json.loads(trainer.out.splitlines()[0])["daemon"] != killed

    wait_until(lambda: not is_alive(trainer.pid) or other_daemon(), 30.0, "an error, or the first step")
    if is_alive(trainer.pid):
        os.kill(trainer.pid, signal.SIGKILL)
        trainer.wait()
        return "went on with another"
    trainer.wait()
    codes = re.findall(r"\bE\d{3}\b", trainer.out + trainer.err)
    assert codes, trainer.out + trainer.err
    return codes[-1]


#: in start-up a daemon may die before the trainer has it: a named one is then missed, a private one replaced or missed
ALLOWED = {(True, "training"): {"E110"}, (False, "training"): {"E110"},
           (True, "start-up"): {"E110", "E212"}, (False, "start-up"): {"E110", "E212", "E213", "went on with another"}}


@few_and_many(2, 100)
def test_a_supervisor_that_is_killed_at_any_instant_is_an_error_of_its_trainer_and_nothing_is_left(
        kills, trainers, draw, left, run_home):
    seconds, outcomes = [], collections.Counter()
    for number in range(kills):
        is_named, when = bool(number % 2), ("training", "start-up")[(number + number // 2) % 2]
        daemon = DaemonProcess("unit") if is_named else None
        if daemon is not None:  # it has swept what the dead ones before have left
            assert {name.split("/")[1] for name in leaks.snapshot(run_home).run_files} == {"unit"}
        trainer = trainers.call("run", "endless", **({"ASCPIPE_NAME": "unit"} if is_named else {}))
        if when == "training":
            wait_for_a_step(trainer)
            pause(draw.uniform(0.0, 0.1))
        else:
            pause(draw.uniform(0.0, BEGINNING_S))
        killed = daemon.pid if daemon is not None else daemon_of(trainer)
        begin = time.monotonic()
        os.kill(killed, signal.SIGKILL)
        outcome = what_became_of(trainer, killed)
        if outcome == "E110":
            seconds.append(time.monotonic() - begin)
        outcomes["named" if is_named else "private", when, outcome] += 1
        assert outcome in ALLOWED[is_named, when], trainer.out + trainer.err
        if daemon is not None:
            daemon.wait()
        wait_until(lambda: not left(), GONE_WITHIN_S, "kill {}: all processes to end".format(number))
    DaemonProcess("unit").end()
    assert not leaks.snapshot(run_home).run_files
    sys.stdout.write("".join("{} x {}\n".format(count, ", ".join(what)) for what, count in sorted(outcomes.items())))
    print_figures("errors E110", seconds)


# ---- trainers

def is_interrupted(err):
    """Whether a program ended by KeyboardInterrupt.

    In the midst of a C function by which TensorFlow builds a graph, Python makes it the cause of a SystemError. The
    start of a pipeline mends that; of the lines of a program that build its graph nothing can.
    """
    last = err.rstrip().rsplit("\n", 1)[-1]
    return last == "KeyboardInterrupt" or (
        "deferred_starts.py" not in err
        and "\nKeyboardInterrupt\n\nThe above exception was the direct cause" in err
        and re.fullmatch(r"SystemError: <.*> returned a result with an error set", last) is not None)


CAUSED = ("Traceback\n{}\n\nThe above exception was the direct cause of the following exception:\n\nTraceback\n"
          "  File {}\nSystemError: <built-in function GetOperationInputs> returned a result with an error set\n")


@pytest.mark.parametrize("err, expected", [
    ("Traceback\nKeyboardInterrupt\n", True), ("Traceback\nOSError: x\n", False),
    ("KeyboardInterrupt\n\nDuring handling of it:\nOSError: x\n", False),
    (CAUSED.format("KeyboardInterrupt", "model.py"), True),
    (CAUSED.format("KeyboardInterrupt", "deferred_starts.py"), False),
    (CAUSED.format("OSError", "model.py"), False)])
def test_an_interrupt_is_known_also_where_it_comes_as_the_cause_of_a_systemerror(err, expected):
    assert is_interrupted(err) is expected


@few_and_many(3, 50)
def test_ctrl_c_at_any_instant_ends_a_trainer_by_keyboardinterrupt_and_nothing_is_left(
        kills, trainers, draw, left, run_home):
    seconds = []
    for number in range(kills):
        in_training, of_terminal = number % 2, number // 2 % 2  # a terminal interrupts the whole process group
        trainer = trainers.call("run", "endless")
        if in_training:
            wait_for_a_step(trainer)
        pause(draw.uniform(0.0, 0.1 if in_training else BEGINNING_S))
        begin = time.monotonic()
        (os.killpg if of_terminal else os.kill)(trainer.pid, signal.SIGINT)
        code = trainer.wait()
        # CPython 3.7 exits with 1 after an interrupt. Later versions end by the signal.
        assert code == (1 if sys.version_info < (3, 8) else -signal.SIGINT), trainer.err
        assert is_interrupted(trainer.err), trainer.err
        wait_until(lambda: not left(), GONE_WITHIN_S, "interrupt {}: all processes to end".format(number))
        seconds.append(time.monotonic() - begin)
        assert not leaks.snapshot(run_home).run_files
    print_figures("interrupts", seconds)


@few_and_many(3, 200)
def test_of_a_trainer_that_is_killed_before_its_first_step_nothing_is_left(kills, trainers, draw, left, run_home):
    seconds, with_daemon = [], 0
    for number in range(kills):
        trainer = trainers.call("run", "endless")
        pause(draw.uniform(0.0, BEGINNING_S))
        with_daemon += len(left()) > 1
        begin = time.monotonic()
        os.kill(trainer.pid, signal.SIGKILL)
        wait_until(lambda: not left(), GONE_WITHIN_S, "kill {}: all processes to end".format(number))
        seconds.append(time.monotonic() - begin)
        assert trainer.wait() == -signal.SIGKILL
        assert not leaks.snapshot(run_home).run_files
    assert with_daemon > kills // 4, "the daemon was hardly ever there"
    print_figures("trainers killed in start-up", seconds)
