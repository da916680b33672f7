"""Estimators on tables have the losses, metrics and predictions that they have on the columns of TensorFlow."""
import functools
import os

import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.checkpoint.errors import NoTablesError
from ascpipe.tfops import load
from tests.tf import columns

STEPS = 30
WHOLE = "DNNLinearCombinedClassifier"  #: has columns of all kinds, in both towers
SMALL = "LinearRegressor"  #: few columns, and slots of FTRL
PROBED = (WHOLE, SMALL)  #: both heads
BY_HAND = "DeepFM"  #: with a linear model and embeddings of the same columns
BOTH_TOWERS = "DNNLinearCombinedRegressor"  #: few columns, Adagrad and gradient descent


def kinds(short, others=tuple(columns.CANNED)):
    """Kinds of Estimators; those that are not `short` are left to the long run."""
    return [*short, *(pytest.param(kind, marks=pytest.mark.long) for kind in others if kind not in short)]


pytestmark = [
    pytest.mark.timeout_s(240), pytest.mark.filterwarnings("ignore:distutils Version classes"),
    pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")]  # of lookups of TensorFlow


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trains a kind of Estimator, once; what is asked of the probes is there for those that are ``PROBED``."""
    @functools.lru_cache(maxsize=None)
    def train(kind, side, steps, probed):
        return columns.Trained(columns.PROGRAMS[kind], side, tmp_path_factory.mktemp(side), steps, probed=probed)

    return lambda kind, side="tensorflow", steps=STEPS, probed=False: train(kind, side, steps, probed or kind in PROBED)


def largest_variable(folder):
    """Rows of the one that has most of them in a checkpoint of TensorFlow."""
    return max(shape[0] for _, shape in tf.train.list_variables(str(folder)) if shape)


@pytest.mark.parametrize("kind", kinds((*PROBED, BY_HAND)))
def test_losses_are_those_of_tensorflow(kind, trained):
    expected = trained(kind).losses
    assert len(expected) == STEPS and len(set(expected)) > STEPS / 2
    assert columns.difference(trained(kind, "device").losses, expected) <= 1e-6


@pytest.mark.parametrize("kind", kinds(PROBED))
def test_metrics_and_predictions_are_those_of_tensorflow_also_for_keys_that_were_never_trained(kind, trained):
    expected, found = trained(kind, probed=True), trained(kind, "device", probed=True)
    columns.require_close(found.evaluated, expected.evaluated, 1e-5)
    columns.require_close(found.predicted, expected.predicted, 1e-5)


@pytest.mark.long
@pytest.mark.timeout_s(400)
@pytest.mark.parametrize("kind", columns.PROGRAMS)
def test_losses_of_300_steps_are_those_of_tensorflow(kind, trained):
    assert columns.difference(trained(kind, "device", 300).losses, trained(kind, steps=300).losses) <= 1e-5


def test_rows_lie_in_tables_and_columns_with_few_buckets_stay_with_tensorflow(trained):
    assert largest_variable(trained(WHOLE).folder) == columns.BUCKETS["user"]
    assert largest_variable(trained(WHOLE, "device").folder) < columns.BUCKETS["user"]
    kept = {tuple(shape) for _, shape in tf.train.list_variables(str(trained(WHOLE, "device").folder))}
    assert {(columns.BUCKETS["phone"], columns.DIM), (len(columns.HOURS), 1)} <= kept


def test_after_the_end_of_the_program_columns_are_those_of_tensorflow_again(trained, tmp_path):
    trained(SMALL, "device")
    with columns.on("tensorflow"):
        losses = columns.Job(columns.CANNED[SMALL], tmp_path).train(5).losses
    assert losses == trained(SMALL).losses[:5]
    assert largest_variable(tmp_path) == columns.BUCKETS["user"]


@pytest.mark.parametrize("kind", kinds([SMALL]))
def test_a_device_of_one_batch_gives_the_same_bits_as_one_that_holds_all_rows(kind, trained):
    device, host = trained(kind, "device", probed=True), trained(kind, "host", probed=True)
    assert host.losses == device.losses
    assert host.evaluated == device.evaluated
    columns.require_close(host.predicted, device.predicted, 0)


@pytest.mark.parametrize(("kind", "side", "steps"), [
    (SMALL, "device", [10, 10]), pytest.param(WHOLE, "host", [20], marks=pytest.mark.long),
    pytest.param(WHOLE, "device", [10, 10], marks=pytest.mark.long)])
def test_training_goes_on_from_its_checkpoint_as_if_it_had_not_ended(kind, side, steps, trained, tmp_path):
    make = columns.CANNED[kind]
    with columns.on(side):
        job = columns.Job(make, tmp_path)
        for number in steps:
            job.train(number)
    with columns.on(side):
        job = columns.Job(make, tmp_path, job.losses).train(STEPS - sum(steps))
        evaluated = job.evaluate()
    assert job.losses == trained(kind, side).losses
    assert evaluated == trained(kind, side).evaluated


@pytest.mark.parametrize("kind", kinds([SMALL], [WHOLE, "DNNClassifier"]))
def test_train_and_evaluate_says_what_tensorflow_says(kind, tmp_path):
    found = {}
    for side in ("tensorflow", "device"):
        exporter = tf.compat.v1.estimator.LatestExporter("latest", columns.receiver()) if side == "device" else None
        with columns.on(side):
            job = columns.Job(columns.CANNED[kind], tmp_path / side, every=10)
            found[side] = job.losses, job.train_and_evaluate(20, exporter)
            predicted = job.predict() if exporter else None
        assert sorted(found[side][1]) == [10, 20]
    exported = tmp_path / "device/export/latest"
    last = str(exported / max(os.listdir(str(exported))))
    columns.require_close(columns.served(last), predicted, 1e-6)
    losses, evaluated = found["device"]
    assert columns.difference(losses, found["tensorflow"][0]) <= 1e-6
    for step, metrics in found["tensorflow"][1].items():
        columns.require_close(evaluated[step], metrics, 1e-5)


@pytest.mark.parametrize("kind", kinds([SMALL], [WHOLE, BOTH_TOWERS, "DNNClassifier"]))
def test_a_warm_start_takes_the_rows_of_another_program(kind, trained, tmp_path):
    losses = {}
    for side in ("tensorflow", "device"):
        folder = str(trained(kind, side).folder)
        with columns.on(side):
            job = columns.Job(columns.CANNED[kind], tmp_path / side, warm_start_from=folder)
            losses[side] = job.train(10).losses
    assert columns.difference(losses["tensorflow"][:1], trained(kind).losses[:1]) > 1e-3
    assert columns.difference(losses["device"], losses["tensorflow"]) <= 1e-6


def test_a_folder_that_tensorflow_trained_is_left_alone_and_begins_another_as_the_error_says(trained, tmp_path):
    folder = trained(SMALL).folder
    with columns.on("device"):
        with pytest.raises(NoTablesError, match="To continue with tables, use .*--take-over.* Otherwise, use another "
                           "model_dir .*warm_start_from=tf.estimator.WarmStartSettings") as raised:
            columns.Job(columns.CANNED[SMALL], folder).train(1)
        assert "allow_missing" not in str(raised.value).lower()
        begun = tf.compat.v1.estimator.WarmStartSettings(str(folder), ["linear/linear_model/(age|bias)"])
        columns.Job(columns.CANNED[SMALL], tmp_path, warm_start_from=begun).train(1)
    names = [name for name, _ in tf.train.list_variables(str(folder)) if "bias_weights" in name]
    assert names and largest_variable(folder) == columns.BUCKETS["user"]


@pytest.mark.parametrize("kind, side", [
    (WHOLE, "device"), pytest.param(SMALL, "device", marks=pytest.mark.long),
    pytest.param(WHOLE, "host", marks=pytest.mark.long)])
def test_an_export_gives_what_predict_gives(kind, side, trained, tmp_path, caplog):
    done = trained(kind, side)
    caplog.set_level("INFO")
    with columns.on(side):
        path = columns.Job(columns.CANNED[kind], done.folder).export(tmp_path)
        columns.Job(columns.CANNED[kind], done.folder).export(tmp_path)
        stock = columns.Job(columns.CANNED[kind], done.folder).export(tmp_path / "stock", ops="stock")
    columns.require_close(columns.served(path), done.predicted, 1e-6)
    columns.require_close(columns.served(stock), done.predicted, 1e-6)
    told = [record.getMessage() for record in caplog.records if "needs the op library" in record.getMessage()]
    assert len(told) == 1 and told[0].startswith("a server of {} needs the op library {}. ".format(
        path, load.library_path()))


def test_an_unmodified_program_exports_the_ops_that_the_choice_names(trained, tmp_path, caplog):
    done = trained(WHOLE, "device")
    caplog.set_level("INFO")
    with columns.on("tensorflow"):
        asc.use_for_feature_columns(min_buckets=columns.MIN_BUCKETS, export_ops="stock")
        try:
            path = tf.compat.as_text(columns.Job(columns.CANNED[WHOLE], done.folder).estimator.export_saved_model(
                str(tmp_path), columns.receiver()))
        finally:
            asc.shutdown()
    assert [name for name in os.listdir(os.path.join(path, "assets")) if name.endswith(".stock.index")]
    columns.require_close(columns.served(path), done.predicted, 1e-6)
    assert "needs the op library" not in caplog.text
