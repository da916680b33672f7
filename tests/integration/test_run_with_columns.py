"""A program of a user with feature columns, as it is, under ``ascpipe run --columns``: it says what it says with
TensorFlow alone, also where it is killed and started again."""
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.support.ascend_programs import PROGRAMS, QUIET, environment_with, start
from tests.support.tensorflows import IS_TENSORFLOW_1, NO_DEEPCTR

PROGRAM = os.path.join(PROGRAMS, "column_clicks.py")
STEPS, SAVED_EVERY = 60, 15
MIN_BUCKETS = 1000  #: one column of the program has fewer, and stays as it is
COLUMNS = ["--columns", "--min-buckets", str(MIN_BUCKETS)]

pytestmark = pytest.mark.timeout_s(240)


def began(folder, *kind):
    """The program under ascpipe."""
    return start(PROGRAM, str(folder), str(STEPS), *kind, options=COLUMNS, **QUIET)


def plain(folder, *kind):
    """What the program says with TensorFlow alone."""
    return said(subprocess.run([sys.executable, PROGRAM, str(folder), str(STEPS), *kind], env=environment_with(**QUIET),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, text=True).stdout)


def said(out):
    """(step -> its loss, by name what the evaluation said) of a program that came to its end."""
    *lines, metrics = out.splitlines()
    return losses_in(lines), json.loads(metrics)


def losses_in(lines):
    """step -> its loss; what else deepctr prints is left out."""
    found = [re.fullmatch(r"(\d+) (\S+)", line.strip()) for line in lines]
    return {int(match.group(1)): float.fromhex(match.group(2)) for match in found if match}


def ended(process):
    out, err = process.communicate()
    assert process.returncode == 0, err
    return said(out)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What the program says under ascpipe that is not stopped, and its folder."""
    folder = tmp_path_factory.mktemp("whole")
    return ended(began(folder)), folder


def tables_in(folder):
    """Directories of tables beside the checkpoints of TensorFlow."""
    return [name for name in os.listdir(str(folder)) if name.startswith("sparse-")]


@pytest.mark.long  # test_readme.py has another program, tests/tf/test_columns_in_estimators.py the same models
def test_a_program_says_what_it_says_with_tensorflow_alone(whole, tmp_path):
    expected, (found, folder) = plain(tmp_path), whole
    require_same(found, expected, 1e-6)
    assert tables_in(folder) and not tables_in(tmp_path)


def require_same(found, expected, within):
    """The losses of all steps are the same within a bound, and what the evaluation said."""
    (losses, metrics), (expected_losses, expected_metrics) = found, expected
    assert sorted(losses) == sorted(expected_losses) == list(range(STEPS))
    assert [losses[step] for step in range(STEPS)] == pytest.approx(
        [expected_losses[step] for step in range(STEPS)], rel=within)
    assert metrics == pytest.approx(expected_metrics, rel=10 * within)


@pytest.mark.long  # test_resumed_training.py has kills, and tests/tf/test_columns_in_estimators.py goes on with columns
def test_a_program_that_is_killed_goes_on_from_its_last_checkpoint_with_the_same_losses(whole, tmp_path):
    require_resumed(tmp_path, whole[0])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["DNNClassifier", "LinearClassifier", *(
    pytest.param(name, marks=pytest.mark.skipif(not IS_TENSORFLOW_1, reason=NO_DEEPCTR))
    for name in ("DeepFMEstimator", "xDeepFMEstimator", "DCNEstimator", "AutoIntEstimator"))])
def test_each_kind_of_estimator_says_what_it_says_with_tensorflow_also_after_a_kill(kind, tmp_path):
    of_kind = ended(began(tmp_path / "whole", kind))
    require_same(of_kind, plain(tmp_path / "plain", kind), 1e-6)
    require_resumed(tmp_path / "killed", of_kind, kind)


def require_resumed(folder, expected, *kind):
    """A program that is killed has the losses of one that is not, before and after, and the same evaluation."""
    process = began(folder, *kind)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("{} ".format(2 * SAVED_EVERY + 7)):
            break
    process.send_signal(signal.SIGKILL)
    rest, err = process.communicate()
    assert process.returncode == -signal.SIGKILL, err
    losses, metrics = expected
    before = losses_in([*lines, *rest.splitlines()])
    assert len(before) > 2 * SAVED_EVERY and before == {step: losses[step] for step in before}
    again, found = ended(began(folder, *kind))
    first = min(again)
    assert first >= 2 * SAVED_EVERY and first % SAVED_EVERY == 0
    assert again == {step: loss for step, loss in losses.items() if step >= first}
    assert found == metrics


@pytest.mark.long
def test_a_program_that_is_through_only_evaluates(whole):
    (_, metrics), folder = whole
    losses, found = ended(began(folder))
    assert (losses, found) == ({}, metrics)
