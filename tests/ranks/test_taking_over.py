"""A model that plain TensorFlow trained is continued with tables on several ranks."""
import json
import os
import subprocess
import sys

import pytest

from tests.support.ascend_programs import PROGRAMS, QUIET, environment_with
from tests.support.several_ranks import ascpipe_run, ended, needs_horovod, said

PROGRAM = os.path.join(PROGRAMS, "models_to_take_over.py")

pytestmark = [needs_horovod, pytest.mark.timeout_s(280)]


@pytest.mark.long
def test_two_ranks_take_over_a_model_of_plain_tensorflow(tmp_path):
    done = subprocess.run([sys.executable, PROGRAM, str(tmp_path / "plain"), "20", "DNNClassifier"],
                          env=environment_with(**QUIET), stdout=subprocess.PIPE, check=True, text=True)
    expected = json.loads(done.stdout)["DNNClassifier"]
    (tmp_path / "tables").mkdir()
    folder = tmp_path / "tables" / "DNNClassifier"
    (tmp_path / "plain" / "DNNClassifier-half").rename(folder)
    code, out, err = ended(ascpipe_run(2, PROGRAM, str(tmp_path / "tables"), "20", "DNNClassifier",
                                       options=["--columns", "--min-buckets", "10", "--take-over"]))
    assert code == 0, err
    for rank in (0, 1):
        found = json.loads(said(out, rank)[-1])["DNNClassifier"]
        assert list(found) == [str(step) for step in range(11, 21)]
        assert found["11"] == pytest.approx(expected["11"], rel=1e-5)  # later steps have the gradients of both ranks
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == [
        "before-tables", "sparse-model.ckpt-10", "sparse-model.ckpt-20"]
