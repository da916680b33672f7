"""What ids a program trains is in no log and in no error of what its tables lack."""
import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.support import traces
from tests.support.daemons import DaemonProcess
from tests.support.programs import running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]


def ids_in(text):
    """Those of the trace, decimal or hexadecimal."""
    known = {int(key) for key in np.unique(traces.read(traces.GENERATED)) if key > 10 ** 7}
    assert len(known) > 1000
    written = [int(digits) for digits in re.findall(r"\d{8,}", text)]
    return known & {*written, *(int(digits, 16) for digits in re.findall(r"\b(?:0x)?([0-9a-f]{6,16})\b", text))}


def begin(folder, **case):
    case.update({"tier": "host", "optimizer": "adagrad", "trace": traces.GENERATED, "every": 50, "folder": str(folder)})
    return running.begin("resuming", json.dumps(case), name="unit")


def test_ids_that_a_program_trains_are_in_no_log_and_in_no_error(tmp_path):
    daemon = DaemonProcess("unit")
    try:
        trainer = begin(tmp_path / "well")
        trainer.stdout.readline()
        for kind in ("key", "table"):
            (worker,) = daemon.workers(kind)
            os.kill(worker["pid"], signal.SIGKILL)
            wait_until(lambda: daemon.workers(kind)[0]["pid"] not in (None, worker["pid"]))  # noqa: B023
        _, said = trainer.communicate(timeout=100)
        assert trainer.returncode == 0, said
        full = begin(tmp_path / "full", sizes={"device_vocabulary_size": 3000})
        _, refused = full.communicate(timeout=100)
        assert full.returncode == 1 and "device_vocabulary_size" in refused
        logs = "".join(path.read_text(errors="replace") for path in Path(daemon.run.path).glob("*.log"))
    finally:
        daemon.end()
    assert "killed by SIGKILL" in logs
    assert not ids_in(said + refused + logs)


def test_ids_would_be_found():
    some = int(np.unique(traces.read(traces.GENERATED))[-1])
    assert ids_in("row of key {}".format(some)) == ids_in("key=0x{:x}".format(some)) == {some}
