"""Warm start of two ranks from checkpoints of any number and from files, and what their Estimator exports for serving.
"""
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.tfops import load
from tests.ranks.test_estimators import STEPS, called
from tests.support.several_ranks import needs_horovod

pytestmark = [needs_horovod, pytest.mark.timeout_s(200)]

FIELDS, DIM = 3, 4  # of the program
PROBED = np.arange(-40, 41)  # its keys are in [-30, 30)

#: Serves a SavedModel without anything of ours but the library: prints the rows that it has for ids.
SERVER = """
import json, sys
import tensorflow as tf
library, path, ids = sys.argv[1:]
tf.load_op_library(library)
with tf.compat.v1.Session(graph=tf.Graph()) as session:
    signature = tf.compat.v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
    print(json.dumps(session.run(signature.outputs["row"].name, {"ids:0": json.loads(ids)}).tolist()))
"""


def served(path):
    """float32[81, dim]: the rows of ``PROBED`` in an exported model."""
    ids = np.stack([PROBED] * FIELDS, 1).tolist()
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SERVER, load.library_path(), str(path),
                           json.dumps(ids)], check=False, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": ""}, timeout=100)
    assert done.returncode == 0, done.stderr
    rows = np.float32(json.loads(done.stdout.splitlines()[-1])).reshape(len(PROBED), FIELDS, DIM)
    np.testing.assert_array_equal(rows[:, 0], rows[:, -1])
    return rows[:, 0]


def rows_of(prefix):
    """float32[81, dim]: the rows of ``PROBED`` in a checkpoint of any number of ranks; zeros of keys without one."""
    rows = np.zeros((len(PROBED), DIM), np.float32)
    with open_checkpoint(str(prefix)) as checkpoint:
        for block in checkpoint.blocks("user_table"):
            rows[np.searchsorted(PROBED, block.keys)] = block.rows[:, :DIM]
        assert checkpoint.tables["user_table"].rows > 50
    return rows


def exported(folder):
    """The directories of what ranks have exported."""
    return sorted(path for path in folder.glob("exported/*") if path.name.isdigit())


def begun_warm(folder, launcher, counts, how, *arguments):
    """A run, and runs of each number of ranks that begin warm from its last checkpoint."""
    before = called(folder / "before", launcher, counts[0], how, "steps=20")
    assert before.code == 0, before.said
    warm = "warm={}/before/{}".format(folder, "model" if how == "shared" else "model-0")
    return [before, *(called(folder / str(count), launcher, count, how, "steps=20", warm, *arguments)
                      for count in counts[1:])]


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("how", ["shared", "saves"])
def test_two_ranks_begin_warm_from_a_checkpoint_of_any_number_as_one_does(launcher, tmp_path, count, how):
    before, one, two = begun_warm(tmp_path, launcher, [count, 1, 2], how, "calls=train,export0")
    (losses,) = one.of_all("losses")
    assert len(losses) == 20 and losses[0] < before.told[0]["losses"][0] - 0.05
    assert two.of_all("losses") == [pytest.approx(losses, rel=1e-5)] * 2
    (alone,), (ours,) = exported(tmp_path / "1"), exported(tmp_path / "2")
    np.testing.assert_allclose(served(ours), served(alone), rtol=1e-5, atol=1e-6)


def test_two_ranks_that_begin_warm_from_one_export_the_keys_of_both(launcher, tmp_path):
    before, run = begun_warm(tmp_path, launcher, [1, 2], "shared", "calls=train,export0")
    first, other = run.of_all("losses")
    assert first == other and len(first) == 20 and first[0] < before.told[0]["losses"][0] - 0.05
    (path,) = exported(tmp_path / "2")
    np.testing.assert_array_equal(served(path), rows_of(tmp_path / "2" / "model" / "model.ckpt-20"))


@pytest.mark.long
@pytest.mark.parametrize("call", ["export0", "export"])
@pytest.mark.parametrize("how", [["shared"], ["shared", "modify"], ["saves"]], ids=" ".join)
def test_what_ranks_export_serves_the_keys_of_all(launcher, tmp_path, call, how):
    if call == "export" and how == ["saves"]:
        pytest.skip("there only rank 0 has a folder of checkpoints")
    run = called(tmp_path / "run", launcher, 2, *how, "calls=train," + call)
    assert run.code == 0, run.said
    found = exported(tmp_path / "run")
    assert len(found) == (1 if call == "export0" else 2)
    model = tmp_path / "run" / ("model" if how[0] == "shared" else "model-0")
    for path in found:
        np.testing.assert_array_equal(served(path), rows_of(model / "model.ckpt-{}".format(STEPS)))


def test_two_ranks_begin_with_pretrained_rows_as_one_does(launcher, tmp_path):
    rows = np.random.RandomState(3).randn(len(PROBED), DIM).astype(np.float32) / 10
    np.save(str(tmp_path / "keys.npy"), PROBED)
    np.save(str(tmp_path / "rows.npy"), rows)
    one, two = [called(tmp_path / str(count), launcher, count, "shared", "steps=8", "pretrained={}".format(tmp_path))
                for count in (1, 2)]
    (losses,) = one.of_all("losses")
    assert len(losses) == 8 and two.of_all("losses") == [pytest.approx(losses, rel=1e-5)] * 2
    found, alone = (rows_of(tmp_path / count / "model" / "model.ckpt-8") for count in "21")
    np.testing.assert_allclose(found, alone, rtol=1e-5, atol=1e-6)
    never_trained = (PROBED < -30) | (PROBED >= 30)
    np.testing.assert_array_equal(found[never_trained], rows[never_trained])
