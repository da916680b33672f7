"""A process saves and dies; another one, with a daemon of its own, goes on from there, bit by bit."""
import functools
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading

import pytest

from tests.support import traces
from tests.support.daemons import is_alive
from tests.support.forked_calls import ForkServer
from tests.support.programs import running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout_s(400), pytest.mark.usefixtures("forked_programs")]
PREFIX = "model-100"
CASES = [(tier, name) for tier in ("device", "host")
         for name in ("adagrad", "ftrl", "gradient_descent", "lazy_adam")] + [
    ("expansion", name) for name in ("adagrad", "gradient_descent", "lazy_adam")]


@functools.lru_cache(maxsize=None)
def undisturbed(tier, optimizer, trace):
    """What a process says that nobody kills; it saves in its midst, too."""
    with tempfile.TemporaryDirectory() as folder:
        (whole,) = running.run("resuming", json.dumps(
            {"tier": tier, "optimizer": optimizer, "trace": trace, "folder": folder}))
    assert whole["keys"] > 1000
    assert whole["distinct_losses"] > 150
    return whole


def assert_goes_on(tier, optimizer, folder, saved=PREFIX, trace=traces.GENERATED, **how):
    traces.read(trace)  # skips where there is no data
    whole = undisturbed(tier, optimizer, trace)
    again = {"tier": tier, "optimizer": optimizer, "trace": trace, "folder": str(folder / "killed")}
    code, _, _ = running.ended("resuming", json.dumps({**again, "kill": True, **how}))
    assert code == -signal.SIGKILL
    assert newest_of(folder / "killed") == saved
    (rest,) = running.run("resuming", json.dumps({**again, "restore": str(folder / "killed" / saved)}))
    for same in ("losses", "state", "keys"):
        assert rest[same] == whole[same], same


def newest_of(folder):
    """The checkpoint that the ``checkpoint`` file names."""
    return os.path.basename(re.match('model_checkpoint_path: "(.*)"', (folder / "checkpoint").read_text()).group(1))


def test_training_goes_on_from_a_save_in_the_background(tmp_path):
    assert_goes_on("host", "adagrad", tmp_path, background=True)


def test_a_process_that_dies_in_a_save_in_the_background_leaves_the_one_before(tmp_path):
    assert_goes_on("host", "adagrad", tmp_path, saved="model-60", background=True, die_in="commit")


@pytest.mark.long
@pytest.mark.parametrize("method", ["begin_tables", "write_table"])
def test_whenever_a_process_dies_in_a_save_in_the_background_the_one_before_is_left(method, tmp_path):
    assert_goes_on("device", "ftrl", tmp_path, saved="model-60", background=True, die_in=method)


@pytest.mark.long
@pytest.mark.parametrize("tier", ["device", "host", "expansion"])
def test_training_of_every_tier_goes_on_from_a_save_in_the_background(tier, tmp_path):
    assert_goes_on(tier, "adagrad", tmp_path, background=True)


@pytest.mark.long
@pytest.mark.parametrize("trace", [traces.GENERATED, "criteo"])
@pytest.mark.parametrize("tier, optimizer", CASES)
def test_training_of_every_optimizer_and_tier_goes_on_in_another_process(tier, optimizer, trace, tmp_path):
    assert_goes_on(tier, optimizer, tmp_path, trace=trace)


# ---- killed at any instant, again and again

SAVED_EVERY = 15  #: steps; half of the saves go on in the background


def losses_of(trainer):
    """step -> bits of the loss, as far as it came."""
    return dict(line.split() for line in trainer.out.splitlines(True) if line.endswith("\n") and line[0] != "{")


def train_in(folder, trainers):
    """A process that trains from the newest checkpoint in the folder."""
    case = {"tier": "host", "optimizer": "adagrad", "trace": traces.GENERATED, "folder": str(folder),
            "every": SAVED_EVERY}
    if (folder / "checkpoint").exists():
        case["restore"] = str(folder / newest_of(folder))
    return trainers.call("train", case)


def ended(trainer):
    """Its losses, and what it said at its end."""
    assert trainer.wait() == 0, trainer.err
    said = json.loads(trainer.out.splitlines()[-1])
    return losses_of(trainer), (said["state"], said["keys"])


@pytest.mark.parametrize("kills", [3, pytest.param(int(os.environ.get("TEST_KILLS", "20")), marks=pytest.mark.long)])
def test_a_trainer_that_is_killed_at_any_instant_and_goes_on_from_the_newest_checkpoint_has_the_losses_of_a_clean_run(
        kills, tmp_path, seed):
    draw = random.Random(seed)
    killed = again = runs = 0
    with ForkServer("resuming", tmp_path) as trainers:
        clean, end = ended(train_in(tmp_path / "clean", trainers))
        assert len(set(clean.values())) > 150
        while killed < kills:
            runs, furthest = runs + 1, 0
            while killed < kills:
                trainer = train_in(tmp_path / str(runs), trainers)
                steps = draw.randrange(50)
                if steps < 10:  # any instant before the first step
                    threading.Event().wait(draw.uniform(0.0, 2.5))
                else:
                    wait_until(lambda: len(losses_of(trainer)) > steps or not is_alive(trainer.pid),  # noqa: B023
                               timeout_s=60.0, what="{} steps".format(steps))
                    threading.Event().wait(draw.uniform(0.0, 0.05))
                if not is_alive(trainer.pid):
                    break
                os.kill(trainer.pid, signal.SIGKILL)
                assert trainer.wait() == -signal.SIGKILL
                killed += 1
                losses = losses_of(trainer)
                again += sum(int(number) < furthest for number in losses)
                furthest = max([furthest, *(1 + int(number) for number in losses)])
                assert losses.items() <= clean.items()
            else:
                trainer = train_in(tmp_path / str(runs), trainers)
            losses, its_end = ended(trainer)
            assert losses.items() <= clean.items()
            assert its_end == end
    sys.stdout.write("{} kills in {} runs of {} steps: {} steps were trained again, each loss as in the clean run"
                     "\n".format(killed, runs, len(clean), again))
