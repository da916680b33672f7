"""Models with feature columns that plain TensorFlow trained half are trained on with tables, with the same losses. Then
plain TensorFlow continues what tables have trained.
"""
import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from ascpipe.cli import main
from tests.support.ascend_programs import PROGRAMS, QUIET, environment_with, run

PROGRAM = os.path.join(PROGRAMS, "models_to_take_over.py")
STEPS = 200
KINDS = ["DNNClassifier", "DNNParts", "LinearClassifier", "DNNLinear", "DNNLinearAdam", "DNNLinearAdamAdam", "DeepFM",
         "DeepFMAdam"]

pytestmark = [pytest.mark.timeout_s(900), pytest.mark.usefixtures("forked_programs")]


def require_same_losses(folder, steps, *kinds):
    """Plain TensorFlow trains half of the steps, both train the other half, and plain TensorFlow continues both."""
    expected = plain_losses(folder / "plain", steps, *kinds)
    (folder / "tables").mkdir()
    for kind in kinds:
        (folder / "plain" / (kind + "-half")).rename(folder / "tables" / kind)
    code, out, err = run(PROGRAM, str(folder / "tables"), str(steps), *kinds, **QUIET,
                         options=["--columns", "--min-buckets", "10", "--take-over"])
    assert code == 0, err
    found = json.loads(out.splitlines()[-1])
    for kind in kinds:
        assert (folder / "tables" / kind / "before-tables").is_dir()
        later = {step: loss for step, loss in expected[kind].items() if int(step) > steps // 2}
        assert len(later) == steps // 2 and len(set(later.values())) > steps // 4
        assert found[kind] == pytest.approx(later, rel=1e-5), kind
        name = "{}/model.ckpt-{}".format(kind, steps)
        done = CliRunner().invoke(main.main, ["checkpoint", "to-tensorflow", str(folder / "tables" / name), "--to",
                                              str(folder / "back" / name)])
        assert done.exit_code == 0 and " 0 without a key, " in done.output, done.output
        assert len(list((folder / "back" / kind).glob("*.data-*"))) == 1
    kinds = [kind for kind in kinds if kind != "DNNParts"]  # its slots would need the names of its parts
    last = steps + steps // 2
    expected = plain_losses(folder / "plain", last, *kinds)
    found = plain_losses(folder / "back", last, *kinds)
    for kind in kinds:
        later = {step: loss for step, loss in expected[kind].items() if int(step) > steps}
        assert len(later) == steps // 2
        assert found[kind] == pytest.approx(later, rel=1e-5), kind


def plain_losses(folder, steps, *kinds):
    """Losses by kind and step of the program without ascpipe."""
    done = subprocess.run([sys.executable, PROGRAM, str(folder), str(steps), *kinds],
                          env=environment_with(**QUIET), stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def test_the_commands_take_over_a_model_and_return_it_with_the_losses_of_plain_tensorflow(tmp_path):
    require_same_losses(tmp_path, 20, "DNNLinear")


@pytest.mark.long
def test_each_kind_of_model_has_the_losses_of_plain_tensorflow(tmp_path):
    require_same_losses(tmp_path, STEPS, *KINDS)
