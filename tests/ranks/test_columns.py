"""Models with feature columns on several ranks have the losses of one rank of TensorFlow with the batches of all."""
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.support.ascend_programs import PROGRAMS
from tests.support.several_ranks import ascpipe_run, ended, environment, needs_horovod

pytestmark = [needs_horovod, pytest.mark.timeout_s(200)]

PROGRAM = os.path.join(PROGRAMS, "ranked_columns.py")
STEPS = 6
SEPARATE = "trains its own values of the dense variables"
SUMMARY = b"\n\x04loss\x15"  # the tag of a value in an event file
TABLES = ["--columns", "--min-buckets", "10"]


def plain(folder, steps):
    """The losses of one process of TensorFlow."""
    folder.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-W", "ignore", PROGRAM, str(folder), str(steps), "one"], env=environment(),
                   check=True)
    return losses(folder, 0)


def losses(folder, rank):
    return np.array(json.loads((folder / "{}.json".format(rank)).read_text()))


def test_two_ranks_take_a_model_over_with_the_losses_of_one_rank_of_tensorflow(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    plain(one, STEPS)
    shutil.copytree(str(one), str(two))
    wanted = plain(one, 3 * STEPS)
    code, out, err = ended(ascpipe_run(2, PROGRAM, str(two), str(3 * STEPS), "ascpipe",
                                       options=[*TABLES, "--take-over"]))
    assert code == 0 and SEPARATE not in out + err, out + err
    found = np.array([losses(two, rank) for rank in range(2)])
    assert not np.allclose(found[0], found[1], rtol=1e-3)  # the ranks train different lines
    assert found.mean(axis=0) == pytest.approx(wanted, rel=1e-6)
    written = [path for path in (two / "model").glob("events*") if SUMMARY in path.read_bytes()]
    assert len(written) == 2  # one of the first half, and one of rank 0


def test_ranks_whose_dense_variables_nothing_averages_are_warned(tmp_path):
    code, out, err = ended(ascpipe_run(2, PROGRAM, str(tmp_path), "2", "separate", options=TABLES))
    assert code == 0, out + err
    assert (out + err).count(SEPARATE) == 1 and "hiddenlayer_0" in out + err
