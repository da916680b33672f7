"""A process saves and dies; another one, with a daemon of its own, goes on from there, bit by bit."""
import functools
import json
import os
import re
import signal
import tempfile

import pytest

from tests.support import traces
from tests.support.programs import running

pytestmark = pytest.mark.timeout_s(400)
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
    killed = running.begin("resuming", json.dumps({**again, "kill": True, **how}))
    killed.communicate(timeout=running.ENDS_WITHIN_S)
    assert killed.returncode == -signal.SIGKILL
    assert newest_of(folder / "killed") == saved
    (rest,) = running.run("resuming", json.dumps({**again, "restore": str(folder / "killed" / saved)}))
    for same in ("losses", "state", "keys"):
        assert rest[same] == whole[same], same


def newest_of(folder):
    """The checkpoint that the ``checkpoint`` file names."""
    return os.path.basename(re.match('model_checkpoint_path: "(.*)"', (folder / "checkpoint").read_text()).group(1))


def test_training_goes_on_in_another_process_after_a_kill_right_after_the_save(tmp_path):
    assert_goes_on("host", "adagrad", tmp_path)


def test_training_goes_on_from_a_save_in_the_background(tmp_path):
    assert_goes_on("host", "lazy_adam", tmp_path, background=True)


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
