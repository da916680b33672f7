"""All sides of the usual programs of the bench train the same model: their losses are equal."""
import functools
import json
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from bench import peers, usual_model, usual_session
from bench.usual_model import FBGEMM, OURS, PLAIN, Setting
from tests.support.daemons import ROOT

STEPS = 24
#: The keys are few: they occur more than once in a batch, and again in the next batches.
SETTING = Setting(OURS, 3, 64, keys=40, batches=5, constant=.01)
PROGRAM = """import json, sys
from bench import usual_fbgemm, usual_model
with usual_fbgemm.step_of(usual_model.Setting(**json.loads(sys.argv[1]))) as step:
    print(json.dumps([step() for _ in range(int(sys.argv[2]))]))"""


@functools.lru_cache(maxsize=None)
def losses(side):
    if side == FBGEMM:  # it needs another CPython
        arguments = [peers.PYTHON, "-c", PROGRAM, json.dumps(SETTING._replace(side=side)._asdict()), str(STEPS)]
        return json.loads(subprocess.run(arguments, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=100).stdout)
    with tf.Graph().as_default(), usual_session.step_of(SETTING._replace(side=side)) as step:
        return [float(step()[0]) for _ in range(STEPS)]


@pytest.mark.parametrize("side", [PLAIN, pytest.param(FBGEMM, marks=pytest.mark.skipif(
    bool(peers.missing()), reason=peers.missing()))])
def test_losses_of_a_compared_program_equal_ours(side):
    np.testing.assert_allclose(losses(side), losses(OURS), rtol=1e-5)
    assert np.ptp(losses(OURS)) > .01


def test_the_mlp_begins_with_glorots_uniform_distribution():
    found = usual_model.kernels(26 * 16)
    assert [kernel.shape for kernel in found] == [(416, 64), (64, 32), (32, 1)]
    for kernel in found:
        limit = np.sqrt(6 / sum(kernel.shape))
        assert kernel.dtype == np.float32 and .9 * limit < np.abs(kernel).max() <= limit
