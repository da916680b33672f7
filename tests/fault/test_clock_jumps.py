"""The wall clock jumps while a model trains and saves: nothing waits, and nothing is given up."""
import datetime
import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from ascpipe.checkpoint.retention import complete_checkpoints
from ascpipe.control import launch
from tests.support import traces
from tests.support.daemons import DaemonProcess
from tests.support.programs import running
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout_s(240)
EVERY = 20  #: steps between two saves; a jump lies between some
DAY, HOUR = "+86400", "-3600"
JUMPS = {30: DAY, 70: "+0", 110: HOUR, 150: "+0"}  #: step -> seconds that the wall clock is off from then on


@pytest.fixture
def clock(monkeypatch, tmp_path):
    """The file that says how far the wall clock is off, in this test's processes; monotonic clocks are as they are."""
    libraries = sorted(Path("/usr").glob("lib*/**/faketime/libfaketimeMT.so.1"))
    if not libraries:
        pytest.skip("libfaketime is not installed (package faketime of Debian)")
    path = tmp_path / "clock"
    path.write_text("+0")
    variables = {"LD_PRELOAD": str(libraries[0]), "FAKETIME_TIMESTAMP_FILE": str(path), "FAKETIME_NO_CACHE": "1",
                 "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DISABLE_SHM": "1"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(launch, "_PASSED_ON", launch._PASSED_ON | set(variables))
    return path


def begin(case, folder):
    return running.begin("resuming", json.dumps({**case, "folder": str(folder)}), name="unit")


def losses_of(trainer, at_step=lambda step: None):
    """Bits of the loss of each step, and the longest time that one took."""
    losses, longest_s, before = {}, 0.0, None
    while True:
        line = trainer.stdout.readline()
        if not line or line.startswith("{"):
            break
        now = time.monotonic()
        step, losses[step] = line.split()
        longest_s, before = max(longest_s, now - (now if before is None else before)), now
        at_step(int(step))
    assert trainer.communicate()[1] is not None and trainer.returncode == 0
    return losses, longest_s


def test_jumps_of_the_wall_clock_change_no_loss_no_order_of_checkpoints_and_no_restart(clock, tmp_path):
    case = {"tier": "host", "optimizer": "adagrad", "trace": traces.GENERATED, "every": EVERY}
    daemon = DaemonProcess("unit")
    try:
        clean, _ = losses_of(begin(case, tmp_path / "a"))

        def jump(step):
            if step in JUMPS:
                before = daemon.workers("key")[0]
                os.kill(before["pid"], signal.SIGKILL)  # it is replaced after 0.0, 0.1, 0.5 and 2.0 s
                wait_until(lambda: daemon.workers("key")[0]["pid"] != before["pid"])
                clock.write_text(JUMPS[step])  # before it is replaced, where that is not done at once
                wait_until(lambda: daemon.workers("key")[0]["pid"] not in (None, before["pid"]))

        losses, longest_s = losses_of(begin(case, tmp_path / "b"), jump)
        log = daemon.log()
        assert daemon.status()["state"] == "idle"
    finally:
        daemon.end()
    assert losses == clean
    assert longest_s < 30.0, "a step has waited for a clock"
    assert log.count("killed by SIGKILL") == len(JUMPS) and "E140" not in log
    assert "has made no progress" not in log
    today = datetime.date.today()
    assert str(today) in log and str(today + datetime.timedelta(days=1)) in log, "the daemon has not seen the jump"
    kept = re.findall(r'all_model_checkpoint_paths: "(.*)"', (tmp_path / "b" / "checkpoint").read_text())
    assert [int(name.rsplit("-", 1)[1]) for name in kept] == [100, 120, 140, 160, 180]
    found = complete_checkpoints(str(tmp_path / "b"))
    assert [one.step for one in found] == [100, 120, 140, 160, 180]
