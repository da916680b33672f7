"""TensorFlow 1.15 is older than some warnings; it is imported here, once, without them."""
import pathlib
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow as tf

    tf.compat.v1.estimator.Estimator  # noqa: B018  loads the package, which tf does when it is first used

tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)

HERE = pathlib.Path(__file__).resolve().parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in pathlib.Path(str(item.fspath)).parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:Using or importing the ABCs:DeprecationWarning"))
