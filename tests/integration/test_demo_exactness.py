"""The demo computes what plain TensorFlow computes, and the same whatever the pipeline is made of.

Clicks, 150 or 300 steps, gated gradients, one TensorFlow thread.  The clicks are generated, and real where their file
is there: it may not be copied into this tree, and lies beside it, or where ``CRITEO_SAMPLE`` says.
"""
import functools
import itertools
import os
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

from examples.dlrm import criteo, generator, options
from tests.support import forked_calls

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = Path(os.environ.get("CRITEO_SAMPLE", str(ROOT.parent / "shared/data/criteo/criteo_kaggle_8k.tsv")))
STEPS, STEPS_OF_REAL = 150, 300
SETTINGS = ["--batch-size", "64", "--dim", "4", "--bottom", "8", "--top", "8",
            "--threads", "1", "--progress-every", "1000", "--seed", "11"]
TOLERANCE = 1e-5
START_OF_RATES = re.compile(r" examples_per_s=.*")

GENERATED_ROWS = 4000  # half as many as the sample has
GENERATED, REAL = "generated", "real"
ON_CLICKS = [GENERATED, pytest.param(REAL, marks=pytest.mark.long)]

pytestmark = [
    pytest.mark.usefixtures("forked_programs"),
    pytest.mark.filterwarnings("ignore:Using or importing the ABCs:DeprecationWarning")]  # by TensorFlow


def steps_of(clicks):
    """How many steps the demo trains on a file."""
    return STEPS_OF_REAL if clicks == str(SAMPLE) else STEPS


class Run:
    """One run of the demo in a process of its own, which takes place when its result is asked for."""

    def __init__(self, folder, clicks, optimizer, *arguments, **settings):
        name = "-".join([Path(clicks).stem, optimizer, *arguments]
                        + ["{}{}".format(*item) for item in sorted(settings.items())])
        self._losses, self._result = folder / name, None
        self._environment = dict(os.environ, ASCPIPE_RING_BYTES=str(16 << 20), PYTHONPATH=str(ROOT))
        self._environment.update(("ASCPIPE_" + setting.upper(), str(value)) for setting, value in settings.items())
        self._steps = steps_of(clicks)
        self._command = ["-m", "examples.dlrm.train", "--data", clicks, "--optimizer", optimizer, "--losses",
                         self._losses, "--steps", self._steps, *SETTINGS, *arguments]

    def result(self):
        """(float32[steps] losses, what the last line says but for rates)."""
        if self._result is None:
            code, out, errors = forked_calls.python(self._command, ROOT, self._environment, 100.0)
            assert code == 0, errors
            losses = np.array([float(line) for line in self._losses.read_text().splitlines()], np.float32)
            assert len(losses) == self._steps
            self._result = losses, START_OF_RATES.sub("", out.splitlines()[-1])
        return self._result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("losses")


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("clicks") / "generated.tsv")
    generator.write_file(path, GENERATED_ROWS, seed=1)
    return path


@pytest.fixture
def clicks(request, generated):
    """The file of the parameter's clicks."""
    if request.param == REAL and not SAMPLE.exists():
        pytest.skip("needs {}, which may not be copied here".format(SAMPLE.name))
    return str(SAMPLE) if request.param == REAL else generated


@pytest.fixture
def start(folder, clicks):
    """Makes runs."""
    return functools.partial(Run, folder, clicks)


@pytest.fixture(scope="module")
def usual_runs():
    return {}


@pytest.fixture
def usual(start, usual_runs, clicks):
    """The run with nothing but an optimizer, which takes place once."""
    def begin(optimizer):
        if (clicks, optimizer) not in usual_runs:
            usual_runs[clicks, optimizer] = start(optimizer)
        return usual_runs[clicks, optimizer]

    return begin


@pytest.fixture(scope="module")
def initial_rows():
    """The rows with which ascpipe's tables start, by the plain twin of the native generator."""
    from examples.dlrm.embeddings import INITIAL_RANGE
    from tests.reference import initial_rows as twin

    shape, found = settings(), {}

    def rows_of(_table, keys):
        for key in keys.tolist():
            if key not in found:
                found[key] = twin.row(shape.seed, twin.UNIFORM, -INITIAL_RANGE, INITIAL_RANGE, 1.0, key, shape.dim)
        return np.array([found[key] for key in keys.tolist()], np.float32)

    return rows_of


