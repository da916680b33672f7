"""Checkpoints that were written with one release of TensorFlow are restored with the other: all bits are the same."""
import json
import os
import subprocess
from pathlib import Path

import pytest

from ascpipe.checkpoint.retention import complete_checkpoints
from tests.support import traces
from tests.support.programs import running
from tests.support.tree import ROOT

OTHER = os.environ.get("TEST_OTHER_TREE", "")  #: which scripts/second_runtime.sh sets
pytestmark = [pytest.mark.timeout_s(400), pytest.mark.skipif(
    not OTHER, reason="needs a second tree with the other release of TensorFlow; make test-tf2 makes one")]


def said(tree, case):
    """What the program says that trains, or restores, in a tree."""
    # TensorFlow 2 sets TF2_BEHAVIOR when it is imported, and TensorFlow 1 reads it. The other variables belong to this
    # tree: with them, the daemon of the other tree would run the code of this tree.
    dropped = ("TF2_BEHAVIOR", "KERNEL_LIBRARY", "NUMBA_CACHE_DIR")
    environment = {name: value for name, value in running.environment().items() if name not in dropped}
    environment["PYTHONPATH"] = str(tree)
    done = subprocess.run(
        [str(tree / ".venv/bin/python"), "-m", "tests.support.programs.resuming", json.dumps(case)], cwd=str(tree),
        env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("writer, reader", [(Path(OTHER), ROOT), (ROOT, Path(OTHER))], ids=["from other", "to other"])
@pytest.mark.parametrize("tier, optimizer, delta", [
    ("device", "lazy_adam", False), ("host", "adagrad", True), ("disk", "ftrl", False),
    ("expansion", "lazy_adam", False)])
def test_a_checkpoint_of_one_release_of_tensorflow_is_restored_by_the_other(
        tier, optimizer, delta, writer, reader, tmp_path):
    case = {"tier": tier, "optimizer": optimizer, "trace": traces.GENERATED, "folder": str(tmp_path), "delta": delta,
            "until_save": True}
    saved = said(writer, case)
    assert saved["keys"] > 500
    checkpoints = complete_checkpoints(str(tmp_path))
    assert [each.is_delta for each in checkpoints] == [False, True][:1 + delta]
    restored = said(reader, {**case, "restore": checkpoints[-1].prefix})
    assert (restored["state"], restored["keys"]) == (saved["state"], saved["keys"])
