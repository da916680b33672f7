"""A program of a user with feature columns, as it is, under ``ascpipe run --columns``: it says what it says with
TensorFlow alone, also where it is killed and started again."""
import json
import os
import signal
import subprocess
import sys

import pytest

from tests.support.ascend_programs import PROGRAMS, QUIET, environment_with, start

PROGRAM = os.path.join(PROGRAMS, "column_clicks.py")
STEPS, SAVED_EVERY = 60, 15
MIN_BUCKETS = 1000  #: one column of the program has fewer, and stays as it is
COLUMNS = ["--columns", "--min-buckets", str(MIN_BUCKETS)]

pytestmark = pytest.mark.timeout_s(240)


def began(folder):
    """The program under ascpipe."""
    return start(PROGRAM, str(folder), str(STEPS), options=COLUMNS, **QUIET)


def said(out):
    """(step -> its loss, by name what the evaluation said) of a program that came to its end."""
    *steps, metrics = out.splitlines()
    return {int(step): float.fromhex(loss) for step, loss in map(str.split, steps)}, json.loads(metrics)


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


def test_a_program_says_what_it_says_with_tensorflow_alone(whole, tmp_path):
    plain = subprocess.run([sys.executable, PROGRAM, str(tmp_path), str(STEPS)], env=environment_with(**QUIET),
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, text=True)
    (losses, metrics), ((found, found_metrics), folder) = said(plain.stdout), whole
    assert sorted(found) == sorted(losses) == list(range(STEPS))
    assert [found[step] for step in range(STEPS)] == pytest.approx([losses[step] for step in range(STEPS)], rel=1e-6)
    assert found_metrics == pytest.approx(metrics, rel=1e-5)
    assert tables_in(folder) and not tables_in(tmp_path)


def test_a_program_that_is_killed_goes_on_from_its_last_checkpoint_with_the_same_losses(whole, tmp_path):
    process = began(tmp_path)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("{} ".format(2 * SAVED_EVERY + 7)):
            break
    process.send_signal(signal.SIGKILL)
    rest, err = process.communicate()
    assert process.returncode == -signal.SIGKILL, err
    losses, metrics = whole[0]
    for step, loss in (line.split() for line in [*lines, *rest.splitlines()]):
        assert float.fromhex(loss) == losses[int(step)]
    again, found = ended(began(tmp_path))
    first = min(again)
    assert first >= 2 * SAVED_EVERY and first % SAVED_EVERY == 0
    assert again == {step: loss for step, loss in losses.items() if step >= first}
    assert found == metrics


def test_a_program_that_is_through_only_evaluates(whole):
    (_, metrics), folder = whole
    losses, found = ended(began(folder))
    assert (losses, found) == ({}, metrics)
