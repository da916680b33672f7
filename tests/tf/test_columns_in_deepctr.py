"""Estimators of deepctr on tables have the losses, metrics and predictions that they have on columns of TensorFlow.

They make columns into tensors by the older ``input_layer``, choose variables by scope, and compute gradients in
evaluation, too. ``l2_reg_linear=0``: of a table there is no norm of all rows.
"""
import functools
import sys
import types
import warnings

import numpy as np
import pytest
import tensorflow as tf

from tests.support.tensorflows import IS_TENSORFLOW_1, NO_DEEPCTR
from tests.tf import columns

STEPS, TRAINED_ON = 30, 10  #: in all, and in a second ``train``, of those that have one
KINDS = {"DeepFMEstimator": {}, "xDeepFMEstimator": {"cin_layer_size": (8, 4)}, "DCNEstimator": {},
         "AutoIntEstimator": {"att_layer_num": 2, "att_embedding_size": 4}}
RATE = 0.01  #: of deepctr's Adagrad
CHAOTIC = "AutoIntEstimator"
PROBED = ("DeepFMEstimator",)  #: all four share what evaluates, predicts and exports
EVERY_KIND = [pytest.param(kind, marks=[] if kind in PROBED else [pytest.mark.long]) for kind in KINDS]

pytestmark = [
    pytest.mark.timeout_s(240), pytest.mark.filterwarnings("ignore:distutils Version classes"),
    pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")]  # of lookups of TensorFlow


@functools.lru_cache(maxsize=None)
def estimators():
    """The module of deepctr, which asks the network for its newest version when it is imported: here it gets no answer.
    """
    if not IS_TENSORFLOW_1:
        pytest.skip(NO_DEEPCTR)
    network = types.ModuleType("requests")
    network.get = lambda address: types.SimpleNamespace(status_code=None)
    network.codes = types.SimpleNamespace(ok=200)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setitem(sys.modules, "requests", network)
        from deepctr import estimator
    return estimator


def linear():
    """What the linear part reads: a column of each kind; ``test_columns_in_estimators.py`` has all in both parts."""
    ids = columns.categorical()
    return [ids["user"], ids["tags"], ids["hour"], *columns.wide()[-2:]]


def program(kind, **given):
    """Makes an Estimator, as ``columns.Job`` asks for one."""
    def make(**more):
        _, item, _, city, phone, tags, hour = columns.embeddings()
        read = [item, city, phone, tags, hour, tf.feature_column.numeric_column("age")]
        return getattr(estimators(), kind)(linear(), read, dnn_hidden_units=columns.HIDDEN, l2_reg_linear=0,
                                           **{**KINDS[kind], **given, **more})

    return make


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trains a kind of Estimator, once; where it is asked of the probes, too, of ascpipe by two calls of ``train``."""
    @functools.lru_cache(maxsize=None)
    def train(kind, side, steps, probed):
        steps = [steps - TRAINED_ON, TRAINED_ON] if probed and side != "tensorflow" else [steps]
        return columns.Trained(program(kind), side, tmp_path_factory.mktemp(side), *steps, probed=probed)

    return lambda kind, side="tensorflow", steps=STEPS, probed=None: train(
        kind, side, steps, kind in PROBED if probed is None else probed)


def differs_from_itself(losses, folder):
    """What an ulp in the rate of TensorFlow's optimizer changes in the losses of the model that multiplies it."""
    rate = float(np.nextafter(np.float32(RATE), np.float32(1)))
    make = program(CHAOTIC, dnn_optimizer=tf.compat.v1.train.AdagradOptimizer(rate))
    with columns.on("tensorflow"):
        others = columns.Job(make, folder).train(len(losses)).losses
    assert others != losses
    return columns.difference(others, losses)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_losses_are_those_of_tensorflow_also_after_a_second_train(kind, trained, tmp_path):
    expected = trained(kind).losses
    assert len(expected) == STEPS and len(set(expected)) > STEPS / 2
    allowed = max(1e-6, 4 * differs_from_itself(expected, tmp_path)) if kind == CHAOTIC else 1e-6
    assert columns.difference(trained(kind, "device").losses, expected) <= allowed


@pytest.mark.long
@pytest.mark.timeout_s(600)
@pytest.mark.parametrize("kind", KINDS)
def test_losses_of_300_steps_are_those_of_tensorflow(kind, trained, tmp_path):
    expected = trained(kind, steps=300).losses
    allowed = max(1e-5, 4 * differs_from_itself(expected, tmp_path)) if kind == CHAOTIC else 1e-5
    assert columns.difference(trained(kind, "device", 300).losses, expected) <= allowed


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_metrics_and_predictions_are_those_of_tensorflow(kind, trained):
    expected, found = trained(kind, probed=True), trained(kind, "device", probed=True)
    within = 1e-3 if kind == CHAOTIC else 1e-5
    columns.require_close(found.evaluated, expected.evaluated, within)
    columns.require_close(found.predicted, expected.predicted, within)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_an_export_gives_what_predict_gives(kind, trained, tmp_path):
    done = trained(kind, "device", probed=True)
    with columns.on("device"):
        path = columns.Job(program(kind), done.folder).export(tmp_path)
    columns.require_close(columns.served(path), done.predicted, 1e-6)  # sums of a dense part depend on the batch


@pytest.mark.long
def test_a_device_of_one_batch_trains_the_same_bits_as_one_that_holds_all_rows(trained):
    assert trained("DeepFMEstimator", "host", probed=False).losses == trained("DeepFMEstimator", "device").losses


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_device_of_one_batch_gives_the_same_bits_as_one_that_holds_all_rows(kind, trained):
    device, host = trained(kind, "device", probed=True), trained(kind, "host", probed=True)
    assert (host.losses, host.evaluated) == (device.losses, device.evaluated)
    columns.require_close(host.predicted, device.predicted, 0)
