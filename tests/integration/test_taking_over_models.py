"""Models with feature columns that plain TensorFlow trained half are trained on with tables, with the same losses."""
import json
import os
import subprocess
import sys

import pytest

from tests.support.ascend_programs import PROGRAMS, QUIET, environment_with, run

PROGRAM = os.path.join(PROGRAMS, "models_to_take_over.py")
STEPS = 200
KINDS = ["DNNClassifier", "DNNParts", "LinearClassifier", "DNNLinear", "DNNLinearAdam", "DNNLinearAdamAdam", "DeepFM",
         "DeepFMAdam"]

pytestmark = [pytest.mark.timeout_s(900), pytest.mark.usefixtures("forked_programs")]


def require_same_losses(folder, steps, *kinds):
    """Plain TensorFlow trains half of the steps, and both train the other half."""
    done = subprocess.run([sys.executable, PROGRAM, str(folder / "plain"), str(steps), *kinds],
                          env=environment_with(**QUIET), stdout=subprocess.PIPE, check=True, text=True)
    expected = json.loads(done.stdout)
    (folder / "tables").mkdir()
    for kind in kinds:
        (folder / "plain" / (kind + "-half")).rename(folder / "tables" / kind)
    code, out, err = run(PROGRAM, str(folder / "tables"), str(steps), *kinds, **QUIET,
                         options=["--columns", "--min-buckets", "10", "--take-over"])
    assert code == 0, err
    found = json.loads(out.splitlines()[-1])
    for kind in kinds:
        later = {step: loss for step, loss in expected[kind].items() if int(step) > steps // 2}
        assert len(later) == steps // 2 and len(set(later.values())) > steps // 4
        assert found[kind] == pytest.approx(later, rel=1e-5), kind


def test_the_command_takes_over_a_model_with_the_losses_of_plain_tensorflow(tmp_path):
    require_same_losses(tmp_path, 20, "DNNClassifier")


@pytest.mark.long
def test_each_kind_of_model_has_the_losses_of_plain_tensorflow(tmp_path):
    require_same_losses(tmp_path, STEPS, *KINDS)
