"""The examples on two ranks: they train what one rank trains."""
import glob
import os
import re
import sys

import numpy as np
import pytest

from examples.dlrm import generator
from tests.support.daemons import ROOT
from tests.support.programs.running import RING_BYTES
from tests.support.several_ranks import ascpipe_run, ended, needs_horovod, said, started

pytestmark = [needs_horovod, pytest.mark.timeout_s(280)]

LAST_LINE = re.compile(r"demo: ok (ranks=2 )?steps=60 auc=(\S+) loss=(\S+) examples_per_s=\d+ ids_per_s=\d+")
TWO_TABLES = ["--steps", "12", "--train_interval", "6", "--eval_steps", "2", "--saving_interval", "6"]


def run(command):
    code, out, err = ended([str(word) for word in command], cwd=ROOT, ASCPIPE_RING_BYTES=str(RING_BYTES))
    assert code == 0, err
    return out


def numbers(path, convert=float):
    """Of all lines, without what they begin with."""
    return np.array([convert(word) for line in path.read_text().splitlines() for word in line.split()
                     if not word.isalpha()])


def test_the_demo_learns_on_two_ranks_what_it_learns_on_one(tmp_path):
    rows = tmp_path / "rows.tsv"
    generator.write_file(str(rows), rows=6000, seed=1)
    script = os.path.join(ROOT, "examples/dlrm/train.py")
    options = ["--data", rows, "--steps", 60, "--batch-size", 128, "--threads", 1]
    one = run([sys.executable, "-m", "examples.dlrm.train", *options, "--losses", tmp_path / "1"])
    two = run(ascpipe_run(2, script, *options, "--losses", tmp_path / "2"))
    assert said(two, 1) == []
    (ranks, *got), (alone, *want) = (LAST_LINE.fullmatch(line).groups()
                                     for line in (said(two, 0)[-1], one.splitlines()[-1]))
    assert ranks and not alone
    np.testing.assert_allclose([float(figure) for figure in got], [float(figure) for figure in want], atol=1e-3)
    np.testing.assert_allclose(numbers(tmp_path / "2"), numbers(tmp_path / "1"), rtol=1e-4)


@pytest.mark.parametrize("options", [
    pytest.param([], id="plain", marks=pytest.mark.long),
    pytest.param(["--use_estimator"], id="estimator", marks=pytest.mark.long),
    pytest.param(["--use_estimator", "--modify_graph", "--cache_mode", "DDR", "--static", "--one_shot"],
                 id="other estimator", marks=pytest.mark.long),
    pytest.param(["--access_and_evict", "--use_dynamic_expansion"], id="grows", marks=pytest.mark.long),
    pytest.param(["--modify_graph", "--cache_mode", "DDR", "--static"], id="other", marks=pytest.mark.long)])
def test_the_example_with_two_tables_trains_on_two_ranks_what_it_trains_on_one(tmp_path, options):
    script = os.path.join(ROOT, "examples/two_tables/main.py")
    for ranks in (1, 2):
        run(ascpipe_run(ranks, script, *TWO_TABLES, "--losses", tmp_path / str(ranks), "--saved_model",
                        tmp_path / "saved-{}".format(ranks), *options))
    want = numbers(tmp_path / "1", float.fromhex)
    assert len(want) == 2 * (12 + 2 * 2)
    np.testing.assert_allclose(numbers(tmp_path / "2", float.fromhex), want, rtol=1e-4)
    saved = [sorted(os.path.relpath(path, str(tmp_path / "saved-{}".format(ranks))) for path in glob.glob(
        str(tmp_path / "saved-{}".format(ranks) / "**" / "sparse-*"), recursive=True)) for ranks in (1, 2)]
    assert saved[0] == saved[1] and len(saved[0]) == 3


def test_the_demo_refuses_what_several_ranks_cannot_share(tmp_path):
    script = os.path.join(ROOT, "examples/dlrm/train.py")
    code, _, err = ended(ascpipe_run(2, script, "--batch-size", "33"))
    assert code == 2
    assert "--batch-size 33 is no multiple of the 2 ranks" in err


def test_the_example_that_is_killed_continues_on_two_ranks(tmp_path):
    script = os.path.join(ROOT, "examples/resume.py")
    with started([sys.executable, script, tmp_path]) as killed:
        before = [next(killed.stdout) for _ in range(5)]
        killed.kill()
    assert before[-1].startswith("step 500:")
    two = run(ascpipe_run(2, script, tmp_path))
    steps = [[int(line.split()[1][:-1]) for line in said(two, rank)] for rank in (0, 1)]
    assert steps[0] == steps[1]
    assert 500 <= steps[0][0] <= 800  # it may have trained until it was killed
    assert steps[0] == list(range(steps[0][0], steps[0][-1] + 1, 100))
    # The checkpoint has (first - 100) steps of 64 records; the others are trained in steps of 2 * 64.
    last = steps[0][0] - 100 + (2 * 64000 - 64 * (steps[0][0] - 100)) // 128
    assert steps[0][-1] == last // 100 * 100
