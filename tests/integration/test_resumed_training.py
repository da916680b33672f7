"""A process saves and dies; another one, with a daemon of its own, goes on from there, bit by bit, on real clicks."""
import json
import signal

import pytest

from tests.support import traces
from tests.support.programs import running

pytestmark = pytest.mark.timeout_s(400)
PREFIX = "model-100"
CASES = [(tier, name) for tier in ("device", "host")
         for name in ("adagrad", "ftrl", "gradient_descent", "lazy_adam")] + [
    ("expansion", name) for name in ("adagrad", "gradient_descent", "lazy_adam")]


def assert_goes_on(tier, optimizer, folder):
    traces.read("criteo")  # skips where there is no data
    case = {"tier": tier, "optimizer": optimizer, "folder": str(folder)}
    (whole,) = running.run("resuming", json.dumps(case))
    assert whole["keys"] > 1000
    assert whole["distinct_losses"] > 150
    again = {**case, "folder": str(folder / "killed")}
    killed = running.begin("resuming", json.dumps({**again, "kill": True}))
    killed.communicate(timeout=running.ENDS_WITHIN_S)
    assert killed.returncode == -signal.SIGKILL
    (rest,) = running.run("resuming", json.dumps({**again, "restore": str(folder / "killed" / PREFIX)}))
    for same in ("losses", "state", "keys"):
        assert rest[same] == whole[same], same


def test_training_goes_on_in_another_process_after_a_kill_right_after_the_save(tmp_path):
    assert_goes_on("host", "adagrad", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("tier, optimizer", CASES)
def test_training_of_every_optimizer_and_tier_goes_on_in_another_process(tier, optimizer, tmp_path):
    assert_goes_on(tier, optimizer, tmp_path)
