"""A directory that plain TensorFlow trained is taken over on request, when it is restored."""
import contextlib
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.checkpoint.errors import DamagedCheckpointError, NoTablesError, NotConvertedError
from tests.tf import columns

v1 = tf.compat.v1
fc = tf.feature_column
STEPS = 6
NAME = "dnn/input_from_feature_columns/input_layer/user_embedding/embedding_weights"

pytestmark = pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")


def read():
    ids = np.random.RandomState(4).randint(0, 200, 64 * 40)
    return tf.data.Dataset.from_tensor_slices(({"user": ids, "item": ids % 150}, ids % 2)).batch(64).prefetch(4)


def classifier(folder, optimizer=v1.train.AdagradOptimizer, features=("user",), seed=1):
    embeddings = [fc.embedding_column(fc.categorical_column_with_identity(name, 200), 4) for name in features]
    return v1.estimator.DNNClassifier([4], embeddings, str(folder), optimizer=optimizer(0.1),
                                      config=columns.config().replace(tf_random_seed=seed))


def trained(folder, steps, **given):
    hook = columns.EachLoss()
    estimator = classifier(folder, **given)
    estimator.train(read, [hook], max_steps=steps)
    return hook.values, estimator.evaluate(read, 10)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """(folder after ``STEPS`` steps, its metrics, losses of ``STEPS`` more, metrics at the end)."""
    folder = tmp_path_factory.mktemp("plain")
    with columns.on("tensorflow"):
        _, before = trained(folder / "half", STEPS)
        shutil.copytree(str(folder / "half"), str(folder / "whole"))
        losses, after = trained(folder / "whole", 2 * STEPS)
    return folder / "half", before, losses, after


@contextlib.contextmanager
def program():
    """A program that calls ``use_for_feature_columns``."""
    with columns.on("tensorflow"):  # only the patches of the tests
        asc.use_for_feature_columns(min_buckets=100, take_over=True)
        try:
            yield
        finally:
            asc.shutdown()


@pytest.fixture
def taking_over():
    with program():
        yield


@pytest.fixture
def folder(plain, tmp_path):
    shutil.copytree(str(plain[0]), str(tmp_path / "model"))
    return tmp_path / "model"


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(str(folder)).iterdir()
            if path.name.startswith("model.ckpt-{}.".format(STEPS))}


def test_training_continues_with_the_losses_of_plain_tensorflow(taking_over, folder, plain, caplog):
    before = contents(folder)
    losses, metrics = trained(folder, 2 * STEPS)
    np.testing.assert_allclose(losses, plain[2], rtol=1e-5)
    columns.require_close(metrics, plain[3], 1e-5)
    assert contents(folder / "before-tables") == before
    assert v1.train.latest_checkpoint(str(folder / "before-tables")).endswith("model.ckpt-{}".format(STEPS))
    assert "Start the program with `ascpipe run --columns`" in (folder / "before-tables" / "README.txt").read_text()
    assert [path.name for path in folder.iterdir() if path.name.startswith(".take")] == []
    told = [record.getMessage() for record in caplog.records if "was trained without tables" in record.getMessage()]
    assert told == [
        "{0}/model.ckpt-6 was trained without tables: its variables {1} become tables. A copy of the checkpoint is in "
        "{0}/before-tables".format(folder, NAME)]  # only the first start converts


def test_the_first_start_may_be_an_evaluation(taking_over, folder, plain):
    before = contents(folder)
    columns.require_close(classifier(folder).evaluate(read, 10), plain[1], 1e-5)
    assert contents(folder) == before
    assert not (folder / "before-tables").exists()


def test_without_the_request_the_error_names_it(folder):
    before = contents(folder)
    with columns.on("tensorflow"):
        asc.use_for_feature_columns(min_buckets=100)
        try:
            with pytest.raises(NoTablesError, match="use `ascpipe run --columns --take-over`, or pass take_over=True"):
                trained(folder, 2 * STEPS)
        finally:
            asc.shutdown()
    assert contents(folder) == before


@pytest.mark.parametrize("given, message", [
    ({"features": ("item", "user")}, "item_embedding/embedding_weights': it is not in the checkpoint"),
    ({"optimizer": v1.train.FtrlOptimizer}, "has the optimizer slots ftrl_accum, ftrl_linear, but the checkpoint has "
                                            "Adagrad"),
])
def test_another_model_is_an_error(given, message, taking_over, folder):
    before = contents(folder)
    with pytest.raises(NotConvertedError, match=message):
        trained(folder, 2 * STEPS, **given)
    assert contents(folder) == before
    assert [path.name for path in folder.iterdir() if path.name.startswith((".take", "before", "sparse"))] == []


def test_a_damaged_checkpoint_is_an_error(taking_over, folder):
    data, = (path for path in folder.iterdir() if path.name.startswith("model.ckpt-6.data-00001")
             or path.name == "model.ckpt-6.data-00000-of-00001")
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    with pytest.raises(DamagedCheckpointError, match="the checksum of .* is wrong"):
        trained(folder, 2 * STEPS)


def test_a_new_directory_starts_as_without_the_request(taking_over, tmp_path):
    losses, _ = trained(tmp_path / "new", 3)
    assert len(losses) == 3
    assert not (tmp_path / "new" / "before-tables").exists()


def test_the_request_may_stay_and_the_old_checkpoint_is_a_model_of_plain_tensorflow(folder, plain, tmp_path):
    for last in (2 * STEPS, 2 * STEPS + 3):
        with program():  # each start has the same command
            losses, _ = trained(folder, last)
    shutil.copytree(str(plain[0].parent / "whole"), str(tmp_path / "whole"))
    with columns.on("tensorflow"):
        np.testing.assert_allclose(losses, trained(tmp_path / "whole", 2 * STEPS + 3)[0], rtol=1e-5)
        columns.require_close(classifier(folder / "before-tables").evaluate(read, 10), plain[1], 1e-5)
        with pytest.raises(tf.errors.NotFoundError, match="Key .* not found in checkpoint"):
            classifier(folder).train(read, steps=1)


def test_plain_tensorflow_continues_what_tables_have_trained(folder, plain, tmp_path):
    with program():
        trained(folder, 2 * STEPS)
    back = tmp_path / "back"
    found = asc.to_tensorflow(str(folder / "model.ckpt-12"), to=str(back / "model.ckpt-12"))
    assert (dict(found.rows), dict(found.slots)) == ({NAME: 200}, {NAME: [NAME + "/Adagrad"]})
    with columns.on("tensorflow"):
        columns.require_close(classifier(back).evaluate(read, 10), plain[3], 1e-5)
        expected, _ = trained(plain[0].parent / "whole", 2 * STEPS + 3)
        np.testing.assert_allclose(trained(back, 2 * STEPS + 3)[0], expected, rtol=1e-5)