def settings(*arguments):
    return options.parse(SETTINGS + list(arguments))


@pytest.fixture(scope="module")
def plain_losses(initial_rows):
    """The plain model's, in this process, by the file of clicks and arguments."""
    from examples.dlrm import loop

    @functools.lru_cache(maxsize=None)
    def losses(clicks, *arguments, optimizer=None):
        """``optimizer`` is in the place of lazy Adam's class."""
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            if optimizer is not None:
                patch.setattr("examples.dlrm.embeddings.LazyAdam", optimizer)
            outcome = loop.run(settings("--plain", "--steps", str(steps_of(clicks)), *arguments),
                               criteo.split(clicks, folder), initial_rows, report=lambda line: None)
        return np.array(outcome.losses, np.float32)

    return losses


@pytest.mark.timeout_s(150)
@pytest.mark.parametrize("clicks", ON_CLICKS, indirect=True)
@pytest.mark.parametrize("optimizer", [
    "lazy_adam", *(pytest.param(name, marks=pytest.mark.long)
                   for name in ("adagrad", "ftrl", "gradient_descent"))])
def test_losses_are_those_of_plain_tensorflow(usual, clicks, plain_losses, optimizer):
    """A test of tests/tf/test_training_exactness.py has all four optimizers."""
    run = usual(optimizer)
    plain = plain_losses(clicks, "--optimizer", optimizer)
    ours, _ = run.result()
    assert plain[:50].mean() > plain[-50:].mean()  # it learns, so there is something to get wrong
    np.testing.assert_allclose(ours, plain, rtol=TOLERANCE, atol=0)


@pytest.mark.timeout_s(150)
@pytest.mark.parametrize("clicks", ON_CLICKS, indirect=True)
def test_lazy_adam_of_the_plain_model_computes_the_bits_of_contrib(clicks, plain_losses):
    """The model with the optimizer of the demo, then with the optimizer of tf.contrib."""
    from tests.support.contrib import contrib  # TensorFlow, whose import warns

    losses = plain_losses(clicks, "--optimizer", "lazy_adam")
    expected = plain_losses(clicks, "--optimizer", "lazy_adam", optimizer=contrib("opt").LazyAdamOptimizer)
    np.testing.assert_array_equal(losses.view(np.uint32), expected.view(np.uint32))


@pytest.mark.long
@pytest.mark.timeout_s(150)
@pytest.mark.parametrize("clicks", [GENERATED, REAL], indirect=True)
def test_losses_are_those_of_plain_tensorflow_when_all_fields_share_a_table(start, clicks, plain_losses):
    run = start("adagrad", "--shared-table")
    plain = plain_losses(clicks, "--optimizer", "adagrad", "--shared-table")
    np.testing.assert_allclose(run.result()[0], plain, rtol=TOLERANCE, atol=0)


@pytest.mark.timeout_s(150)
@pytest.mark.parametrize("clicks", ON_CLICKS, indirect=True)
def test_losses_are_bit_identical_for_any_workers_ring_and_shape(usual, start):
    other = start("lazy_adam", "--static", workers=3, ring_frames=2)
    assert_same(usual("lazy_adam").result(), other.result())


@pytest.mark.long
@pytest.mark.timeout_s(400)
@pytest.mark.parametrize("clicks", [GENERATED, REAL], indirect=True)
@pytest.mark.parametrize("optimizer", sorted(options.LEARNING_RATES))
def test_losses_are_bit_identical_for_every_combination_of_workers_ring_and_shape(usual, start, optimizer):
    expected = usual(optimizer).result()
    for workers, frames, shape in itertools.product((1, 3), (2, 64), ("--static", "--dynamic")):
        assert_same(start(optimizer, shape, workers=workers, ring_frames=frames).result(), expected)


def assert_same(one, other):
    np.testing.assert_array_equal(one[0].view(np.uint32), other[0].view(np.uint32))
    assert one[1] == other[1]
